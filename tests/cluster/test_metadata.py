"""Metadata: what the wire says with sentinels becomes None."""

from __future__ import annotations

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.metadata import metadata_request, read_metadata
from shareproxy.protocol.messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_an_answer_becomes_records() -> None:
    """Nodes by id, topics by name, partitions by number."""
    metadata = read_metadata(
        MetadataResponse(
            brokers=[MetadataResponseBroker(1, "::1", 9092, "r")],
            cluster_id="c",
            controller_id=1,
            topics=[MetadataResponseTopic(0, "t", bytes(16), True, [MetadataResponsePartition(0, 3, 1, 7)])],
        )
    )

    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    assert [(node.address, node.rack) for node in metadata.nodes.values()] == [(Address("::1", 9092), "r")]
    assert metadata.topics["t"].is_internal
    row = metadata.topics["t"].partitions[3]
    assert (row.partition, row.leader, row.leader_epoch, row.error_code) == (3, 1, 7, 0)


def test_sentinels_become_none() -> None:
    """No controller, no leader, no epoch, a node that cannot be connected to, a topic without name."""
    metadata = read_metadata(
        MetadataResponse(
            brokers=[MetadataResponseBroker(1, "", -1)],
            controller_id=-1,
            topics=[
                MetadataResponseTopic(0, "t", bytes(16), False, [MetadataResponsePartition(5, 0, -1, -1)]),
                MetadataResponseTopic(100, None),
            ],
        )
    )

    assert (metadata.cluster_id, metadata.controller_id, dict(metadata.nodes)) == (None, None, {})
    assert list(metadata.topics) == ["t"]
    row = metadata.topics["t"].partitions[0]
    assert (row.leader, row.leader_epoch, row.error_code) == (None, None, 5)


def test_asking_never_creates_topics() -> None:
    """None is all topics, an empty collection is none."""
    assert metadata_request(None).topics is None
    assert metadata_request(()).topics == []
    assert not metadata_request(["t"]).allow_auto_topic_creation
