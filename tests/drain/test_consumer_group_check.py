"""What is wrong with a consumer group or its topics is told before joining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach, UnknownTopic, WrongArgument
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.consumer_group_check import check_consumer_group
from shareproxy.testing import SimulatedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Topic `t`, consumer group `c`, share group `s`."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        cluster.produce("t", 0, 5)
        cluster.commit_offsets("c", {"t": {0: 1}})
        cluster.set_share_state("s", "t", 0, start_offset=0)
        yield cluster


async def check(cluster: SimulatedCluster, group: str, *topics: str) -> None:
    """Check within some seconds."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as brokers:
        deadline = asyncio.get_running_loop().time() + 5
        await check_consumer_group(brokers, group, topics, deadline=deadline)


@pytest.mark.parametrize("group", ["c", "new"])
async def test_a_consumer_group_or_none_is_fine(cluster: SimulatedCluster, group: str) -> None:
    """Nothing is made by looking."""
    await check(cluster, group, "t")


async def test_r6_the_name_of_a_share_group_is_refused(cluster: SimulatedCluster) -> None:
    """Also while it has no members."""
    with pytest.raises(WrongArgument, match="'s' is taken: it is a share group, state Empty"):
        await check(cluster, "s", "t")


async def test_a_topic_that_is_not_there_is_named(cluster: SimulatedCluster) -> None:
    """And one that may not be seen."""
    with pytest.raises(UnknownTopic, match="'nowhere' does not exist"):
        await check(cluster, "c", "t", "nowhere")
    cluster.deny("DESCRIBE", "TOPIC", "t")
    with pytest.raises(AccessDenied, match="grant DESCRIBE and READ"):
        await check(cluster, "c", "t")


async def test_groups_that_nobody_lists_are_no_reason_to_refuse(cluster: SimulatedCluster) -> None:
    """The answer to the join tells, too."""
    cluster.cut(16, times=None)
    await check(cluster, "s", "t")


async def test_an_unreachable_cluster_is_told() -> None:
    """With the sentence of the connection."""
    async with Cluster(parse_addresses("127.0.0.1:1")) as brokers:
        with pytest.raises(CannotReach):
            await check_consumer_group(brokers, "c", ["t"], deadline=asyncio.get_running_loop().time() + 0.2)
