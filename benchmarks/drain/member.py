"""Drain a share group as fast as it goes, or note how old records are when they come.

In: jobs as lines of stdin, `drain|latency SERVERS GROUP TOPIC COUNT`. Out: results as JSON lines. One process per kind
of member, so that each pays for its own threads. Must never: look at a record less than the others do.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

LONGEST = 90.0
Result = dict[str, Any]


class Tally:
    """Count records between the first and the last one."""

    def __init__(self, *, latency: bool) -> None:
        self.records = self.bytes = 0
        self._latency = latency
        self._begun = self._cpu = 0.0
        self._ages: list[int] = []

    def begin(self) -> None:
        """Start the clocks at the first record."""
        if not self._begun:
            self._begun, self._cpu = time.perf_counter(), time.process_time()

    def add(self, value: bytes) -> None:
        """Take one record."""
        self.records += 1
        self.bytes += len(value)
        if self._latency:
            self._ages.append(time.time_ns() - struct.unpack_from(">q", value)[0])

    def result(self) -> Result:
        """Return what was measured; call it when the last acknowledgement is answered."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": time.perf_counter() - self._begun,
            "cpu": time.process_time() - self._cpu,
            "p50": statistics.median(self._ages) / 1e9 if self._ages else 0.0,
        }


def ours(servers: str, group: str, topic: str, count: int, *, latency: bool, prefetch: bool = False) -> Result:
    """Drain with this package's consumer on uvloop."""
    import uvloop

    return uvloop.run(_ours(servers, group, topic, count, latency=latency, prefetch=prefetch))


async def _ours(servers: str, group: str, topic: str, count: int, *, latency: bool, prefetch: bool) -> Result:
    from shareproxy import ShareConsumer

    tally = Tally(latency=latency)
    deadline = time.monotonic() + LONGEST
    async with ShareConsumer(servers, group, [topic], prefetch=prefetch) as consumer:
        while tally.records < count and time.monotonic() < deadline:
            batch = await consumer.get_batch(timeout=0.5)
            if batch:
                tally.begin()
            for record in batch:
                tally.add(record.value)
            batch.accept()
        await consumer.commit()
        result = tally.result()
    await asyncio.sleep(0)
    return result


def ours_prefetching(servers: str, group: str, topic: str, count: int, *, latency: bool) -> Result:
    """Drain with this package's consumer, which fetches while the caller works."""
    return ours(servers, group, topic, count, latency=latency, prefetch=True)


def confluent(servers: str, group: str, topic: str, count: int, *, latency: bool) -> Result:
    """Drain with librdkafka's consumer as Python has it."""
    from confluent_kafka import ShareConsumer

    tally = Tally(latency=latency)
    deadline = time.monotonic() + LONGEST
    settings = {"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    try:
        while tally.records < count and time.monotonic() < deadline:
            messages = consumer.poll(0.5)
            if messages:
                tally.begin()
            for message in messages:
                value = message.value()
                assert value is not None
                tally.add(value)
                consumer.acknowledge(message)
            if messages and latency:
                consumer.commit_async()
        consumer.commit_sync()
        return tally.result()
    finally:
        consumer.close()


KINDS: dict[str, Callable[..., Result]] = {"ours": ours, "ours-prefetch": ours_prefetching, "confluent": confluent}


def main() -> None:
    """Work on jobs."""
    drain = KINDS[sys.argv[1]]
    for line in sys.stdin:
        work, servers, group, topic, count = line.split()
        try:
            result = drain(servers, group, topic, int(count), latency=work == "latency")
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
