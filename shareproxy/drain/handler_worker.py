"""Bring the records of a share consumer to a handler, many at once, and say what becomes of each.

In: a consumer, a handler, when to stop. Out: acknowledgements, counts, a log.
Must never: accept a record whose handler did not return (R23), acknowledge one whose lock is gone, or hold more
records than were asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from typing import Any, Final

from shareproxy.drain.handler_call import Ended, HandlerCall, How
from shareproxy.drain.handler_log import HandlerLog
from shareproxy.drain.handler_metrics import HandlerCounts
from shareproxy.drain.handler_parts import HandledRecord, HandlerConsumer, Questions, WorkerResult, WorkerSettings
from shareproxy.drain.model import AckResult
from shareproxy.drain.retry_delay import Place, next_try
from shareproxy.drain.settling import Settling
from shareproxy.drain.stopping import Stop, first_of

# for the last answers of the brokers
LAST_ANSWERS_SECONDS: Final = 5.0
# for a clean end after a second signal; a handler that goes on for longer after its cancellation is left to itself
CANCEL_SECONDS: Final = 1.0
# records that one line of the log names
MOST_TOLD: Final = 20


class HandlerWorker:
    """Works until it is told to stop.

    Args:
        consumer: not started; closed at the end.
        call: calls the handler.
        settings: how it works.
        counts: what it counts.
        log: where it logs.
        stop: tells when to stop.
        questions: asked before a record is rejected, and before one goes back that was delivered before.
        prepare: run before the group is joined; what it raises ends the worker.
        chance: gives numbers from 0 to 1.
    """

    def __init__(
        self,
        consumer: HandlerConsumer,
        call: HandlerCall,
        settings: WorkerSettings,
        *,
        counts: HandlerCounts,
        log: HandlerLog,
        stop: Stop,
        questions: Questions,
        prepare: Callable[[], Awaitable[None]] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._consumer, self._call, self._settings = consumer, call, settings
        self._counts, self._log, self._stop, self._questions = counts, log, stop, questions
        self._prepare, self._chance = prepare, chance
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        # those that wait for a slot or for their next try
        self._idle: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._settling = Settling(consumer, counts, log)
        self._broken: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._started = self._closed = False
        self._abandoned = 0
        # those that the stop gives back although they were delivered before
        self._given_back: list[HandledRecord] = []

    def why_not_ready(self) -> str | None:
        """Return why no records are worked on now, in a sentence."""
        if self._stop.asked.is_set():
            return "the worker is stopping"
        if not self._started:
            return "the worker has not joined its group yet"
        if not self._consumer.assignment:
            return "no partitions are assigned to this worker yet; if that stays so, look whether its topics exist"
        if self._consumer.lost is not None:
            return f"no broker that has records for this worker is reached: {self._consumer.lost}"
        return None

    async def run(self) -> WorkerResult:
        """Work until told to stop.

        Raises:
            AdminError, DrainError: the group cannot be joined, or no records come any more.
        """
        fetching: asyncio.Task[None] | None = None
        graceful = False
        try:
            if await self._join():
                fetching = asyncio.create_task(self._fetch())
                await first_of(self._stop.asked, fetching, self._broken)
            graceful = True
        finally:
            winding_down = asyncio.create_task(self._wind_down(fetching, graceful))
            try:
                await asyncio.shield(winding_down)
            except asyncio.CancelledError:
                self._stop.hurried.set()
                await winding_down
                raise
        if self._broken.done():
            self._broken.result()
        if fetching is not None and not fetching.cancelled():
            fetching.result()
        return self._result()

    async def _join(self) -> bool:
        """Start the consumer and return whether there is work to do, which a signal may have changed meanwhile."""
        starting = asyncio.create_task(self._start())
        try:
            await first_of(self._stop.asked, starting)
        finally:
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
        if starting.cancelled():
            return False
        starting.result()
        self._started = True
        return not self._stop.asked.is_set()

    async def _start(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        await self._consumer.start()

    # records come

    async def _fetch(self) -> None:
        settings, counts = self._settings, self._counts
        in_hand = settings.concurrency + settings.prefetch
        # with one free place a fetch for each record would cost more than the record
        worth_it = max(1, (settings.prefetch + 1) // 2)
        while True:
            room = in_hand + counts.waiting - len(self._tasks)
            too_many_wait = counts.waiting >= settings.max_waiting
            if too_many_wait:
                self._log.often("no more records are fetched while so many failed ones wait for their next try")
            if too_many_wait or room < worth_it:
                self._room.clear()
                await self._room.wait()
                continue
            for record in await self._consumer.get_batch(room):
                self._take(record)

    def _take(self, record: HandledRecord) -> None:
        counts = self._counts
        counts.records += 1
        counts.redelivered += record.delivery_count > 1
        if record.timestamp >= 0:
            counts.age_seconds.observe(max(0.0, time.time() - record.timestamp / 1000))
        task = asyncio.create_task(self._work(record))
        self._tasks.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._log.bug(error)
            self._broken.set_exception(error)

    # one record

    async def _work(self, record: HandledRecord) -> None:
        failures = 0
        try:
            while True:
                ended = await self._turn(record, failures)
                if ended is None or ended.how is How.DONE:
                    return
                failures += 1
                place = await self._wait(record, ended, failures)
                if place is not Place.HERE:
                    return
        except asyncio.CancelledError:
            self._give_back(record)
            raise

    async def _turn(self, record: HandledRecord, failures: int) -> Ended | None:
        """Call the handler once there is a free slot; returns None where nothing is left to do."""
        self._counts.queued += 1
        with self._as_idle():
            try:
                await self._slots.acquire()
            finally:
                self._counts.queued -= 1
        running: asyncio.Future[object] | None = None
        self._counts.running += 1
        try:
            if self._stop.asked.is_set():
                self._give_back(record)
                return None
            if self._is_lost(record):
                self._lost(record, begun=failures > 0)
                return None
            if record.error is not None:
                self._counts.undecodable += 1
                ended = Ended(How.WILL_NEVER_WORK, record.error)
            else:
                ended = await self._timed_call(record)
            running = ended.running
        finally:
            if running is None:
                self._free_slot()
            else:
                running.add_done_callback(lambda _: self._free_slot())
        if self._is_lost(record):
            self._lost(record, begun=True)
            return None
        if ended.how is How.DONE:
            self._note(record.accept, "accept")
        return ended

    async def _timed_call(self, record: HandledRecord) -> Ended:
        began = time.perf_counter()
        ended = await self._call(record)
        self._counts.handler_seconds.observe(time.perf_counter() - began)
        if ended.how is How.TIMED_OUT:
            self._counts.timed_out += 1
            self._log.often("handler took too long", record)
        elif ended.error is not None:
            self._log.failed(ended.error, record)
        return ended

    async def _wait(self, record: HandledRecord, ended: Ended, failures: int) -> Place | None:
        """Wait for the next try and say where that is; None where the record is settled."""
        if ended.how is How.WILL_NEVER_WORK and await self._may_reject(record):
            self._note(record.reject, "reject")
            return None
        wait = next_try(
            self._settings.retry,
            delivery_count=record.delivery_count,
            failures=failures,
            after_s=ended.after_s,
            # what will never work, or is still running in a thread, must not be tried here again
            may_stay=ended.how is How.FAILED,
            lock_left=None if self._consumer.can_renew else record.lock_deadline - self._now(),
            chance=self._chance(),
        )
        self._counts.retries[wait.place.value] += 1
        again = wait.place is Place.ANYWHERE and record.delivery_count > 1
        last = again and record.delivery_count >= await self._questions.delivery_limit()
        self._counts.waiting += 1
        self._room.set()
        with self._as_idle():
            try:
                await asyncio.sleep(wait.seconds)
            finally:
                self._counts.waiting -= 1
                self._room.set()
        if self._is_lost(record):
            self._lost(record, begun=True)
            return None
        if wait.place is Place.ANYWHERE:
            if last:
                self._counts.given_up += 1
                self._log.often("record failed in its last delivery, the brokers give it up", record)
            self._note(record.release, "release")
        return wait.place

    async def _may_reject(self, record: HandledRecord) -> bool:
        """Return whether a rejected record is kept somewhere, or may be dropped (R22)."""
        if self._settings.reject_without_dlq:
            return True
        queue = await self._questions.dead_letters()
        if not queue.works:
            self._counts.not_rejected += 1
            self._log.often("record not rejected, it would be lost; it is released instead", record, why=queue.why)
        return queue.works

    def _free_slot(self) -> None:
        self._counts.running -= 1
        self._slots.release()
        self._room.set()

    def _is_lost(self, record: HandledRecord) -> bool:
        return record.lock_deadline <= self._now()

    def _lost(self, record: HandledRecord, *, begun: bool) -> None:
        """Count a record that others may have by now; nothing is said to the broker any more."""
        if begun:
            self._counts.lock_lost += 1
            self._log.often("lock lost during handling, the record comes again", record)
        else:
            self._counts.dropped += 1
            self._log.often("lock ran out before handling, the record comes again", record)

    @contextlib.contextmanager
    def _as_idle(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        try:
            yield
        finally:
            self._idle.discard(task)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _note(self, acknowledge: Callable[[], Awaitable[AckResult]], outcome: str) -> None:
        if not self._closed:  # else it is a handler that outlived everything
            self._settling.note(acknowledge(), outcome)

    # the end

    def _give_back(self, record: HandledRecord) -> None:
        if self._is_lost(record):  # R20
            return
        self._note(record.release, "release")
        if record.delivery_count > 1:
            self._given_back.append(record)

    async def _tell_given_up(self) -> None:
        """Say which of the records that the stop gave back nobody will get again."""
        limit = await self._questions.delivery_limit() if self._given_back else 0
        lost = [record for record in self._given_back if record.delivery_count >= limit]
        if lost:
            self._counts.given_up += len(lost)
            shown = ", ".join(map(repr, lost[:MOST_TOLD]))
            self._log.warning(
                "stopped in the last delivery of records, the brokers give them up", count=len(lost), records=shown
            )

    async def _wind_down(self, fetching: asyncio.Task[None] | None, graceful: bool) -> None:
        stop = self._stop
        if not stop.asked.is_set():
            stop.ask()
        if fetching is not None:
            await _end({fetching})
        # what nobody has begun with goes back at once
        await _end(self._idle)
        if graceful and self._tasks:
            seconds = self._settings.stop_timeout
            self._log.info("waiting for handlers to end", running=len(self._tasks), seconds=seconds)
            await first_of(stop.hurried, asyncio.ensure_future(asyncio.wait(self._tasks, timeout=seconds)))
        self._abandoned = len(self._tasks)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_SECONDS)
        if self._started:
            await self._bounded(self._settling.settle(), LAST_ANSWERS_SECONDS)
            await self._bounded(self._tell_given_up(), LAST_ANSWERS_SECONDS)
        self._closed = True
        self._call.stop()
        await self._bounded(self._consumer.close(), None)
        await self._settling.stop()

    async def _bounded(self, work: Coroutine[Any, Any, object], seconds: float | None) -> None:
        """Wait for a step of the end, not longer than so many seconds, and not for long after a second signal."""
        step = asyncio.ensure_future(work)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await first_of(self._stop.hurried, step)
        if not step.done():
            await asyncio.wait({step}, timeout=CANCEL_SECONDS)
        if not step.done():
            step.cancel()
            await asyncio.wait({step}, timeout=CANCEL_SECONDS)
        elif (error := step.exception()) is not None:
            self._log.warning("stopping was not clean", why=str(error))

    def _result(self) -> WorkerResult:
        outcomes = self._counts.outcomes
        return WorkerResult(
            accepted=outcomes["accept"],
            released=outcomes["release"],
            rejected=outcomes["reject"],
            lock_lost=self._counts.lock_lost,
            unconfirmed=sum(self._counts.refused.values()),
            abandoned=self._abandoned,
        )


async def _end(tasks: Collection[asyncio.Task[None]]) -> None:
    tasks = set(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
