"""Time ShareAdmin.lag of 1,000 partitions on a real Kafka 4.4.0 beside the bare request to the same broker."""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.rounds import median_ratio, print_times
from benchmarks.share_groups import group_with_partitions
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup
from shareproxy.testing.kafka import LocalKafka

PARTITIONS = 1_000
ROUNDS = 101
WARM_UP = 60
GROUP = GroupId("bench-admin")
WITH_ENDS = "ShareAdmin.lag with end offsets"
TIMEOUT = 30.0


async def compare(bootstrap_servers: str) -> dict[str, list[float]]:
    """Ask in turn, and return the seconds of each round."""
    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.visible_model import Want

    times: dict[str, list[float]] = {"bare request": [], "ShareAdmin.lag": [], WITH_ENDS: []}
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
    async with (
        Cluster(parse_addresses(bootstrap_servers)) as bare,
        Cluster(parse_addresses(bootstrap_servers)) as cluster,
        ShareAdmin.over(cluster, timeout=TIMEOUT) as admin,
    ):
        loop = asyncio.get_running_loop()
        node_id: NodeId = await bare.group_coordinator(GROUP, deadline=loop.time() + TIMEOUT)
        for number in range(WARM_UP + ROUNDS):
            start = time.perf_counter()
            answer = await bare.request(node_id, request, deadline=loop.time() + TIMEOUT)
            between = time.perf_counter()
            report = await admin.lag(GROUP)
            end = time.perf_counter()
            closer = await admin.lag(GROUP, want=Want.LOG_END)
            last = time.perf_counter()
            known = sum(row.lag >= 0 for topic in answer.groups[0].topics for row in topic.partitions)
            if not known == report.groups[0].partitions_known == PARTITIONS:
                raise RuntimeError(f"{known} and {report.groups[0].partitions_known} of {PARTITIONS} lags are known")
            if any(row.end_offset is None for row in closer.groups[0].partitions):
                raise RuntimeError("an end offset is not known")
            # the brokers' JIT needs some rounds before it holds still
            if number >= WARM_UP:
                times["bare request"].append(between - start)
                times["ShareAdmin.lag"].append(end - between)
                times[WITH_ENDS].append(last - end)
    return times


def main() -> int:
    """Print the ratio."""
    with LocalKafka("4.4.0", progress=print) as kafka:
        group_with_partitions(kafka, GROUP, PARTITIONS)
        times = asyncio.run(compare(kafka.bootstrap_servers))
    ratio = median_ratio(times, "ShareAdmin.lag", "bare request")
    print(f"ShareAdmin.lag of {PARTITIONS} partitions ÷ the bare request: {ratio:.2f} (at most 1.1)")
    ratio = median_ratio(times, WITH_ENDS, "bare request")
    print(f"  and with end offsets, which the bare request does not bring: {ratio:.2f}")
    print_times(times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
