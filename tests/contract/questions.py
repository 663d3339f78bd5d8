"""Questions that no well-meaning client asks: unknown names, missing parts, wrong epochs and versions.

In: the names of a topic with 5 records, one partition and an accepted record, and of its group. Out: requests, and what
of their answers counts. Must never: change a leader's epoch on the real cluster, or wait for its retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shareproxy.protocol import messages as m
from shareproxy.protocol.message import Request

Question = tuple[str, Request[Any], int | None]


def questions(group: str, topic: str, topic_id: bytes) -> Iterator[Question]:
    """Yield name, request and version; None for the highest."""
    shapes: dict[str, dict[str, list[int]]] = {
        "no partitions": {topic: []},
        "a negative partition": {topic: [-1]},
        "an unknown topic": {"nosuch": [0, 5], topic: [0]},
        "an unknown topic without partitions": {"nosuch": []},
        "no topics": {},
    }
    for name, partitions in shapes.items():
        yield f"90 of {name}", _offsets(group, partitions), None
    yield "90 of a group without name", _offsets("", {topic: [0]}), None
    yield "90 of all of a group without name", _offsets("", None), None
    yield "90 of an unknown group", _offsets("nosuch", None), None
    yield "90 of no groups", m.DescribeShareGroupOffsetsRequest([]), None

    for name, key, partition in (
        ("an unknown topic", bytes(15) + b"\1", 0),
        ("no topic id", bytes(16), 0),
        ("a negative partition", topic_id, -1),
        ("a partition past the end", topic_id, 1),
    ):
        yield f"87 of {name}", _summary(group, key, partition), None
        yield f"84 of {name}", _state(group, key, partition, 0), None
    yield "87 of a group without name", _summary("", topic_id, 0), None
    yield "84 of a group without name", _state("", topic_id, 0, 0), None
    yield "87 of no topics", m.ReadShareGroupStateSummaryRequest(group), None
    yield "87 of an unknown group", _summary("nosuch", topic_id, 0), None
    yield "84 of an unknown group", _state("nosuch", topic_id, 0, 0), None
    yield "84 with leader epoch -1", _state(group, topic_id, 0, -1), None

    yield "77 of unknown groups", m.ShareGroupDescribeRequest(["nosuch", ""]), None
    yield "69 of unknown groups", m.ConsumerGroupDescribeRequest(["nosuch", group]), None
    yield "15 of unknown groups", m.DescribeGroupsRequest(["nosuch"]), None
    yield "42 of an unknown group", m.DeleteGroupsRequest(["nosuch"]), None
    yield "92 of an unknown group", _forget("nosuch", topic), None
    yield "92 of an unknown topic", _forget(group, "nosuch"), None
    yield "92 of a topic without state", _forget(group, "stateless"), None
    yield "91 of an unknown topic", _alter(group, "nosuch", 0), None
    yield "91 of a group without name", _alter("", topic, 0), None

    for timestamp in (-5, -4, 0, 1 << 50):
        yield f"2 at {timestamp}", _list_offsets(topic, 0, timestamp, -1), None
    yield "2 with an old version", _list_offsets(topic, 0, -3, -1), 6
    yield "2 of an unknown topic", _list_offsets("nosuch", 0, -1, -1), None
    yield "2 with a leader epoch to come", _list_offsets(topic, 0, -1, 7), None
    yield "1 past the end", _fetch(topic_id, 99), None
    yield "1 of an unknown topic", _fetch(bytes(15) + b"\1", 0), None
    yield "32 of no group", m.DescribeConfigsRequest([m.DescribeConfigsResource(32, "", None)]), None
    yield "3 of unknown topics", m.MetadataRequest([m.MetadataRequestTopic(name="nosuch")], False), None
    yield "60 of controllers", m.DescribeClusterRequest(endpoint_type=2), None
    yield "66 of an unknown state", m.ListTransactionsRequest(["Nonsense"]), None
    yield "65 of an unknown id", m.DescribeTransactionsRequest(["nosuch"]), None


def _offsets(group: str, topics: dict[str, list[int]] | None) -> m.DescribeShareGroupOffsetsRequest:
    asked = None if topics is None else [m.DescribeShareGroupOffsetsRequestTopic(*row) for row in topics.items()]
    return m.DescribeShareGroupOffsetsRequest([m.DescribeShareGroupOffsetsRequestGroup(group, asked)])


def _summary(group: str, topic_id: bytes, partition: int) -> m.ReadShareGroupStateSummaryRequest:
    rows = [m.ReadShareGroupStateSummaryRequestPartitionData(partition, 0)]
    return m.ReadShareGroupStateSummaryRequest(
        group, [m.ReadShareGroupStateSummaryRequestReadStateSummaryData(topic_id, rows)]
    )


def _state(group: str, topic_id: bytes, partition: int, leader_epoch: int) -> m.ReadShareGroupStateRequest:
    rows = [m.ReadShareGroupStateRequestPartitionData(partition, leader_epoch)]
    return m.ReadShareGroupStateRequest(group, [m.ReadShareGroupStateRequestReadStateData(topic_id, rows)])


def _forget(group: str, topic: str) -> m.DeleteShareGroupOffsetsRequest:
    return m.DeleteShareGroupOffsetsRequest(group, [m.DeleteShareGroupOffsetsRequestTopic(topic)])


def _alter(group: str, topic: str, partition: int) -> m.AlterShareGroupOffsetsRequest:
    rows = [m.AlterShareGroupOffsetsRequestPartition(partition, 0)]
    return m.AlterShareGroupOffsetsRequest(group, [m.AlterShareGroupOffsetsRequestTopic(topic, rows)])


def _list_offsets(topic: str, partition: int, timestamp: int, leader_epoch: int) -> m.ListOffsetsRequest:
    rows = [m.ListOffsetsPartition(partition, leader_epoch, timestamp)]
    return m.ListOffsetsRequest(-1, 0, [m.ListOffsetsTopic(topic, rows)])


def _fetch(topic_id: bytes, offset: int) -> m.FetchRequest:
    rows = [m.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1)]
    return m.FetchRequest(max_wait_ms=0, topics=[m.FetchTopic("", topic_id, rows)])
