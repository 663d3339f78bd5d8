"""The lag of consumer groups, with what is behind it and why it is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.consumer_groups import consumer_lag
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerLagReport, ConsumerPartitionLag, ConsumerStatus
from shareproxy.lag.scan import ScanLimits
from shareproxy.protocol.ids import GroupId
from shareproxy.testing import SimulatedCluster

OFFSET_FETCH = 9


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Three nodes; topic `t` with three partitions of ten records."""
    async with SimulatedCluster(nodes=3) as cluster:
        cluster.create_topic("t", 3)
        cluster.produce("t", range(3), 10)
        cluster.group_coordinator("c")  # with it comes the topic where Kafka keeps groups
        yield cluster


async def look(
    cluster: SimulatedCluster,
    groups: Sequence[str] | None,
    topics: Collection[str] | None = None,
    *,
    closer: bool = False,
    seconds: float = 5.0,
    limits: ScanLimits | None = None,
) -> ConsumerLagReport:
    """Report on groups within some seconds."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as brokers:
        deadline = asyncio.get_running_loop().time() + seconds
        names = None if groups is None else list(map(GroupId, groups))
        return await consumer_lag(brokers, names, topics=topics, look_closer=closer, deadline=deadline, limits=limits)


def lags(group: ConsumerGroupLag) -> dict[tuple[str, int], int | None]:
    """Return lag by topic and partition."""
    return {(row.topic, row.partition): row.lag for row in group.partitions}


@pytest.mark.parametrize("kind", ["classic", "consumer"])
async def test_lag_is_end_minus_commit(kind: str, cluster: SimulatedCluster) -> None:
    """Of groups of both protocols."""
    cluster.commit_offsets("c", {"t": {0: 4, 2: 10}}, kind=kind)

    [group] = (await look(cluster, ["c"])).groups

    assert (group.type, group.state, group.error) == (kind, "Empty", None)
    assert lags(group) == {("t", 0): 6, ("t", 2): 0}
    assert (group.lag, group.complete, group.visible_lag) == (6, True, None)
    row = group.partitions[0]
    assert (row.committed_offset, row.end_offset, row.last_stable_offset, row.status) == (4, 10, 10, ConsumerStatus.OK)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
async def test_assigned_partitions_without_a_commit_are_unknown(kind: str, cluster: SimulatedCluster) -> None:
    """Never 0: what the group reads first is its own affair."""
    cluster.commit_offsets("c", {"t": {0: 4}}, kind=kind)
    cluster.join_consumer_group("c", ["t"], kind=kind)

    [group] = (await look(cluster, ["c"])).groups

    assert group.members == 1
    assert lags(group) == {("t", 0): 6, ("t", 1): None, ("t", 2): None}
    assert (group.lag, group.partitions_known, group.partitions_total, group.complete) == (6, 1, 3, False)
    assert group.partitions[1].status is ConsumerStatus.NO_COMMITTED_OFFSET
    assert "auto.offset.reset" in (group.partitions[1].message or "")


async def test_all_consumer_groups(cluster: SimulatedCluster) -> None:
    """Share groups are not among them; few requests whatever the number of groups."""
    for number in range(20):
        cluster.commit_offsets(f"c-{number:02}", {"t": {0: number % 10}})
    cluster.join("share", ["t"])

    report = await look(cluster, None)

    assert [(group.group, group.lag) for group in report.groups] == [
        (f"c-{number:02}", 10 - number % 10) for number in range(20)
    ]
    assert report.problems == ()
    assert cluster.requests.count(OFFSET_FETCH) <= 3


async def test_only_some_topics(cluster: SimulatedCluster) -> None:
    """Of all groups, those that have one; of named ones, every partition of the topic."""
    cluster.create_topic("other", 1)
    cluster.commit_offsets("a", {"t": {0: 4}, "other": {0: 0}})
    cluster.commit_offsets("b", {"t": {0: 4}})

    found = await look(cluster, None, ["other"])
    named = await look(cluster, ["b"], ["other"])

    assert [(group.group, lags(group)) for group in found.groups] == [("a", {("other", 0): 0})]
    assert [(group.group, lags(group)) for group in named.groups] == [("b", {("other", 0): None})]


async def test_a_commit_beyond_the_end(cluster: SimulatedCluster) -> None:
    """0, and the reason; not a negative number."""
    cluster.commit_offsets("c", {"t": {0: 99}})

    [group] = (await look(cluster, ["c"], closer=True)).groups

    row = group.partitions[0]
    assert (row.lag, row.status, row.visible_lag) == (0, ConsumerStatus.COMMITTED_BEYOND_END, 0)


async def test_each_group_has_its_own_error(cluster: SimulatedCluster) -> None:
    """Of another type, missing, hidden; the good one beside them is whole."""
    cluster.commit_offsets("good", {"t": {0: 4}})
    cluster.commit_offsets("hidden", {"t": {0: 4}})
    cluster.join("share", ["t"])
    cluster.fail(OFFSET_FETCH, 30, group="hidden")

    report = await look(cluster, ["share", "missing", "hidden", "good"])

    assert [group.error and group.error.name for group in report.groups] == [
        "NOT_A_CONSUMER_GROUP",
        "GROUP_ID_NOT_FOUND",
        "GROUP_AUTHORIZATION_FAILED",
        None,
    ]
    assert report.groups[3].lag == 6


async def test_a_leaderless_partition_hides_no_other(cluster: SimulatedCluster) -> None:
    """It is unknown at once, with the reason."""
    cluster.commit_offsets("c", {"t": {0: 4, 1: 4}})
    cluster.move_leader("t", 0, None)

    [group] = (await look(cluster, ["c"], seconds=0.8)).groups

    assert lags(group) == {("t", 0): None, ("t", 1): 6}
    assert group.partitions[0].status is ConsumerStatus.NO_LEADER


async def test_a_deleted_topic_is_told(cluster: SimulatedCluster) -> None:
    """Kafka forgets such commits late; until then they have a reason."""
    cluster.create_topic("gone", 1)
    cluster.commit_offsets("c", {"gone": {0: 4}, "t": {0: 4}})
    cluster.fail(3, 3, topic="gone")

    [group] = (await look(cluster, ["c"], seconds=0.8)).groups

    assert [(row.topic, row.status) for row in group.partitions] == [
        ("gone", ConsumerStatus.TOPIC_MISSING),
        ("t", ConsumerStatus.OK),
    ]


async def test_a_frozen_broker_hides_only_what_it_keeps(cluster: SimulatedCluster) -> None:
    """Groups and partitions of the others are there in time."""
    cluster.commit_offsets("c", {"t": dict.fromkeys(range(3), 4)})
    coordinator = cluster.group_coordinator("c")
    leaders = cluster.describe_topic("t").leaders
    frozen = next(node for node in (1, 2, 3) if node != coordinator)
    cluster.freeze_node(frozen)

    report = await look(cluster, ["c"], seconds=2.0)

    [group] = report.groups
    assert {row.partition for row in group.partitions if row.lag is None} == {
        index for index, leader in leaders.items() if leader == frozen
    }
    assert len(report.problems) == 1


async def test_markers_and_aborted_records_are_told_from_waiting_ones(cluster: SimulatedCluster) -> None:
    """The lag that does not go away: nothing of it is there to be read."""
    cluster.commit_offsets("c", {"t": {0: 10}})
    cluster.produce_transaction("t", 0, 4, commit=False)

    [group] = (await look(cluster, ["c"], closer=True)).groups

    [row] = group.partitions
    assert (row.lag, row.visible_lag, row.phantom_offsets, row.aborted_offsets) == (5, 0, 5, 4)
    assert (group.lag, group.visible_lag, row.notes) == (5, 0, ())


async def test_waiting_records_and_an_open_transaction(cluster: SimulatedCluster) -> None:
    """What may still come is neither visible nor phantom."""
    cluster.commit_offsets("c", {"t": {0: 7}})
    cluster.produce_transaction("t", 0, 2)
    cluster.produce_transaction("t", 0, 5, leave_open=True)

    [group] = (await look(cluster, ["c"], closer=True)).groups

    [row] = group.partitions
    assert (row.lag, row.visible_lag, row.phantom_offsets) == (11, 5, 1)
    assert (row.open_transaction_offsets, row.last_stable_offset, row.end_offset) == (5, 13, 18)


async def test_deleted_records_are_phantoms(cluster: SimulatedCluster) -> None:
    """The group lost them."""
    cluster.commit_offsets("c", {"t": {0: 2}})
    cluster.delete_records("t", 0, 6)

    [group] = (await look(cluster, ["c"], closer=True)).groups

    [row] = group.partitions
    assert (row.lag, row.visible_lag, row.phantom_offsets) == (8, 4, 4)


async def test_what_was_not_looked_at_leaves_bounds(cluster: SimulatedCluster) -> None:
    """And a note; the sum is unknown then."""
    cluster.commit_offsets("c", {"t": {0: 0, 1: 0}})
    cluster.fail(1, 29, topic="t", partition=0)

    [group] = (await look(cluster, ["c"], closer=True)).groups

    row = group.partitions[0]
    assert (row.visible_lag, row.visible_lag_min, row.visible_lag_max, row.phantom_offsets) == (None, 0, 10, None)
    assert "READ on the topic" in row.notes[0]
    assert (group.partitions[1].visible_lag, group.visible_lag) == (10, None)


def test_a_report_becomes_json() -> None:
    """Numbers, strings, lists and null; every key is there."""
    row = ConsumerPartitionLag("t", bytes(16), 0, status=ConsumerStatus.NO_COMMITTED_OFFSET)  # type: ignore[arg-type]
    group = ConsumerGroupLag(GroupId("c"), "classic", "Empty", 0, None, (row,))
    report: Any = ConsumerLagReport("cluster", datetime(2026, 1, 1, tzinfo=UTC), (group,)).to_dict()

    assert report["time"] == "2026-01-01T00:00:00.000Z"
    assert report["groups"][0]["partitions"][0]["lag"] is None
    assert report["groups"][0]["partitions"][0]["status"] == "no_committed_offset"
    assert report["groups"][0]["complete"] is False
