"""Whether a user may consume, before it joins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.rights_check import check_rights
from shareproxy.testing.simulated import SimulatedCluster


@pytest.fixture
async def simulated() -> AsyncIterator[SimulatedCluster]:
    """A cluster with two topics, and a group of somebody else's, without which it had no coordinator."""
    async with SimulatedCluster() as made:
        made.create_topic("orders", 1)
        made.create_topic("mails", 1)
        made.commit_offsets("others", {"orders": {0: 0}})
        yield made


async def check(simulated: SimulatedCluster, *topics: str) -> None:
    """Check the rights on group "workers" and topics."""
    async with Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster:
        await check_rights(cluster, "workers", topics, deadline=asyncio.get_running_loop().time() + 10)


async def test_with_every_right_nothing_is_said(simulated: SimulatedCluster) -> None:
    """Of a group that is not there yet, too; and nothing is made of it."""
    await check(simulated, "orders", "mails")

    assert simulated.list_share_groups() == []


@pytest.mark.parametrize("kind", ["none", "share", "classic", "consumer"])
@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
async def test_a_group_that_may_not_be_read(simulated: SimulatedCluster, kind: str, operation: str) -> None:
    """Of whatever type, there or not; without DESCRIBE it cannot be read either."""
    if kind == "share":
        simulated.join("workers", ["orders"])
    elif kind != "none":
        simulated.commit_offsets("workers", {"orders": {0: 0}}, kind=kind)
    simulated.deny(operation, "GROUP", "workers")

    with pytest.raises(AccessDenied, match=r"lacks READ on group 'workers'; grant it: .*--group workers$") as error:
        await check(simulated, "orders")
    assert (error.value.operation, error.value.resource, error.value.code) == ("READ", "group 'workers'", 30)


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
async def test_a_topic_that_may_not_be_read(simulated: SimulatedCluster, operation: str) -> None:
    """The others are not named."""
    simulated.deny(operation, "TOPIC", "mails")

    with pytest.raises(AccessDenied, match=r"lacks READ on topic 'mails'; .*--operation Read --topic mails$") as error:
        await check(simulated, "orders", "mails")
    assert (error.value.operation, error.value.resource, error.value.code) == ("READ", "topic 'mails'", 29)


async def test_all_that_is_missing_is_named_at_once(simulated: SimulatedCluster) -> None:
    """With one command for all of it."""
    simulated.deny("READ", "GROUP", "workers")
    simulated.deny("READ", "TOPIC", "orders")
    simulated.deny("READ", "TOPIC", "mails")

    with pytest.raises(
        AccessDenied,
        match=r"READ on group 'workers' and topic 'orders' and topic 'mails'; .* --group workers --topic orders "
        "--topic mails$",
    ):
        await check(simulated, "orders", "mails")


async def test_a_topic_that_is_not_there_is_not_denied(simulated: SimulatedCluster) -> None:
    """Nothing is told of it."""
    await check(simulated, "orders", "later")


async def test_before_the_first_group_of_a_cluster_nothing_is_told_of_one() -> None:
    """Nor is a coordinator made to find out."""
    async with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.deny("READ", "GROUP", "workers")

        await check(simulated, "orders")

        async with Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster:
            metadata = await cluster.metadata(None, deadline=asyncio.get_running_loop().time() + 10)
        assert set(metadata.topics) == {"orders"}


async def test_nobody_answers() -> None:
    """Without a broker nothing can be said."""
    async with Cluster(parse_addresses("127.0.0.1:1")) as cluster:
        with pytest.raises(CannotReach):
            await check_rights(cluster, "g", ["t"], deadline=asyncio.get_running_loop().time() + 0.3)
