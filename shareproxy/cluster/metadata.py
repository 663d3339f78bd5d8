"""Describe the cluster as one Metadata answer saw it.

In: a Metadata answer. Out: frozen records; what the wire says with -1 or an empty host is None here.
Must never: keep a node that cannot be connected to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.ids import NodeId, TopicId
from shareproxy.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


class Node(msgspec.Struct, frozen=True):
    """A broker, as it wants to be reached."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Return host and port."""
        return Address(self.host, self.port)


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    """Who leads a partition; `leader_epoch` is None where the broker does not tell."""

    partition: int
    leader: NodeId | None = None
    leader_epoch: int | None = None
    error_code: int = 0


class TopicMetadata(msgspec.Struct, frozen=True):
    """A topic and its partitions; with an error code there may be none."""

    name: str
    topic_id: TopicId
    error_code: int = 0
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = MappingProxyType({})


class ClusterMetadata(msgspec.Struct, frozen=True):
    """The cluster at one moment."""

    cluster_id: str | None
    controller_id: NodeId | None
    nodes: Mapping[NodeId, Node]
    topics: Mapping[str, TopicMetadata]


def metadata_request(topics: Collection[str] | None) -> MetadataRequest:
    """Ask for the nodes and some topics, None for all; topics are never made by asking."""
    rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=rows, allow_auto_topic_creation=False)


def read_metadata(answer: MetadataResponse) -> ClusterMetadata:
    """Turn a Metadata answer into records."""
    return ClusterMetadata(
        cluster_id=answer.cluster_id,
        controller_id=_node_id(answer.controller_id),
        nodes=MappingProxyType(
            {
                NodeId(broker.node_id): Node(NodeId(broker.node_id), broker.host, broker.port, broker.rack)
                for broker in answer.brokers
                if broker.host and broker.port >= 0
            }
        ),
        topics=MappingProxyType(
            {topic.name: _topic(topic.name, topic) for topic in answer.topics if topic.name is not None}
        ),
    )


def _topic(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        row.partition_index: PartitionMetadata(
            row.partition_index,
            _node_id(row.leader_id),
            row.leader_epoch if row.leader_epoch >= 0 else None,
            row.error_code,
        )
        for row in topic.partitions
    }
    return TopicMetadata(
        name, TopicId(topic.topic_id), topic.error_code, topic.is_internal, MappingProxyType(partitions)
    )


def _node_id(number: int) -> NodeId | None:
    return NodeId(number) if number >= 0 else None
