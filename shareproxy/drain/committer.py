"""Commit what is finished of an aiokafka consumer's records, so that nothing is lost and the lag reaches 0.

In: an aiokafka consumer, records as they are finished. Out: records, and commits after the rules of `reconcile`.
Must never: commit what is not finished, let a failed commit stop the reading, or touch the consumer from two tasks.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self

import structlog
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.structs import TopicPartition as KafkaPartition

from shareproxy.admin.errors import WrongArgument
from shareproxy.drain.commit_results import CommitResult, CommitStats
from shareproxy.drain.group_reader import Batch, GroupReader
from shareproxy.drain.handed_on import HandedOn
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.reconcile import Checkpoint

# a commit waits so long at most behind a poll that finds nothing
POLL_SLICE: Final = 0.2
# how long `async for` asks for records at a time
ITERATOR_POLL: Final = 5.0
# leaving the group is a courtesy: a coordinator that hangs finds out by itself that the member is gone
MOST_STOP_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


class Fetched(Protocol):
    """What names a record, such as aiokafka's."""

    @property
    def topic(self) -> str:
        """Topic by name."""

    @property
    def partition(self) -> int:
        """Number within the topic."""

    @property
    def offset(self) -> int:
        """Place in the partition."""


_Callback = Callable[[Sequence[TopicPartition]], Awaitable[None]]


class _Poll:
    """Somebody waits for records."""

    __slots__ = ("answer", "deadline", "max_records", "wanted")

    def __init__(self, seconds: float, max_records: int | None, *, wanted: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[None] = loop.create_future()
        self.deadline, self.max_records, self.wanted = loop.time() + seconds, max_records, wanted


class _Commit:
    """Somebody waits for a commit."""

    __slots__ = ("answer", "checkpoint")

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.answer: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        self.checkpoint = checkpoint


class ReconcilingCommitter:
    """An aiokafka consumer whose commits follow the sink: only what is finished, and the markers behind it.

    Read with `getmany` or `async for`, say `finished(record)` in any order, and the rest happens: commits at an
    interval, at a rebalance before the partitions go, and at the end. All calls are made in the event loop's thread.

    Args:
        consumer: an `AIOKafkaConsumer` with a `group_id` and `enable_auto_commit=False`, not started yet; it is
            started, polled and stopped here, and by nobody else.
        topics: what to subscribe to; empty for what the consumer subscribed to, or was assigned, itself.
        listener: aiokafka's, told of rebalances: before partitions go and their last commit, and when new ones came.
        commit_interval: seconds between commits; `None` for only those that are asked for.
        finish_timeout: seconds that a rebalance or `close` waits for records in hand to be finished.
        commit_timeout: seconds for one commit.
        stops: first offset that is not read any more, by partition, for reading to an end.
        on_commit: called with each result, also where nothing was sent; it must be quick, and what it raises is logged.

    Raises:
        WrongArgument: the consumer commits by itself, or has no group.

    Source: FLINK-33484, FLINK-36532.
    """

    def __init__(
        self,
        consumer: Any,
        topics: Sequence[str] = (),
        *,
        listener: ConsumerRebalanceListener | None = None,
        commit_interval: float | None = 5.0,
        finish_timeout: float = 3.0,
        commit_timeout: float = 10.0,
        stops: Mapping[tuple[str, int], int] | None = None,
        on_commit: Callable[[CommitResult], None] | None = None,
    ) -> None:
        # aiokafka has no public way to ask for these two
        if getattr(consumer, "_enable_auto_commit", False):
            raise WrongArgument(
                "the consumer commits by itself, also records that are not finished; make it with "
                "enable_auto_commit=False"
            )
        if getattr(consumer, "_group_id", "") is None:
            raise WrongArgument("the consumer has no group to commit for; make it with a group_id")
        self._consumer, self._topics, self._listener = consumer, list(topics), listener
        self._interval, self._finish_timeout, self._commit_timeout = commit_interval, finish_timeout, commit_timeout
        self._state = HandedOn({TopicPartition(*partition): stop for partition, stop in (stops or {}).items()})
        self._reader = GroupReader(consumer, self._state, commit_timeout=commit_timeout, on_commit=on_commit)
        self._ready: Batch = {}  # counts as handed on, but nobody has asked for it yet
        self._polls: deque[_Poll] = deque()
        self._commits: deque[_Commit] = deque()
        self._wake, self._progress = asyncio.Event(), asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._due: float | None = None
        self._closing = False
        self._closed: asyncio.Event | None = None
        self._late = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # after an error nobody is left who could finish what is in hand
        await self.close(finish_timeout=None if error is None else 0.0)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are ours."""
        return self._state.assignment

    @property
    def stats(self) -> CommitStats:
        """Return what became of all commits so far."""
        return self._reader.stats(self._late)

    @property
    def at_stops(self) -> bool:
        """Return whether every assigned partition was read to its stop offset."""
        return bool(self.assignment) and all(self._state.stopped(partition) for partition in self.assignment)

    async def start(self) -> None:
        """Subscribe, start the consumer, and wait for its first assignment.

        Raises:
            KafkaError: aiokafka could not start it; it is stopped then.
        """
        topics = self._topics or sorted(self._consumer.subscription())
        if topics:
            self._reader.between_assignments = True
            self._consumer.subscribe(topics=topics, listener=_Listener(self._revoked, self._assigned))
        try:
            await self._consumer.start()
        except BaseException:
            self._closing = True
            await self._stop_consumer()
            raise
        if not topics:
            self._reader.take_assignment()
        self._set_due()
        self._owner = asyncio.create_task(self._own(), name="owner of a consumer")

    async def getmany(self, *, timeout_ms: int = 0, max_records: int | None = None) -> Batch:
        """Return records by partition, as aiokafka's own `getmany` does; each has to be `finished`.

        Args:
            timeout_ms: how long to wait for the first record.
            max_records: at most so many.

        Raises:
            ConsumerStoppedError: `close` was called.
            KafkaError: what aiokafka found, such as a topic that may not be read.
        """
        if not self._ready:
            await self._fill(timeout_ms / 1000, max_records)
        return self._take(max_records)

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Give one record after the other until `close`; what was not given yet is dropped with its partition."""
        while True:
            if not self._ready:
                try:
                    await self._fill(ITERATOR_POLL, None)
                except ConsumerStoppedError:
                    return
            for records in self._take(1).values():
                yield records[0]

    async def stay(self) -> None:
        """Tell the group that we live although no records are wanted now: `max_poll_interval_ms` begins anew.

        Raises:
            ConsumerStoppedError: `close` was called.
            KafkaError: what aiokafka found.
        """
        await self._ask_owner(_Poll(0.0, None, wanted=False))

    def finished(self, record: Fetched) -> bool:
        """Say that a record is safe: it is committed once all before it in its partition are finished too (F3).

        Returns:
            False where that comes too late: its partition went away meanwhile, and the record comes again.
        """
        found = self._state.finish(TopicPartition(record.topic, record.partition), record.offset)
        self._late += not found
        self._progress.set()
        return found

    def finished_all(self, records: Iterable[Fetched]) -> None:
        """Say that records are safe, of any partitions and in any order."""
        for record in records:
            self.finished(record)

    def checkpoint(self) -> Checkpoint:
        """Return what is finished now, to be kept beside somebody's own state and committed later."""
        return self._state.checkpoint()

    async def commit(self, checkpoint: Checkpoint | None = None) -> CommitResult:
        """Commit what is finished; a failure is told in the result and counted, never raised (F16).

        Args:
            checkpoint: what was finished then; `None` for what is finished when the commit is made.
        """
        if self._owner is None or self._owner.done() or self._reader.between_assignments:
            # in a rebalance the owner may be waiting for the very task that asks here
            return await self._reader.commit(checkpoint)
        asked = _Commit(checkpoint)
        self._commits.append(asked)
        self._wake.set()
        return await asked.answer

    async def close(self, *, finish_timeout: float | None = None) -> None:
        """Wait for records in hand, commit, and stop the consumer, in this order (F17); may be called twice.

        Args:
            finish_timeout: seconds to wait for records to be finished; `None` for that of the committer.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = asyncio.Event()
        self._closing = True
        try:
            await self._end_owner()
            seconds = self._finish_timeout if finish_timeout is None else finish_timeout
            await self._wait_for_finished(self.assignment, self._drop_unasked(self.assignment), seconds)
            # the owner has ended, and whoever closes has its place: first what was asked for, then the rest
            while self._commits:
                await self._serve_commit(self._commits.popleft())
            if self._owner is not None:
                await self._reader.commit(None)
        finally:
            await self._stop_consumer()
            self._closed.set()

    # -- the owner: nobody else touches the consumer, but for aiokafka's own callbacks (F15) -------------------------

    async def _own(self) -> None:
        """Serve polls and commits one after the other, and commit at the interval."""
        try:
            while not self._closing:
                self._wake.clear()
                if self._commits:
                    await self._serve_commit(self._commits.popleft())
                elif self._due is not None and asyncio.get_running_loop().time() >= self._due:
                    await self._reader.commit(None)
                    self._set_due()
                elif self._polls:
                    await self._serve_poll(self._polls[0])
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(self._due):
                            await self._wake.wait()
        except Exception as error:  # a bug: whoever waits must not do so for ever
            while self._commits:
                waiting = self._commits.popleft().answer
                if not waiting.done():
                    waiting.set_exception(error)
            raise
        finally:
            while self._polls:
                answer = self._polls.popleft().answer
                if not answer.done():
                    answer.set_exception(ConsumerStoppedError())

    async def _serve_commit(self, asked: _Commit) -> None:
        try:
            result = await self._reader.commit(asked.checkpoint)
        except BaseException as error:  # a bug, or the end: whoever asked must not wait for ever
            if not asked.answer.done():
                asked.answer.set_exception(error)
            raise
        if not asked.answer.done():
            asked.answer.set_result(result)

    async def _serve_poll(self, asked: _Poll) -> None:
        """Poll for a while for the one who has waited longest."""
        if asked.answer.done():  # given up
            self._polls.popleft()
            return
        now = asyncio.get_running_loop().time()
        ends = min(asked.deadline, now + POLL_SLICE, now + POLL_SLICE if self._due is None else self._due)
        try:
            if asked.wanted:
                batch = await self._reader.poll(asked.max_records, max(0.0, ends - now))
            else:
                batch = await self._reader.stay()
        except Exception as error:  # also what aiokafka does not know: it is for the one who asked
            if not asked.answer.done():
                asked.answer.set_exception(error)
        else:
            for partition, records in batch.items():
                self._ready.setdefault(partition, []).extend(records)
            if not batch and not asked.answer.done() and asyncio.get_running_loop().time() < asked.deadline:
                return
            if not asked.answer.done():
                asked.answer.set_result(None)
        self._polls.popleft()

    async def _end_owner(self) -> None:
        """Let the owner end what it does; one that waits for records is called back, which loses none."""
        self._wake.set()
        if self._owner is None:
            return
        if self._reader.polling:
            self._owner.cancel()
        await asyncio.wait([self._owner])

    async def _stop_consumer(self) -> None:
        self._ready.clear()
        if self._owner is not None and not self._owner.done():  # whoever closes has lost patience
            self._owner.cancel()
            await asyncio.wait([self._owner])
        try:
            async with asyncio.timeout(min(self._commit_timeout, MOST_STOP_SECONDS)):
                await self._consumer.stop()
        except (TimeoutError, KafkaError) as error:
            _log.warning("the consumer was not stopped cleanly", error=str(error) or type(error).__name__)

    def _set_due(self) -> None:
        self._due = None if self._interval is None else asyncio.get_running_loop().time() + self._interval

    async def _fill(self, seconds: float, max_records: int | None) -> None:
        """Have the owner poll; what it finds is in `_ready`, also where the one who asked has given up."""
        await self._ask_owner(_Poll(seconds, max_records))

    async def _ask_owner(self, asked: _Poll) -> None:
        if self._owner is None or self._owner.done():
            if self._owner is not None and not self._owner.cancelled() and (bug := self._owner.exception()):
                raise bug
            raise ConsumerStoppedError
        self._polls.append(asked)
        self._wake.set()
        await asked.answer

    def _take(self, max_records: int | None) -> Batch:
        """Hand on what is ready."""
        if max_records is None:
            taken, self._ready = self._ready, {}
            return taken
        taken = {}
        while self._ready and max_records > 0:
            partition = next(iter(self._ready))
            records = self._ready.pop(partition)
            taken[partition], left = records[:max_records], records[max_records:]
            max_records -= len(taken[partition])
            if left:
                self._ready = {partition: left, **self._ready}
        return taken

    # -- rebalances: aiokafka calls these, and waits for them before it gives partitions away -----------------------

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit what gets finished in time, then forget the partitions (F10)."""
        self._reader.between_assignments = True
        unasked = self._drop_unasked(partitions)
        try:
            if self._listener is not None:
                await _called(self._listener.on_partitions_revoked, partitions)
            if partitions:
                await self._wait_for_finished(partitions, unasked, self._finish_timeout)
                await self._reader.commit(None)
        finally:
            self._reader.drop(partitions)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._reader.take_assignment()
        if self._listener is not None:
            await _called(self._listener.on_partitions_assigned, partitions)

    def _drop_unasked(self, partitions: Collection[TopicPartition]) -> int:
        """Drop records that nobody has asked for yet, and return how many: they will not be finished."""
        return sum(len(self._ready.pop(partition, ())) for partition in partitions)

    async def _wait_for_finished(self, partitions: Collection[TopicPartition], unasked: int, seconds: float) -> None:
        """Return when all records that are in somebody's hands are finished, or when it has taken too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._state.waiting_in(partitions) > unasked:
                    self._progress.clear()
                    await self._progress.wait()


async def _called(callback: Callable[[set[KafkaPartition]], object], partitions: Sequence[TopicPartition]) -> None:
    """Tell the user's listener, which may be plain or asynchronous; what it raises must not cost the last commit."""
    try:
        answer = callback({KafkaPartition(*partition) for partition in partitions})
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        _log.exception("the listener for rebalances failed")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Bring aiokafka's callbacks to the committer."""

    def __init__(self, revoked: _Callback, assigned: _Callback) -> None:
        self._revoked, self._assigned = revoked, assigned

    async def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
        """Partitions go."""
        await self._revoked([TopicPartition(*partition) for partition in revoked])

    async def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
        """Partitions have come."""
        await self._assigned([TopicPartition(*partition) for partition in assigned])
