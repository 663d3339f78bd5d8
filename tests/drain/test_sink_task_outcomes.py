"""What a put returns, raises or does not do, and what becomes of its records; R numbers are those of drain.md."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.sink import Fatal, Outcome, Retriable, SinkRecord
from shareproxy.drain.sink_task import TaskFailed
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.task_run import NO_QUEUE, TaskRun, raising, records

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


async def test_r16_a_retriable_failure_releases_all_and_the_task_goes_on() -> None:
    """The second delivery works."""
    tries = []

    def put(batch: Sequence[SinkRecord]) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            raise Retriable("database is away")

    run = TaskRun(consumer=FakeShareConsumer(records(0, 1), redeliver=True), put=put)

    await run.until(lambda: len(run.consumer.offsets(ACCEPT)) == 2)

    assert run.consumer.offsets(RELEASE) == [0, 1]
    assert run.meter.labelled["put_errors"] == {"retriable": 1}
    assert run.meter.counts["record_redelivery"] == 2


async def test_r17_a_fatal_failure_rejects_all_where_a_queue_works() -> None:
    """The worker writes no dead letters itself; the task goes on."""
    run = TaskRun(*records(0, 1), put=raising(Fatal("no such table")))

    await run.until(lambda: run.consumer.commits)

    assert run.consumer.offsets(REJECT) == [0, 1]
    assert run.allow.count == 2
    assert run.meter.counts["record_reject"] == 2


async def test_r18_outcomes_per_record_are_done_as_given() -> None:
    """One bad record costs the others nothing."""
    run = TaskRun(*records(0, 1, 2), put=lambda batch: [Outcome.ACCEPT, Outcome.REJECT, Outcome.RELEASE])

    await run.until(lambda: run.consumer.commits)

    assert (run.consumer.offsets(ACCEPT), run.consumer.offsets(REJECT), run.consumer.offsets(RELEASE)) == (
        [0],
        [1],
        [2],
    )


@pytest.mark.parametrize("returned", [[Outcome.ACCEPT], "ok", 7, [None, None], {}])
async def test_r18_what_is_no_list_of_outcomes_accepts_nothing(returned: Any) -> None:
    """Which records the sink has cannot be told: all come again, and the task fails with a sentence."""
    run = TaskRun(*records(0, 1), put=lambda batch: returned)

    with pytest.raises(TaskFailed, match=r"connector 'orders', task 0: the sink's put failed: TypeError: put returned"):
        await run.until(lambda: False)

    assert run.consumer.offsets(ACCEPT) == []
    assert run.consumer.offsets(RELEASE) == [0, 1]


async def test_r19_an_unknown_failure_releases_and_fails_the_task() -> None:
    """It is visible, and nothing is rejected."""
    run = TaskRun(*records(0, 1), put=raising(ValueError("what is this")))

    with pytest.raises(TaskFailed, match="the sink's put failed: ValueError: what is this"):
        await run.until(lambda: False)

    assert run.consumer.offsets(RELEASE) == [0, 1]
    assert run.consumer.offsets(REJECT) == []
    assert run.sink.calls[-1] == "stop"


async def test_r19_an_unknown_failure_rejects_where_the_user_says_so() -> None:
    """`unknown.errors = "reject"` is KIP-1302's own rule."""
    run = TaskRun(*records(0), put=raising(ValueError("what is this")), reject_unknown=True)

    await run.until(lambda: run.consumer.commits)

    assert run.consumer.offsets(REJECT) == [0]


async def test_r19_without_a_working_queue_a_fatal_failure_releases_and_fails_the_task() -> None:
    """Nothing is dropped, and the sentence says what to set up."""
    run = TaskRun(*records(0, 1), put=raising(Fatal("no such table")), why_no_reject=NO_QUEUE)

    with pytest.raises(TaskFailed, match=r"2 records \(orders-0@0, orders-0@1\) cannot be rejected .*no dead-letter"):
        await run.until(lambda: False)

    assert run.consumer.offsets(REJECT) == []
    assert run.consumer.offsets(RELEASE) == [0, 1]


async def test_r19_without_a_queue_the_good_records_of_a_batch_are_accepted_all_the_same() -> None:
    """Only the record that cannot be rejected comes again."""
    run = TaskRun(*records(0, 1), put=lambda batch: [Outcome.ACCEPT, Outcome.REJECT], why_no_reject=NO_QUEUE)

    with pytest.raises(TaskFailed):
        await run.until(lambda: False)

    assert run.consumer.offsets(ACCEPT) == [0]
    assert run.consumer.offsets(RELEASE) == [1]


async def test_r20_a_put_that_takes_too_long_is_cancelled_and_its_records_released() -> None:
    """`put.timeout.ms` says how long; the task fails."""
    run = TaskRun(*records(0), put=lambda batch: asyncio.Event().wait(), put_timeout=0.01)

    with pytest.raises(TaskFailed, match=r"put\.timeout\.ms, 0\.01 s"):
        await run.until(lambda: False)

    assert run.consumer.offsets(RELEASE) == [0]
    assert run.meter.labelled["put_errors"] == {"timeout": 1}


async def test_r20_a_put_that_does_not_end_after_the_stop_is_cancelled_and_its_records_released() -> None:
    """The stop is bounded."""
    inside = asyncio.Event()

    async def put(batch: Sequence[SinkRecord]) -> None:
        inside.set()
        await asyncio.Event().wait()

    run = TaskRun(*records(0), put=put, stop_timeout=0.01)
    async with run.running() as running, asyncio.timeout(5):
        await inside.wait()
        run.stop.set()
        with pytest.raises(TaskFailed, match=r"did not end within 0\.01 s of the stop"):
            await running

    assert run.consumer.kinds(0) == [RELEASE]
    assert run.consumer.closed


async def test_r13_a_put_that_fails_while_the_task_is_told_to_stop_gives_back_and_ends_in_order() -> None:
    """The failure was told; the records come again elsewhere."""

    def put(batch: Sequence[SinkRecord]) -> None:
        run.stop.set()
        raise ValueError("odd")

    run = TaskRun(*records(0), put=put)

    await run.until(lambda: run.consumer.closed)

    assert run.consumer.kinds(0) == [RELEASE]


async def test_r20_records_whose_lock_has_gone_are_not_released_any_more() -> None:
    """Somebody else has them; a refused range would void the answers for others of the partition."""
    gone, kept = FakeRecord(0), FakeRecord(1)

    def put(batch: Sequence[SinkRecord]) -> None:
        run.consumer.lose_lock(gone)
        raise Retriable

    run = TaskRun(gone, kept, put=put)

    await run.until(lambda: run.consumer.commits)

    assert run.consumer.kinds(0) == []
    assert run.consumer.kinds(1) == [RELEASE]


async def test_records_whose_lock_ran_out_before_the_put_are_not_put() -> None:
    """That would be a duplicate for certain."""
    consumer = FakeShareConsumer(records(0, 1))
    get_batch = consumer.get_batch

    async def late(max_records: int | None = None, timeout: float | None = None) -> Any:
        batch = await get_batch(max_records, timeout)
        for record in batch:
            if record.offset == 0:
                consumer.lose_lock(record)
        return batch

    consumer.get_batch = late  # type: ignore[method-assign]
    run = TaskRun(consumer=consumer)

    await run.until(lambda: run.consumer.commits)

    assert run.sink.puts == [[1]]
    assert run.meter.counts["lock_lost"] == 1
