"""Compute who coordinates a group or a share partition.

In: ids, and metadata of the internal topics. Out: node ids, or the reason why there is none.
Must never: ask anyone.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from shareproxy.cluster.metadata import TopicMetadata
from shareproxy.cluster.retries import Retry
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId, topic_id_text

GROUP_TOPIC: Final = "__consumer_offsets"
SHARE_TOPIC: Final = "__share_group_state"

SharePartition = tuple[TopicId, int]
"""Topic id and partition."""


class FailureReason(StrEnum):
    """Why a share partition has no coordinator that can be asked."""

    STATE_TOPIC_MISSING = "state_topic_missing"
    """`__share_group_state` does not exist, so no share group has stored anything yet."""
    NOT_AUTHORIZED = "not_authorized"
    NOT_AVAILABLE = "not_available"
    UNSUPPORTED = "unsupported"
    ERROR = "error"


class CoordinatorFailure(msgspec.Struct, frozen=True):
    """What stands in the place of a node id.

    Args:
        reason: for programs.
        message: a sentence for a person.
        error_code: Kafka's, None if no broker answered with one.
    """

    reason: FailureReason
    message: str
    error_code: int | None = None

    @property
    def retry(self) -> Retry:
        """Return what helps."""
        return Retry.ELSEWHERE if self.reason is FailureReason.NOT_AVAILABLE else Retry.FINAL


def java_hash(text: str, begin: int = 0) -> int:
    """Return Java's `String.hashCode` as a signed 32-bit number.

    Args:
        text: hashed by its UTF-16 units.
        begin: hash of what stands before the text.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    value = begin
    for position in range(0, len(units), 2):
        value = (31 * value + units[position] + (units[position + 1] << 8)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


@functools.lru_cache(maxsize=65_536)
def _index_hash(partition: int) -> tuple[int, int]:
    """Return what a partition's number does to the hash of the text before it: a factor and a summand."""
    text = str(partition)
    return 31 ** len(text), java_hash(text)


def coordinator_partition(key_hash: int, partition_count: int) -> int:
    """Return the partition of the internal topic whose leader coordinates a key.

    The smallest 32-bit number has no absolute value in Java and counts as 0.
    """
    return 0 if key_hash == -0x8000_0000 else abs(key_hash) % partition_count


def share_key(group: GroupId, partition: SharePartition) -> str:
    """Write the coordinator key of a share partition (KIP-932)."""
    return f"{group}:{topic_id_text(partition[0])}:{partition[1]}"


def share_coordinators_by_hash(
    topic: TopicMetadata, group: GroupId, partitions: Collection[SharePartition]
) -> Mapping[SharePartition, NodeId | CoordinatorFailure]:
    """Find the coordinators without asking: leaders of the partitions of `__share_group_state` that hold the keys.

    Args:
        topic: metadata of `__share_group_state`, with partitions.
        group: share group.
        partitions: share partitions.
    """
    group_hash = java_hash(f"{group}:")
    topic_hashes: dict[TopicId, int] = {}
    rows, count = topic.partitions, len(topic.partitions)
    found: dict[SharePartition, NodeId | CoordinatorFailure] = {}
    for share_partition in partitions:
        topic_id, partition = share_partition
        topic_hash = topic_hashes.get(topic_id)
        if topic_hash is None:
            topic_hash = topic_hashes[topic_id] = java_hash(f"{topic_id_text(topic_id)}:", group_hash)
        factor, summand = _index_hash(partition)
        key_hash = (topic_hash * factor + summand) & 0xFFFFFFFF
        # as a signed number of 32 bits; see `coordinator_partition`
        number = coordinator_partition(key_hash - 0x1_0000_0000 if key_hash >= 0x8000_0000 else key_hash, count)
        row = rows.get(number)
        if row is not None and row.leader is not None:
            found[share_partition] = row.leader
        else:
            found[share_partition] = CoordinatorFailure(
                FailureReason.NOT_AVAILABLE,
                f"partition {number} of {topic.name} has no leader now",
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
    return found
