"""Turn what went wrong below into the exceptions that a user of the library sees.

In: errors of the cluster and lag layers, Kafka's codes. Out: exceptions of `admin.errors`, or `GroupError`s of a row.
Must never: lose the sentence that says what to try.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shareproxy.admin.errors import (
    AccessDenied,
    AdminError,
    CannotReach,
    GroupNotEmpty,
    GroupNotFound,
    NotAShareGroup,
    NotSupported,
    OffsetRefused,
    TimedOut,
    UnknownTopic,
    WrongArgument,
)
from shareproxy.cluster.errors import (
    AuthenticationFailed,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    InternalTopicMissing,
    NotAuthorized,
    PropertiesError,
    Unreachable,
    UnsupportedApi,
)
from shareproxy.lag.model import GroupError
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId

DESCRIBE: Final = "DESCRIBE"
READ: Final = "READ"
DELETE: Final = "DELETE"
DESCRIBE_CONFIGS: Final = "DESCRIBE_CONFIGS"


@contextmanager
def translated(group: str | None = None, *, changing: bool = False) -> Iterator[None]:
    """Let only exceptions of `admin.errors` leave the block.

    Args:
        group: the group that is asked about, if it is one.
        changing: whether something may have been changed when the answer got lost.
    """
    try:
        yield
    except ClusterError as error:
        raise admin_error(error, group, changing=changing) from error


def admin_error(error: ClusterError, group: str | None = None, *, changing: bool = False) -> AdminError:
    """Return the exception for a failure to ask; see `translated`."""
    text, code = str(error), getattr(error, "code", None)
    unsure = "; it is not known whether the change was made: look before you try again" if changing else ""
    match error:
        case PropertiesError():
            return WrongArgument(text)
        case AuthenticationFailed():
            return AccessDenied(text)
        case NotAuthorized():
            resource = _group(group) if code == ErrorCode.GROUP_AUTHORIZATION_FAILED and group else None
            return AccessDenied(text, code, operation=DESCRIBE if resource else None, resource=resource)
        case UnsupportedApi():
            return NotSupported(text, int(ErrorCode.UNSUPPORTED_VERSION))
        case InternalTopicMissing():
            return GroupNotFound(text, int(ErrorCode.GROUP_ID_NOT_FOUND))
        case DeadlinePassed():
            return TimedOut(text + unsure, int(ErrorCode.REQUEST_TIMED_OUT))
        case Unreachable() | ConnectionClosed():
            return CannotReach(text + unsure)
        case BrokerError():
            return AdminError(text, code)
        case _:
            return AdminError(text)


def group_exception(error: GroupError, group: str, *, operation: str = DESCRIBE) -> AdminError:
    """Return the exception for a group that has no answer.

    Args:
        error: of the group.
        group: its name.
        operation: what a denied right was needed for.
    """
    code, text = error.code, error.message
    if error.name == "NOT_A_SHARE_GROUP":
        return NotAShareGroup(text, code, error.name)
    match code:
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return GroupNotFound(text, code)
        case ErrorCode.NON_EMPTY_GROUP:
            return GroupNotEmpty(text, code)
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return AccessDenied(text, code, operation=operation, resource=_group(group))
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return AccessDenied(text, code, operation=DESCRIBE, resource=f"the topics of group {group!r}")
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return AccessDenied(text, code, operation="CLUSTER_ACTION", resource="the cluster")
        case ErrorCode.UNSUPPORTED_VERSION:
            return NotSupported(text, code)
        case ErrorCode.REQUEST_TIMED_OUT:
            return TimedOut(text, code)
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopic(text, code)
        case _:
            return AdminError(text, code)


def row_exception(error: GroupError, topic: str, *, operation: str = READ) -> AdminError:
    """Return the exception for a change of one topic that was not made."""
    match error.code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return AccessDenied(error.message, error.code, operation=operation, resource=f"topic {topic!r}")
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.UNKNOWN_TOPIC_ID:
            return UnknownTopic(error.message, error.code)
        case _:
            return OffsetRefused(error.message, error.code, refusals=(error.message,))


def change_error(code: int, text: str | None, group: GroupId, *, operation: str, what: str) -> GroupError:
    """Say why a group was not changed.

    Args:
        code: Kafka's error code.
        text: the broker's own words.
        group: the group.
        operation: the right that the change needs.
        what: such as "its offsets cannot be changed".
    """
    match code:
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            sentence = f"this user may not change group {group!r}: {operation} on the group is needed"
        case ErrorCode.NON_EMPTY_GROUP:
            sentence = f"group {group!r} has members, so {what}; stop its consumers first"
        case ErrorCode.GROUP_ID_NOT_FOUND:
            sentence = f"share group {group!r} does not exist on this cluster; check its name"
        case ErrorCode.UNSUPPORTED_VERSION:
            sentence = f"group {group!r}: share groups are switched off on this broker; check feature share.version"
        case _:
            reason = (text or "the broker gave no reason").rstrip(".")
            sentence = f"group {group!r}: {what}: {reason} (error {code} {error_name(code)})"
    return GroupError(code, error_name(code), sentence)


def topic_change_error(code: int, text: str | None, group: GroupId, topic: str) -> GroupError:
    """Say why the offsets of one topic or partition were not changed."""
    match code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            sentence = f"this user may not change offsets of topic {topic!r}: READ on the topic is needed"
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.UNKNOWN_TOPIC_ID:
            sentence = f"topic {topic!r} does not exist, or group {group!r} has no offsets of it; check its name"
        case ErrorCode.NON_EMPTY_GROUP:
            sentence = f"group {group!r} got members meanwhile; stop its consumers first"
        case _:
            reason = (text or "the broker gave no reason").rstrip(".")
            sentence = f"topic {topic!r}: {reason} (error {code} {error_name(code)})"
    return GroupError(code, error_name(code), sentence)


def _group(name: str | None) -> str:
    return f"group {name!r}"
