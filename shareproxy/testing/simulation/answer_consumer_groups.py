"""What group coordinators answer about consumer and classic groups, and how groups of any kind are deleted.

In: calls. Out: answers. Must never: describe a share group as one that commits offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.groups import CommittedOffset, ConsumerGroup, GroupMember
from shareproxy.testing.simulation.rights import NOT_TOLD

ASSIGNOR = {"classic": "range", "consumer": "uniform"}
NO_OFFSET = -1
WITH_GROUPS, WITH_IDS = 8, 10
MEMBER_TYPE = {"classic": 0, "consumer": 1}


def offset_fetch(call: Call[m.OffsetFetchRequest]) -> m.OffsetFetchResponse:
    """Answer OffsetFetch, of one group or, from version 8 on, of many."""
    message = call.message
    if call.version >= WITH_GROUPS:
        return m.OffsetFetchResponse(groups=[_committed(call, asked) for asked in message.groups])
    problem = _problem(call, message.group_id)
    if problem:
        return m.OffsetFetchResponse(0, _old_rows(message.topics or (), problem), problem)
    found = _found(call, message.group_id)
    wanted = None if message.topics is None else {row.name: row.partition_indexes for row in message.topics}
    return m.OffsetFetchResponse(
        0,
        [
            m.OffsetFetchResponseTopic(
                name,
                [
                    m.OffsetFetchResponsePartition(index, row.offset, row.leader_epoch, row.metadata, code)
                    for index, row, code in rows
                ],
            )
            for name, rows in _rows(call, found, wanted)
        ],
    )


def _old_rows(topics: Iterable[m.OffsetFetchRequestTopic], problem: int) -> list[m.OffsetFetchResponseTopic]:
    return [
        m.OffsetFetchResponseTopic(
            topic.name,
            [m.OffsetFetchResponsePartition(index, NO_OFFSET, -1, "", problem) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _committed(call: Call[m.OffsetFetchRequest], asked: m.OffsetFetchRequestGroup) -> m.OffsetFetchResponseGroup:
    name = asked.group_id
    if problem := _problem(call, name):
        return m.OffsetFetchResponseGroup(name, [], problem)
    state, by_id = call.state, call.version >= WITH_IDS
    ids = {row.topic_id: row for row in asked.topics or ()}
    wanted: dict[str, list[int]] | None = None
    unknown: list[m.OffsetFetchResponseTopics] = []
    if asked.topics is not None:
        wanted = {}
        for row in asked.topics:
            topic = next((t for t in state.topics.by_name.values() if t.topic_id == row.topic_id), None)
            if by_id and topic is None:
                rows = [
                    m.OffsetFetchResponsePartitions(p, NO_OFFSET, -1, "", 100)
                    for p in ids[row.topic_id].partition_indexes
                ]
                unknown.append(m.OffsetFetchResponseTopics("", row.topic_id, rows))
            else:
                wanted[topic.name if by_id and topic is not None else row.name] = row.partition_indexes
    found = _found(call, name)
    topics = [
        m.OffsetFetchResponseTopics(
            "" if by_id else topic_name,
            state.topics.by_name[topic_name].topic_id if topic_name in state.topics.by_name else bytes(16),
            [
                m.OffsetFetchResponsePartitions(index, row.offset, row.leader_epoch, row.metadata, code)
                for index, row, code in rows
            ],
        )
        for topic_name, rows in _rows(call, found, wanted)
    ]
    return m.OffsetFetchResponseGroup(name, [*topics, *unknown])


def _rows(
    call: Call[m.OffsetFetchRequest],
    found: Mapping[tuple[str, int], CommittedOffset],
    wanted: Mapping[str, list[int]] | None,
) -> list[tuple[str, list[tuple[int, CommittedOffset, int]]]]:
    """Return topic → (partition, what is committed, error code); topics that may not be seen are errors if named."""
    everything: dict[str, list[int]] = {}
    for topic, partition in found:
        everything.setdefault(topic, []).append(partition)
    rows = []
    for topic, partitions in (everything if wanted is None else wanted).items():
        allowed = call.may("DESCRIBE", "TOPIC", topic)
        if not allowed and wanted is None:
            continue
        code = 0 if allowed else 29
        nothing = CommittedOffset(NO_OFFSET)
        rows.append((topic, [(p, nothing if code else found.get((topic, p), nothing), code) for p in partitions]))
    return rows


def _found(call: Call[m.OffsetFetchRequest], name: str) -> Mapping[tuple[str, int], CommittedOffset]:
    group = call.state.groups.by_name.get(name)
    return group.committed if isinstance(group, ConsumerGroup) else {}


def _problem(
    call: Call[m.OffsetFetchRequest] | Call[m.DescribeGroupsRequest] | Call[m.ConsumerGroupDescribeRequest], name: str
) -> int:
    if not call.may("DESCRIBE", "GROUP", name):
        return 30
    return call.coordinator_problem(name)


# -- descriptions ------------------------------------------------------------------------------------------------------


def describe_groups(call: Call[m.DescribeGroupsRequest]) -> m.DescribeGroupsResponse:
    """Answer DescribeGroups; groups that are not classic ones are dead to it."""
    return m.DescribeGroupsResponse(groups=[_classic(call, name) for name in call.message.groups])


def _classic(call: Call[m.DescribeGroupsRequest], name: str) -> m.DescribeGroupsResponseDescribedGroup:
    if problem := _problem(call, name):
        return m.DescribeGroupsResponseDescribedGroup(problem, None, name)
    group = call.state.groups.by_name.get(name)
    if not isinstance(group, ConsumerGroup) or group.kind != "classic":
        text = f"Group {name} not found." if group is None else f"Group {name} is not a classic group."
        code = 69 if call.version >= 6 else 0
        told = _told(call, name) if not code else NOT_TOLD
        return m.DescribeGroupsResponseDescribedGroup(
            code, text if code else None, name, "Dead", authorized_operations=told
        )
    members = [
        m.DescribeGroupsResponseDescribedGroupMember(
            member.member_id, None, member.client_id, member.client_host, _subscription(member), _assignment(member)
        )
        for member in group.members.values()
    ]
    protocol = ASSIGNOR["classic"] if members else ""
    told = _told(call, name)
    return m.DescribeGroupsResponseDescribedGroup(0, None, name, group.state, "consumer", protocol, members, told)


def _told(call: Call[m.DescribeGroupsRequest], name: str) -> int:
    """Return what the caller may do with a group, if it asks for that."""
    asked = call.message.include_authorized_operations
    return call.state.rights.operations(call.principal, "GROUP", name) if asked else NOT_TOLD


def _subscription(member: GroupMember) -> bytes:
    """Write a classic member's subscription: version, topics, no user data."""
    return struct.pack(">hi", 0, len(member.topics)) + b"".join(map(_string, member.topics)) + struct.pack(">i", -1)


def _assignment(member: GroupMember) -> bytes:
    """Write a classic member's assignment: version, topics with partitions, no user data."""
    rows = b"".join(
        _string(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        for topic, partitions in member.assignment.items()
    )
    return struct.pack(">hi", 0, len(member.assignment)) + rows + struct.pack(">i", -1)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def consumer_group_describe(call: Call[m.ConsumerGroupDescribeRequest]) -> m.ConsumerGroupDescribeResponse:
    """Answer ConsumerGroupDescribe; groups that are not of the newer kind are not found."""
    return m.ConsumerGroupDescribeResponse(groups=[_consumer(call, name) for name in call.message.group_ids])


def _consumer(call: Call[m.ConsumerGroupDescribeRequest], name: str) -> m.ConsumerGroupDescribeResponseDescribedGroup:
    if problem := _problem(call, name):
        return m.ConsumerGroupDescribeResponseDescribedGroup(problem, None, name)
    group = call.state.groups.by_name.get(name)
    if group is None:
        return m.ConsumerGroupDescribeResponseDescribedGroup(69, f"Group {name} not found.", name)
    if not isinstance(group, ConsumerGroup) or group.kind != "consumer":
        return m.ConsumerGroupDescribeResponseDescribedGroup(69, f"Group {name} is not a consumer group.", name)
    by_name = call.state.topics.by_name
    members = []
    for member in group.members.values():
        rows = [
            m.ConsumerGroupDescribeResponseTopicPartitions(by_name[topic].topic_id, topic, list(partitions))
            for topic, partitions in member.assignment.items()
            if topic in by_name
        ]
        assignment = m.ConsumerGroupDescribeResponseAssignment(rows)
        members.append(
            m.ConsumerGroupDescribeResponseMember(
                member.member_id,
                None,
                member.rack_id,
                member.member_epoch,
                member.client_id,
                member.client_host,
                list(member.topics),
                None,
                assignment,
                assignment,
                MEMBER_TYPE["consumer"] if call.version >= 1 else -1,
            )
        )
    epoch = group.group_epoch
    return m.ConsumerGroupDescribeResponseDescribedGroup(
        0, None, name, group.state, epoch, epoch, ASSIGNOR["consumer"], members
    )


# -- deletion ----------------------------------------------------------------------------------------------------------


def delete_groups(call: Call[m.DeleteGroupsRequest]) -> m.DeleteGroupsResponse:
    """Answer DeleteGroups, of any kind."""
    return m.DeleteGroupsResponse(results=[_delete(call, name) for name in call.message.groups_names])


def _delete(call: Call[m.DeleteGroupsRequest], name: str) -> m.DeleteGroupsResponseDeletableGroupResult:
    problem = 0 if call.may("DELETE", "GROUP", name) else 30
    problem = problem or call.coordinator_problem(name)
    if not problem:
        group = call.state.groups.by_name.get(name)
        if group is None:
            problem = 69
        elif group.members:
            problem = 68
        else:
            del call.state.groups.by_name[name]
    return m.DeleteGroupsResponseDeletableGroupResult(name, problem)
