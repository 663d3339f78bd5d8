"""What is found out before a share group is joined."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from shareproxy.admin.errors import NotAShareGroup, NotSupported, WrongArgument
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import ClusterError
from shareproxy.drain.checks import Standing, check_share_group, lock_too_short, refuse_keys
from shareproxy.drain.consumer_keys import GROUP_CONFIGS, REFUSED_IN_SHARE
from shareproxy.testing.simulated import SimulatedCluster
from tests.lag.simulated_brokers import KAFKA_4_0, SimulatedBrokers, soon


async def look(simulated: SimulatedCluster, group: str = "workers", topics: Collection[str] = ("orders",)) -> Standing:
    """Check a group of a simulated cluster."""
    async with Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster:
        deadline = asyncio.get_running_loop().time() + 10
        return await check_share_group(cluster, group, topics, deadline=deadline)


async def test_all_is_well() -> None:
    """A new name on a cluster with share groups."""
    async with SimulatedCluster(2) as simulated:
        simulated.create_topic("orders", 2)

        assert await look(simulated) == Standing(exists=False, can_count_records=True)


async def test_group_that_is_there() -> None:
    """A share group may be joined by any number of members."""
    async with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.join("workers", ["orders"])

        assert (await look(simulated)).exists is True


@pytest.mark.parametrize("kind", ["classic", "consumer"])
async def test_r6_empty_group_of_another_type(kind: str) -> None:
    """R6: a group with commits and without members blocks the name; the sentence names it, its type, a way out."""
    async with SimulatedCluster(3) as simulated:
        simulated.create_topic("orders", 1)
        simulated.commit_offsets("workers", {"orders": {0: 0}}, kind=kind)

        with pytest.raises(NotAShareGroup, match=rf"the name 'workers' is taken.*{kind}.*state Empty.*'share-workers'"):
            await look(simulated)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
async def test_r6_live_group_of_another_type(kind: str) -> None:
    """R6: so does one with members."""
    async with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.join_consumer_group("workers", ["orders"], kind=kind)

        with pytest.raises(NotAShareGroup, match="the name 'workers' is taken"):
            await look(simulated)


async def test_r4_share_groups_switched_off() -> None:
    """R4: Kafka 4.1 has share groups only once the feature is switched on; the APIs are offered before."""
    async with SimulatedCluster(version="4.1.2") as simulated:
        simulated.set_share_version(0)

        with pytest.raises(
            NotSupported, match=r"switched off.*share.version is at 0.*upgrade --feature share.version=1"
        ):
            await look(simulated)


async def test_r4_brokers_without_the_apis() -> None:
    """R4: Kafka 4.0 offers none of them."""
    with pytest.raises(NotSupported, match=r"have no share groups.*API 76, 78, 79\) version 1.*Kafka 4\.1"):
        await check_share_group(SimulatedBrokers(KAFKA_4_0), "workers", ["orders"], deadline=soon())


@pytest.mark.parametrize("key", sorted({*REFUSED_IN_SHARE, *GROUP_CONFIGS}))
def test_r3_keys_of_the_group(key: str) -> None:
    """R3: what Java's share consumer refuses, and what only a group has, is refused with what to do instead."""
    with pytest.raises(WrongArgument, match=rf"share.properties: {key}"):
        refuse_keys(["security.protocol", key], "share.properties")


def test_r3_names_the_config_of_the_group() -> None:
    """R3: the sentence has the key to set, and where."""
    with pytest.raises(
        WrongArgument, match=r"auto.offset.reset is not for a share group; set the group config share\."
    ):
        refuse_keys(["auto.offset.reset"], "share.properties")
    refuse_keys(["client.rack", "security.protocol", "sasl.jaas.config", "group.id"], "share.properties")


async def test_kafka_4_1_counts_no_records() -> None:
    """Exact numbers of records, and renewal, come with Kafka 4.2."""
    async with SimulatedCluster(version="4.1.2") as simulated:
        simulated.set_share_version(1)
        simulated.create_topic("orders", 1)

        assert (await look(simulated)).can_count_records is False


async def test_topic_that_is_not_there() -> None:
    """A name with a mistake in it would give no records for ever, and no error."""
    async with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)

        [note] = (await look(simulated, topics=["orders", "ordres"])).notes

    assert note.startswith("topic 'ordres' does not exist, or this user may not see it")


async def test_nobody_answers() -> None:
    """Without a broker nothing can be said."""
    async with SimulatedCluster() as simulated:
        addresses = simulated.bootstrap_servers
    async with Cluster(parse_addresses(addresses)) as cluster:
        with pytest.raises(ClusterError):
            await check_share_group(cluster, "g", ["t"], deadline=asyncio.get_running_loop().time() + 0.5)


@pytest.mark.parametrize(
    ("lock", "put", "can_renew", "sentence"),
    [
        (30.0, 5.0, True, None),
        (30.0, 29.0, False, None),
        (30.0, 30.0, True, "a batch takes 30.0 s and its locks last 30.0 s: they have to be renewed"),
        (15.0, 40.0, False, "these brokers cannot renew them"),
    ],
)
def test_r5_lock_and_work(lock: float, put: float, can_renew: bool, sentence: str | None) -> None:
    """R5: a warning where a put takes as long as the lock, with the group config that helps."""
    warning = lock_too_short(lock, put, can_renew=can_renew)

    if sentence is None:
        assert warning is None
    else:
        assert warning is not None
        assert sentence in warning
        assert "share.record.lock.duration.ms" in warning
