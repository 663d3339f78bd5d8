"""A worker accepts what its handler returned for, tries the rest again, and gives back what it cannot do."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.worker_bench import ScriptedGroup, nothing, working
from tests.support.virtual_time import in_virtual_time, turns

PATIENCE = 30.0
ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


def failing(error: BaseException, times: int = 1_000_000) -> Any:
    """Return a handler that fails so many times for each record, and the times of its calls."""
    calls: list[tuple[int, float]] = []

    async def handle(record: FakeRecord) -> None:
        calls.append((record.offset, asyncio.get_running_loop().time()))
        if sum(offset == record.offset for offset, _ in calls) <= times:
            raise error

    return handle, calls


def test_what_the_handler_returned_for_is_accepted() -> None:
    """Each record once, and the broker's answers are counted."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset) for offset in range(20)])
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)

        assert sorted(consumer.offsets(ACCEPT)) == list(range(20))
        assert bench.result is not None
        assert bench.result.accepted == 20
        assert consumer.closed

    in_virtual_time(scene())


def test_r23_nothing_is_accepted_before_the_handler_returned() -> None:
    """While the handler works the record has no acknowledgement."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])

        async def slow(record: Any) -> None:
            await asyncio.sleep(5)
            consumer.journal.append(("returned", record.offset))

        async with working(consumer, slow):
            await asyncio.sleep(6)

        assert consumer.journal == [("returned", 0), ("accept", 0)]

    in_virtual_time(scene())


def test_acknowledgements_do_not_wait_for_the_next_record() -> None:
    """With nothing more to fetch they are sent by themselves."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)

            assert bench.counts.outcomes["accept"] == 1
            assert consumer.commits >= 1

    in_virtual_time(scene())


def test_as_many_handlers_run_at_once_as_were_asked_for() -> None:
    """Not one more; and a worker holds no more than these and the prefetched ones."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset) for offset in range(100)])
        running, most = 0, 0

        async def handle(record: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1

        async with working(consumer, handle, concurrency=4, prefetch=3):
            await asyncio.sleep(60)

        assert most == 4
        assert consumer.most_held == 7
        assert len(consumer.offsets(ACCEPT)) == 100
        assert max(asked or 0 for asked in consumer.asked) == 7

    in_virtual_time(scene())


@pytest.mark.parametrize("error", [ValueError("no"), Retriable("busy"), SystemExit(1), asyncio.CancelledError()])
def test_r21_a_failed_record_is_tried_again_here_after_growing_delays(error: BaseException) -> None:
    """No delivery is spent while the lock is renewed."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])
        handle, calls = failing(error, times=3)
        async with working(consumer, handle, retry=Retry(first_s=1, factor=2, jitter=0)) as bench:
            await asyncio.sleep(30)

        assert [at for _, at in calls] == [0, 1, 3, 7]
        assert consumer.kinds(0) == [ACCEPT]
        assert bench.counts.retries["in_place"] == 3

    in_virtual_time(scene())


def test_r21_a_record_that_keeps_failing_is_released_after_a_longer_delay() -> None:
    """It goes back slowly, and the next delivery goes on where the delays were."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=10_000)], redeliver=True)
        handle, calls = failing(ValueError("no"))
        async with working(consumer, handle, retry=Retry(first_s=1, factor=2, max_s=100, in_place=1, jitter=0)):
            await asyncio.sleep(50)

        assert [at for _, at in calls] == [0, 1, 3, 7, 15, 31]
        assert consumer.kinds(0)[:2] == [RELEASE, RELEASE]

    in_virtual_time(scene())


def test_the_handler_says_how_long_to_wait() -> None:
    """`Retriable(after_s=…)` takes the place of the growing delay."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])
        handle, calls = failing(Retriable(after_s=17), times=1)
        async with working(consumer, handle):
            await asyncio.sleep(30)

        assert [at for _, at in calls] == [0, 17]

    in_virtual_time(scene())


def test_a_record_that_waits_for_its_next_try_takes_no_place() -> None:
    """The others go on meanwhile."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset, lock_seconds=1000) for offset in range(50)])

        async def handle(record: FakeRecord) -> None:
            if record.offset < 10:
                raise Retriable(after_s=100)

        async with working(consumer, handle, concurrency=2, prefetch=0):
            await asyncio.sleep(1)
            assert sorted(consumer.offsets(ACCEPT)) == list(range(10, 50))

    in_virtual_time(scene())


def test_with_too_many_waiting_records_no_more_are_fetched() -> None:
    """When everything fails, nothing is gained by having more of it in hand."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset, lock_seconds=1000) for offset in range(100)])
        handle, calls = failing(Retriable(after_s=100))
        async with working(consumer, handle, concurrency=2, prefetch=0, max_waiting=10):
            await asyncio.sleep(50)

            assert 10 <= len(calls) <= 12
            assert consumer.most_held <= 12

    in_virtual_time(scene())


def test_without_renewal_a_record_goes_back_before_its_lock_runs_out() -> None:
    """Kafka 4.1: no delay is longer than what is left of the lock."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)], lock_seconds=10, can_renew=False)
        handle, calls = failing(ValueError("no"))
        async with working(consumer, handle, retry=Retry(first_s=60, max_s=60, jitter=0)) as bench:
            await asyncio.sleep(9)

        assert len(calls) == 1
        assert consumer.kinds(0) == [RELEASE]
        assert bench.counts.lock_lost == 0

    in_virtual_time(scene())


@pytest.mark.parametrize("error", [RejectRecord("never"), Fatal("never")])
def test_r22_a_record_that_will_never_work_is_rejected_where_that_is_safe(error: Exception) -> None:
    """A dead-letter queue works."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        handle, calls = failing(error)
        async with working(consumer, handle, group=ScriptedGroup(dead_letters=True)) as bench:
            await asyncio.sleep(1)

        assert len(calls) == 1
        assert consumer.kinds(0) == [REJECT]
        assert bench.counts.outcomes["reject"] == 1

    in_virtual_time(scene())


def test_r22_only_what_will_never_work_is_rejected() -> None:
    """An ordinary failure comes again, however well a dead-letter queue works."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        handle, _ = failing(ValueError("no"))
        retry = Retry(in_place=0, jitter=0)
        async with working(consumer, handle, group=ScriptedGroup(dead_letters=True), retry=retry):
            await asyncio.sleep(5)

        assert consumer.kinds(0) == [RELEASE]

    in_virtual_time(scene())


def test_r22_without_a_dead_letter_queue_it_is_released_slowly_and_counted() -> None:
    """Rejected, it would be gone and nobody would know."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        handle, calls = failing(RejectRecord("never"))
        async with working(consumer, handle, retry=Retry(first_s=2, jitter=0)) as bench:
            await asyncio.sleep(1.9)
            assert consumer.acknowledged == []
            await asyncio.sleep(1)

        assert len(calls) == 1
        assert consumer.kinds(0) == [RELEASE]
        assert bench.counts.not_rejected == 1

    in_virtual_time(scene())


def test_r22_the_user_may_want_rejected_records_dropped() -> None:
    """`reject_without_dlq`; then nobody needs to ask."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        handle, _ = failing(RejectRecord("never"))
        async with working(consumer, handle, reject_without_dlq=True) as bench:
            await asyncio.sleep(1)

        assert consumer.kinds(0) == [REJECT]
        assert bench.group.asked == 0

    in_virtual_time(scene())


@pytest.mark.parametrize(("outcome", "kind"), [(Outcome.ACCEPT, ACCEPT), (Outcome.RELEASE, RELEASE)])
def test_a_handler_may_return_an_outcome(outcome: Outcome, kind: Acknowledgement) -> None:
    """For who likes it better than exceptions."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])

        async def handle(record: Any) -> Outcome:
            return outcome

        async with working(consumer, handle):
            await asyncio.sleep(5)

        assert consumer.kinds(0) == [kind]

    in_virtual_time(scene())


def test_r11_what_cannot_be_decoded_never_reaches_the_handler() -> None:
    """It is treated like one that will never work."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, error=ValueError("no JSON")), FakeRecord(1)])
        handle, calls = failing(ValueError(), times=0)
        async with working(consumer, handle, group=ScriptedGroup(dead_letters=True)) as bench:
            await asyncio.sleep(1)

        assert [offset for offset, _ in calls] == [1]
        assert consumer.kinds(0) == [REJECT]
        assert bench.counts.undecodable == 1

    in_virtual_time(scene())


def test_r20_a_handler_over_its_time_limit_is_cancelled_and_its_record_released() -> None:
    """It waits like any failed record, and is not tried again here."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        cancelled: list[int] = []

        async def handle(record: FakeRecord) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                cancelled.append(record.offset)
                raise

        async with working(consumer, handle, time_limit=3) as bench:
            await asyncio.sleep(10)

        assert cancelled == [0]
        assert consumer.kinds(0) == [RELEASE]
        assert bench.counts.timed_out == 1

    in_virtual_time(scene())


async def test_r20_a_thread_over_its_time_limit_keeps_its_place() -> None:
    """There are never more of them at work than were asked for; its record is released meanwhile."""
    consumer = FakeShareConsumer([FakeRecord(0), FakeRecord(1)])
    begun: list[int] = []
    go, loop, second = threading.Event(), asyncio.get_running_loop(), asyncio.Event()

    def handle(record: FakeRecord) -> None:
        begun.append(record.offset)
        if record.offset == 0:
            assert go.wait(PATIENCE)
        else:
            loop.call_soon_threadsafe(second.set)

    retry = Retry(first_s=0.001, jitter=0)
    working_slowly = working(consumer, handle, concurrency=1, time_limit=0.01, retry=retry)
    async with asyncio.timeout(PATIENCE), working_slowly as bench:
        while consumer.kinds(0) != [RELEASE]:
            await asyncio.sleep(0.001)
        await turns()
        assert (bench.counts.running, bench.counts.queued) == (1, 1)
        go.set()
        await second.wait()

    assert begun == [0, 1]


def test_r20_after_its_lock_is_gone_nothing_is_said_of_a_record() -> None:
    """Somebody else may have it; the handler's work is counted as lost."""

    async def scene() -> None:
        record = FakeRecord(0)
        consumer = FakeShareConsumer([record])

        async def handle(taken: FakeRecord) -> None:
            consumer.lose_lock(taken)

        async with working(consumer, handle) as bench:
            await asyncio.sleep(1)

        assert consumer.acknowledged == []
        assert bench.counts.lock_lost == 1
        assert bench.result is not None
        assert bench.result.lock_lost == 1

    in_virtual_time(scene())


def test_a_record_whose_lock_ran_out_in_the_queue_is_not_begun() -> None:
    """It would be a duplicate for sure."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0), FakeRecord(1, lock_seconds=5)])
        begun: list[int] = []

        async def handle(record: FakeRecord) -> None:
            begun.append(record.offset)
            await asyncio.sleep(10)

        async with working(consumer, handle, concurrency=1, prefetch=1) as bench:
            await asyncio.sleep(30)

        assert begun == [0]
        assert consumer.kinds(1) == []
        assert bench.counts.dropped == 1

    in_virtual_time(scene())


def test_an_acknowledgement_that_the_broker_refuses_is_counted() -> None:
    """By its code, and never as done."""

    async def scene() -> None:
        record = FakeRecord(0)
        consumer = FakeShareConsumer([record])
        consumer.refuse(record, 121)
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)

        assert bench.counts.refused == {121: 1}
        assert bench.counts.outcomes["accept"] == 0
        assert bench.result is not None
        assert bench.result.unconfirmed == 1

    in_virtual_time(scene())


def test_the_last_delivery_is_said_aloud() -> None:
    """After it the brokers give the record up."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, delivery_count=3), FakeRecord(1, delivery_count=2)])
        handle, _ = failing(ValueError("no"))
        retry = Retry(in_place=0, jitter=0)
        async with working(consumer, handle, retry=retry, group=ScriptedGroup(limit=3)) as bench:
            await asyncio.sleep(10)

        assert bench.counts.given_up == 1

    in_virtual_time(scene())


def test_acknowledgements_that_cannot_be_sent_do_not_end_the_worker() -> None:
    """The next ones may get through."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        consumer.fail_commit(DrainError("the line broke"))
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)
            consumer.give(FakeRecord(1))
            await asyncio.sleep(1)

        assert bench.counts.outcomes["accept"] == 2

    in_virtual_time(scene())


def test_readiness_says_what_is_missing() -> None:
    """Assigned partitions, or that it stops."""

    async def scene() -> None:
        consumer = FakeShareConsumer()
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)
            assert bench.worker.why_not_ready() is None
            consumer.lost = "node 1: connection refused"
            assert str(bench.worker.why_not_ready()).endswith("is reached: node 1: connection refused")
            consumer.assignment = frozenset()
            assert "no partitions are assigned" in str(bench.worker.why_not_ready())
            bench.stop.ask()
            assert bench.worker.why_not_ready() == "the worker is stopping"

    in_virtual_time(scene())


def test_counts_of_what_is_in_hand_come_back_to_zero() -> None:
    """Whatever happened to the records."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset, lock_seconds=100) for offset in range(30)])

        async def handle(record: FakeRecord) -> None:
            await asyncio.sleep(record.offset % 4)
            if record.offset % 3 == 0:
                raise ValueError
            if record.offset % 5 == 0:
                consumer.lose_lock(record)

        async with working(consumer, handle, concurrency=3, time_limit=2.5) as bench:
            await asyncio.sleep(5)
            assert bench.counts.in_hand > 0

        assert (bench.counts.queued, bench.counts.running, bench.counts.waiting) == (0, 0, 0)

    in_virtual_time(scene())
