"""Groups are described with few requests, and each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.descriptions import GroupDescription, describe_groups
from shareproxy.protocol.ids import GroupId
from shareproxy.testing import SimulatedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Three nodes; `g-0` to `g-9` each have two members of topic `t`."""
    async with SimulatedCluster(nodes=3) as cluster:
        cluster.create_topic("t", 3)
        for number in range(10):
            cluster.join(f"g-{number}", ["t"], client_id="b")
            cluster.join(f"g-{number}", ["t"], client_id="a")
        yield cluster


@pytest.fixture
async def brokers(cluster: SimulatedCluster) -> AsyncIterator[Cluster]:
    """A way to the cluster."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as brokers:
        yield brokers


async def describe(brokers: Cluster, *names: str, seconds: float = 5.0) -> dict[GroupId, GroupDescription]:
    """Describe groups within some seconds."""
    deadline = asyncio.get_running_loop().time() + seconds
    return await describe_groups(brokers, list(map(GroupId, names)), deadline=deadline)


async def test_members_are_in_order(brokers: Cluster) -> None:
    """By client id; the group's epochs and its coordinator are there."""
    [found] = (await describe(brokers, "g-1")).values()

    assert [member.client_id for member in found.members] == ["a", "b"]
    assert found.group_epoch is not None
    assert found.assignment_epoch is not None
    assert found.error is None


async def test_a_name_given_twice_counts_once(brokers: Cluster) -> None:
    """In the order in which names come first."""
    assert list(await describe(brokers, "g-2", "g-1", "g-2")) == ["g-2", "g-1"]


async def test_one_request_per_coordinator(cluster: SimulatedCluster, brokers: Cluster) -> None:
    """For all of its groups."""
    await describe(brokers, *(f"g-{number}" for number in range(10)))

    coordinators = {cluster.group_coordinator(f"g-{number}") for number in range(10)}
    assert cluster.requests.count(77) == len(coordinators)


async def test_a_frozen_coordinator_keeps_only_its_own_groups(cluster: SimulatedCluster, brokers: Cluster) -> None:
    """The others' are described within the time."""
    names = [f"g-{number}" for number in range(10)]
    await describe(brokers, *names)
    frozen = cluster.group_coordinator("g-0")
    assert frozen is not None
    cluster.freeze_node(frozen)

    found = await describe(brokers, *names, seconds=0.8)

    errors = {name: found[GroupId(name)].error for name in names}
    assert {name for name, error in errors.items() if error} == {
        name for name in names if cluster.group_coordinator(name) == frozen
    }
    error = errors["g-0"]
    assert error is not None
    assert error.name == "REQUEST_TIMED_OUT"


async def test_a_loading_coordinator_is_asked_again(cluster: SimulatedCluster, brokers: Cluster) -> None:
    """Error 14 passes."""
    with cluster.fail(77, 14, times=2):
        [found] = (await describe(brokers, "g-1")).values()

    assert (found.error, found.state) == (None, "Stable")


async def test_missing_groups_cost_no_more(cluster: SimulatedCluster, brokers: Cluster) -> None:
    """Only one of another type is looked up, to say which."""
    cluster.commit_offsets("c", {"t": {0: 0}})

    found = await describe(brokers, *(f"no-{number}" for number in range(10)), "c")

    names = {name: description.error and description.error.name for name, description in found.items()}
    assert names == {f"no-{number}": "GROUP_ID_NOT_FOUND" for number in range(10)} | {"c": "NOT_A_SHARE_GROUP"}
    assert "check its name" in str(found[GroupId("no-1")].error)
    assert (cluster.requests.count(77) <= 3, cluster.requests.count(16)) == (True, 1)


async def test_no_groups_cost_nothing(cluster: SimulatedCluster, brokers: Cluster) -> None:
    """Not even a request."""
    assert await describe(brokers) == {}
    assert cluster.requests.count(77) == 0
