"""Look at 1,000 share groups with 100,000 share partitions on ten simulated nodes, in time and memory of one process.

Each look runs in a process of its own; the cluster runs in another.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

NODES, GROUPS, PARTITIONS = 10, 1_000, 100_000
# generous: what counts is how long the look takes
TIMEOUT = 120.0
CALLED = "benchmarks.lag_scale"


@contextlib.contextmanager
def simulated_cluster(nodes: int, groups: int, partitions: int, topics: int | None = None) -> Iterator[str]:
    """Serve a simulated cluster in a process of its own, and give its address."""
    command = [sys.executable, "-m", "shareproxy.testing.simulated", "--nodes", str(nodes), "--groups", str(groups)]
    command += ["--partitions", str(partitions)]
    if topics is not None:
        command += ["--topics", str(topics)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError("the simulated cluster did not start")
            yield address
        finally:
            process.terminate()


def requests_by_name() -> collections.Counter[str]:
    """Count the requests of this process from now on."""
    from shareproxy.cluster.connection import Connection

    counts: collections.Counter[str] = collections.Counter()
    send = Connection.request

    async def counting(self: Connection, message: Any, **more: Any) -> Any:
        counts[type(message).__name__.removesuffix("Request")] += 1
        return await send(self, message, **more)

    Connection.request = counting  # type: ignore[method-assign]
    return counts


class Watchdog:
    """Measures how much processor time passes between two turns of its own on the event loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now

    async def stop(self) -> float:
        """Return the longest hold in seconds."""
        await asyncio.sleep(0.002)
        self._task.cancel()
        return self.longest


async def look(address: str, source: str) -> None:
    """Look twice with one engine, and print what it took."""
    from shareproxy.cluster.addresses import parse_addresses
    from shareproxy.cluster.cluster import Cluster
    from shareproxy.lag.engine import LagEngine
    from shareproxy.lag.model import SourceChoice
    from shareproxy.lifecycle import GC_THRESHOLDS

    # as in the service: the collector must not walk all objects at each large answer
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    counts = requests_by_name()
    async with Cluster(parse_addresses(address)) as cluster:
        engine = LagEngine(cluster, source=SourceChoice(source), timeout=TIMEOUT)
        for number in ("first", "second"):
            counts.clear()
            watchdog = Watchdog()
            wall, processor = time.perf_counter(), time.process_time()
            report = await engine.report(None)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            held = await watchdog.stop()
            rows = sum(group.partitions_total for group in report.groups)
            known = sum(group.partitions_known for group in report.groups)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"  {source:8} {number:6} look: {wall:6.2f} s, {processor:6.2f} s of our processor time, "
                f"loop held for {held * 1000:.0f} ms at most, "
                f"peak {peak:4.0f} MiB, {known} of {rows} partitions of {len(report.groups)} groups known"
            )
            print(
                f"           requests {sum(counts.values())}: " + ", ".join(f"{n} {c}" for n, c in counts.most_common())
            )
            for problem in report.problems:
                print(f"           {problem}")


def main() -> int:
    """Start the cluster and run the looks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    options = parser.parse_args()
    if options.address:
        asyncio.run(look(options.address, options.source))
        return 0
    print(f"{NODES} simulated nodes, {options.groups} groups, {options.partitions} share partitions")
    print("at most 10 s and 300 MiB by the brokers' own answers, at most 30 s by summaries")
    code = 0
    with simulated_cluster(NODES, options.groups, options.partitions) as address:
        for source in ("auto", "summary"):
            command = [sys.executable, "-m", CALLED, "--address", address, "--source", source]
            code |= subprocess.run(command, check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
