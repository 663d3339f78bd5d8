"""Say in our own words why a group has no answer.

In: what went wrong with a group. Out: a `GroupError` whose sentence says what to try.
Must never: leave a person with an error code alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.groups import SHARE, group_type
from shareproxy.lag.model import GroupError, Status
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, NodeId


async def explain_missing(brokers: Brokers, group: GroupId, described: Trouble, *, deadline: float) -> GroupError:
    """Say whether a group that is no share group exists at all.

    Args:
        brokers: where to ask.
        group: its name.
        described: what ShareGroupDescribe answered, error 69.
        deadline: `loop.time()` seconds.
    """
    kind = await group_type(brokers, group, deadline=deadline)
    if kind is None and "not a share group" in described.message:
        kind = "group of another type"
    if kind is not None and kind != SHARE:
        # the classic protocol lets applications leave the type empty
        what = kind if " " in kind else f"{kind or 'classic'} group"
        text = (
            f"group {group!r} is a {what}, not a share group; `shareproxy lag` shows the lag of consumer groups too, "
            "consumer_lag() gives it in Python"
        )
        return GroupError(int(ErrorCode.GROUP_ID_NOT_FOUND), "NOT_A_SHARE_GROUP", text)
    text = f"share group {group!r} does not exist on this cluster; check its name, or list the groups that there are"
    return GroupError(int(ErrorCode.GROUP_ID_NOT_FOUND), error_name(ErrorCode.GROUP_ID_NOT_FOUND), text)


def missing_topics(group: GroupId, topics: Sequence[str]) -> GroupError | None:
    """Say which named topics cannot be seen; `None` if there are none."""
    if not topics:
        return None
    names = ", ".join(map(repr, topics))
    text = f"group {group!r}: {names} cannot be seen; check the name of the topic, or DESCRIBE on it"
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return GroupError(int(code), error_name(code), text)


def nothing_initialized(group: GroupId, state: str | None) -> GroupError:
    """Say that a share group exists but has no partition with state."""
    who = f"share group {group!r}" + (f" ({state})" if state else "")
    text = (
        f"{who} has no initialized partition that this user may see: start a consumer that subscribes to a topic, "
        "or check DESCRIBE on its topics"
    )
    return GroupError(0, "NOTHING_INITIALIZED", text)


def held_back(group: GroupId, trouble: Trouble, alive: NodeId | None) -> GroupError:
    """Say that the rows shown are those that could be found without the group's coordinator.

    Args:
        group: its name.
        trouble: what came of the question.
        alive: the coordinator, if it answered other questions meanwhile: then it waits for another broker itself.
    """
    who = f"the coordinator of group {group!r} does not answer ({trouble.message})" if alive is None else _waits(alive)
    text = (
        f"{who}; the partitions shown were found in the stored state, and some may be missing; look again when all "
        "brokers are back"
    )
    return _timed_out(text if alive is None else f"group {group!r}: {text}")


def no_rows(group: GroupId, trouble: Trouble, alive: NodeId | None) -> GroupError:
    """Say why a coordinator gave no rows; `alive` as for `held_back`."""
    if alive is None or trouble.status is not Status.TIMEOUT:
        return group_error(group, trouble)
    return _timed_out(f"group {group!r}: {_waits(alive)}; look again when all brokers are back")


def _waits(coordinator: NodeId) -> str:
    return (
        f"its coordinator, broker {coordinator}, is alive but holds the answer back, perhaps because it waits for "
        "another broker that does not answer"
    )


def _timed_out(text: str) -> GroupError:
    code = ErrorCode.REQUEST_TIMED_OUT
    return GroupError(int(code), error_name(code), text)


def group_error(group: GroupId, trouble: Trouble) -> GroupError:
    """Say why a group has no answer."""
    code = trouble.error_code
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        text = f"this user may not see group {group!r}; grant DESCRIBE on the group"
    elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = f"group {group!r} has topics that this user may not see; grant DESCRIBE on them"
    elif code == ErrorCode.GROUP_ID_NOT_FOUND:
        text = f"share group {group!r} does not exist on this cluster: {trouble.message}"
    else:
        text = f"group {group!r}: {trouble.message}"
    if code is None:
        timed_out = trouble.status is Status.TIMEOUT
        code = ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.UNKNOWN_SERVER_ERROR
    return GroupError(int(code), error_name(code), text)
