"""The exporter on a simulated cluster of several brokers, with the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.observe.collector import CollectorSettings
from shareproxy.observe.directory import BrokerDirectory
from shareproxy.observe.exporter import Exporter
from shareproxy.testing import SimulatedCluster
from tests.observe.watching import samples

LIST_GROUPS, DESCRIBE_GROUPS, DESCRIBE_OFFSETS = 16, 77, 90
NODES, GROUPS = 3, 12


@asynccontextmanager
async def exporting(cluster: SimulatedCluster, timeout: float = 3.0) -> AsyncIterator[Exporter]:
    """Export what a cluster has."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as client:
        engine = LagEngine(client, timeout=timeout)
        yield Exporter(engine, BrokerDirectory(client), CollectorSettings(timeout=timeout))


def fill(cluster: SimulatedCluster) -> list[str]:
    """Make groups on all coordinators, each with lag 6 on three partitions."""
    cluster.create_topic("t", 3)
    cluster.produce("t", range(3), 10)
    names = [f"g-{number:02}" for number in range(GROUPS)]
    for name in names:
        for partition in range(3):
            cluster.set_share_state(name, "t", partition, start_offset=2, delivery_complete_count=2)
        cluster.join(name, ["t"])
    return names


async def test_requests_grow_with_brokers_not_with_groups() -> None:
    """One list, one description and one question for lag per broker (kafka_exporter#336)."""
    async with SimulatedCluster(nodes=NODES, version="4.4.0") as cluster:
        names = fill(cluster)
        async with exporting(cluster) as exporter:
            await exporter.collector.look()  # also finds the coordinators
            cluster.requests.clear()
            assert await exporter.collector.look()

        asked = {key: cluster.requests.count(key) for key in (LIST_GROUPS, DESCRIBE_GROUPS, DESCRIBE_OFFSETS)}
        assert max(asked.values()) <= 2 * NODES, asked
        lags = samples(exporter, "kafka_sharegroup_lag_sum")
        assert lags[names[0], "t"] == 18
        assert {labels[0] for labels in lags} == set(names)
        assert set(samples(exporter, "kafka_sharegroup_members").values()) == {1}


async def test_a_broker_that_hangs_hides_only_what_it_alone_knows() -> None:
    """Groups of the others are shown within the deadline, and nothing reads as 0 (seglo#386, KAFKA-19435)."""
    async with SimulatedCluster(nodes=NODES, version="4.4.0", broker_patience=30.0) as cluster:
        names = fill(cluster)
        async with exporting(cluster, timeout=1.5) as exporter:
            assert await exporter.collector.look()
            cluster.freeze_node(2)
            try:
                started = asyncio.get_running_loop().time()
                assert await exporter.collector.look()
                took = asyncio.get_running_loop().time() - started
            finally:
                cluster.thaw_node(2)

        shown = samples(exporter, "kafka_sharegroup_lag")
        unknown = samples(exporter, "kafka_sharegroup_partition_status")
        assert set(shown.values()) == {6}
        assert {labels[3] for labels in unknown} <= {"timeout", "no_leader"}
        assert len(shown) + len(unknown) == 3 * GROUPS
        assert {labels[0] for labels in samples(exporter, "kafka_sharegroup_info")} == set(names)
        assert samples(exporter, "shareproxy_snapshot_partial") == {(): 1}
        assert took < 10, "the brokers themselves would take 30 s"
