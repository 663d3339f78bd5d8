"""A sink task that releases records: when, and how long it waits before (R21)."""

from __future__ import annotations

import asyncio

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.sink import Outcome, Retriable
from shareproxy.drain.sink_metrics import TaskState
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.task_run import TaskRun, raising, records

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


async def test_r21_the_delay_before_a_release_grows_with_the_deliveries() -> None:
    """The lock is held meanwhile: the consumer renews it."""
    delays = []
    run = TaskRun(put=raising(Retriable()), delivery_limit=None)
    pause = run.task._pause

    async def note(seconds: float, state: TaskState, why: str) -> None:
        delays.append(seconds)
        assert run.consumer.held
        await pause(0.0, state, why)

    run.task._pause = note  # type: ignore[method-assign]
    run.task._options = run.options = type(run.options)(connector="orders", task_id=0)
    for delivery in (1, 2, 3):
        run.consumer.give(FakeRecord(0, delivery_count=delivery))

    async with run.running(), asyncio.timeout(5):
        while len(delays) < 1:
            await asyncio.sleep(0)

    assert delays[0] >= 3.2  # three deliveries at once: that of the oldest counts, 1 s · 2², less a fifth of chance


async def test_r21_a_release_of_single_records_does_not_hold_up_the_task() -> None:
    """The consumer keeps them for the delay; the next batch is put meanwhile."""
    run = TaskRun(
        *records(0, 1, 2),
        put=lambda batch: [Outcome.RELEASE if record.offset == 0 else Outcome.ACCEPT for record in batch],
        max_records=2,
    )
    await run.until(lambda: run.consumer.commits == 2)

    (released,) = [made for made in run.consumer.acknowledged if made.kind is RELEASE]
    assert released.delay > 0
    assert run.consumer.offsets(ACCEPT) == [1, 2]


async def test_r21_retriable_may_ask_for_a_longer_delay() -> None:
    """`after_s` is a minimum."""
    run = TaskRun(*records(0), put=raising(Retriable(after_s=0.05)))
    loop = asyncio.get_running_loop()
    began = loop.time()

    await run.until(lambda: run.consumer.offsets(RELEASE))

    assert loop.time() - began >= 0.05


async def test_r21_without_renewal_the_delay_stays_below_the_lock() -> None:
    """As with Kafka 4.1."""
    consumer = FakeShareConsumer(records(0), can_renew=False, lock_seconds=30.0)
    run = TaskRun(consumer=consumer)
    await consumer.start()
    batch = await run.source.get_batch(1, 1.0)

    assert 20.0 < run.task._delay(batch, 1, 1000.0) < 30.0
