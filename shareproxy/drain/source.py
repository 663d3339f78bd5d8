"""Say where a sink task takes records from, so that it runs alike over a share group and over a consumer group.

In: nothing. Out: protocols. The share consumer's side is `share_source.py`, the consumer group's is
`consumer_group_source.py`. Must never: know of sinks, or of how a source reaches the brokers.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol

import msgspec

from shareproxy.drain.model import TopicPartition
from shareproxy.drain.sink import Outcome, SinkRecord


class SourceRecord(SinkRecord, Protocol):
    """A record as a source hands it out: key and value are what the source's converters made of them."""

    @property
    def raw_key(self) -> bytes | None:
        """The key's bytes."""

    @property
    def raw_value(self) -> bytes | None:
        """The value's bytes."""

    @property
    def error(self) -> Exception | None:
        """Why a converter failed; key and value are `None` then, and the record can still be settled (R11)."""


class NotSettled(msgspec.Struct, frozen=True):
    """Records of one partition whose outcomes the broker did not take, or whose answer got lost.

    Attributes:
        partition: where they are.
        records: how many.
        error_code: Kafka's; `None` where no answer came: whether they count is not known, a redelivery will tell.
        message: the broker's words, or ours.
    """

    partition: TopicPartition
    records: int
    error_code: int | None
    message: str | None = None


class Settled(msgspec.Struct, frozen=True):
    """What the broker confirmed of the outcomes that were noted before a commit; counts of records.

    In a consumer group `accepted` are records below a committed offset, `rejected` those that were stepped over;
    records that were released are at the front of the next batches, and counted at once.
    """

    accepted: int = 0
    released: int = 0
    rejected: int = 0
    failures: tuple[NotSettled, ...] = ()


class RecordSource(Protocol):
    """Where one task's records come from. One task uses it, and settles every record of a batch once at most: what has
    lost its lock is not settled, and what is left at the end `close` releases.

    The order is `start`, then `get_batch` → `settle` → `commit` again and again, then `close`. Every method raises
    only `DrainError`s and `AdminError`s, whose text is a sentence for a person; anything else is a bug.
    """

    @property
    def group(self) -> str:
        """Group that the records come from."""

    @property
    def topics(self) -> Sequence[str]:
        """Topics by name."""

    @property
    def share_group(self) -> bool:
        """Whether it is a share group; else a consumer group."""

    @property
    def lock_duration(self) -> float | None:
        """Seconds that a record is ours; `None` in a consumer group, or before the broker has told."""

    @property
    def can_renew(self) -> bool:
        """Whether locks can be prolonged (Kafka 4.2); true in a consumer group, where there are none."""

    @property
    def partition_count(self) -> int:
        """Partitions that this member is assigned now."""

    @property
    def denied(self) -> Set[str]:
        """Topics that the brokers said this user may not read; empty where that is not known by topic."""

    def why_not_ready(self) -> str | None:
        """Return why no records can come now, in a sentence; `None` if all is well."""

    async def start(self) -> None:
        """Join the group; return when it has been joined.

        Raises:
            DrainError, AdminError: it cannot be joined; nothing is left behind, `close` need not be called.
        """

    async def get_batch(self, max_records: int, timeout: float) -> Sequence[SourceRecord]:
        """Wait for records.

        Args:
            max_records: at most this many.
            timeout: seconds; then the batch is empty.
        """

    def settle(self, records: Sequence[SourceRecord], outcome: Outcome, *, delay: float = 0.0) -> None:
        """Note what became of records; nothing is sent yet.

        Args:
            records: a batch as `get_batch` returned it (the quickest way), or some records of it.
            outcome: ACCEPT: the sink has them; RELEASE: they shall come again; REJECT: they will never work. A
                consumer group has no REJECT: its source steps over them, and the task sees to it that this is wanted.
            delay: seconds before a RELEASE counts; until then they stay ours. Does not make anybody wait.
        """

    async def commit(self) -> Settled:
        """Send what was noted and wait for the brokers' answers; what was refused is told, not raised."""

    async def renew(self, records: Sequence[SourceRecord]) -> None:
        """Prolong the locks of records that were not settled; nothing to do in a consumer group."""

    async def close(self, timeout: float) -> None:
        """Send what was noted, release the rest, leave the group, close the connections; may be called twice.

        Args:
            timeout: seconds for all of it; then connections are cut, and the broker releases what was held.
        """
