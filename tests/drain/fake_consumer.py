"""A share consumer that follows a script, with the interface of `shareproxy.ShareConsumer`.

In: records and faults from a test. Out: records to the code under test, and a list of what it acknowledged, in order.
Must never: acknowledge by itself, or let a record be acknowledged for good twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, overload

from shareproxy.drain.model import (
    Acknowledgement,
    AckResult,
    AckResults,
    Headers,
    OffsetRange,
    TimestampType,
    TopicPartition,
)

LOCK_SECONDS = 30.0
INVALID_RECORD_STATE = 121


class Acknowledged(NamedTuple):
    """One acknowledgement, in the order in which they were made."""

    partition: TopicPartition
    offset: int
    kind: Acknowledgement
    delay: float = 0.0


class FakeTicket:
    """What an acknowledgement returns: awaiting it sends what has been noted so far, and gives the answer."""

    def __init__(self, consumer: FakeShareConsumer, made: Acknowledged) -> None:
        self._consumer, self._made = consumer, made
        self._result: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, AckResult]:
        self._consumer.answer_tickets()
        return self._result.__await__()

    def answer(self) -> None:
        """Resolve it with what the script says about this offset."""
        if self._result.done():
            return
        partition, offset, kind, _ = self._made
        code = self._consumer.refusals.get((partition, offset), 0)
        message = None if code == 0 else "refused by the script"
        self._result.set_result(AckResult(partition, ((OffsetRange(offset, offset), kind),), code, message))

    @property
    def result(self) -> AckResult:
        """What was answered; only once it was."""
        return self._result.result()


class FakeRecord:
    """A record of the script; `release`, `accept` and so on are noted in `FakeShareConsumer.acknowledged`."""

    def __init__(
        self,
        offset: int = 0,
        value: Any = b"value",
        *,
        key: Any = None,
        topic: str = "orders",
        partition: int = 0,
        headers: Headers = (),
        timestamp: int = 0,
        delivery_count: int = 1,
        error: Exception | None = None,
        lock_seconds: float | None = None,
    ) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset
        self.timestamp, self.timestamp_type = timestamp, TimestampType.CREATE
        self.key, self.value, self.headers = key, value, headers
        self.raw_key = key if isinstance(key, bytes) else None
        self.raw_value = value if isinstance(value, bytes) else None
        if error is not None:
            self.key = self.value = None
        self.error = error
        self.delivery_count = delivery_count
        self.lock_deadline = 0.0
        self.lock_seconds = lock_seconds
        self.done: Acknowledgement | None = None
        self.consumer: FakeShareConsumer | None = None

    def __repr__(self) -> str:
        return f"FakeRecord({self.topic}-{self.partition}@{self.offset}, delivery {self.delivery_count})"

    @property
    def where(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def accept(self) -> FakeTicket:
        """Note that it is done."""
        return self._note(Acknowledgement.ACCEPT)

    def release(self, delay: float = 0.0) -> FakeTicket:
        """Note that somebody shall have it again."""
        return self._note(Acknowledgement.RELEASE, delay)

    def reject(self) -> FakeTicket:
        """Note that nobody shall have it again."""
        return self._note(Acknowledgement.REJECT)

    def renew(self) -> FakeTicket:
        """Prolong its lock from now on."""
        ticket = self._note(Acknowledgement.RENEW)
        consumer = self._given_by()
        self.lock_deadline = asyncio.get_running_loop().time() + (self.lock_seconds or consumer.lock_seconds)
        return ticket

    def _note(self, kind: Acknowledgement, delay: float = 0.0) -> FakeTicket:
        return self._given_by().note(self, kind, delay)

    def _given_by(self) -> FakeShareConsumer:
        assert self.consumer is not None, "the record was never given out"
        return self.consumer


class FakeBatch(Sequence[FakeRecord]):
    """Records of one `get_batch`."""

    def __init__(self, records: Sequence[FakeRecord] = ()) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> FakeRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FakeRecord]: ...
    def __getitem__(self, index: int | slice) -> FakeRecord | Sequence[FakeRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[FakeRecord]:
        return iter(self._records)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Where its records come from."""
        return frozenset(record.where for record in self)

    def accept(self) -> None:
        """Accept all that have not been acknowledged."""
        for record in self._open():
            record.accept()

    def release(self, delay: float = 0.0) -> None:
        """Release all that have not been acknowledged."""
        for record in self._open():
            record.release(delay)

    def reject(self) -> None:
        """Reject all that have not been acknowledged."""
        for record in self._open():
            record.reject()

    def renew(self) -> None:
        """Renew the locks of all that have not been acknowledged."""
        for record in self._open():
            record.renew()

    def _open(self) -> Iterator[FakeRecord]:
        return (record for record in self if record.done is None)


class FakeShareConsumer:
    """A share consumer whose records, answers and faults come from a test.

    Args:
        records: what there is to fetch; `give` adds more.
        lock_seconds: lock of each record, from the moment it is given out.
        can_renew: false as with Kafka 4.1.
        redeliver: whether released records come again, with one delivery more.
        group: its name.
        topics: by name.
        on_event: as the real one; `emit` calls it.

    Attributes:
        acknowledged: each acknowledgement, in the order in which they were made, RENEW included.
        journal: the same as `("accept", offset)` …, between whatever a test adds to it.
        refusals: error code for each (partition, offset) that the broker shall refuse.
        held: records given out and not acknowledged for good; those whose lock ran out go with the next one.
        most_held: how many they were at most.
        asked: `max_records` of each `get_batch`.
        late: acknowledgements made after the lock had run out, or after `close`.
        left_by_close: records that `close` released.
    """

    def __init__(
        self,
        records: Iterable[FakeRecord] = (),
        *,
        lock_seconds: float = LOCK_SECONDS,
        can_renew: bool = True,
        redeliver: bool = False,
        group: str = "order-workers",
        topics: Sequence[str] = ("orders",),
        on_event: Callable[[Any], None] | None = None,
    ) -> None:
        self.lock_seconds, self.can_renew, self.redeliver = lock_seconds, can_renew, redeliver
        self.group, self.topics, self.on_event = group, tuple(topics), on_event
        self.member_id = "fake-member"
        self.lost: str | None = None
        self.deserializers: tuple[Any, Any] = (None, None)
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.acknowledged: list[Acknowledged] = []
        self.journal: list[tuple[str, int]] = []
        self.refusals: dict[tuple[TopicPartition, int], int] = {}
        self.held: dict[tuple[TopicPartition, int], FakeRecord] = {}
        self.most_held = 0
        self.asked: list[int | None] = []
        self.late: list[Acknowledged] = []
        self.left_by_close: list[FakeRecord] = []
        self.started = self.closed = False
        self.commits = 0
        self._waiting: deque[FakeRecord | Exception] = deque(records)
        self._news = asyncio.Event()
        self._tickets: list[FakeTicket] = []
        self._told: list[AckResult] = []
        self._start_error: Exception | None = None
        self._commit_errors: deque[Exception] = deque()
        self._events: asyncio.Queue[Any] = asyncio.Queue()

    # the script

    def give(self, *records: FakeRecord) -> None:
        """Let records be there to fetch."""
        self._waiting.extend(records)
        self._news.set()

    def fail(self, error: Exception) -> None:
        """Let `get_batch` raise this once, when all records so far have been given out."""
        self._waiting.append(error)
        self._news.set()

    def fail_start(self, error: Exception) -> None:
        """Let `start` raise this."""
        self._start_error = error

    def fail_commit(self, error: Exception) -> None:
        """Let the next `commit` raise this."""
        self._commit_errors.append(error)

    def refuse(self, record: FakeRecord, code: int = INVALID_RECORD_STATE) -> None:
        """Let the broker refuse what is said about a record from now on."""
        self.refusals[record.where, record.offset] = code

    def lose_lock(self, record: FakeRecord) -> None:
        """Let the lock of a record have run out: its deadline is past, and the broker takes nothing for it any more."""
        record.lock_deadline = asyncio.get_running_loop().time() - 1.0
        self.refuse(record)

    def emit(self, event: Any) -> None:
        """Tell an event, as the real one does."""
        if self.on_event is not None:
            self.on_event(event)
        self._events.put_nowait(event)

    def kinds(self, offset: int, partition: int = 0) -> list[Acknowledgement]:
        """Return what was said about an offset, in order."""
        return [made.kind for made in self.acknowledged if made.offset == offset and made.partition[1] == partition]

    def offsets(self, kind: Acknowledgement) -> list[int]:
        """Return the offsets that were acknowledged like this, in order."""
        return [made.offset for made in self.acknowledged if made.kind is kind]

    # the interface of the real one

    @property
    def lock_duration(self) -> float | None:
        """Seconds of a lock; `None` before the first answer."""
        return self.lock_seconds if self.started else None

    async def start(self) -> None:
        """Begin."""
        if self._start_error is not None:
            raise self._start_error
        self.started = True
        self.assignment = frozenset(TopicPartition(topic, 0) for topic in self.topics)

    async def close(self) -> None:
        """Release what is held and end."""
        self.answer_tickets()
        self.left_by_close.extend(self.held.values())
        self.held.clear()
        self.closed = True
        self._news.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[FakeRecord]:
        while not self.closed:
            for record in await self.get_batch(1):
                yield record

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> FakeBatch:
        """Return what there is, at most so many records; an empty batch at the timeout."""
        assert self.started, "get_batch before start"
        assert not self.closed, "get_batch after close"
        self.asked.append(max_records)
        self._told += self.answer_tickets()  # what came with a fetch is told by the next commit
        try:
            async with asyncio.timeout(timeout):
                while not self._waiting and not self.closed:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return FakeBatch()
        records: list[FakeRecord] = []
        while self._waiting and (max_records is None or len(records) < max_records):
            first = self._waiting[0]
            if isinstance(first, Exception):
                if records:
                    break
                self._waiting.popleft()
                raise first
            self._waiting.popleft()
            records.append(self._hand_out(first))
        return FakeBatch(records)

    async def commit(self) -> AckResults:
        """Answer what has been acknowledged so far."""
        if self._commit_errors:
            raise self._commit_errors.popleft()
        self.commits += 1
        told, self._told = self._told, []
        return _by_partition([*told, *self.answer_tickets()])

    async def events(self) -> AsyncIterator[Any]:
        """Give each event of the script."""
        while True:
            yield await self._events.get()

    # for the records

    def note(self, record: FakeRecord, kind: Acknowledgement, delay: float) -> FakeTicket:
        """Note an acknowledgement."""
        assert record.done is None, f"{record} is {kind.name} after it was {record.done!r}"
        made = Acknowledged(record.where, record.offset, kind, delay)
        self.acknowledged.append(made)
        if self.closed or record.lock_deadline <= asyncio.get_running_loop().time():
            self.late.append(made)
        self.journal.append((kind.name.lower(), record.offset))
        ticket = FakeTicket(self, made)
        self._tickets.append(ticket)
        if kind is not Acknowledgement.RENEW:
            record.done = kind
            self.held.pop((record.where, record.offset), None)
            if kind is Acknowledgement.RELEASE and self.redeliver:
                asyncio.get_running_loop().call_later(delay, self._come_again, record)
        return ticket

    def answer_tickets(self) -> list[AckResult]:
        """Answer all that wait; an explicit `commit`, a fetch and each awaited ticket do it."""
        tickets, self._tickets = self._tickets, []
        for ticket in tickets:
            ticket.answer()
        return [ticket.result for ticket in tickets]

    def _hand_out(self, record: FakeRecord) -> FakeRecord:
        now = asyncio.get_running_loop().time()
        self.held = {where: held for where, held in self.held.items() if held.lock_deadline > now}
        record.consumer = self
        record.lock_deadline = now + (record.lock_seconds or self.lock_seconds)
        self.held[record.where, record.offset] = record
        self.most_held = max(self.most_held, len(self.held))
        return record

    def _come_again(self, record: FakeRecord) -> None:
        again = FakeRecord(
            record.offset,
            record.value,
            key=record.key,
            topic=record.topic,
            partition=record.partition,
            headers=record.headers,
            timestamp=record.timestamp,
            delivery_count=record.delivery_count + 1,
            error=record.error,
            lock_seconds=record.lock_seconds,
        )
        self.give(again)


def _by_partition(results: Iterable[AckResult]) -> AckResults:
    found: dict[TopicPartition, AckResult] = {}
    for result in results:
        before = found.get(result.partition)
        if before is None:
            found[result.partition] = result
            continue
        # one refused range and nothing of the partition counts
        worse = before if before.error_code else result
        found[result.partition] = AckResult(
            result.partition, before.ranges + result.ranges, worse.error_code, worse.message
        )
    return found
