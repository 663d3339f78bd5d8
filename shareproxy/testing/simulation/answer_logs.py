"""What leaders answer about their partitions' logs: ListOffsets.

In: calls. Out: answers. Must never: answer for a partition that another node leads.
"""

from __future__ import annotations

from typing import Any, Final

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.topics import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
READ_COMMITTED: Final = 1
_FIRST_VERSION: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def list_offsets(call: Call[m.ListOffsetsRequest]) -> m.ListOffsetsResponse:
    """Answer ListOffsets."""
    return m.ListOffsetsResponse(
        topics=[
            m.ListOffsetsTopicResponse(topic.name, [_row(call, topic.name, asked) for asked in topic.partitions])
            for topic in call.message.topics
        ]
    )


def partition_problem(call: Call[Any], name: str, index: int, leader_epoch: int, operation: str = "DESCRIBE") -> int:
    """Return the error code for a partition that this node cannot answer for, 0 if it can."""
    if not call.may(operation, "TOPIC", name):
        return 29
    if code := call.fault(topic=name, partition=index):
        return code
    topic = call.state.topics.by_name.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return 3
    partition = topic.partitions[index]
    if call.node.node_id not in partition.replicas:
        return 3
    if partition.leader != call.node.node_id:
        return 6
    if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
        return 74 if leader_epoch < partition.leader_epoch else 75
    return 0


def _row(call: Call[m.ListOffsetsRequest], name: str, asked: m.ListOffsetsPartition) -> m.ListOffsetsPartitionResponse:
    index = asked.partition_index
    if code := partition_problem(call, name, index, asked.current_leader_epoch):
        return m.ListOffsetsPartitionResponse(index, code)
    partition = call.state.topics.by_name[name].partitions[index]
    if call.version < _FIRST_VERSION.get(asked.timestamp, 0):
        return m.ListOffsetsPartitionResponse(index, 35)
    timestamp, offset = _find(partition, asked.timestamp, call.message.isolation_level)
    return m.ListOffsetsPartitionResponse(index, 0, timestamp, offset, partition.leader_epoch if offset >= 0 else -1)


def _find(partition: Partition, timestamp: int, isolation_level: int) -> tuple[int, int]:
    log = partition.log
    end = log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        return -1, end
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp == MAX_TIMESTAMP:
        return log.max_timestamp()
    if timestamp < 0:
        return -1, -1
    found = log.offset_at(timestamp)
    return found if found[1] < end else (-1, -1)
