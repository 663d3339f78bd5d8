"""Say what a change of start offsets would do, before it is made.

In: a group, a target or offsets, partitions. Out: a plan with its reasons against it.
Must never: change anything, or let a plan pass that leaves the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.admin.errors import AccessDenied, AdminError, UnknownTopic, WrongArgument
from shareproxy.admin.failures import DESCRIBE, group_exception
from shareproxy.admin.results import OffsetPlan, PlannedOffset
from shareproxy.admin.start_offsets import initialized
from shareproxy.admin.targets import Earliest, Latest, Shift, Target, ToOffset, ToTime
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.descriptions import GroupDescription, describe_groups
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.leaders import LATEST, Wanted
from shareproxy.lag.model import PartitionLag
from shareproxy.lag.positions import EARLIEST, Positions
from shareproxy.lag.rounds import ask_all, share_of_time
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId

Selected = Mapping[str, frozenset[int] | None]

# looking at group and topics comes first; the positions of the logs follow
FIRST_LOOK_SHARE: Final = 0.7
MOST_NAMED: Final = 3
# what planning may take where a change follows
PLANNING_SHARE: Final = 0.6
LEAST_SECONDS: Final = 0.05


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """What is known of one log: its start, its end, and the offset of a time if that was asked for (−1: none)."""

    log_start: int | Trouble
    end: int | Trouble
    at_time: int | Trouble | None = None


def part_of(deadline: float) -> float:
    """Return the deadline of a plan that a change follows."""
    return share_of_time(deadline, PLANNING_SHARE)


async def plan(
    brokers: Brokers, engine: LagEngine, group: GroupId, target: Target, topics: Selected | None, *, deadline: float
) -> OffsetPlan:
    """Plan to put start offsets to a target.

    Args:
        brokers: where to ask.
        engine: of the same cluster.
        group: share group; one that does not exist would be made.
        target: where to.
        topics: partitions by topic, `None` for all that the group has state of.
        deadline: `loop.time()` seconds.

    Raises:
        AdminError: the group or a topic cannot be looked at, or is not what it has to be.
    """
    description, starts = await _look(brokers, engine, group, deadline)
    if topics is None:
        if _is_missing(description):
            raise WrongArgument(
                f"share group {group!r} does not exist, so it has no topics; name the topics to make it with them"
            )
        if not starts:
            raise WrongArgument(
                f"share group {group!r} has no initialized partition; name the topics whose offsets to set"
            )
        items = sorted(starts)
    else:
        items = await partitions(brokers, topics, deadline=deadline)
    times = {item: _milliseconds(target) for item in items} if isinstance(target, ToTime) else None
    bounds = await _bounds(brokers, items, times, deadline)
    rows = [_row(item, starts.get(item), bounds[item], _aim(target)) for item in items]
    return _plan(group, description, rows)


async def plan_exactly(
    brokers: Brokers, engine: LagEngine, group: GroupId, offsets: Mapping[tuple[str, int], int], *, deadline: float
) -> OffsetPlan:
    """Plan to put start offsets where a caller says; see `plan`."""
    topics: dict[str, frozenset[int] | None] = {}
    for topic, partition in offsets:
        topics[topic] = (topics.get(topic) or frozenset()) | {partition}
    description, starts = await _look(brokers, engine, group, deadline)
    items = await partitions(brokers, topics, deadline=deadline)
    bounds = await _bounds(brokers, items, None, deadline)

    def aim(item: Wanted) -> _Aim:
        offset = offsets[item.topic, item.partition]
        return lambda start, bounds: (offset, None)

    rows = [_row(item, starts.get(item), bounds[item], aim(item)) for item in items]
    return _plan(group, description, rows)


async def partitions(brokers: Brokers, topics: Selected, *, deadline: float) -> list[Wanted]:
    """Return the selected partitions, sorted.

    Raises:
        UnknownTopic: a topic or a partition does not exist.
        AccessDenied: a topic may not be seen.
    """
    metadata = await brokers.metadata(topics.keys(), deadline=deadline)
    items: list[Wanted] = []
    for name in sorted(topics):
        topic = metadata.topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            text = f"this user may not see topic {name!r}: DESCRIBE on the topic is needed"
            raise AccessDenied(text, code, operation=DESCRIBE, resource=f"topic {name!r}")
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(f"topic {name!r} does not exist; check its name", int(code))
        if topic is None or code:
            raise AdminError(f"topic {name!r} cannot be looked up now; try again", code)
        chosen = topics[name]
        absent = sorted((chosen or frozenset()) - topic.partitions.keys())
        if absent:
            raise UnknownTopic(
                f"topic {name!r} has no partition {absent[0]}: it has {len(topic.partitions)}, counted from 0",
                int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            )
        items += [Wanted(name, topic.topic_id, index) for index in sorted(chosen or topic.partitions)]
    return items


async def look_before_change(brokers: Brokers, group: GroupId, *, deadline: float) -> GroupDescription:
    """Return the description of a share group that somebody wants to change; a missing group has an error 69.

    Raises:
        AdminError: it is of another type, or may not be seen, or nobody answers for it.
    """
    description = (await describe_groups(brokers, [group], deadline=deadline))[group]
    if description.error is not None and not _is_missing(description):
        raise group_exception(description.error, group)
    return description


def refusal_of_active(description: GroupDescription) -> str | None:
    """Say why a group with members cannot be changed; `None` for one without."""
    members = description.members
    if not members:
        return None
    clients = sorted({member.client_id or member.member_id for member in members})
    named = ", ".join(clients[:MOST_NAMED]) + (", …" if len(clients) > MOST_NAMED else "")
    count = "1 member" if len(members) == 1 else f"{len(members)} members"
    return (
        f"group {description.group!r} is {description.state or 'active'} with {count} ({named}); Kafka changes "
        "offsets only while a group has none: stop its consumers first"
    )


_Aim = Callable[[int | None, Bounds], tuple[int | None, str | None]]
"""Takes the start offset and what is known of the log; gives the new offset, and a note or (without one) a refusal."""


async def _look(
    brokers: Brokers, engine: LagEngine, group: GroupId, deadline: float
) -> tuple[GroupDescription, dict[Wanted, PartitionLag]]:
    """Return the group and what it has state of; nothing where the group is missing."""
    until = share_of_time(deadline, FIRST_LOOK_SHARE)
    description = await look_before_change(brokers, group, deadline=until)
    if _is_missing(description):
        return description, {}
    left = max(until - asyncio.get_running_loop().time(), LEAST_SECONDS)
    rows = await initialized(engine, group, None, ends=True, timeout=left)
    return description, {Wanted(row.topic, row.topic_id, row.partition): row for row in rows}


def _is_missing(description: GroupDescription) -> bool:
    error = description.error
    return error is not None and error.code == ErrorCode.GROUP_ID_NOT_FOUND and error.name != "NOT_A_SHARE_GROUP"


async def _bounds(
    brokers: Brokers, items: Sequence[Wanted], times: Mapping[Wanted, int] | None, deadline: float
) -> dict[Wanted, Bounds]:
    async def at_time() -> Mapping[Wanted, int | Trouble]:
        return {} if times is None else await ask_all(Positions(brokers, times), items, deadline=deadline)

    log_starts, ends, by_time = await asyncio.gather(
        ask_all(Positions(brokers, EARLIEST), items, deadline=deadline),
        ask_all(Positions(brokers, LATEST), items, deadline=deadline),
        at_time(),
    )
    return {item: Bounds(log_starts[item], ends[item], by_time.get(item)) for item in items}


def _plan(group: GroupId, description: GroupDescription, rows: Sequence[PlannedOffset]) -> OffsetPlan:
    refusal = refusal_of_active(description)
    return OffsetPlan(
        group, description.state, _is_missing(description), tuple(rows), () if refusal is None else (refusal,)
    )


def _row(item: Wanted, now: PartitionLag | None, bounds: Bounds, aim: _Aim) -> PlannedOffset:
    where, start = f"{item.topic}-{item.partition}", None if now is None else now.start_offset
    log_start = None if isinstance(bounds.log_start, Trouble) else bounds.log_start
    end = None if isinstance(bounds.end, Trouble) else bounds.end
    new: int | None = None
    note: str | None = None
    trouble = next(
        (found for found in (bounds.log_start, bounds.end, bounds.at_time) if isinstance(found, Trouble)), None
    )
    if trouble is not None:
        refusal: str | None = f"{where}: where its log begins and ends cannot be read: {trouble.message}"
    else:
        new, note = aim(start, bounds)
        refusal = f"{where}: {note}" if new is None else _outside(where, new, log_start, end)
        note = None if new is None else note
    return PlannedOffset(
        topic=item.topic,
        topic_id=item.topic_id,
        partition=item.partition,
        start_offset=start,
        new_offset=new,
        log_start=log_start,
        end=end,
        note=note,
        refusal=refusal,
        lag=None if now is None else _lag_at(now, end),
    )


def _lag_at(now: PartitionLag, end: int | None) -> int | None:
    """Return the lag at the end that was read later: what was produced in between is waiting, too."""
    grown = 0 if end is None or now.end_offset is None else max(0, end - now.end_offset)
    return None if now.lag is None else now.lag + grown


def _outside(where: str, new: int, log_start: int | None, end: int | None) -> str | None:
    if end is not None and new > end:
        return (
            f"{where}: offset {new} lies beyond the end {end}; the group would skip records that are yet to be "
            f"written, and its lag would be negative: choose {end} at most"
        )
    if log_start is not None and new < log_start:
        return (
            f"{where}: offset {new} lies below the log start {log_start}, its records are deleted: choose {log_start} "
            "at least"
        )
    return None


def _aim(target: Target) -> _Aim:
    def aim(start: int | None, bounds: Bounds) -> tuple[int | None, str | None]:
        log_start, end, found = bounds.log_start, bounds.end, bounds.at_time
        assert not isinstance(log_start, Trouble)
        assert not isinstance(end, Trouble)
        assert not isinstance(found, Trouble)
        match target:
            case Earliest():
                return log_start, None
            case Latest():
                return end, None
            case ToOffset(offset):
                return offset, None
            case ToTime(time):
                if found is None or found < 0:
                    return end, f"no record is as late as {time.isoformat()}: the end"
                return max(found, log_start), None
            case Shift(by):
                if start is None:
                    return None, "its start offset is not known, so it cannot be shifted; choose another target"
                return start + by, None

    return aim


def _milliseconds(target: ToTime) -> int:
    return max(0, round(target.time.timestamp() * 1000))
