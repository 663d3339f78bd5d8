"""Ask coordinators what classic and consumer groups committed, and what their members are assigned.

In: groups. Out: committed offsets and members, or the trouble for each group.
Must never: commit anything, or let one bad group spoil the others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.lag.brokers import Trouble, trouble_from_code
from shareproxy.lag.groups import LEFT_OUT, CoordinatorQuestion
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

Partition = tuple[str, int]

# from 8 on one request has many groups; from 10 on the answer has topic ids instead of names
MANY_GROUPS: Final = 8
LAST_WITH_NAMES: Final = 9
# version 2 is the first that can ask for all topics
FIRST_WITH_ALL_TOPICS: Final = 2


class Commit(msgspec.Struct, frozen=True, gc=False):
    """What a group committed for a partition; `offset` `None` where it committed nothing."""

    offset: int | None
    leader_epoch: int | None
    error_code: int = 0


class Commits(CoordinatorQuestion):
    """The `Question` that OffsetFetch answers: all committed offsets of groups."""

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, dict[Partition, Commit] | Trouble]:
        """Ask one coordinator about its groups, in one request where it can answer that."""
        offered = await self._brokers.versions(node_id, deadline=deadline)
        version = min(offered.highest(OffsetFetchRequest) or 0, LAST_WITH_NAMES)
        if version < FIRST_WITH_ALL_TOPICS:
            return dict.fromkeys(items, trouble_from_code(ErrorCode.UNSUPPORTED_VERSION))
        if version < MANY_GROUPS:
            return {group: await self._ask_one(node_id, group, version, deadline) for group in items}
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in items])
        answer = await self._brokers.request(node_id, request, deadline=deadline, max_version=version)
        found: dict[GroupId, dict[Partition, Commit] | Trouble] = dict.fromkeys(items, LEFT_OUT)
        for row in answer.groups:
            if row.error_code:
                found[GroupId(row.group_id)] = trouble_from_code(row.error_code)
            else:
                found[GroupId(row.group_id)] = _commits((topic.name, topic.partitions) for topic in row.topics)
        return found

    async def _ask_one(
        self, node_id: NodeId, group: GroupId, version: int, deadline: float
    ) -> dict[Partition, Commit] | Trouble:
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = await self._brokers.request(node_id, request, deadline=deadline, max_version=version)
        if answer.error_code:
            return trouble_from_code(answer.error_code)
        return _commits((topic.name, topic.partitions) for topic in answer.topics)


class Members(msgspec.Struct, frozen=True):
    """The consumers of a group: how many there are, and all partitions that they are assigned."""

    count: int
    assigned: frozenset[Partition]


class ConsumerMembers(CoordinatorQuestion):
    """The `Question` that ConsumerGroupDescribe answers: members of groups of type `consumer` (KIP-848)."""

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, Members | Trouble]:
        """Ask one coordinator about its groups."""
        answer = await self._brokers.request(node_id, ConsumerGroupDescribeRequest(list(items)), deadline=deadline)
        found: dict[GroupId, Members | Trouble] = dict.fromkeys(items, LEFT_OUT)
        for row in answer.groups:
            if row.error_code:
                found[GroupId(row.group_id)] = trouble_from_code(row.error_code, row.error_message)
                continue
            assigned = frozenset(
                (topic.topic_name, partition)
                for member in row.members
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            )
            found[GroupId(row.group_id)] = Members(len(row.members), assigned)
        return found


class ClassicMembers(CoordinatorQuestion):
    """The `Question` that DescribeGroups answers: members of classic groups."""

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, Members | Trouble]:
        """Ask one coordinator about its groups."""
        answer = await self._brokers.request(node_id, DescribeGroupsRequest(list(items)), deadline=deadline)
        found: dict[GroupId, Members | Trouble] = dict.fromkeys(items, LEFT_OUT)
        for row in answer.groups:
            if row.error_code:
                found[GroupId(row.group_id)] = trouble_from_code(row.error_code, row.error_message)
                continue
            assigned = frozenset(
                partition for member in row.members for partition in assigned_partitions(member.member_assignment)
            )
            found[GroupId(row.group_id)] = Members(len(row.members), assigned)
        return found


def assigned_partitions(data: bytes) -> list[Partition]:
    """Read what the leader of a classic group gave a member; nothing where it is not a consumer's.

    The bytes are the clients' own business: version (int16), then topics (array of name and array of int32).
    """
    found: list[Partition] = []
    try:
        (count,) = struct.unpack_from(">i", data, 2)
        offset = 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", data, offset)
            name = data[offset + 2 : offset + 2 + length].decode()
            offset += 2 + length
            (many,) = struct.unpack_from(">i", data, offset)
            if not 0 <= many <= (len(data) - offset) // 4:
                return []
            partitions = struct.unpack_from(f">{many}i", data, offset + 4)
            found += [(name, partition) for partition in partitions]
            offset += 4 + 4 * many
    except (struct.error, UnicodeDecodeError):
        return []
    return found


def _commits(
    topics: Iterable[tuple[str, Sequence[OffsetFetchResponsePartitions | OffsetFetchResponsePartition]]],
) -> dict[Partition, Commit]:
    return {
        (name, row.partition_index): Commit(
            row.committed_offset if row.committed_offset >= 0 else None,
            row.committed_leader_epoch if row.committed_leader_epoch >= 0 else None,
            row.error_code,
        )
        for name, rows in topics
        for row in rows
    }
