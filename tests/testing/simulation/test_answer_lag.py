"""DescribeShareGroupOffsets of the simulated cluster, where real clusters are slow or hard to bring there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.testing import SimulatedCluster
from tests.testing.simulation.asking import offsets_of, rows_of


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Three nodes, a topic of two partitions with 10 records each, a group with start offsets 4."""
    async with SimulatedCluster(3, broker_patience=0.05) as cluster:
        cluster.create_topic("t", 2)
        cluster.produce("t", range(2), 10)
        cluster.alter_offsets("g", {"t": {0: 4, 1: 4}})
        yield cluster


def home(cluster: SimulatedCluster, group: str = "g") -> int:
    """Return the group's coordinator."""
    node = cluster.group_coordinator(group)
    assert node is not None
    return node


async def test_all_topics_only_of_the_coordinator(cluster: SimulatedCluster) -> None:
    """The others say that they are not; named topics any node answers."""
    other = home(cluster) % 3 + 1
    assert (await offsets_of(cluster, "g", node=other)).error_code == 16
    expected = [("t", 0, 4, 6, 0), ("t", 1, 4, 6, 0)]
    assert rows_of(await offsets_of(cluster, "g", node=home(cluster))) == expected
    assert rows_of(await offsets_of(cluster, "g", {"t": [0, 1]}, node=other)) == expected


async def test_the_oldest_version_has_no_lag(cluster: SimulatedCluster) -> None:
    """The start offset is there."""
    assert rows_of(await offsets_of(cluster, "g", {"t": [0]}, version=0)) == [("t", 0, 4, -1, 0)]


async def test_a_partition_past_the_end_takes_the_patience() -> None:
    """The broker looks for it until its attempts are used up; Kafka 4.1 does not."""
    for version, seconds in (("4.4.0", 0.3), ("4.1.2", 0.0)):
        async with SimulatedCluster(1, version, broker_patience=0.3) as cluster:
            cluster.create_topic("t")
            loop = asyncio.get_running_loop()
            started = loop.time()
            group = await offsets_of(cluster, "g", {"t": [7]}, version=0)
            assert rows_of(group) == [("t", 7, -1, -1, 0)]
            assert (loop.time() - started >= seconds) is True


@pytest.mark.parametrize("topics", [{"t": []}, {"t": [0, -1]}])
async def test_a_broken_question_fails_the_whole_group(cluster: SimulatedCluster, topics: dict[str, list[int]]) -> None:
    """An empty list of partitions, a negative one."""
    group = await offsets_of(cluster, "g", topics)
    assert (group.error_code, group.topics) == (-1, [])


async def test_unknown_topics_have_rows_without_error(cluster: SimulatedCluster) -> None:
    """After the known ones, or before them on Kafka 4.1; a partition asked for twice is one row."""
    assert rows_of(await offsets_of(cluster, "g", {"no": [-1], "t": [0, 0]})) == [
        ("t", 0, 4, 6, 0),
        ("no", -1, -1, -1, 0),
    ]
    async with SimulatedCluster(1, "4.1.2") as old:
        old.create_topic("t")
        assert [row[0] for row in rows_of(await offsets_of(old, "g", {"t": [0], "no": [0]}, version=0))] == ["no", "t"]


async def test_a_topic_that_is_too_new(cluster: SimulatedCluster) -> None:
    """Coordinators do not know it yet although Metadata has it: it looks like an unknown one."""
    cluster.hide_from_coordinators("t")
    group = await offsets_of(cluster, "g", {"t": [0]})
    assert (rows_of(group), group.topics[0].topic_id) == ([("t", 0, -1, -1, 0)], bytes(16))
    cluster.hide_from_coordinators("t", hidden=False)
    assert rows_of(await offsets_of(cluster, "g", {"t": [0]})) == [("t", 0, 4, 6, 0)]


async def test_a_partition_without_leader(cluster: SimulatedCluster) -> None:
    """Error 5, and a start offset that means nothing."""
    cluster.move_leader("t", 0, None)
    assert rows_of(await offsets_of(cluster, "g", {"t": [0, 1]})) == [("t", 0, 0, -1, 5), ("t", 1, 4, 6, 0)]


async def test_errors_of_share_coordinators_are_swallowed(cluster: SimulatedCluster) -> None:
    """After retries the row says unknown; an error that passes costs time only."""
    with cluster.fail(87, 14, topic="t", partition=0) as fault:
        assert rows_of(await offsets_of(cluster, "g", {"t": [0, 1]})) == [("t", 0, -1, -1, 0), ("t", 1, 4, 6, 0)]
        assert fault.hits == 5
    with cluster.fail(87, 16, times=1):
        assert rows_of(await offsets_of(cluster, "g", {"t": [0]})) == [("t", 0, 4, 6, 0)]


async def test_errors_of_leaders_are_told(cluster: SimulatedCluster) -> None:
    """With the code, at once."""
    cluster.fail(2, 78, partition=1)
    assert rows_of(await offsets_of(cluster, "g", {"t": [0, 1]})) == [("t", 0, 4, 6, 0), ("t", 1, 0, -1, 78)]


async def test_a_frozen_leader_takes_the_patience(cluster: SimulatedCluster) -> None:
    """Then its rows have error 7, the others are good."""
    coordinator, leader = home(cluster), cluster.describe_topic("t").leaders[0]
    assert leader is not None
    for partition in range(2):
        cluster.move_share_coordinator("g", "t", partition, coordinator)
    cluster.move_leader("t", 0, coordinator % 3 + 1)
    cluster.move_leader("t", 1, coordinator)
    cluster.freeze_node(coordinator % 3 + 1)
    assert rows_of(await offsets_of(cluster, "g", node=coordinator)) == [("t", 0, 0, -1, 7), ("t", 1, 4, 6, 0)]


async def test_switched_off_loading_and_scripted(cluster: SimulatedCluster) -> None:
    """Group errors: 35 without text, 14 while loading, and any that a test wants."""
    cluster.load("g")
    assert (await offsets_of(cluster, "g", node=home(cluster))).error_code == 14
    cluster.load("g", loading=False)
    with cluster.fail(90, 15, group="g"):
        assert (await offsets_of(cluster, "g", node=home(cluster))).error_code == 15
    cluster.set_share_version(0)
    off = await offsets_of(cluster, "g", node=home(cluster))
    assert (off.error_code, off.error_message) == (35, None)


async def test_mixed_releases_know_what_the_older_one_knows() -> None:
    """A share coordinator of 4.1 has no count to give; a leader of 4.1 writes none."""
    async with SimulatedCluster(2, versions={2: "4.1.2"}, internal_partitions=2) as cluster:
        cluster.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        cluster.create_topic("t", 2)
        cluster.move_leader("t", 0, 2)
        cluster.move_leader("t", 1, 1)
        cluster.produce("t", range(2), 3)
        for partition in range(2):
            cluster.join("other", ["t"])
            cluster.move_share_coordinator("g", "t", partition, 1)
        cluster.move_group_coordinator("g", 1)
        cluster.share_consume("g", ["t"], {0: "accept"}, otherwise="release", max_records=6)
        assert rows_of(await offsets_of(cluster, "g")) == [("t", 0, 0, -1, 0), ("t", 1, 0, 2, 0)]
        cluster.move_share_coordinator("g", "t", 1, 2)
        assert rows_of(await offsets_of(cluster, "g", {"t": [1]})) == [("t", 1, 0, -1, 0)]


async def test_rights(cluster: SimulatedCluster) -> None:
    """No DESCRIBE on the topic: error 29, hidden from the list; on the group: error 30 without text."""
    cluster.deny("DESCRIBE", "TOPIC", "t")
    assert rows_of(await offsets_of(cluster, "g", {"t": [0]})) == [("t", 0, -1, -1, 29)]
    assert rows_of(await offsets_of(cluster, "g", node=home(cluster))) == []
    cluster.deny("DESCRIBE", "GROUP", "g")
    group = await offsets_of(cluster, "g", {"t": [0]})
    assert (group.error_code, group.error_message) == (30, None)
