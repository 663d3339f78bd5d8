"""Say what a share session is told and what it brings.

In: nothing but Kafka's numbers. Out: partitions, limits, records acquired, troubles, ends.
Must never: hold state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from shareproxy.drain.acquired import AcquiredRange
from shareproxy.drain.model import AckResult, AcquireMode, OffsetRange, TopicPartition
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import NodeId, TopicId

INVALID_RECORD_STATE: Final = 121
SHARE_SESSION_NOT_FOUND: Final = 122
INVALID_SHARE_SESSION_EPOCH: Final = 123
SHARE_SESSION_LIMIT_REACHED: Final = 133


class SharePartition(NamedTuple):
    """A partition by name and by the topic's id: a topic made anew under the same name is another one."""

    topic: str
    partition: int
    topic_id: TopicId

    @property
    def name(self) -> TopicPartition:
        """Return it without the id."""
        return TopicPartition(self.topic, self.partition)


class FetchLimits(msgspec.Struct, frozen=True):
    """How a fetch is bounded.

    Attributes:
        max_records: most records per fetch; a floor rather than a cap in batch mode (facts §3.5).
        piece_records: a broker keeps books on pieces of about so many records (BatchSize).
        max_wait_ms: how long a broker may park a fetch; results of acknowledgements may wait as long.
        min_bytes, max_bytes: as in the request.
        acquire_mode: `RECORD` needs version 2.
    """

    max_records: int = 500
    piece_records: int = 500
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    acquire_mode: AcquireMode = AcquireMode.BATCH


class AcquiredRecords(msgspec.Struct, frozen=True):
    """What one answer handed over of one partition.

    Attributes:
        records: whole producer batches as they lie in the log; the last may be cut off, and only `ranges` are ours.
        ranges: ascending; neighbours with the same delivery count are one.
        lock_deadline: when the broker may give them to others.
        pieces: how the broker cut the same offsets; it keeps books on each piece, and on each offset of one that is
            acknowledged in part.
    """

    partition: SharePartition
    records: bytes
    ranges: tuple[AcquiredRange, ...]
    lock_deadline: float
    pieces: tuple[AcquiredRange, ...] = ()


class LockLostRanges(msgspec.Struct, frozen=True):
    """Offsets that were held, not acknowledged, and are not ours any more.

    Attributes:
        error_code: 6, 3, 100 … where the partition left this broker; `None` where the lock ran out, the session ended,
            or the broker handed the same offsets over once more (they are in `acquired` then).
    """

    partition: SharePartition
    ranges: tuple[OffsetRange, ...]
    error_code: int | None = None


class LeaderHint(NamedTuple):
    """Who leads a partition now, as the old leader says; the address is `None` where it was not told."""

    node_id: NodeId
    leader_epoch: int
    host: str | None
    port: int | None


class Remedy(Enum):
    """What helps against an error of one partition; the session has done its own part already."""

    MOVE = "move"
    """Another broker leads it (6, 5, 74, 75, 124): it left this session; see `leader`, else read metadata."""
    REFRESH = "refresh"
    """This broker does not know it (3), or its topic is gone or was made anew (100): it left; read metadata."""
    WAIT = "wait"
    """The session asks again by itself after a pause (−1, 2, 56, …)."""
    STOP = "stop"
    """Not authorised (29, 30, 31): it left this session; tell the caller."""


_REMEDIES: Final[Mapping[int, Remedy]] = {
    ErrorCode.LEADER_NOT_AVAILABLE: Remedy.MOVE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Remedy.MOVE,
    ErrorCode.FENCED_LEADER_EPOCH: Remedy.MOVE,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Remedy.MOVE,
    124: Remedy.MOVE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Remedy.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Remedy.REFRESH,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Remedy.STOP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Remedy.STOP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Remedy.STOP,
}


def remedy_for(error_code: int) -> Remedy:
    """Return what helps against an error of one partition."""
    return _REMEDIES.get(error_code, Remedy.WAIT)


class PartitionTrouble(msgspec.Struct, frozen=True):
    """An error of one partition in an answer without an error at the top."""

    partition: SharePartition
    error_code: int
    message: str | None
    remedy: Remedy
    leader: LeaderHint | None = None


class EndReason(Enum):
    """Why a session is over; the connection it ran on has to be closed then."""

    CLOSED = "closed"
    """As wished: the broker answered the last request."""
    NOT_FOUND = "not_found"
    """122: the broker restarted, or the connection was replaced."""
    EPOCH = "epoch"
    """123: a lost answer, or two requests in flight."""
    LIMIT = "limit"
    """133: the broker has no place for one more."""
    DENIED = "denied"
    """29, 30, 31: asking again gives the same answer."""
    INVALID = "invalid"
    """42, 24, 35: the request was wrong."""
    BROKER_ERROR = "broker_error"
    """−1 and every other code at the top."""
    LINE_LOST = "line_lost"
    """No answer came, or the connection broke."""
    UNREADABLE = "unreadable"
    """The answer could not be read."""


_ENDS: Final[Mapping[int, EndReason]] = {
    SHARE_SESSION_NOT_FOUND: EndReason.NOT_FOUND,
    INVALID_SHARE_SESSION_EPOCH: EndReason.EPOCH,
    SHARE_SESSION_LIMIT_REACHED: EndReason.LIMIT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: EndReason.DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: EndReason.DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: EndReason.DENIED,
    ErrorCode.INVALID_REQUEST: EndReason.INVALID,
    ErrorCode.INVALID_GROUP_ID: EndReason.INVALID,
    ErrorCode.UNSUPPORTED_VERSION: EndReason.INVALID,
}


def end_for(error_code: int) -> EndReason:
    """Return why a session is over after an error at the top of an answer."""
    return _ENDS.get(error_code, EndReason.BROKER_ERROR)


class SessionEnd(msgspec.Struct, frozen=True):
    """How a session ended.

    Attributes:
        error_code: Kafka's; `None` where no answer came, 0 for CLOSED.
        message: the broker's words, or ours.
        final: whether opening it again gives the same answer.
        retry_after: seconds to wait at least before it is opened again, before jitter; grows while it keeps failing.
    """

    reason: EndReason
    error_code: int | None
    message: str | None
    final: bool
    retry_after: float


class SessionOutcome(msgspec.Struct, frozen=True):
    """What an answer, or its loss, or the time brought.

    Attributes:
        acquired: what was handed over, to be decoded; parts of it may be gaps, which must be acknowledged too.
        results: of acknowledgements; each noted acknowledgement is in exactly one. A partition may have several: parts
            of a refused request have results of their own.
        locks_lost: held offsets that are not ours any more.
        troubles: errors of single partitions.
        end: set where the session is over.
    """

    acquired: Sequence[AcquiredRecords] = ()
    results: Sequence[AckResult] = ()
    locks_lost: Sequence[LockLostRanges] = ()
    troubles: Sequence[PartitionTrouble] = ()
    end: SessionEnd | None = None


NOTHING: Final = SessionOutcome()
