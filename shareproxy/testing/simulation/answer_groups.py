"""What group coordinators answer about groups of all kinds: lists, descriptions, deletion, committed offsets.

In: calls. Out: answers. Must never: describe a group of one kind as one of another.
"""

from __future__ import annotations

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.groups import Group, GroupMember, ShareGroup

ASSIGNOR = "simple"


def list_groups(call: Call[m.ListGroupsRequest]) -> m.ListGroupsResponse:
    """Answer ListGroups: the groups of this coordinator."""
    if code := call.fault():
        return m.ListGroupsResponse(0, code)
    state, message = call.state, call.message
    states = {text.lower() for text in message.states_filter}
    types = {text.lower() for text in message.types_filter}
    everything = call.may_in_cluster("DESCRIBE")
    rows = []
    for name, group in state.groups.by_name.items():
        if state.group_coordinator(name) != call.node.node_id:
            continue
        if (states and group.state.lower() not in states) or (types and group.kind not in types):
            continue
        if everything or call.may("DESCRIBE", "GROUP", name):
            rows.append(m.ListGroupsResponseListedGroup(name, _protocol(group), group.state, _type(group)))
    return m.ListGroupsResponse(0, 0, rows)


def _protocol(group: Group) -> str:
    return "share" if isinstance(group, ShareGroup) else "consumer"


def _type(group: Group) -> str:
    return group.kind


def share_group_describe(call: Call[m.ShareGroupDescribeRequest]) -> m.ShareGroupDescribeResponse:
    """Answer ShareGroupDescribe."""
    return m.ShareGroupDescribeResponse(groups=[_describe_share(call, name) for name in call.message.group_ids])


def _describe_share(call: Call[m.ShareGroupDescribeRequest], name: str) -> m.ShareGroupDescribeResponseDescribedGroup:
    def failed(code: int, text: str | None) -> m.ShareGroupDescribeResponseDescribedGroup:
        return m.ShareGroupDescribeResponseDescribedGroup(code, text, name)

    if call.state.level_of_share_version(call.node.kafka) < 1:
        return failed(35, None)
    if not call.may("DESCRIBE", "GROUP", name):
        return failed(30, None)
    if not name:
        return failed(24, None)
    if code := call.coordinator_problem(name):
        return failed(code, None)
    group = call.state.groups.by_name.get(name)
    if group is None:
        return failed(69, f"Group {name} not found.")
    if not isinstance(group, ShareGroup):
        return failed(69, f"Group {name} is not a share group.")
    if any(not call.may("DESCRIBE", "TOPIC", topic) for member in group.members.values() for topic in member.topics):
        return failed(29, "The group has described topic(s) that the client is not authorized to describe.")
    return m.ShareGroupDescribeResponseDescribedGroup(
        0,
        None,
        name,
        group.state,
        group.group_epoch,
        group.assignment_epoch,
        ASSIGNOR,
        [_share_member(call, member) for member in group.members.values()],
    )


def _share_member(call: Call[m.ShareGroupDescribeRequest], member: GroupMember) -> m.ShareGroupDescribeResponseMember:
    by_name = call.state.topics.by_name
    assignment = m.ShareGroupDescribeResponseAssignment(
        [
            m.ShareGroupDescribeResponseTopicPartitions(by_name[topic].topic_id, topic, sorted(partitions))
            for topic, partitions in member.assignment.items()
            if topic in by_name
        ]
    )
    return m.ShareGroupDescribeResponseMember(
        member.member_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        list(member.topics),
        assignment,
    )
