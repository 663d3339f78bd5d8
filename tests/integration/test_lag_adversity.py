"""The lag engine on a three-node cluster with a node that hangs or is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import GroupLag, Status
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support import scenarios
from tests.support.scenarios import Layout

PARTITIONS = 12


@pytest.fixture(scope="module")
def layout(three_nodes: LocalKafka, three_nodes_driver: ShareDriver) -> Layout:
    """A group with partitions on all three nodes, replicated once."""
    return scenarios.many_partitions(three_nodes_driver, "spread", "spread-group", PARTITIONS)


@pytest.fixture
def frozen_node(three_nodes: LocalKafka, three_nodes_driver: ShareDriver, layout: Layout) -> Iterator[int]:
    """Freeze a node that is not the group's coordinator."""
    coordinator = three_nodes_driver.describe_group(layout.group).coordinator
    node_id = next(node.node_id for node in three_nodes.nodes if node.node_id != coordinator)
    yield node_id
    three_nodes.thaw_node(node_id)


async def _report(engine: LagEngine, group: str, timeout: float) -> GroupLag:
    [found] = (await engine.report([group], timeout=timeout)).groups
    return found


def test_partitions_spread_over_three_nodes(three_nodes: LocalKafka, layout: Layout) -> None:
    """Each share coordinator and each leader is asked for its own."""

    async def run() -> GroupLag:
        async with Cluster(parse_addresses(three_nodes.bootstrap_servers)) as cluster:
            return await _report(LagEngine(cluster), layout.group, 15.0)

    found = asyncio.run(run())

    assert {row.partition: row.lag for row in found.partitions} == layout.lags
    assert found.complete


def test_a_frozen_node_hides_only_its_own_partitions(three_nodes: LocalKafka, layout: Layout, frozen_node: int) -> None:
    """The broker's own answer would take half a minute; ours keeps its deadline and has the other partitions."""

    async def run() -> tuple[GroupLag, float]:
        async with Cluster(parse_addresses(three_nodes.bootstrap_servers)) as cluster:
            engine = LagEngine(cluster)
            await _report(engine, layout.group, 15.0)
            three_nodes.freeze_node(frozen_node)
            loop = asyncio.get_running_loop()
            started = loop.time()
            return await _report(engine, layout.group, 12.0), loop.time() - started

    found, seconds = asyncio.run(run())

    known = {row.partition: row.lag for row in found.partitions if row.lag is not None}
    assert found.partitions_total == PARTITIONS
    assert 0 < len(known) < PARTITIONS
    assert known == {partition: layout.lags[partition] for partition in known}
    statuses = {row.status for row in found.partitions if row.lag is None}
    assert statuses <= {Status.TIMEOUT, Status.NO_LEADER, Status.ERROR}
    assert seconds < 13, "the broker answers after half a minute"
