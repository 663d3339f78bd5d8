"""Serve a simulated cluster from the command line, for benchmarks and for a look with other tools.

In: how many nodes, groups and partitions. Out: the bootstrap servers as one line on standard output; then it serves
until SIGTERM or SIGINT. Must never: print anything else to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from shareproxy.testing.simulated import SimulatedCluster

RECORDS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve and return 0 when told to stop."""
    options = _parser().parse_args(arguments)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(options))
    else:
        uvloop.run(_serve(options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shareproxy.testing.simulated", description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=3, help="brokers (default 3)")
    parser.add_argument("--version", default="4.4.0", help="Kafka release they behave like (default 4.4.0)")
    parser.add_argument("--groups", type=int, default=10, help="share groups (default 10)")
    parser.add_argument("--partitions", type=int, default=100, help="share partitions of all groups together")
    parser.add_argument("--topics", type=int, default=None, help="topics; one per group if not given")
    parser.add_argument("--freeze", type=int, action="append", default=[], help="a node that takes requests only")
    parser.add_argument("--patience", type=float, default=None, help="seconds that brokers wait for one another")
    return parser


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    patience = {} if options.patience is None else {"broker_patience": options.patience}
    async with SimulatedCluster(options.nodes, options.version, **patience) as cluster:
        fill(cluster, options.groups, options.partitions, options.topics)
        for node in options.freeze:
            cluster.freeze_node(node)
        sys.stdout.write(f"{cluster.bootstrap_servers}\n")
        sys.stdout.flush()
        await stop.wait()


def fill(cluster: SimulatedCluster, groups: int, partitions: int, topics: int | None = None) -> None:
    """Make groups with share partitions of known lag: partition p of each has lag (p mod 100) + 1, all below 101.

    Args:
        cluster: to be filled.
        groups: named group-0000 and so on.
        partitions: share partitions of all groups together, the same number for each group.
        topics: named topic-0000 and so on, each read by the same number of groups; None for one per group.
    """
    topics = groups if topics is None else topics
    each = max(1, partitions // max(1, groups))
    for number in range(topics):
        topic = f"topic-{number:04}"
        cluster.create_topic(topic, each)
        cluster.produce(topic, range(each), RECORDS + 1)
    for number in range(groups):
        group, topic = f"group-{number:04}", f"topic-{number % topics:04}"
        for start in range(RECORDS):
            if start < each:
                cluster.set_share_state(
                    group, topic, range(start, each, RECORDS), start_offset=RECORDS - start, delivery_complete_count=0
                )
