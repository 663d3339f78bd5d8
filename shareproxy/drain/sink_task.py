"""Run one task of a sink connector: poll, convert, put, acknowledge, commit, until it is told to stop (R7–R23).

In: a source of records, a sink. Out: records in the sink, and what became of each told to the source.
Must never: accept a record before `put` returned with it (R23), or let go of one on its last delivery while the task
can still hold it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

import structlog

from shareproxy.admin.errors import AdminError
from shareproxy.drain.checks import lock_too_short
from shareproxy.drain.errors import DrainError
from shareproxy.drain.last_delivery import LastDeliveries, ours
from shareproxy.drain.put_outcome import PutTimedOut, Records, Verdict, verdict_of_error, verdict_of_return
from shareproxy.drain.record_words import most_deliveries, sentence, sentence_or, unreadable_why, where
from shareproxy.drain.retry_delay import LOCK_SHARE, growing_delay
from shareproxy.drain.sink import Outcome
from shareproxy.drain.sink_calls import SinkCalls
from shareproxy.drain.sink_commits import Commits
from shareproxy.drain.sink_metrics import TaskMeter, TaskState
from shareproxy.drain.source import RecordSource, Settled, SourceRecord
from shareproxy.drain.task_options import Context, TaskOptions

# while a record is held on its last delivery, it is tried again at least this often
STUCK_SECONDS: Final = 30.0
_delivery_count, _error = attrgetter("delivery_count"), attrgetter("error")


class TaskFailed(DrainError):  # noqa: N818 - it says what happened
    """A task cannot go on; its worker starts it again after a while."""


class Rejecting(Protocol):
    """Who knows whether records may be rejected (R19, R22)."""

    async def why_not(self) -> str | None:
        """Return why a REJECT would lose the record against the user's will; `None` if it may be done."""

    def rejected(self, count: int) -> None:
        """Note that records were rejected."""


class SinkTask:
    """One task; `run` it once.

    Args:
        options: how it works.
        source: where records come from.
        make_sink: makes where they go; called again where a sink fails while records are held.
        rejecting: whether records may be rejected.
        meter: what it counts.
        stop: set when it shall stop.
        joined: called once when it has begun to take records.
    """

    def __init__(
        self,
        options: TaskOptions,
        source: RecordSource,
        make_sink: Callable[[], SinkCalls],
        rejecting: Rejecting,
        meter: TaskMeter,
        stop: asyncio.Event,
        joined: Callable[[], None] = lambda: None,
    ) -> None:
        self._options, self._source, self._make_sink = options, source, make_sink
        self._sink, self._stopped = make_sink(), False
        self._last = LastDeliveries()
        self._rejecting, self._meter, self._stop, self._joined = rejecting, meter, stop, joined
        self._context = Context(options, source)
        self._commits = Commits(source, self._committed, implicit=options.implicit)
        self._told: asyncio.Future[Any] | None = None
        self._longest_put = 0.0
        self._log = structlog.get_logger().bind(connector=options.connector, task=options.task_id)

    async def run(self) -> None:
        """Work until told to stop; let go of everything then, in the order of R13.

        Raises:
            TaskFailed: the sink failed, and says how in a sentence; or the stop lost records on their last delivery.
            DrainError, AdminError: the source failed.
        """
        joined, failed = False, True
        try:
            try:
                await self._within_time(self._sink.start(self._context))
            except Exception as error:
                raise TaskFailed(f"{self._options.name}: the sink's start failed: {sentence(error)}") from error
            await self._source.start()
            joined = True
            self._meter.be(TaskState.RUNNING)
            self._joined()
            while not self._stop.is_set():
                await self._round()
            await self._commits.finish()
            # the close releases them, and the brokers give up those on their very last delivery
            lost = [record for record in self._last.clear() if self._is_last(record)]
            self._lose(lost)
            if lost:
                told = (
                    f"let go on the last delivery, so that the brokers give them up: {where(lost)} ({self._last.why})"
                )
                raise TaskFailed(f"{self._options.name}: {told}")
            failed = False
        finally:
            await self._end(joined, failed)

    async def _round(self) -> None:
        if self._last:
            await self._try_last_deliveries()
        batch = await self._source.get_batch(self._options.max_records, self._commits.until_due(self._options.poll))
        self._meter.set("partition_count", self._source.partition_count)
        if not batch and self._source.share_group:
            await self._commits.idle()
        elif not batch:
            # offsets of markers behind the last record are committed too, so that lag reaches 0
            await self._commits.now(asyncio.get_running_loop().time())
        if not batch or self._stop.is_set():
            return  # what came too late is released by the source's close
        polled = asyncio.get_running_loop().time()
        ready, unreadable = self._sort(batch, polled)
        verdict = await self._put(ready) if ready else Verdict()
        failure: str | None = None
        if unreadable and self._options.tolerate_unreadable:
            self._meter.add("record_skip", len(unreadable))
            self._source.settle(unreadable, Outcome.ACCEPT)
            unreadable = []
        failure = await self._deal(verdict, unreadable, polled)
        if failure is None:
            return
        if self._stop.is_set() and verdict.kind != "timeout":
            self._log.warning("task failed while it was told to stop", why=failure)  # its records were given back
            return
        if not self._last:
            raise TaskFailed(f"{self._options.name}: {failure}")
        # with a new consumer the brokers would give up what is held here, so only the sink is made anew
        await self._start_sink_again(failure)

    async def _start_sink_again(self, failure: str) -> None:
        self._meter.add("task_failures")
        self._log.error("task failed; its sink is started again", why=failure)
        trouble = await self._stop_sink()
        if trouble is not None:
            self._log.warning("the end was not clean", why=trouble.message)
        failures = 0
        while not self._stop.is_set():
            self._sink, self._stopped = self._make_sink(), False
            try:
                await self._within_time(self._sink.start(self._context))
            except Exception as error:
                failures += 1
                why = f"the sink's start failed: {sentence(error)}"
                self._log.error("task failed", why=why)
                await self._stop_sink()
                await self._pause(self._delay(self._last.records, failures, None), TaskState.FAILED, why)
            else:
                return

    def _sort(self, batch: Records, now: float) -> tuple[Records, list[SourceRecord]]:
        """Return the records to put, and those that no converter could read; leave out what is not ours any more."""
        # most batches have nothing special, and a look at each record of those would cost more than all else here
        counts, errors = list(map(_delivery_count, batch)), list(map(_error, batch))
        redelivered = len(batch) - counts.count(1)
        unreadable: list[SourceRecord] = []
        if errors.count(None) != len(batch):
            unreadable = [record for record, error in zip(batch, errors, strict=True) if error is not None]
        expired = 0
        # records of one fetch have one deadline, and the consumer looked a moment ago: both ends tell
        if not (ours(batch[0], now) and ours(batch[-1], now)):
            expired = sum(record.error is None and not ours(record, now) for record in batch)
        self._meter.polled(len(batch), redelivered)
        if expired:
            self._meter.add("lock_lost", expired)
        if unreadable:
            self._meter.add("record_unreadable", len(unreadable))
            self._log.warning("records cannot be read", records=where(unreadable), why=unreadable_why(unreadable))
        if not expired and not unreadable:
            return batch, unreadable
        return [record for record in batch if record.error is None and ours(record, now)], unreadable

    async def _put(self, records: Records) -> Verdict:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._context.putting = records
        try:
            returned = await self._within_time(self._sink.put(records), self._options.put_timeout)
        except Exception as error:
            verdict = verdict_of_error(records, error, reject_unknown=self._options.reject_unknown)
        else:
            verdict = verdict_of_return(records, returned, reject_unknown=self._options.reject_unknown)
        finally:
            self._context.putting = ()
        seconds = loop.time() - began
        self._meter.put(len(records), seconds)
        if verdict.kind is not None:
            self._meter.add_labelled("put_errors", verdict.kind)
        if seconds > self._longest_put:
            self._longest_put = seconds
            self._warn_of_lock(seconds)
        return verdict

    async def _within_time(self, work: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
        """Wait for a call of the sink, which keeps a task that shall stop no longer than the stop's time."""
        call = asyncio.ensure_future(work)
        if self._told is None:
            self._told = asyncio.ensure_future(self._stop.wait())
        told = self._told
        try:
            await asyncio.wait({call, told}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and self._stop.is_set():
                await asyncio.wait({call}, timeout=self._options.stop_timeout)
                if not call.done():
                    raise PutTimedOut(f"it did not end within {self._options.stop_timeout:g} s of the stop")
            if not call.done():
                raise PutTimedOut(f"it took longer than put.timeout.ms, {seconds:g} s")
            return call.result()
        finally:
            await _give_up(call)

    def _warn_of_lock(self, seconds: float) -> None:
        """R5: a put that outlasts the lock is done twice, by somebody else, unless the lock is renewed."""
        lock = self._source.lock_duration
        if lock is not None and (warning := lock_too_short(lock, seconds, can_renew=self._source.can_renew)):
            self._log.warning("a put outlasts the lock", what=warning)

    async def _deal(self, verdict: Verdict, unreadable: Sequence[SourceRecord], polled: float) -> str | None:
        """Tell the source what became of each record; return why the task fails, if it does."""
        failure: str | None = None
        if verdict.error is not None:
            failure = f"the sink's put failed: {sentence(verdict.error)}" if verdict.fails else None
            self._log.warning(
                "put failed",
                kind=verdict.kind,
                why=sentence(verdict.error),
                delivery=most_deliveries([*verdict.released, *verdict.rejected]),
            )
        if verdict.accepted:
            self._source.settle(verdict.accepted, Outcome.ACCEPT)
        released: list[SourceRecord] = list(verdict.released)
        rejected = [*verdict.rejected, *unreadable]
        if rejected:
            why_not = await self._reject(rejected)
            if why_not is not None:
                released += rejected
                what = sentence_or(verdict.error, "the sink rejected them")
                if not verdict.rejected:
                    what = unreadable_why(unreadable)
                failure = f"{where(rejected)} cannot be rejected without being lost ({what}): {why_not}"
        if not released:
            await self._commit(polled)
            return failure
        # then the sink is ill, and others would fare no better meanwhile
        stands_still = verdict.kind is not None or (failure is not None and not self._last)
        last = [record for record in released if self._is_late(record)]
        early = [record for record in released if not self._is_late(record)] if last else released
        if stands_still or last:
            await self._commits.now(polled)  # what is done is done, however long the rest takes
        if early:
            await self._give_back(early, verdict.after_s, polled, waits=stands_still)
        if last:
            self._hold(last, failure or sentence_or(verdict.error, "the sink released them"))
            if verdict.kind is not None and not early:
                delay = self._delay(last, 1, verdict.after_s)
                await self._pause(delay, TaskState.STUCK, self._last_sentence())
        if failure is not None and not verdict.fails and self._last:
            return None  # the record is at fault, not the sink: it is held and told, and the others go on
        return failure

    async def _give_back(self, records: Records, after_s: float | None, polled: float, *, waits: bool) -> None:
        """Release records after a delay that grows with their deliveries (R21); they stay locked until then."""
        delay = self._delay(records, 1, after_s)
        if waits:
            await self._pause(delay, TaskState.WAITING, f"{where(records)} wait {delay:.1f} s before they are released")
            now = asyncio.get_running_loop().time()
            held = [record for record in records if ours(record, now)]
            self._meter.add("lock_lost", len(records) - len(held))
            if held:
                self._source.settle(held, Outcome.RELEASE)
        else:
            self._source.settle(records, Outcome.RELEASE, delay=delay)
        await self._commits.now(polled)

    def _hold(self, records: list[SourceRecord], why: str) -> None:
        """Keep records that the brokers would soon give up; each is tried by itself until it works."""
        self._log.error(
            "records are on their last deliveries and would be lost: they are held here until they work; set up a "
            "dead-letter queue, set reject.without.dlq=true to drop them, or mend the sink",
            records=where(records),
            why=why,
        )
        self._last.add(records, why, asyncio.get_running_loop().time() + self._delay(records, 1, None))
        self._show_last()

    async def _try_last_deliveries(self) -> None:
        """Try what is held and due, one by one; after a failure of the sink the rest waits for the next round."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._lose([record for record in self._last.drop_lost(began) if self._is_last(record)])
        tried = 0
        for record in self._last.due(began):
            if self._stop.is_set():
                break
            tried += 1
            verdict = Verdict(rejected=[record]) if record.error is not None else await self._put([record])
            if verdict.accepted:
                self._source.settle(verdict.accepted, Outcome.ACCEPT)
            elif not verdict.rejected or await self._reject(verdict.rejected) is not None:
                tries = self._last.failed(record)
                delay = min(self._delay([record], tries + 1, verdict.after_s), STUCK_SECONDS)
                self._last.postpone(record, loop.time() + delay)
                if verdict.error is not None:
                    self._last.why = sentence(verdict.error)
                if verdict.fails and not self._stop.is_set():
                    await self._start_sink_again(f"the sink's put failed: {self._last.why}")
                if verdict.kind in ("retriable", "timeout", "unknown"):
                    break
                continue
            self._last.settled(record)
        if tried:
            await self._commits.now(began)
        self._show_last()

    def _show_last(self) -> None:
        self._meter.set("last_delivery_records", len(self._last))
        self._well()

    def _well(self) -> None:
        """Tell that the task works, but for what it holds."""
        if self._last:
            self._meter.be(TaskState.STUCK, self._last_sentence())
        else:
            self._meter.be(TaskState.RUNNING)

    def _last_sentence(self) -> str:
        return f"{where(self._last.records)} held, on their last deliveries: {self._last.why}"

    def _lose(self, records: Records) -> None:
        if records:
            self._meter.add("last_delivery_lost", len(records))
            self._log.error("records on their last delivery had to be let go", records=where(records, most=100))

    async def _reject(self, records: Records) -> str | None:
        """Reject records if that does not lose them against the user's will; return why it was not done."""
        why_not = await self._rejecting.why_not()
        if why_not is None:
            self._source.settle(records, Outcome.REJECT)
            self._rejecting.rejected(len(records))
            self._log.warning("records rejected", records=where(records))
        return why_not

    def _is_late(self, record: SourceRecord) -> bool:
        """Tell whether a record must not be released any more, so that it outlives some restarts: each costs one."""
        limit = self._options.delivery_limit
        if limit is None:
            return False
        return record.delivery_count >= (limit // 2 + 1 if self._source.can_renew else limit)

    def _is_last(self, record: SourceRecord) -> bool:
        """Tell whether the brokers give a record up when it is released."""
        limit = self._options.delivery_limit
        return limit is not None and record.delivery_count >= limit

    def _delay(self, records: Records, failures: int, after_s: float | None) -> float:
        retry = self._options.retry
        delay = growing_delay(retry, most_deliveries(records), failures, random.random())
        delay = max(delay, after_s or 0.0)
        deadlines = [record.lock_deadline for record in records if record.lock_deadline is not None]
        if deadlines and not self._source.can_renew:
            delay = min(delay, max((min(deadlines) - asyncio.get_running_loop().time()) * LOCK_SHARE, 0.0))
        return delay

    async def _pause(self, seconds: float, state: TaskState, why: str) -> None:
        """Wait, or until the task is told to stop; the consumer renews the locks meanwhile."""
        self._meter.be(state, why)
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass
        self._well()

    async def _commit(self, polled: float) -> None:
        if self._source.share_group:
            await self._commits.soon(polled)
        else:  # where all that was settled travels with a commit
            await self._commits.now(polled)

    def _committed(self, settled: Settled, seconds: float) -> None:
        self._meter.settled(settled, seconds)
        if settled.failures:
            self._tell_refusals(settled)

    def _tell_refusals(self, settled: Settled) -> None:
        for failure in settled.failures:
            self._log.warning(
                "acknowledgements were not taken: these records come again",
                partition=f"{failure.partition.topic}-{failure.partition.partition}",
                records=failure.records,
                code=failure.error_code,
                why=failure.message,
            )

    async def _end(self, joined: bool, failed: bool) -> None:
        """Close the source, which releases what is left, then stop the sink; what failed first is what is told."""
        if self._told is not None:
            self._told.cancel()
        await self._commits.end()
        trouble: TaskFailed | None = None
        try:
            if joined:
                await self._source.close(self._options.stop_timeout)
        except (DrainError, AdminError) as error:
            trouble = TaskFailed(f"{self._options.name}: the consumer's close failed: {error}")
        finally:
            trouble = await self._stop_sink() or trouble
        if trouble is not None:
            self._log.warning("the end was not clean", why=trouble.message)
            if not failed:
                raise trouble

    async def _stop_sink(self) -> TaskFailed | None:
        if self._stopped:  # one that could not start again
            return None
        self._stopped = True
        seconds = self._options.stop_timeout
        stopping = asyncio.ensure_future(self._sink.stop())
        try:
            await asyncio.wait({stopping}, timeout=seconds)
            if not stopping.done():
                return TaskFailed(f"{self._options.name}: the sink's stop did not end within {seconds:g} s")
            stopping.result()
        except Exception as error:
            return TaskFailed(f"{self._options.name}: the sink's stop failed: {sentence(error)}")
        finally:
            await _give_up(stopping)
        return None


async def _give_up(call: asyncio.Future[Any]) -> None:
    """Cancel a call of the sink, if it is still under way; one that holds on to that cannot keep the task."""
    if not call.done():
        call.cancel()
        await asyncio.wait({call}, timeout=1.0)
