"""A worker ends: told to stop, hurried, cancelled, or because it cannot go on; what it holds is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.model import Acknowledgement
from shareproxy.drain.sink import Retriable
from tests.drain.fake_consumer import FakeBatch, FakeRecord, FakeShareConsumer
from tests.drain.worker_bench import Bench, ScriptedGroup, nothing, working
from tests.support.virtual_time import in_virtual_time, turns

PATIENCE = 30.0
ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


def test_stopping_lets_handlers_end_and_gives_the_rest_back() -> None:
    """In this order: no new ones, running ones end, what nobody began with and what waits is released, close."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(offset, lock_seconds=1000) for offset in range(4)])

        async def handle(record: FakeRecord) -> None:
            if record.offset == 0:
                raise Retriable(after_s=500)
            await asyncio.sleep(10)

        async with working(consumer, handle, concurrency=1, prefetch=3, stop_timeout=60) as bench:
            await asyncio.sleep(5)
            bench.stop.ask()
            await turns()
            assert sorted(consumer.offsets(RELEASE)) == [0, 2, 3]

        assert consumer.offsets(ACCEPT) == [1]
        assert consumer.left_by_close == []
        assert bench.result is not None
        assert (bench.result.accepted, bench.result.released, bench.result.abandoned) == (1, 3, 0)

    in_virtual_time(scene())


def test_what_comes_at_the_moment_of_the_stop_is_not_begun() -> None:
    """It goes back."""

    async def scene() -> None:
        class StopsIt(FakeShareConsumer):
            async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> FakeBatch:
                batch = await super().get_batch(max_records, timeout)
                bench.stop.ask()
                return batch

        consumer = StopsIt([FakeRecord(0)])
        begun: list[Any] = []

        async def handle(record: Any) -> None:
            begun.append(record)

        bench = Bench(consumer, handle)
        await bench.run()

        assert begun == []
        assert consumer.kinds(0) == [RELEASE]

    in_virtual_time(scene())


def test_a_handler_that_does_not_end_in_time_is_cancelled() -> None:
    """Its record is released, and not accepted."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])

        async def handle(record: Any) -> None:
            await asyncio.sleep(500)

        async with working(consumer, handle, stop_timeout=7) as bench:
            await asyncio.sleep(1)

        assert consumer.kinds(0) == [RELEASE]
        assert bench.result is not None
        assert bench.result.abandoned == 1
        assert asyncio.get_running_loop().time() < 10

    in_virtual_time(scene())


def test_a_second_signal_waits_for_nothing() -> None:
    """Not even for a handler that does not let itself be cancelled."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])

        async def handle(record: Any) -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(50)
                except asyncio.CancelledError:
                    continue

        async with working(consumer, handle, stop_timeout=1000) as bench:
            await asyncio.sleep(1)
            bench.stop.ask()
            await asyncio.sleep(1)
            bench.stop.ask()

        assert [record.offset for record in consumer.left_by_close] == [0]
        assert asyncio.get_running_loop().time() < 10
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        assert asyncio.get_running_loop().time() > 100
        assert consumer.acknowledged == []

    in_virtual_time(scene())


def test_cancelling_the_worker_ends_it_without_waiting_for_handlers() -> None:
    """As asyncio's users expect; what is held is given back."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])

        async def handle(record: Any) -> None:
            await asyncio.sleep(500)

        running = asyncio.create_task(Bench(consumer, handle).run())
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert consumer.kinds(0) == [RELEASE]
        assert consumer.closed
        assert asyncio.get_running_loop().time() < 10

    in_virtual_time(scene())


def test_cancelling_a_worker_that_stops_makes_it_hurry() -> None:
    """The consumer is closed all the same."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000)])

        async def handle(record: Any) -> None:
            await asyncio.sleep(500)

        bench = Bench(consumer, handle, stop_timeout=400)
        running = asyncio.create_task(bench.run())
        await asyncio.sleep(1)
        bench.stop.ask()
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert consumer.closed
        assert asyncio.get_running_loop().time() < 10

    in_virtual_time(scene())


def test_a_group_that_cannot_be_joined_is_told() -> None:
    """And the consumer is closed."""

    async def scene() -> None:
        consumer = FakeShareConsumer()
        consumer.fail_start(DrainError("no broker"))

        with pytest.raises(DrainError, match="no broker"):
            await Bench(consumer, nothing).run()

        assert consumer.closed

    in_virtual_time(scene())


def test_a_consumer_that_cannot_go_on_lets_handlers_end_first() -> None:
    """What they did is accepted, then the reason is raised."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0)])
        consumer.fail(DrainError("not allowed any more"))

        async def handle(record: Any) -> None:
            await asyncio.sleep(3)

        with pytest.raises(DrainError, match="not allowed"):
            await Bench(consumer, handle).run()

        assert consumer.kinds(0) == [ACCEPT]

    in_virtual_time(scene())


def test_told_to_stop_while_it_joins() -> None:
    """It does not wait for the brokers."""

    async def scene() -> None:
        class Joining(FakeShareConsumer):
            async def start(self) -> None:
                await asyncio.sleep(1000)

        consumer = Joining()
        async with working(consumer, nothing) as bench:
            await asyncio.sleep(1)
            assert bench.worker.why_not_ready() == "the worker has not joined its group yet"

        assert asyncio.get_running_loop().time() < 10
        assert consumer.closed

    in_virtual_time(scene())


def test_a_stop_that_costs_records_their_last_delivery_is_counted_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The brokers give them up: those that wait for a try, for a free slot, and one whose handler is cancelled."""

    async def scene() -> None:
        counted = [FakeRecord(offset, delivery_count=3, lock_seconds=1000) for offset in range(3)]
        consumer = FakeShareConsumer([*counted, FakeRecord(3, delivery_count=2, lock_seconds=1000)])

        async def handle(record: FakeRecord) -> None:
            if record.offset == 0:
                raise Retriable(after_s=500)
            await asyncio.sleep(500)

        group = ScriptedGroup(limit=3)
        async with working(consumer, handle, concurrency=1, prefetch=3, stop_timeout=1, group=group) as bench:
            await asyncio.sleep(5)

        assert sorted(consumer.offsets(RELEASE)) == [0, 1, 2, 3]
        assert bench.counts.given_up == 3

    in_virtual_time(scene())

    assert "stopped in the last delivery of records, the brokers give them up" in capsys.readouterr().out


def test_r20_a_stop_says_nothing_of_a_record_whose_lock_is_gone() -> None:
    """It waited for a free place, and its lock ran out at the moment of the stop."""

    async def scene() -> None:
        consumer = FakeShareConsumer([FakeRecord(0, lock_seconds=1000), FakeRecord(1, lock_seconds=5)])

        async def handle(record: FakeRecord) -> None:
            await asyncio.sleep(5)
            bench.stop.ask()

        async with working(consumer, handle, concurrency=1, prefetch=1) as bench:
            await asyncio.sleep(6)

        assert consumer.kinds(1) == []

    in_virtual_time(scene())
