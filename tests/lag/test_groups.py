"""Group coordinators: which groups there are, their state, their rows."""

from __future__ import annotations

from typing import cast

import pytest

from shareproxy.cluster.errors import InternalTopicMissing, Unreachable
from shareproxy.lag.brokers import Trouble
from shareproxy.lag.groups import (
    Descriptions,
    FoundGroup,
    Listing,
    Listings,
    find_share_groups,
    group_type,
    reads_uncommitted,
)
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId, NodeId
from tests.lag.simulated_brokers import (
    KAFKA_4_0,
    KAFKA_4_1,
    N1,
    N2,
    T1,
    Group,
    SimulatedBrokers,
    Stored,
    Topic,
    soon,
    unreachable,
)

A, B, C = GroupId("a"), GroupId("b"), GroupId("c")


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """Two brokers with share groups a and b, and classic group c."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.groups = {"b": Group(N2, state="Stable"), "a": Group(N1), "c": Group(N1, "classic")}
    brokers.topics["t"] = Topic(T1, [N1], [11])
    brokers.states["a", T1, 0] = Stored(0, 3, 4)
    return brokers


async def test_share_groups_of_all_brokers_by_name(brokers: SimulatedBrokers) -> None:
    """Every broker lists only the groups that it coordinates."""
    found, problems = await find_share_groups(brokers, deadline=soon())

    assert found == [FoundGroup(A, "Empty", N1), FoundGroup(B, "Stable", N2)]
    assert problems == []


@pytest.mark.parametrize("version", [3, 4])
async def test_old_brokers_mix_groups_which_are_told_apart_by_protocol(brokers: SimulatedBrokers, version: int) -> None:
    """Without a type filter (before version 5) consumer groups come along; before 4 there is no state."""
    for apis in brokers.apis.values():
        apis[16] = (0, version)

    found, _ = await find_share_groups(brokers, deadline=soon())

    assert [(row.group, row.state) for row in found] == [
        (A, "Empty" if version == 4 else None),
        (B, "Stable" if version == 4 else None),
    ]


async def test_a_loading_coordinator_is_asked_again(brokers: SimulatedBrokers) -> None:
    """Error 14 while groups are being loaded."""
    brokers.fail_once(m.ListGroupsRequest, m.ListGroupsResponse(error_code=14))

    found, problems = await find_share_groups(brokers, deadline=soon())

    assert ([row.group for row in found], problems) == ([A, B], [])


async def test_a_broker_that_hangs_is_named(brokers: SimulatedBrokers) -> None:
    """The groups of the others are there."""
    brokers.frozen = {N2}

    found, problems = await find_share_groups(brokers, deadline=soon(0.1))

    assert [row.group for row in found] == [A]
    assert len(problems) == 1
    assert "broker 2" in problems[0]


async def test_no_broker_at_all_is_an_error(brokers: SimulatedBrokers) -> None:
    """Nothing must not look like no groups."""
    brokers.frozen = {N1, N2}

    with pytest.raises(Unreachable):
        await find_share_groups(brokers, deadline=soon(0.05))


async def test_rows_come_from_the_coordinator(brokers: SimulatedBrokers) -> None:
    """All initialized partitions, with or without lag as the broker's version has it."""
    found = (await ask_all(Listings(brokers), [A], deadline=soon()))[A]

    assert isinstance(found, Listing)
    assert found.has_lag
    assert [row.lag for topic in found.topics for row in topic.partitions] == [7]


async def test_kafka_4_1_lists_rows_without_lag() -> None:
    """Version 0."""
    brokers = SimulatedBrokers(KAFKA_4_1)
    brokers.groups["a"] = Group()

    found = (await ask_all(Listings(brokers), [A], deadline=soon()))[A]

    assert isinstance(found, Listing)
    assert not found.has_lag


async def test_kafka_4_0_has_no_rows() -> None:
    """The sentence says which Kafka has them."""
    brokers = SimulatedBrokers(KAFKA_4_0)
    brokers.groups["a"] = Group()

    found = (await ask_all(Listings(brokers), [A], deadline=soon()))[A]

    assert isinstance(found, Trouble)
    assert "4.1" in found.message


async def test_a_coordinator_that_moved_is_found_again(brokers: SimulatedBrokers) -> None:
    """Error 16 forgets the coordinator of that group only."""
    group = m.DescribeShareGroupOffsetsResponseGroup("a", [], 16)
    brokers.fail_once(m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse(groups=[group]))

    found = await ask_all(Listings(brokers), [A, B], deadline=soon())

    assert all(isinstance(row, Listing) for row in found.values())
    assert brokers.forgotten == ["group a"]


async def test_an_answer_without_the_group_is_asked_again(brokers: SimulatedBrokers) -> None:
    """Left out is not empty."""
    brokers.fail_once(m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse())
    brokers.fail_once(m.ShareGroupDescribeRequest, m.ShareGroupDescribeResponse())

    rows = await ask_all(Listings(brokers), [A], deadline=soon())
    described = await ask_all(Descriptions(brokers), [A], deadline=soon())

    assert isinstance(rows[A], Listing)
    assert not isinstance(described[A], Trouble)


async def test_one_request_lists_many_groups(brokers: SimulatedBrokers) -> None:
    """A group that the answer leaves out, or refuses, does not spoil the others."""
    brokers.groups["b"].coordinator = N1
    brokers.hidden_groups = {"b"}

    found = await ask_all(Listings(brokers), [A, B], deadline=soon())

    [request] = brokers.sent(m.DescribeShareGroupOffsetsRequest)
    assert [group.group_id for group in cast("m.DescribeShareGroupOffsetsRequest", request).groups] == ["a", "b"]
    assert isinstance(found[A], Listing)
    assert isinstance(found[B], Trouble)


async def test_descriptions_tell_state_and_what_is_no_share_group(brokers: SimulatedBrokers) -> None:
    """One request per coordinator; 69 keeps the broker's text."""
    found = await ask_all(Descriptions(brokers), [A, B, C], deadline=soon())

    states = {group: row.group_state for group, row in found.items() if not isinstance(row, Trouble)}
    assert states == {A: "Empty", B: "Stable"}
    other = found[C]
    assert isinstance(other, Trouble)
    assert (other.error_code, other.message) == (69, "Group c is not a share group.")
    assert len(brokers.sent(m.ShareGroupDescribeRequest)) == 2


async def test_without_the_internal_topic_no_group_exists(brokers: SimulatedBrokers) -> None:
    """A cluster that never had a group."""

    class Fresh(SimulatedBrokers):
        async def group_coordinator(self, group: GroupId, *, deadline: float) -> NodeId:
            raise InternalTopicMissing("__consumer_offsets", "no group has ever been used on it")

    found = (await ask_all(Listings(Fresh()), [A], deadline=soon()))[A]

    assert isinstance(found, Trouble)
    assert found.error_code == 69


async def test_group_type(brokers: SimulatedBrokers) -> None:
    """Any type, or none for a group that is not there."""
    types = [await group_type(brokers, group, deadline=soon()) for group in (A, C, GroupId("nosuch"))]

    assert types == ["share", "classic", None]


async def test_group_type_is_unknown_if_nobody_tells(brokers: SimulatedBrokers) -> None:
    """No exception for a detail of a sentence."""
    brokers.faults.append(lambda _, message: unreachable())

    assert await group_type(brokers, A, deadline=soon(0.05)) is None


@pytest.mark.parametrize(("level", "uncommitted"), [("read_uncommitted", True), ("read_committed", False)])
async def test_isolation_level_is_read_from_the_group_config(
    brokers: SimulatedBrokers, level: str, uncommitted: bool
) -> None:
    """Resource type 32."""
    brokers.groups["a"].isolation = level

    assert await reads_uncommitted(brokers, [A], deadline=soon()) == ({A} if uncommitted else set())


async def test_a_config_that_may_not_be_seen_is_no_proof(brokers: SimulatedBrokers) -> None:
    """Then the lag is called an upper bound."""
    refused = m.DescribeConfigsResult(30, "no", 32, "a", [])
    brokers.fail_once(m.DescribeConfigsRequest, m.DescribeConfigsResponse(results=[refused]))

    assert await reads_uncommitted(brokers, [A], deadline=soon()) == set()

    brokers.fail_once(m.DescribeConfigsRequest, unreachable())

    assert await reads_uncommitted(brokers, [A], deadline=soon()) == set()
