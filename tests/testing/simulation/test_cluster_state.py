"""Who is responsible for what, by Kafka's hashes."""

from __future__ import annotations

import pytest

from shareproxy.protocol.ids import TopicId
from shareproxy.testing import SimulatedCluster
from shareproxy.testing.simulation.cluster_state import java_hash, partition_of

TOPIC = TopicId(bytes(range(1, 17)))


@pytest.mark.parametrize(("group", "partition", "expected"), [("g1", 0, 39), ("a:b", 7, 17), ("grün", 0, 4)])
def test_places_of_share_partitions(group: str, partition: int, expected: int) -> None:
    """As real clusters of 50 partitions place them."""
    key = f"{group}:AQIDBAUGBwgJCgsMDQ4PEA:{partition}"
    assert partition_of(java_hash(key), 50) == expected
    assert partition_of(java_hash(str(partition), java_hash(key.rpartition(":")[0] + ":")), 50) == expected


def test_the_smallest_number_counts_as_zero() -> None:
    """It has no absolute value in Java."""
    assert (partition_of(0x8000_0000, 50), partition_of(0xFFFF_FFFF, 50)) == (0, 1)


def test_the_same_script_gives_the_same_ids() -> None:
    """And a topic that is created again another one."""
    clusters = [SimulatedCluster(), SimulatedCluster()]
    first, again = (cluster.create_topic("t").topic_id for cluster in clusters)
    assert first == again
    clusters[0].delete_topic("t")
    assert clusters[0].create_topic("t").topic_id != first


def test_wrong_names_are_refused() -> None:
    """With what there is."""
    cluster = SimulatedCluster()
    cluster.create_topic("t")
    for call, message in (
        (lambda: cluster.create_topic("t"), "exists already"),
        (lambda: cluster.create_topic("u", 0), "at least one partition"),
        (lambda: cluster.produce("u"), "no topic 'u'"),
        (lambda: cluster.produce("t", 3), "1 partitions, none of them is 3"),
        (lambda: cluster.expire_locks("g"), "no share group 'g'"),
        (lambda: cluster.delete_group("g"), "no group 'g'"),
        (lambda: cluster.commit_offsets("g", {}, kind="share"), "'consumer' or 'classic'"),
        (lambda: cluster.leave_consumer_group("g", "m"), "no member 'm'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_no_member_gets_the_id_of_another() -> None:
    """Also after one has left."""
    cluster = SimulatedCluster()
    cluster.create_topic("t")
    first, second = cluster.join("g", ["t"]), cluster.join("g", ["t"])
    cluster.leave("g", first)
    assert len({first, second, cluster.join("g", ["t"])}) == 3


def test_groups_keep_their_kind() -> None:
    """One name cannot be two groups; members keep a group from being changed."""
    cluster = SimulatedCluster()
    cluster.create_topic("t")
    member = cluster.join("g", ["t"])
    with pytest.raises(ValueError, match="is a share group"):
        cluster.commit_offsets("g", {"t": {0: 1}})
    with pytest.raises(ValueError, match="has members"):
        cluster.alter_offsets("g", {"t": {0: 1}})
    with pytest.raises(ValueError, match="has members"):
        cluster.delete_group("g")
    with pytest.raises(ValueError, match="no member 'x'"):
        cluster.leave("g", "x")
    cluster.leave("g", member)
    cluster.delete_group("g")
    cluster.join_consumer_group("g", ["t"], kind="classic")
    with pytest.raises(ValueError, match="is a classic group"):
        cluster.join("g", ["t"])
