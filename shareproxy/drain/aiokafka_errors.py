"""Turn what aiokafka raises into this package's own exceptions, with a sentence for a person.

In: aiokafka's errors. Out: `AdminError`s and `DrainError`s. Must never: let aiokafka's own long texts reach a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from aiokafka import errors

from shareproxy.admin.errors import AccessDenied, AdminError, CannotReach
from shareproxy.drain.errors import ConsumerClosed, DrainError

_UNREACHABLE: Final = (
    errors.KafkaConnectionError,
    errors.NoBrokersAvailable,
    errors.NodeNotReadyError,
    errors.KafkaTimeoutError,
    errors.RequestTimedOutError,
    errors.GroupCoordinatorNotAvailableError,
    errors.GroupLoadInProgressError,
)
_LOGIN: Final = (
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)


@contextmanager
def translated(group: str, topics: Sequence[str]) -> Iterator[None]:
    """Let only `AdminError`s and `DrainError`s leave the block.

    Args:
        group: the consumer group.
        topics: what it reads.
    """
    try:
        yield
    except (errors.KafkaError, errors.ConsumerStoppedError) as error:
        raise drain_error(error, group, topics) from error


def drain_error(error: BaseException, group: str, topics: Sequence[str]) -> AdminError | DrainError:
    """Return the exception for something that aiokafka raised."""
    text, code = sentence(error), getattr(error, "errno", None)
    match error:
        case errors.ConsumerStoppedError():
            return ConsumerClosed(f"the consumer of group {group!r} was closed")
        case errors.TopicAuthorizationFailedError():
            denied = ", ".join(repr(topic) for topic in _topics(error) or topics)
            what = f"topic {denied}"
            return AccessDenied(
                f"this user may not read {what}; grant READ on it", code, operation="READ", resource=what
            )
        case errors.GroupAuthorizationFailedError():
            what = f"group {group!r}"
            return AccessDenied(
                f"this user may not use {what}; grant READ on it", code, operation="READ", resource=what
            )
        case errors.InconsistentGroupProtocolError():
            return DrainError(
                f"group {group!r} cannot be joined as a consumer group: there is a group of that name of another "
                "type, such as a share group, or its members use other assignment strategies; choose another group.id",
                code,
            )
        case errors.NoOffsetForPartitionError() | errors.OffsetOutOfRangeError():
            return DrainError(
                f"group {group!r} has no offset to begin at, or one that is gone, and auto.offset.reset=none; set it "
                "to earliest or latest, or set the offsets",
                code,
            )
        case errors.CorruptRecordException():
            return DrainError(f"a record batch read for group {group!r} is damaged: its checksum is wrong", code)
        case errors.UnknownTopicOrPartitionError():
            named = ", ".join(repr(topic) for topic in topics)
            return DrainError(f"of the topics {named} one does not exist, or may not be seen; check the names", code)
    if isinstance(error, _LOGIN):
        return AccessDenied(f"the brokers refused the login: {text}", code)
    if isinstance(error, _UNREACHABLE):
        return CannotReach(f"group {group!r} cannot be reached: {text}", code)
    return DrainError(f"reading for group {group!r} failed: {text}", code)


def sentence(error: BaseException) -> str:
    """Return in one line what went wrong."""
    if isinstance(error, errors.CommitFailedError):
        # aiokafka adds a page of advice that is not about us
        return "the group has moved on: the partitions went to another member before the commit"
    words = [str(part) for part in error.args if str(part).strip()]
    if not isinstance(error, errors.KafkaError):
        return " ".join(words) or type(error).__name__
    name = type(error).__name__
    return f"{' '.join(' '.join(words).split())} ({name})" if words else name


def _topics(error: BaseException) -> list[str]:
    """Return the topics that an error names: as a set, or as the one."""
    found: list[str] = []
    for part in error.args:
        found.extend(sorted(part) if isinstance(part, set | frozenset) else [str(part)])
    return found
