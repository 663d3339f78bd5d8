"""Say what is handed to a consumer of a share group, and what became of it.

In: nothing but Kafka's numbers. Out: records, acknowledgement types, results per partition.
Must never: hold a connection or know of an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

import msgspec

Headers = Sequence[tuple[str, bytes | None]]

NO_ERROR: Final = 0


class Acknowledgement(IntEnum):
    """What becomes of an acquired offset; the values are those of the protocol (KIP-932, RENEW: KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How a broker counts `max_records` (KIP-1206).

    `BATCH` gives whole producer batches until the number is reached, so that more may come; `RECORD` keeps to it and
    needs Kafka 4.2.
    """

    BATCH = 0
    RECORD = 1


class TimestampType(StrEnum):
    """Where a record's timestamp comes from."""

    CREATE = "create"
    LOG_APPEND = "log_append"


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class OffsetRange(NamedTuple):
    """Offsets from `first` to `last`, both included."""

    first: int
    last: int


class AckResult(msgspec.Struct, frozen=True):
    """What a broker said to the acknowledgements of one partition.

    Attributes:
        ranges: the offsets with what was asked for each range.
        error_code: 0 where the broker took them; else none of them counts (121: the lock is lost, 6 and 3: the leader
            moved). `None` where no answer came: it is not known whether they count, and a redelivery will tell.
        message: the broker's words, or ours where no answer came.
        taken: other offsets of the partition that the broker did take, where only some were refused.
    """

    partition: TopicPartition
    ranges: tuple[tuple[OffsetRange, Acknowledgement], ...]
    error_code: int | None = NO_ERROR
    message: str | None = None
    taken: tuple[tuple[OffsetRange, Acknowledgement], ...] = ()

    @property
    def confirmed(self) -> bool:
        """Return whether the broker said that it took them."""
        return self.error_code == NO_ERROR


AckResults = Mapping[TopicPartition, AckResult]
