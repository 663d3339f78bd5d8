"""Joining, being forgotten, coordinators that move, and groups that take nobody: what the caller sees."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy import (
    AccessDenied,
    AssignmentChanged,
    CannotReach,
    ConsumerEvent,
    GroupFull,
    GroupIsFull,
    MemberFenced,
    NotAShareGroup,
    NotSupported,
    Security,
    TopicPartition,
    WrongArgument,
)
from shareproxy.drain.membership import HeartbeatOutcome, Membership
from shareproxy.protocol import messages as m
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of, of_type, take, until

GROUP, TOPIC = "workers", "orders"
FAST = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "50"}


def prepared(cluster: SimulatedCluster) -> SimulatedCluster:
    """Give a cluster a topic with three records, and a group that begins with them."""
    cluster.create_topic(TOPIC)
    cluster.set_group_config(GROUP, FAST)
    cluster.produce(TOPIC, 0, 3)
    return cluster


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_a_coordinator_that_is_not_ready(code: int) -> None:
    """Cold clusters answer so for a while: it is asked, or looked up, again."""
    async with SimulatedCluster() as cluster:
        prepared(cluster).fail(76, code, step="join", times=2)

        async with consumer_of(cluster, GROUP, TOPIC) as consumer:
            assert len(await take(consumer, 3)) == 3


async def test_the_coordinator_moves() -> None:
    """The member is told by the old one, finds the new one, and stays the same member."""
    async with SimulatedCluster(nodes=2) as cluster:
        prepared(cluster)
        async with consumer_of(cluster, GROUP, TOPIC) as consumer:
            await take(consumer, 3)
            old = cluster.group_coordinator(GROUP)
            assert old is not None
            cluster.move_group_coordinator(GROUP, 3 - old)
            before = cluster.requests.count(76, 3 - old)
            await until(lambda: cluster.requests.count(76, 3 - old) > before + 1, "it beats at the new coordinator")

            assert {each.member_id for each in cluster.requests.messages(m.ShareGroupHeartbeatRequest)} == {
                consumer.member_id
            }


async def test_a_forgotten_member_joins_again_and_keeps_its_records() -> None:
    """The caller is told; what it holds can be acknowledged (facts §3.1)."""
    events: list[ConsumerEvent] = []
    async with SimulatedCluster() as cluster:
        prepared(cluster)
        async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
            records = await take(consumer, 3)
            cluster.fence(GROUP, consumer.member_id)
            await until(lambda: bool(of_type(events, MemberFenced)), "the member is told")
            results = [await record.accept() for record in records]
            cluster.produce(TOPIC, 0, 1)
            await take(consumer, 1)

    assert all(result.confirmed for result in results)


async def test_a_lost_heartbeat() -> None:
    """It is sent again, and the member stays in."""
    events: list[ConsumerEvent] = []
    async with SimulatedCluster() as cluster:
        prepared(cluster).lose(76, step="heartbeat", times=3)
        async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
            assert len(await take(consumer, 3)) == 3

    assert not of_type(events, MemberFenced)


async def test_a_full_group() -> None:
    """Each refusal is an event; in the end there is an error that says what to do."""
    events: list[ConsumerEvent] = []
    async with SimulatedCluster(most_members=1) as cluster:
        prepared(cluster)
        async with consumer_of(cluster, GROUP, TOPIC):
            late = consumer_of(cluster, GROUP, TOPIC, events, request_timeout=1.5)
            with pytest.raises(GroupIsFull, match=r"group\.share\.max\.size"):
                await late.start()

    assert of_type(events, GroupFull)


async def test_a_place_that_becomes_free() -> None:
    """Who waits for it gets it."""
    async with SimulatedCluster(most_members=1) as cluster:
        prepared(cluster)
        first = consumer_of(cluster, GROUP, TOPIC)
        await first.start()
        events: list[ConsumerEvent] = []
        second = consumer_of(cluster, GROUP, TOPIC, events)
        joining = asyncio.ensure_future(second.start())
        await until(lambda: bool(of_type(events, GroupFull)), "there is no place")

        await first.close()
        await asyncio.wait_for(joining, 20.0)

        assert len(await take(second, 3)) == 3
        await second.close()


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (69, NotAShareGroup, "not a share group"),
        (30, AccessDenied, "READ on the group"),
        (29, AccessDenied, "topics of group"),
        (35, NotSupported, "switched off"),
        (42, WrongArgument, "refuses the member"),
    ],
)
async def test_a_group_that_takes_nobody(code: int, error: type[Exception], words: str) -> None:
    """One sentence that names the group, without a second try."""
    async with SimulatedCluster() as cluster:
        prepared(cluster).fail(76, code, step="join")

        with pytest.raises(error, match=words):
            await consumer_of(cluster, GROUP, TOPIC).start()

        assert cluster.requests.count(76) == 1


async def test_a_group_of_another_type() -> None:
    """It is named, and the way out with it (R6)."""
    async with SimulatedCluster() as cluster:
        prepared(cluster).commit_offsets(GROUP, {TOPIC: {0: 1}}, kind="consumer")

        with pytest.raises(NotAShareGroup, match=GROUP):
            await consumer_of(cluster, GROUP, TOPIC).start()


async def test_a_right_that_is_taken_away_later() -> None:
    """Whoever waits for records is told."""
    async with SimulatedCluster() as cluster:
        prepared(cluster)
        async with consumer_of(cluster, GROUP, TOPIC) as consumer:
            await take(consumer, 3)
            cluster.fail(76, 30, step="heartbeat")
            with pytest.raises(AccessDenied, match="READ on the group"):
                await asyncio.wait_for(consumer.get_batch(), 20.0)


async def test_nobody_answers() -> None:
    """Within the time given, with the addresses in the sentence."""
    async with SimulatedCluster() as gone:
        address = gone.bootstrap_servers
    with pytest.raises(CannotReach, match=address):
        await consumer_of(gone, GROUP, TOPIC, request_timeout=0.3).start()


async def test_wrong_credentials() -> None:
    """Said as such, not as a time-out."""
    async with SimulatedCluster(users={"alice": "right"}) as cluster:
        wrong = Security("SASL_PLAINTEXT", "PLAIN", "alice", "wrong")

        with pytest.raises(AccessDenied):
            await consumer_of(cluster, GROUP, TOPIC, security=wrong).start()


async def test_brokers_without_share_groups() -> None:
    """Switched off by the feature level."""
    async with SimulatedCluster() as cluster:
        prepared(cluster).set_share_version(0)

        with pytest.raises(NotSupported, match="share"):
            await consumer_of(cluster, GROUP, TOPIC, request_timeout=2.0).start()


async def test_assignments_that_come_and_go() -> None:
    """A second topic that is made later is assigned as soon as it is there."""
    events: list[ConsumerEvent] = []
    async with SimulatedCluster() as cluster:
        cluster.set_group_config(GROUP, FAST)
        async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
            assert consumer.assignment == frozenset()
            cluster.create_topic(TOPIC)
            cluster.produce(TOPIC, 0, 3)
            assert len(await take(consumer, 3)) == 3

    assert of_type(events, AssignmentChanged)[-1].assignment == {TopicPartition(TOPIC, 0)}


async def test_a_coordinator_that_is_silent_leaves_time_for_another() -> None:
    """One attempt to join takes half of the time at most."""
    async with SimulatedCluster(nodes=2) as cluster:
        prepared(cluster).lose(76, step="join", times=1, close=False)

        async with consumer_of(cluster, GROUP, TOPIC, request_timeout=4.0) as consumer:
            assert len(await take(consumer, 3)) == 3


async def test_a_bug_while_joining_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a group that takes nobody, at the end of all patience."""

    def broken(membership: Membership, answer: object, now: float) -> HeartbeatOutcome:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Membership, "on_answer", broken)
    async with SimulatedCluster() as cluster:
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(consumer_of(prepared(cluster), GROUP, TOPIC, request_timeout=30.0).start(), 20.0)
