"""What members of share groups are told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shareproxy.protocol import messages as m
from shareproxy.testing import SimulatedCluster
from tests.testing.simulation.asking import Client


class Beating:
    """A member that sends heartbeats."""

    def __init__(self, client: Client, member_id: str, group: str = "g") -> None:
        self.client, self.member_id, self.group = client, member_id, group
        self.epoch = 0

    async def beat(
        self, topics: Sequence[str] | None = None, epoch: int | None = None
    ) -> m.ShareGroupHeartbeatResponse:
        """Send one, and take the epoch of the answer."""
        epoch = self.epoch if epoch is None else epoch
        named = None if topics is None else list(topics)
        answer = await self.client.ask(m.ShareGroupHeartbeatRequest(self.group, self.member_id, epoch, None, named))
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer


def partitions(answer: m.ShareGroupHeartbeatResponse) -> list[int] | None:
    """Return the partitions of an answer, None where it has no assignment."""
    if answer.assignment is None:
        return None
    return [index for topic in answer.assignment.topic_partitions for index in topic.partitions]


async def members(cluster: SimulatedCluster, *names: str) -> list[Beating]:
    """Return members that share a connection; the coordinator is there."""
    cluster.group_coordinator("g")
    client = await Client.to(cluster)
    return [Beating(client, name) for name in names]


async def test_a_member_joins_and_is_assigned() -> None:
    """Later answers have no assignment while it is the same, unless the member names its topics."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t", 2)
        [ada] = await members(cluster, "ada")
        joined = await ada.beat(["t"])
        assert (joined.error_code, joined.member_id, joined.heartbeat_interval_ms) == (0, "ada", 5000)
        assert partitions(joined) == [0, 1]
        assert partitions(await ada.beat()) is None
        assert partitions(await ada.beat(["t"])) == [0, 1]
        described = await ada.client.ask(m.ShareGroupDescribeRequest(["g"]))
        assert [row.member_epoch for row in described.groups[0].members] == [ada.epoch]


async def test_partitions_are_shared_out() -> None:
    """Each has as few members as can be, and each member one, as far as there are any."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t", 2)
        ada, bob, cyd = await members(cluster, "ada", "bob", "cyd")
        await ada.beat(["t"])
        assert partitions(await bob.beat(["t"])) == [1]
        assert partitions(await ada.beat()) == [0]
        assert partitions(await cyd.beat(["t"])) == [0]
        await ada.beat(epoch=-1)
        assert sorted(partitions(await bob.beat(["t"])) or [] + (partitions(await cyd.beat(["t"])) or [])) != []


async def test_epochs() -> None:
    """The one before is taken as well: its answer may have been lost. Others are fenced, and 0 joins again."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        ada, bob = await members(cluster, "ada", "bob")
        await ada.beat(["t"])
        before = ada.epoch
        await bob.beat(["t"])
        await ada.beat()
        now = ada.epoch
        assert now > before
        lost = await ada.beat(epoch=before)
        assert (lost.error_code, lost.member_epoch, partitions(lost)) == (0, now, None)
        assert [(await ada.beat(epoch=epoch)).error_code for epoch in (now + 1, before - 1)] == [110, 110]
        again = await ada.beat(["t"], epoch=0)
        assert (again.error_code, again.member_epoch, partitions(again)) == (0, now, [0])


@pytest.mark.parametrize(
    ("member", "group", "epoch", "topics", "code"),
    [
        ("", "g", 0, ["t"], 42),
        ("x" * 37, "g", 0, ["t"], 42),
        ("ada", "", 0, ["t"], 42),
        ("ada", "g", 0, None, 42),
        ("ada", "g", 0, [], 42),
        ("ada", "g", -2, ["t"], 42),
        ("ada", "g", 3, None, 69),
        ("ada", "g", -1, None, 69),
        ("ada", "consumers", 0, ["t"], 69),
    ],
)
async def test_refusals(member: str, group: str, epoch: int, topics: list[str] | None, code: int) -> None:
    """What no well-meaning member asks, and groups of another type."""
    async with SimulatedCluster(internal_partitions=1) as cluster:
        cluster.commit_offsets("consumers", {})
        [ada] = await members(cluster, member)
        ada.group = group
        assert (await ada.beat(topics, epoch=epoch)).error_code == code


async def test_who_has_left_is_unknown() -> None:
    """Leaving twice is not possible."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        ada, bob = await members(cluster, "ada", "bob")
        await bob.beat(["t"])
        await ada.beat(["t"])
        left = await ada.beat(epoch=-1)
        assert (left.error_code, left.member_epoch, left.heartbeat_interval_ms) == (0, -1, 0)
        assert [(await ada.beat(epoch=epoch)).error_code for epoch in (-1, 4)] == [25, 25]


async def test_a_full_group() -> None:
    """It takes nobody until somebody leaves."""
    async with SimulatedCluster(most_members=1) as cluster:
        cluster.create_topic("t")
        ada, bob = await members(cluster, "ada", "bob")
        await ada.beat(["t"])
        assert (await bob.beat(["t"])).error_code == 81
        await ada.beat(epoch=-1)
        assert (await bob.beat(["t"])).error_code == 0


async def test_a_silent_member_is_forgotten() -> None:
    """After the group's session timeout; another one gets its partitions."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t", 2)
        cluster.set_group_config("g", {"share.session.timeout.ms": "40", "share.heartbeat.interval.ms": "10"})
        ada, bob = await members(cluster, "ada", "bob")
        assert (await ada.beat(["t"])).heartbeat_interval_ms == 10
        await bob.beat(["t"])
        while partitions(await bob.beat()) != [0, 1]:
            await asyncio.sleep(0.005)
        assert (await ada.beat()).error_code == 25


async def test_a_late_assignment() -> None:
    """First an empty one, then the right one with the next epoch, as brokers need their time."""
    async with SimulatedCluster(assignment_delay=0.02) as cluster:
        cluster.create_topic("t")
        [ada] = await members(cluster, "ada")
        joined = await ada.beat(["t"])
        assert partitions(joined) == []
        while (answer := await ada.beat()).assignment is None:
            await asyncio.sleep(0.005)
        assert partitions(answer) == [0]
        assert answer.member_epoch == joined.member_epoch + 1


async def test_assignments_can_be_held() -> None:
    """Until the script lets them go."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        cluster.hold_assignments("g")
        [ada] = await members(cluster, "ada")
        assert partitions(await ada.beat(["t"])) == []
        assert partitions(await ada.beat()) is None
        cluster.hold_assignments("g", held=False)
        assert partitions(await ada.beat()) == [0]


async def test_topics_come_later() -> None:
    """Nothing is assigned of a topic that does not exist, or that coordinators do not know yet."""
    async with SimulatedCluster() as cluster:
        [ada] = await members(cluster, "ada")
        assert partitions(await ada.beat(["t"])) == []
        cluster.create_topic("t")
        assert partitions(await ada.beat()) == [0]
        assert partitions(await ada.beat(["t", "u"])) == [0]


async def test_the_script_can_fence_a_member() -> None:
    """As if its session had timed out."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        [ada] = await members(cluster, "ada")
        await ada.beat(["t"])
        cluster.fence("g", "ada")
        assert (await ada.beat()).error_code == 25
        with pytest.raises(ValueError, match="has no member 'ada'"):
            cluster.fence("g", "ada")


async def test_rights() -> None:
    """READ on the group, DESCRIBE on the topics; and the feature has to be on."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        [ada] = await members(cluster, "ada")
        cluster.deny("DESCRIBE", "TOPIC", "t")
        assert (await ada.beat(["t"])).error_code == 29
        cluster.deny("READ", "GROUP", "g")
        assert (await ada.beat(["t"])).error_code == 30
        cluster.set_share_version(0)
        assert (await ada.beat(["t"])).error_code == 35
