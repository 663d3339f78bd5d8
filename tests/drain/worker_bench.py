"""A worker over a scripted consumer, as the tests of handlers need it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.handler_call import Handler, HandlerCall
from shareproxy.drain.handler_log import HandlerLog
from shareproxy.drain.handler_metrics import HandlerCounts
from shareproxy.drain.handler_parts import WorkerResult, WorkerSettings
from shareproxy.drain.handler_worker import HandlerWorker
from shareproxy.drain.stopping import Stop
from tests.drain.fake_consumer import FakeShareConsumer


async def nothing(record: Any) -> None:
    """Handle it at once."""


class ScriptedGroup:
    """What the brokers say of the group."""

    def __init__(self, *, dead_letters: bool = False, limit: int = 5) -> None:
        self.queue = DeadLetterQueue(dead_letters, "dlq.orders" if dead_letters else "", "" if dead_letters else "none")
        self.limit = limit
        self.asked = 0

    async def dead_letters(self) -> DeadLetterQueue:
        """Return what the script says."""
        self.asked += 1
        return self.queue

    async def delivery_limit(self) -> int:
        """Return what the script says."""
        return self.limit


class Bench:
    """A running worker and all that it was given."""

    def __init__(
        self,
        consumer: FakeShareConsumer,
        handler: Handler,
        *,
        group: ScriptedGroup | None = None,
        time_limit: float | None = None,
        **settings: Any,
    ) -> None:
        self.consumer, self.group = consumer, group or ScriptedGroup()
        self.counts, self.stop = HandlerCounts(), Stop()
        wanted = WorkerSettings(**settings)
        self.worker = HandlerWorker(
            consumer,
            HandlerCall(handler, concurrency=wanted.concurrency, time_limit=time_limit),
            wanted,
            counts=self.counts,
            log=HandlerLog(self.counts, consumer.group),
            stop=self.stop,
            questions=self.group,
            chance=lambda: 0.0,
        )
        self.result: WorkerResult | None = None

    async def run(self) -> WorkerResult:
        """Run it to its end."""
        self.result = await self.worker.run()
        return self.result


@contextlib.asynccontextmanager
async def working(consumer: FakeShareConsumer, handler: Handler, **options: Any) -> AsyncIterator[Bench]:
    """Run a worker beside the block, and stop it in order at its end."""
    bench = Bench(consumer, handler, **options)
    running = asyncio.create_task(bench.run())
    try:
        yield bench
    finally:
        if not bench.stop.asked.is_set():
            bench.stop.ask()
        await running
