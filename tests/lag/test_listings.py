"""All groups of a cluster are listed, of old brokers too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.listings import GroupListing, list_groups
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import ListGroupsResponse, ListGroupsResponseListedGroup
from shareproxy.testing import SimulatedCluster

LIST_GROUPS = 16


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Two nodes with a share group, a classic and a consumer group."""
    async with SimulatedCluster(nodes=2) as cluster:
        cluster.create_topic("t", 1)
        cluster.join("share", ["t"])
        cluster.commit_offsets("classic", {"t": {0: 0}})
        cluster.commit_offsets("consumer", {"t": {0: 0}}, kind="consumer")
        yield cluster


async def listed(
    cluster: SimulatedCluster, types: Collection[str] = (), states: Collection[str] = (), seconds: float = 5.0
) -> GroupListing:
    """List groups within some seconds."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as brokers:
        deadline = asyncio.get_running_loop().time() + seconds
        return await list_groups(brokers, types=types, states=states, deadline=deadline)


async def test_groups_of_every_type_by_name(cluster: SimulatedCluster) -> None:
    """One request per broker."""
    listing = await listed(cluster)

    assert [(row.group, row.type) for row in listing.groups] == [
        ("classic", "classic"),
        ("consumer", "consumer"),
        ("share", "share"),
    ]
    assert (listing.problems, cluster.requests.count(LIST_GROUPS)) == ((), 2)


@pytest.mark.parametrize(
    ("types", "states", "expected"),
    [
        (["Share"], (), ["share"]),
        (["consumer", "CLASSIC"], (), ["classic", "consumer"]),
        ((), ["STABLE"], ["share"]),
        (["consumer"], ["stable"], []),
        (["nosuch"], (), []),
    ],
)
async def test_types_and_states_in_any_case(
    types: Collection[str], states: Collection[str], expected: list[str], cluster: SimulatedCluster
) -> None:
    """Only those that have both."""
    listing = await listed(cluster, types, states)

    assert [row.group for row in listing.groups] == expected


async def test_a_broker_that_refuses_is_named(cluster: SimulatedCluster) -> None:
    """Where all refuse, there is no list."""
    with cluster.fail(LIST_GROUPS, 30, node=1):
        listing = await listed(cluster)
    with cluster.fail(LIST_GROUPS, 30), pytest.raises(ClusterError, match="the groups of broker 1 are missing"):
        await listed(cluster)

    [problem] = listing.problems
    assert problem.startswith("the groups of broker 1 are missing: ")


async def test_a_group_that_two_brokers_list_is_where_it_lives(cluster: SimulatedCluster) -> None:
    """The old coordinator may still name it, dead."""

    def answer(state: str) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[ListGroupsResponseListedGroup("moved", "share", state, "share")])

    cluster.answer_with(LIST_GROUPS, lambda *_: answer("Dead"), node=1)
    cluster.answer_with(LIST_GROUPS, lambda *_: answer("Stable"), node=2)

    [found] = (await listed(cluster)).groups

    assert (found.group, found.state, found.coordinator) == (GroupId("moved"), "Stable", 2)


async def test_a_group_without_a_type_is_classic(cluster: SimulatedCluster) -> None:
    """Applications that only commit may leave the protocol empty; such a row becomes JSON too."""
    row = ListGroupsResponseListedGroup("simple", "", "Empty", "")
    cluster.answer_with(LIST_GROUPS, lambda *_: ListGroupsResponse(groups=[row]))

    listing = await listed(cluster)

    assert listing.to_dict() == {
        "groups": [
            {
                "group": "simple",
                "type": "classic",
                "state": "Empty",
                "coordinator": listing.groups[0].coordinator,
                "protocol": "",
            }
        ],
        "problems": [],
    }
