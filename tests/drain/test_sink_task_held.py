"""A sink task with records that the brokers would soon give up: they are held until they work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.sink import Fatal, Retriable, SinkRecord
from shareproxy.drain.sink_metrics import TaskState
from shareproxy.drain.sink_task import TaskFailed
from tests.drain.fake_consumer import FakeRecord
from tests.drain.task_run import NO_QUEUE, ScriptedSink, TaskRun, raising, records

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


async def test_a_record_on_its_last_delivery_is_held_until_the_sink_works() -> None:
    """Released, the brokers would give it up: it would be lost."""
    tries = []

    def put(batch: Sequence[SinkRecord]) -> None:
        tries.append([record.offset for record in batch])
        if len(tries) < 4:
            raise Retriable("away")

    run = TaskRun(*records(0, 1, delivery_count=5), put=put)

    await run.until(lambda: len(run.consumer.offsets(ACCEPT)) == 2)

    assert run.consumer.offsets(RELEASE) == []
    assert tries[0] == [0, 1]
    assert all(len(batch) == 1 for batch in tries[1:])  # each by itself, so that a bad one costs the others nothing


async def test_records_are_held_before_their_last_delivery_so_that_restarts_do_not_lose_them() -> None:
    """From half of the limit on; a stop gives them back, and nothing is lost yet."""
    run = TaskRun(*records(0, delivery_count=3), put=raising(Retriable("away")))

    async with run.running() as running, asyncio.timeout(5):
        while run.meter.state is not TaskState.STUCK:
            await asyncio.sleep(0)

    assert running.exception() is None
    assert run.meter.counts["last_delivery_lost"] == 0
    assert run.consumer.offsets(RELEASE) == []


async def test_before_half_of_the_limit_records_are_released() -> None:
    """Another task may fare better."""
    run = TaskRun(*records(0, delivery_count=2), put=raising(Retriable("away")))

    await run.until(lambda: run.consumer.offsets(RELEASE) == [0])

    assert run.meter.counts["last_delivery_lost"] == 0


async def test_a_record_on_its_last_delivery_that_cannot_be_rejected_is_held_until_a_queue_works() -> None:
    """The task is stuck meanwhile, and says why."""
    run = TaskRun(*records(0, delivery_count=5), put=raising(Fatal("bad")), why_no_reject=NO_QUEUE)
    async with run.running(), asyncio.timeout(5):
        while run.meter.state is not TaskState.STUCK:
            await asyncio.sleep(0)
        why, run.allow.why = run.meter.why, None
        while not run.consumer.offsets(REJECT):
            await asyncio.sleep(0)
        while run.task._last:
            await asyncio.sleep(0)

    assert "orders-0@0 held, on their last deliveries: " in str(why)
    assert run.consumer.offsets(REJECT) == [0]
    assert run.consumer.offsets(RELEASE) == []


async def test_other_records_go_on_while_one_is_held_on_its_last_delivery() -> None:
    """One poisoned record does not stop a task."""
    poisoned = FakeRecord(0, error=ValueError("not JSON"), delivery_count=5)
    run = TaskRun(poisoned, *records(1, 2, 3), max_records=2, why_no_reject=NO_QUEUE)

    with pytest.raises(TaskFailed, match=r"let go on the last delivery.*: orders-0@0 "):
        await run.until(lambda: run.consumer.offsets(ACCEPT) == [1, 2, 3])

    assert run.consumer.offsets(ACCEPT) == [1, 2, 3]
    assert run.consumer.kinds(0) == []
    assert run.meter.counts["last_delivery_lost"] == 1


async def test_a_sink_that_fails_while_a_record_is_held_is_made_anew_with_the_same_consumer() -> None:
    """A new consumer would lose the record."""
    tries = []

    def put(batch: Sequence[SinkRecord]) -> None:
        tries.append(batch)
        if run.made < 2:
            raise ValueError("the connection is gone for good")

    run = TaskRun(*records(0, delivery_count=5), put=put)

    await run.until(lambda: run.consumer.offsets(ACCEPT) == [0])

    assert run.made == 2
    assert run.sink.calls == ["start", "open orders", "stop", "start", "open orders", "stop"]
    assert run.meter.counts["task_failures"] == 1


async def test_a_sink_that_cannot_start_again_while_a_record_is_held_is_tried_again() -> None:
    """The record is kept all the while."""

    class Rebuilt(ScriptedSink):
        async def start(self, context: Any) -> None:
            await super().start(context)
            if run.made == 2:
                raise OSError("not yet")

    def put(batch: Sequence[SinkRecord]) -> None:
        if run.made < 3:
            raise ValueError("the connection is gone for good")

    run = TaskRun(*records(0, delivery_count=5), sink=Rebuilt(put))

    await run.until(lambda: run.consumer.offsets(ACCEPT) == [0])

    assert run.made == 3
    assert run.consumer.kinds(0) == [ACCEPT]


async def test_a_record_on_its_last_delivery_that_has_to_be_let_go_is_told() -> None:
    """The stop leaves no choice; the record is lost, so the end is not a good one."""
    run = TaskRun(*records(0, delivery_count=5), put=raising(Retriable("full")))
    async with run.running() as running, asyncio.timeout(5):
        while run.meter.state is not TaskState.STUCK:
            await asyncio.sleep(0)
    assert running.exception() is not None
    assert "let go on the last delivery, so that the brokers give them up: orders-0@0 (" in str(running.exception())
    assert "full" in str(running.exception())
    assert run.meter.counts["last_delivery_lost"] == 1
    assert run.consumer.kinds(0) == []


@pytest.mark.parametrize("kind", ["unknown", "timeout"])
async def test_a_sink_that_fails_again_while_a_record_is_held_is_made_anew_again(kind: str) -> None:
    """Also where no other records come, whose put would show that it has to be."""

    async def put(batch: Sequence[SinkRecord]) -> None:
        if run.made < 4:
            if kind == "timeout":
                await asyncio.Event().wait()
            raise ValueError("the connection is gone for good")

    run = TaskRun(*records(0, delivery_count=5), put=put, put_timeout=0.02)

    await run.until(lambda: run.consumer.offsets(ACCEPT) == [0])

    assert run.made == 4
    assert run.consumer.kinds(0) == [ACCEPT]


async def test_a_sink_that_could_not_start_again_is_stopped_once() -> None:
    """A plain one's thread is gone after that, so that a second stop would never end."""

    class Plain:
        stops = 0

        def start(self, context: Any) -> None:
            if run.made > 1:
                raise OSError("not yet")

        def put(self, batch: Sequence[SinkRecord]) -> None:
            raise ValueError("the connection is gone for good")

        def stop(self) -> None:
            self.stops += 1

    sink = Plain()
    run = TaskRun(*records(0, delivery_count=3), sink=sink, stop_timeout=0.3)

    await run.until(lambda: sink.stops >= 3)

    assert sink.stops == run.made
