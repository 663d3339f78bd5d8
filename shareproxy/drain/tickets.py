"""Let a caller wait for what a broker says to acknowledgements, without a future for each record.

In: results of a partition. Out: awaitables; those of one partition and one request share their state.
Must never: leave anybody waiting: what gets no answer is answered as lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shareproxy.drain.model import Acknowledgement, AckResult, AckResults, TopicPartition

Callback = Callable[[AckResult], None]


class PendingAcks:
    """Acknowledgements of one partition that go out together, until each has its answer.

    Args:
        partition: where the offsets are.
        provoke: sends what was noted without waiting for the next fetch.
        unseen: where they are put when all are answered, unless somebody looked at the answer otherwise.
    """

    __slots__ = (
        "_callbacks",
        "_provoke",
        "_unseen",
        "_waiters",
        "closed",
        "done",
        "partition",
        "results",
        "seen",
        "unanswered",
    )

    def __init__(
        self,
        partition: TopicPartition,
        provoke: Callable[[], None],
        unseen: deque[PendingAcks] | None = None,
    ) -> None:
        self.partition, self._provoke, self._unseen = partition, provoke, unseen
        self.seen = False
        self.results: list[AckResult] = []
        self.unanswered = 0
        self.closed = False
        self.done = False
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[Callable[[], None]] = []

    def take(self, result: AckResult, offsets: int) -> None:
        """Take the answer to so many of the offsets."""
        if not self.results or self.results[-1] is not result:
            self.results.append(result)
        self.unanswered -= offsets
        self._finish()

    def close(self) -> None:
        """Take it that no more offsets come to these."""
        self.closed = True
        self._finish()

    def provoke(self) -> None:
        """Have them sent now."""
        if not self.done:
            self._provoke()

    async def wait(self) -> None:
        """Have them sent now, and return when all are answered."""
        self.seen = True
        if not self.done:
            self._provoke()
            # one for each who waits: one of them giving up must not end it for the others
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def when_done(self, call: Callable[[], None]) -> None:
        """Call when all are answered, at once if they are."""
        self.seen = True
        if self.done:
            call()
        else:
            self._callbacks.append(call)

    def result_of(self, offset: int, kind: Acknowledgement) -> AckResult:
        """Return the result that tells of an offset; only when done."""
        for result in self.results:
            for (first, last), its_kind in result.ranges:
                if first <= offset <= last and its_kind is kind:
                    return result
        return merged(self.partition, self.results)

    def _finish(self) -> None:
        if self.done or not self.closed or self.unanswered > 0:
            return
        self.done = True
        waiters, callbacks = self._waiters, self._callbacks
        self._waiters, self._callbacks = [], []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for call in callbacks:
            try:
                call()
            except Exception as error:  # of the caller: the session that brought the answer goes on
                context = {"message": "a callback of an acknowledgement failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        if self._unseen is not None and not self.seen:
            self._unseen.append(self)


class AckTicket(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What becomes of one acknowledgement; awaiting it has it sent at once, not awaiting it is fine."""

    _pending: PendingAcks
    _offset: int
    _kind: Acknowledgement

    def __await__(self) -> Generator[Any, None, AckResult]:
        if not self._pending.done:
            yield from self._pending.wait().__await__()
        return self._pending.result_of(self._offset, self._kind)

    def done(self) -> bool:
        """Return whether the answer is there."""
        return self._pending.done

    def result(self) -> AckResult:
        """Return the answer.

        Raises:
            asyncio.InvalidStateError: it is not there yet.
        """
        if not self._pending.done:
            raise asyncio.InvalidStateError("the acknowledgement has no answer yet; await it")
        return self._pending.result_of(self._offset, self._kind)

    def add_done_callback(self, call: Callback) -> None:
        """Call with the answer when it is there; unlike awaiting, this has nothing sent."""
        self._pending.when_done(lambda: call(self._pending.result_of(self._offset, self._kind)))


class BatchTicket(msgspec.Struct, frozen=True, eq=False):
    """What becomes of the acknowledgements of a whole batch, by partition; awaiting it has them sent at once."""

    _pending: Sequence[PendingAcks]

    def __await__(self) -> Generator[Any, None, AckResults]:
        return self._wait().__await__()

    async def _wait(self) -> AckResults:
        for pending in self._pending:
            pending.provoke()
        for pending in self._pending:
            await pending.wait()
        return by_partition(self._pending)

    def done(self) -> bool:
        """Return whether all answers are there."""
        return all(pending.done for pending in self._pending)


def settled(partition: TopicPartition, result: AckResult) -> PendingAcks:
    """Return acknowledgements whose answer is known already."""
    pending = PendingAcks(partition, _nothing)
    pending.results.append(result)
    pending.close()
    return pending


def by_partition(pending: Iterable[PendingAcks]) -> AckResults:
    """Return the results of several, one for each partition."""
    found: dict[TopicPartition, list[AckResult]] = {}
    for each in pending:
        if each.results:
            known = found.setdefault(each.partition, [])
            known.extend(result for result in each.results if result not in known)
    results: Mapping[TopicPartition, AckResult] = {name: merged(name, all_of) for name, all_of in found.items()}
    return results


def merged(partition: TopicPartition, results: Sequence[AckResult]) -> AckResult:
    """Return several results of a partition as one: what was refused, with what was taken besides."""
    if len(results) == 1:
        return results[0]
    taken = tuple(each for result in results if result.confirmed for each in result.ranges)
    taken += tuple(each for result in results for each in result.taken)
    refused = [result for result in results if not result.confirmed]
    if not refused:
        return AckResult(partition, taken)
    ranges = tuple(each for result in refused for each in result.ranges)
    return AckResult(partition, ranges, refused[0].error_code, refused[0].message, taken)


def _nothing() -> None:
    """Do nothing: the answer is there."""
