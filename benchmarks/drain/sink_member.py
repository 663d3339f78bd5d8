"""Drain a share group through sinks, or by hand, and tell how long it took or how much memory it needed.

In: jobs as lines of stdin, `WORK SERVERS GROUP TOPIC COUNT`; the kind of member and PostgreSQL's URL as arguments.
Out: results as JSON lines. Must never: keep what an earlier job has counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog
import uvloop

from benchmarks.drain.measured_sinks import NoOpSink, SlowSink, StalledSink, sink_class
from benchmarks.drain.member import LONGEST, Result, Tally
from benchmarks.drain.postgresql_loop import INSERT, row, table_settings
from benchmarks.proxy.usage import resident_bytes
from shareproxy import ShareConsumer
from shareproxy.drain.sink_config import SinkSettings, load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker

GROUP_TASKS = (2, 4)
SETTLE_SECONDS = 3.0
WARM_RECORDS = 2_000
NOOP = sink_class(NoOpSink)


async def consumer(servers: str, group: str, topic: str, count: int, *, commit: bool = False) -> Result:
    """Drain with the consumer alone; acknowledgements go with the next fetch, or are waited for after each batch."""
    tally, deadline = Tally(latency=False), time.monotonic() + LONGEST
    async with ShareConsumer(servers, group, [topic]) as member:
        while tally.records < count and time.monotonic() < deadline:
            batch = await member.get_batch(timeout=0.5)
            if not batch:
                continue
            tally.begin()
            for record in batch:
                tally.add(record.value)
            batch.accept()
            if commit:
                await member.commit()
        await member.commit()
        return tally.result()


async def executemany(servers: str, group: str, topic: str, count: int, *, url: str) -> Result:
    """Drain into PostgreSQL as people write it by hand."""
    import asyncpg

    tally, deadline = Tally(latency=False), time.monotonic() + LONGEST
    connection = await asyncpg.connect(url)
    try:
        async with ShareConsumer(servers, group, [topic]) as member:
            while tally.records < count and time.monotonic() < deadline:
                batch = await member.get_batch(timeout=0.5)
                if not batch:
                    continue
                tally.begin()
                await connection.executemany(INSERT, [row(record) for record in batch])
                tally.records += len(batch)
                batch.accept()
            await member.commit()
            return tally.result()
    finally:
        await connection.close()


async def sink(
    servers: str,
    group: str,
    topic: str,
    count: int,
    *,
    kind: str = NOOP,
    settings: str = "",
    implicit: bool = False,
) -> Result:
    """Drain with one task of the sink worker until brokers have confirmed all; in implicit mode until all are put."""
    more = '"share.acknowledgement.mode" = "implicit"' if implicit else ""
    async with _worker(servers, group, topic, kind, more=more, settings=settings) as worker:
        (meter,) = worker.meters
        await _until(lambda: meter.counts["record_read"] > 0)
        begun, cpu = time.perf_counter(), time.process_time()
        counter = "record_send" if implicit else "record_acknowledge"
        await _until(lambda: meter.counts[counter] >= count, every=0.01)  # looking costs what is measured
        return {"records": count, "seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}


async def elastic(servers: str, group: str, topic: str, count: int) -> Result:
    """Tell how many records a second two tasks do with a slow sink, and six; each is looked at for `count` ms."""
    slow, few = sink_class(SlowSink), '"consumer.override.max.poll.records" = 200'
    async with _worker(servers, group, topic, slow, tasks=GROUP_TASKS[0], more=few) as two:
        before = await _rate([two], count / 1000)
        async with _worker(servers, group, topic, slow, tasks=GROUP_TASKS[1], more=few) as four:
            after = await _rate([two, four], count / 1000)
    return {"records": count, "two": before, "six": after}


async def idle(servers: str, group: str, topic: str, count: int) -> Result:
    """Tell the resident memory with so many tasks that have joined and have nothing to do."""
    async with _worker(servers, group, topic, NOOP, tasks=count) as worker:
        await _until(lambda: worker.why_not_ready() is None)
        await asyncio.sleep(SETTLE_SECONDS)
        return {"records": count, "bytes": resident_bytes([os.getpid()])}


async def stalled_sink(servers: str, group: str, topic: str, count: int) -> Result:
    """Tell by how much memory grows at most in `count` ms of a sink that holds on to its first batch."""
    await _warm(servers, group, topic)
    StalledSink.stalled, before = False, resident_bytes([os.getpid()])
    async with _worker(servers, group, topic, sink_class(StalledSink)):
        await _until(lambda: StalledSink.stalled)
        most = await _most_memory(count / 1000)
    return {"records": count, "bytes": most - before}


async def stalled_consumer(servers: str, group: str, topic: str, count: int) -> Result:
    """Tell the same of a consumer that fetches ahead, and whose caller holds on to its first batch."""
    await _warm(servers, group, topic)
    before = resident_bytes([os.getpid()])
    async with ShareConsumer(servers, group, [topic], prefetch=True) as member:
        batch = await member.get_batch(timeout=LONGEST)
        most = await _most_memory(count / 1000)
        batch.release()
    return {"records": count, "bytes": most - before}


async def _warm(servers: str, group: str, topic: str) -> None:
    """Use everything once: what code and libraries need is not what a stalled sink needs."""
    await sink(servers, group, topic, WARM_RECORDS)


async def _most_memory(seconds: float) -> int:
    most, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, resident_bytes([os.getpid()]))
        await asyncio.sleep(0.05)
    return most


async def _rate(workers: list[SinkWorker], seconds: float) -> float:
    """Return confirmed records a second, from when every task has begun."""
    meters = [meter for worker in workers for meter in worker.meters]
    await _until(lambda: all(meter.counts["record_acknowledge"] > 0 for meter in meters))
    before, begun = sum(map(_acknowledged, workers)), time.monotonic()
    await asyncio.sleep(seconds)
    return (sum(map(_acknowledged, workers)) - before) / (time.monotonic() - begun)


def _acknowledged(worker: SinkWorker) -> int:
    return int(sum(meter.counts["record_acknowledge"] for meter in worker.meters))


async def _until(condition: Callable[[], bool], every: float = 0.001) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {LONGEST:g} s")
        await asyncio.sleep(every)


@contextlib.asynccontextmanager
async def _worker(
    servers: str, group: str, topic: str, kind: str, *, tasks: int = 1, more: str = "", settings: str = ""
) -> AsyncIterator[SinkWorker]:
    worker = SinkWorker(_settings(servers, group, topic, kind, tasks, more, settings), BrokerParts())
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def _settings(servers: str, group: str, topic: str, kind: str, tasks: int, more: str, settings: str) -> SinkSettings:
    text = f"""
[worker]
"bootstrap.servers" = "{servers}"
"task.shutdown.graceful.timeout.ms" = 200
[connectors.bench]
class = "{kind}"
topics = ["{topic}"]
"tasks.max" = {tasks}
"consumer.override.group.protocol" = "share"
"share.group.id" = "{group}"
{more}
[connectors.bench.sink]
{settings}
"""
    with tempfile.TemporaryDirectory(prefix="drain-bench-") as directory:
        file = Path(directory, "sink.toml")
        file.write_text(text)
        return load_sink_settings(file)


def main() -> None:
    """Work on jobs."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    name, *arguments = sys.argv[1:]
    kinds: dict[str, Callable[..., Awaitable[Result]]] = {
        "consumer": consumer,
        "consumer-commit": lambda *job: consumer(*job, commit=True),
        "noop": sink,
        "noop-implicit": lambda *job: sink(*job, implicit=True),
        "executemany": lambda *job: executemany(*job, url=arguments[0]),
        "postgresql": lambda *job: sink(*job, kind="postgresql", settings=table_settings(arguments[0])),
        "elastic": elastic,
        "idle": idle,
        "stalled-sink": stalled_sink,
        "stalled-consumer": stalled_consumer,
    }
    for line in sys.stdin:
        _, servers, group, topic, count = line.split()

        async def job(*words: Any) -> Result:
            return await kinds[name](*words)

        try:
            result = uvloop.run(job(servers, group, topic, int(count)))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
