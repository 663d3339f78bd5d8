"""A sink task over a fake consumer and a sink of the test's, ready to run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.share_source import ShareSource
from shareproxy.drain.sink import Outcome, SinkRecord, TaskContext
from shareproxy.drain.sink_calls import SinkCalls
from shareproxy.drain.sink_metrics import TaskMeter
from shareproxy.drain.sink_task import SinkTask
from shareproxy.drain.task_options import TaskOptions
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer

QUICK = Retry(first_s=0.001, max_s=0.002, in_place=0)
NO_QUEUE = "group 'orders' has no dead-letter queue"
Put = Callable[[Sequence[SinkRecord]], Any]


def records(*offsets: int, delivery_count: int = 1) -> list[FakeRecord]:
    """Return records of one partition."""
    return [FakeRecord(offset, delivery_count=delivery_count) for offset in offsets]


def raising(error: BaseException) -> Put:
    """Return a put that raises."""

    def put(batch: Sequence[SinkRecord]) -> None:
        raise error

    return put


class ScriptedSink:
    """A sink whose `put` is a function of the test's; it notes everything in the consumer's journal."""

    def __init__(self, put: Put = lambda batch: None, journal: list[Any] | None = None) -> None:
        self.puts: list[list[int]] = []
        self.values: list[Any] = []
        self.calls: list[str] = []
        self.context: TaskContext | None = None
        self._put, self._journal = put, [] if journal is None else journal

    async def start(self, context: TaskContext) -> None:
        """Note it."""
        self.context = context
        self.calls.append("start")

    async def open(self, topics: Sequence[str]) -> None:
        """Note it."""
        self.calls.append(f"open {','.join(topics)}")

    async def put(self, batch: Sequence[SinkRecord]) -> Sequence[Outcome] | None:
        """Do what the test wants."""
        self.puts.append([record.offset for record in batch])
        self._journal.append(("put", batch[0].offset))
        result = self._put(batch)
        if asyncio.iscoroutine(result):
            result = await result
        self.values += [record.value for record in batch]
        self._journal.append(("returned", batch[0].offset))
        answer: Sequence[Outcome] | None = result
        return answer

    async def stop(self) -> None:
        """Note it."""
        self.calls.append("stop")


class Allow:
    """Rejecting is allowed, or not, as the test says."""

    def __init__(self, why: str | None = None) -> None:
        self.why, self.count, self.asked = why, 0, 0

    async def why_not(self) -> str | None:
        """Answer."""
        self.asked += 1
        return self.why

    def rejected(self, count: int) -> None:
        """Count."""
        self.count += count


class TaskRun:
    """A task under test with everything around it."""

    def __init__(
        self,
        *records: FakeRecord,
        put: Put = lambda batch: None,
        sink: Any = None,
        consumer: FakeShareConsumer | None = None,
        why_no_reject: str | None = None,
        **options: Any,
    ) -> None:
        self.consumer = consumer or FakeShareConsumer(records)
        self.sink = ScriptedSink(put, self.consumer.journal) if sink is None else sink
        self.allow = Allow(why_no_reject)
        self.meter = TaskMeter("orders", 0, share_group=True)
        self.stop = asyncio.Event()

        def make(on_event: Callable[[Any], None]) -> FakeShareConsumer:
            self.consumer.on_event = on_event
            return self.consumer

        self.source = ShareSource(make, on_event=self.meter.on_event)
        self.options = TaskOptions(
            **{
                "connector": "orders",
                "task_id": 0,
                "retry": QUICK,
                "delivery_limit": 5,
                "stop_timeout": 0.5,
                "poll": 0.01,
                **options,
            }
        )
        self.made = 0

        def make_sink() -> SinkCalls:
            self.made += 1
            return SinkCalls(self.sink, "sink")

        self.task = SinkTask(self.options, self.source, make_sink, self.allow, self.meter, self.stop)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run it until the block ends."""
        running = asyncio.create_task(self.task.run())
        try:
            yield running
        finally:
            self.stop.set()
            await asyncio.gather(running, return_exceptions=True)

    async def until(self, condition: Callable[[], object], seconds: float = 5.0) -> None:
        """Run it until something is true, then stop it in order; what it raises is raised."""
        async with self.running() as running:
            async with asyncio.timeout(seconds):
                while not condition() and not running.done():
                    await asyncio.sleep(0)
            self.stop.set()
            await running
        assert condition()
