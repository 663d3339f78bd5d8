"""Scrape 100,000 lag series, and see how long the event loop is held while they are rendered and sent."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupLag, LagReport, PartitionLag, Source
from shareproxy.lifecycle import GC_THRESHOLDS
from shareproxy.observe.collector import CollectorSettings
from shareproxy.observe.exporter import Exporter
from shareproxy.observe.http import HttpServer
from shareproxy.protocol.ids import GroupId, NodeId, TopicId

GROUPS: Final = 1_000
PARTITIONS: Final = 100
ROUNDS: Final = 15
TARGET_SCRAPE: Final = 0.3
TARGET_HELD: Final = 0.05
# the scraper: a process of its own, as Prometheus is one; it does nothing but receive
SCRAPER: Final = """
import json, socket, sys, time
port, rounds, coding = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
times, body = [], b""
for _ in range(rounds):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        start = time.perf_counter()
        head = f"GET /metrics HTTP/1.1\\r\\nHost: x\\r\\nAccept: {sys.argv[4]}\\r\\n"
        connection.sendall(f"{head}Accept-Encoding: {coding}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        pieces = []
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
        times.append(time.perf_counter() - start)
body = b"".join(pieces).partition(b"\\r\\n\\r\\n")[2]
size = len(body)
if coding == "gzip":
    import gzip
    body = gzip.decompress(body)
assert body.endswith(b"# EOF\\n")
print(json.dumps({"times": times, "bytes": size, "series": body.count(b"\\nkafka_sharegroup_lag{")}))
"""
OPENMETRICS: Final = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


class ManyGroups:
    """An engine and a directory that know 1,000 groups of 100 partitions, and take no time."""

    def __init__(self) -> None:
        self.names = [GroupId(f"orders-service-{number:04}") for number in range(GROUPS)]
        self._report = LagReport("cluster", datetime.now(UTC), tuple(map(self._group, self.names)))
        self._described = {
            name: GroupDescription(name, "Stable", 1, 1, "simple", NodeId(number % 10))
            for number, name in enumerate(self.names)
        }

    @staticmethod
    def _group(name: GroupId) -> GroupLag:
        topic_id = TopicId(bytes(range(16)))
        rows = (
            PartitionLag(
                topic="orders.created.v1", topic_id=topic_id, partition=number, start_offset=1_000_000 + number,
                end_offset=1_234_567, leader_epoch=3, delivery_complete_count=17, lag=234_550 - number,
                source=Source.BROKER, exact=True,
            )
            for number in range(PARTITIONS)
        )  # fmt: skip
        return GroupLag(name, "Stable", None, tuple(rows))

    async def report(
        self, groups: Sequence[str] | None, *, topics: Collection[str] | None = None, timeout: float | None = None
    ) -> LagReport:
        """Return what was made at the beginning."""
        return self._report

    async def groups(self, deadline: float) -> tuple[Sequence[GroupId], Sequence[str]]:
        """Return all names."""
        return self.names, ()

    async def describe(self, groups: Sequence[GroupId], deadline: float) -> Mapping[GroupId, GroupDescription]:
        """Return what was made at the beginning."""
        return self._described


class Held:
    """Measure how long the event loop was held: by the clock, and in time that its thread really ran."""

    def __init__(self) -> None:
        self.clock = self.ran = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Held:
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        await asyncio.sleep(0.002)
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            clock, ran = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            self.clock = max(self.clock, time.perf_counter() - clock - 0.001)
            self.ran = max(self.ran, time.thread_time() - ran)


async def scrape(port: int, coding: str) -> tuple[list[float], int, int]:
    """Return the seconds of each scrape, and bytes and lag series of the last."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRAPER, str(port), str(ROUNDS), coding, OPENMETRICS, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    answer = json.loads(out)
    return answer["times"], answer["bytes"], answer["series"]


def tell(what: str, held: Held) -> float:
    """Print how long the loop was held."""
    print(f"  event loop held while {what}: {held.ran * 1e3:.0f} ms ({held.clock * 1e3:.0f} ms by the clock)")
    return held.ran


async def measure() -> int:
    """Print the figures; 1 if one misses its target."""
    source = ManyGroups()
    exporter = Exporter(source, source, CollectorSettings(interval=3600.0, timeout=60.0))
    server = HttpServer("127.0.0.1", 0, (), exporter)
    await server.start()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    held_longest, worst = 0.0, 0.0
    async with Held() as held:
        started = time.perf_counter()
        for _ in range(3):
            assert await exporter.collector.look(), exporter.collector.failure
        rendering = (time.perf_counter() - started) / 3
    print(f"rendering {GROUPS * PARTITIONS:,} partitions: {rendering:.2f} s, once for each look at the cluster")
    held_longest = max(held_longest, tell("rendering", held))
    rendered = exporter.rendered
    for coding in ("gzip", "identity"):
        async with Held() as held:
            times, size, series = await scrape(server.port, coding)
        assert series == GROUPS * PARTITIONS, series
        median = statistics.median(times)
        if coding == "gzip":  # as Prometheus asks; the other is for orientation
            worst = median
        limit = f" (at most {TARGET_SCRAPE})" if coding == "gzip" else ""
        print(
            f"scrape of {series:,} lag series, {coding}: {median:.3f} s median{limit}, "
            f"{min(times):.3f} to {max(times):.3f}, {size / 1e6:.1f} MB"
        )
        held_longest = max(held_longest, tell("scraped", held))
    assert exporter.rendered == rendered, "a scrape made a page anew"
    print(f"pages rendered by {2 * ROUNDS} scrapes: {exporter.rendered - rendered}")
    print(f"event loop held: {held_longest * 1e3:.0f} ms at most (at most {TARGET_HELD * 1e3:.0f})")
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    await server.stop()
    return 0 if worst <= TARGET_SCRAPE and held_longest <= TARGET_HELD else 1


def main() -> int:
    """Run on the event loop that the service runs on."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


if __name__ == "__main__":
    sys.exit(main())
