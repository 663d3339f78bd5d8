"""Let a sink task take its records from a share group.

In: a share consumer. Out: `RecordSource`. Must never: acknowledge a record that was not settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from typing import Any, Final, Protocol, cast

import structlog

from shareproxy.drain.deferred import Converting
from shareproxy.drain.deserializers import Deserializer
from shareproxy.drain.events import AssignmentChanged, ConsumerEvent, GapsAcknowledged, PartitionRefused
from shareproxy.drain.last_delivery import ours
from shareproxy.drain.model import Acknowledgement, AckResults, OffsetRange, TopicPartition
from shareproxy.drain.record_words import where
from shareproxy.drain.sink import Outcome
from shareproxy.drain.source import NotSettled, Settled, SourceRecord
from shareproxy.protocol.errors import ErrorCode

_COUNTED: Final = (Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT)


class _Acknowledgeable(Protocol):
    """A record or a batch of the consumer: both are acknowledged alike."""

    def accept(self) -> Any: ...

    def release(self, delay: float = 0.0) -> Any: ...

    def reject(self) -> Any: ...

    def renew(self) -> Any: ...


class Consumer(Protocol):
    """The part of `ShareConsumer` that is needed; see there."""

    @property
    def group(self) -> str:
        """Its name."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """By name."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that this member serves."""
        ...

    @property
    def deserializers(self) -> tuple[Deserializer | None, Deserializer | None]:
        """What makes keys and values of bytes."""
        ...

    @property
    def lock_duration(self) -> float | None:
        """Seconds of a lock."""
        ...

    @property
    def lost(self) -> str | None:
        """Why no records can come now, where no broker is reached."""
        ...

    @property
    def can_renew(self) -> bool:
        """Whether locks can be prolonged."""
        ...

    async def start(self) -> None:
        """Join the group."""
        ...

    async def close(self) -> None:
        """Leave the group."""
        ...

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> Any:
        """Wait for records."""
        ...

    async def commit(self) -> AckResults:
        """Send acknowledgements."""
        ...


MakeConsumer = Callable[[Callable[[ConsumerEvent], None]], Consumer]
"""Makes a consumer that tells its events to a function."""


class ShareSource:
    """Records of a share group; see `RecordSource`.

    Args:
        make: makes the consumer, explicit, with locks renewed by itself.
        on_event: told what happens besides records.
        log: whose lines say where they come from.
    """

    def __init__(
        self,
        make: MakeConsumer,
        *,
        on_event: Callable[[ConsumerEvent], None] = lambda _: None,
        log: Any = None,
    ) -> None:
        self._tell = on_event
        self._log = structlog.get_logger() if log is None else log
        self._consumer = make(self._event)
        self._started = self._closed = False
        self._denied: set[str] = set()
        self._converting = Converting(*self._consumer.deserializers)
        self._waiting: list[SourceRecord] = []  # for their schemas; they stay ours, and are renewed like all others
        self._trouble: str | None = None

    @property
    def group(self) -> str:
        """Name of the share group."""
        return self._consumer.group

    @property
    def topics(self) -> Sequence[str]:
        """Topics by name."""
        return self._consumer.topics

    @property
    def share_group(self) -> bool:
        """It is one."""
        return True

    @property
    def lock_duration(self) -> float | None:
        """Seconds that a record is ours; `None` before the broker has told."""
        return self._consumer.lock_duration

    @property
    def can_renew(self) -> bool:
        """Whether locks can be prolonged (Kafka 4.2)."""
        return self._consumer.can_renew

    @property
    def partition_count(self) -> int:
        """Partitions that this member is assigned now."""
        return len(self._consumer.assignment)

    @property
    def denied(self) -> Set[str]:
        """Topics that this user may not read."""
        return self._denied

    def why_not_ready(self) -> str | None:
        """Return why no records can come now, in a sentence."""
        if not self._started or self._closed:
            return f"group {self.group!r} is not joined"
        if not self._consumer.assignment:
            return f"group {self.group!r} has assigned no partition yet; do its topics exist?"
        if self._consumer.lost is not None:
            return f"no broker that has records of group {self.group!r} for this task is reached: {self._consumer.lost}"
        if self._trouble is not None:
            return f"{len(self._waiting)} records of group {self.group!r} wait: {self._trouble}"
        return None

    async def start(self) -> None:
        """Join the group."""
        await self._converting.start()
        try:
            await self._consumer.start()
        except BaseException:
            await self._converting.close()
            raise
        self._started = True

    async def get_batch(self, max_records: int, timeout: float) -> Sequence[SourceRecord]:
        """Wait for records."""
        if self._converting.needed:
            return await self._get_converted(max_records, timeout)
        return cast("Sequence[SourceRecord]", await self._consumer.get_batch(max_records, timeout))

    def settle(self, records: Sequence[SourceRecord], outcome: Outcome, *, delay: float = 0.0) -> None:
        """Note what became of records."""
        for item in _pieces(records):
            if outcome is Outcome.ACCEPT:
                item.accept()
            elif outcome is Outcome.REJECT:
                item.reject()
            else:
                item.release(delay)

    async def commit(self) -> Settled:
        """Send what was noted and wait for the brokers' answers."""
        return settled(await self._consumer.commit())

    async def renew(self, records: Sequence[SourceRecord]) -> None:
        """Prolong locks, now."""
        for item in _pieces(records):
            item.renew()
        await self._consumer.commit()

    async def close(self, timeout: float) -> None:
        """Leave the group; what was not settled is released."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.ensure_future(self._consumer.close())
        # the consumer has limits of its own for each step; this is the one for a consumer that hangs
        await asyncio.wait({closing}, timeout=timeout)
        if not closing.done():
            closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await self._converting.close()

    async def _get_converted(self, max_records: int, timeout: float) -> Sequence[SourceRecord]:
        """Hand on what can be read; what waits for its schema stays here, so that it spends no delivery attempt."""
        now = asyncio.get_running_loop().time()
        still_ours = [record for record in self._waiting if ours(record, now)]
        ready, self._waiting = self._converting.convert(still_ours, max_records)
        if not ready:
            self._waiting += await self._consumer.get_batch(max_records, timeout)
            ready, self._waiting = await self._converting.convert_soon(self._waiting, max_records, timeout)
        trouble = self._converting.trouble if self._waiting else None
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is not None:
                self._log.warning("records wait for their schemas", records=where(self._waiting), why=trouble)
        return ready

    def _event(self, event: ConsumerEvent) -> None:
        self._tell(event)
        if isinstance(event, PartitionRefused) and event.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._denied.add(event.partition.topic)
        if isinstance(event, AssignmentChanged):
            self._log.info("partitions assigned", what=str(event))
        elif isinstance(event, GapsAcknowledged):
            self._log.debug("gaps acknowledged", what=str(event))
        else:
            self._log.warning("consumer", what=str(event))


def settled(results: AckResults) -> Settled:
    """Count what brokers confirmed, and name what they did not."""
    counts = dict.fromkeys(_COUNTED, 0)
    failures: list[NotSettled] = []
    for partition, result in results.items():
        taken = (*result.taken, *(result.ranges if result.confirmed else ()))
        for offsets, kind in taken:
            if kind in counts:
                counts[kind] += offsets.last - offsets.first + 1
        if not result.confirmed and (lost := _records(result.ranges)):
            failures.append(NotSettled(partition, lost, result.error_code, result.message))
    return Settled(
        counts[Acknowledgement.ACCEPT],
        counts[Acknowledgement.RELEASE],
        counts[Acknowledgement.REJECT],
        tuple(failures),
    )


def _records(ranges: Sequence[tuple[OffsetRange, Acknowledgement]]) -> int:
    return sum(offsets.last - offsets.first + 1 for offsets, kind in ranges if kind in _COUNTED)


def _pieces(records: Sequence[SourceRecord]) -> Sequence[_Acknowledgeable]:
    """Return a whole batch as one piece: its offsets go as ranges."""
    return [cast("_Acknowledgeable", records)] if hasattr(records, "accept") else cast("Any", records)
