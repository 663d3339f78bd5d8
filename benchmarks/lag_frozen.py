"""Look at share groups on three real nodes of which one hangs (SIGSTOP), beside Kafka's own tool in the same run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import LagReport
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, LocalKafka
from tests.support.living import rows_on_living_nodes
from tests.support.scenarios import Layout, many_partitions

GROUPS = 3
PARTITIONS = 24
AT_MOST = 3.5
TOOL_PATIENCE = 120.0

Rows = dict[tuple[str, int], int | None]


async def look(kafka: LocalKafka, layouts: list[Layout], engine: LagEngine | None = None) -> tuple[LagReport, float]:
    """Look with an engine, or with a new client that knows nothing; return what it found and the seconds."""
    names = [layout.group for layout in layouts]
    start = time.perf_counter()
    if engine is not None:
        return await engine.report(names), time.perf_counter() - start
    async with Cluster(parse_addresses(kafka.bootstrap_servers)) as cluster:
        report = await LagEngine(cluster).report(names)
        return report, time.perf_counter() - start


def judge(name: str, report: LagReport, seconds: float, living: Rows) -> bool:
    """Print what a look brought; tell whether it was fast and right."""
    found: Rows = {(group.group, row.partition): row.lag for group in report.groups for row in group.partitions}
    right = sum(found.get(key) == lag for key, lag in living.items())
    others = sum(lag is not None for key, lag in found.items() if key not in living)
    fine = seconds <= AT_MOST and right == len(living)
    print(
        f"  {name:34} {seconds:5.2f} s (at most {AT_MOST}): {right} of {len(living)} rows on living nodes right, "
        f"{others} others known, {sum(lag is None for lag in found.values())} unknown with a reason"
    )
    return fine


async def run(kafka: LocalKafka, layouts: list[Layout]) -> bool:
    """Freeze a node and look in both ways, then with Kafka's tool."""
    frozen = kafka.nodes[-1].node_id
    async with Cluster(parse_addresses(kafka.bootstrap_servers)) as cluster:
        engine = LagEngine(cluster)
        await engine.report([layout.group for layout in layouts], timeout=30.0)
        living = await rows_on_living_nodes(kafka, layouts, frozen)
        kafka.freeze_node(frozen)
        fine = judge("a client that has looked before", *await look(kafka, layouts, engine), living)
    fine &= judge("a new client", *await look(kafka, layouts), living)
    start = time.perf_counter()
    try:
        groups = [part for layout in layouts for part in ("--group", layout.group)]
        done = kafka.java(
            SHARE_GROUP_COMMAND,
            *("--bootstrap-server", kafka.bootstrap_servers, "--describe", *groups),
            timeout=TOOL_PATIENCE,
        )
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        print(f"  {'kafka-share-groups --describe':34} {time.perf_counter() - start:5.2f} s: {lines[0][:90]} …")
    except subprocess.TimeoutExpired:
        print(f"  {'kafka-share-groups --describe':34} no answer in {TOOL_PATIENCE:.0f} s")
    kafka.thaw_node(frozen)
    return fine


def main() -> int:
    """Print the times."""
    with LocalKafka("4.4.0", nodes=3, progress=print) as kafka:
        with ShareDriver(kafka) as driver:
            layouts = [many_partitions(driver, f"topic-{n}", f"group-{n}", PARTITIONS) for n in range(GROUPS)]
        return 0 if asyncio.run(run(kafka, layouts)) else 1


if __name__ == "__main__":
    sys.exit(main())
