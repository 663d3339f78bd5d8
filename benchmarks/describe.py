"""Time DescribeShareGroupOffsets of 1,000 share partitions: direct, through the proxy, and derived on Kafka 4.1."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from benchmarks.rounds import interleaved, median_ratio, print_times
from benchmarks.serving import PlainClient, serving, wait_for_port
from benchmarks.share_groups import DRAINED_TOPIC, group_with_partitions
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from shareproxy.testing.kafka import LocalKafka

PARTITIONS = 1_000
ROUNDS = 21
GROUP = "bench-describe"


def asking(client: PlainClient) -> Callable[[], None]:
    """Return a call that asks for all partitions and insists on a lag for each."""
    topic = DescribeShareGroupOffsetsRequestTopic(DRAINED_TOPIC, list(range(PARTITIONS)))
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, [topic])])

    client.ask(ApiVersionsRequest(), 0)  # as every client does first: the proxy learns what the broker speaks

    def ask() -> None:
        answer = client.ask(request, 1)
        known = sum(row.lag >= 0 for topic in answer.groups[0].topics for row in topic.partitions)
        if known != PARTITIONS:
            raise RuntimeError(f"{known} of {PARTITIONS} partitions have a lag")

    return ask


def main() -> int:
    """Print the two ratios."""
    with contextlib.ExitStack() as stack:
        contestants = {}
        for version in ("4.4.0", "4.1.2"):
            kafka = stack.enter_context(LocalKafka(version, progress=print))
            group_with_partitions(kafka, GROUP, PARTITIONS)
            _, port = stack.enter_context(serving(kafka.bootstrap_servers))
            wait_for_port(port)
            contestants[f"{version} through the proxy"] = asking(PlainClient("127.0.0.1", port))
            if version == "4.4.0":
                node = kafka.nodes[0]
                contestants[f"{version} direct"] = asking(PlainClient(node.host, node.port))
        # the brokers' JIT needs some rounds before it holds still
        times = interleaved(contestants, ROUNDS, warm_up=15)
    through = median_ratio(times, "4.4.0 through the proxy", "4.4.0 direct")
    derived = median_ratio(times, "4.1.2 through the proxy", "4.4.0 direct")
    print(f"4.4.0 through the proxy ÷ direct: {through:.2f} (at most 1.25)")
    print(f"4.1.2 through the proxy ÷ 4.4.0 direct: {derived:.2f} (at most 2)")
    print_times(times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
