"""Coordinators by hash: check values taken from running brokers and from Java."""

from __future__ import annotations

import pytest

from shareproxy.cluster.coordinators import (
    CoordinatorFailure,
    FailureReason,
    coordinator_partition,
    java_hash,
    share_coordinators_by_hash,
    share_key,
)
from shareproxy.cluster.metadata import PartitionMetadata, TopicMetadata
from shareproxy.cluster.retries import Retry
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId, NodeId, TopicId

TOPIC_ID = TopicId(bytes(range(1, 17)))


@pytest.mark.parametrize(
    ("group", "partition", "key_hash", "number"),
    [("g1", 0, -851287139, 39), ("a:b", 7, 1406084517, 17), ("grün", 0, 1987324554, 4)],
)
def test_keys_hash_as_in_java(group: str, partition: int, key_hash: int, number: int) -> None:
    """Key, hash and partition of the state topic."""
    key = share_key(GroupId(group), (TOPIC_ID, partition))

    assert key == f"{group}:AQIDBAUGBwgJCgsMDQ4PEA:{partition}"
    assert java_hash(key) == key_hash
    assert coordinator_partition(key_hash, 50) == number


def test_characters_outside_the_basic_plane_are_two_units() -> None:
    """Java hashes UTF-16 units: U+1F600 is D83D DE00."""
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_a_hash_can_be_continued() -> None:
    """The common beginning of many keys is hashed once."""
    assert java_hash("defg", java_hash("abc")) == java_hash("abcdefg")


def test_the_number_without_absolute_value_counts_as_zero() -> None:
    """Math.abs of the smallest int is negative in Java; Kafka takes 0."""
    assert coordinator_partition(-0x8000_0000, 50) == 0


def test_coordinators_lead_the_partitions_that_hold_the_keys() -> None:
    """Each share partition has its own; one without leader has a reason instead."""
    partitions = {
        number: PartitionMetadata(number, NodeId(number + 100) if number != 17 else None) for number in range(50)
    }
    topic = TopicMetadata("__share_group_state", NO_TOPIC_ID, partitions=partitions)

    assert share_coordinators_by_hash(topic, GroupId("g1"), [(TOPIC_ID, 0)]) == {(TOPIC_ID, 0): 139}
    failure = share_coordinators_by_hash(topic, GroupId("a:b"), [(TOPIC_ID, 7)])[TOPIC_ID, 7]
    assert isinstance(failure, CoordinatorFailure)
    assert (failure.reason, failure.error_code, failure.retry) == (FailureReason.NOT_AVAILABLE, 15, Retry.ELSEWHERE)
    assert "partition 17" in failure.message
