"""What group coordinators answer to members of share groups: ShareGroupHeartbeat.

In: calls. Out: member epochs, and an assignment where it is another than the member knows, or where the member names
its topics. Must never: give a member a second epoch for one change.
"""

from __future__ import annotations

from typing import Final

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.call import Call
from shareproxy.testing.simulation.groups import GroupMember, ShareGroup, member_of
from shareproxy.testing.simulation.membership import beat, refresh, remove
from shareproxy.testing.simulation.steps import FIRST_EPOCH, LAST_EPOCH

HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
LONGEST_MEMBER_ID: Final = 36


def share_group_heartbeat(call: Call[m.ShareGroupHeartbeatRequest]) -> m.ShareGroupHeartbeatResponse:
    """Answer ShareGroupHeartbeat."""
    message = call.message
    if refused := _refused(call):
        return _failed(*refused)
    known = call.state.groups.by_name.get(message.group_id)
    if known is not None and not isinstance(known, ShareGroup):
        return _failed(69, f"Group {message.group_id} is not a share group.")
    if known is None and message.member_epoch != FIRST_EPOCH:
        return _failed(69, f"{'Share group' if message.member_epoch > 0 else 'Group'} {message.group_id} not found.")
    group = call.state.groups.make_share(message.group_id)
    member = group.members.get(message.member_id)
    if message.member_epoch == LAST_EPOCH:
        return _leave(call, group, member)
    if member is None or not member.beats:
        if message.member_epoch != FIRST_EPOCH:
            return _failed(25, f"Member {message.member_id} is not a member of group {group.name}.")
        if len(group.members) >= call.state.most_members:
            return _failed(
                81, f"The share group has reached its maximum capacity of {call.state.most_members} members."
            )
        member = _join(call, group)
    elif text := _fenced(member, message.member_epoch):
        return _failed(110, text)
    else:
        _update(call, group, member)
    changed = beat(call.state, group, member)
    whole = changed or message.member_epoch == FIRST_EPOCH or message.subscribed_topic_names is not None
    interval = int(call.state.groups.configs.get(group.name, {}).get(HEARTBEAT_INTERVAL, "5000"))
    return m.ShareGroupHeartbeatResponse(
        0,
        0,
        None,
        member.member_id,
        member.member_epoch,
        interval,
        _assignment(call, member) if whole else None,
    )


def _refused(call: Call[m.ShareGroupHeartbeatRequest]) -> tuple[int, str | None] | None:
    message, state = call.message, call.state
    topics = message.subscribed_topic_names
    if state.level_of_share_version(call.node.kafka) < 1:
        return 35, None
    if not call.may("READ", "GROUP", message.group_id):
        return 30, None
    if any(not call.may("DESCRIBE", "TOPIC", topic) for topic in topics or ()):
        return 29, None
    if not message.member_id:
        return 42, None
    if not message.group_id:
        return 42, "GroupId can't be empty."
    if call.node.kafka.limits_member_id and len(message.member_id) > LONGEST_MEMBER_ID:
        return 42, None
    if message.member_epoch < LAST_EPOCH:
        return 42, "MemberEpoch is invalid."
    if message.member_epoch == FIRST_EPOCH and not topics:
        return 42, "SubscribedTopicNames must be set in first request."
    if code := call.coordinator_problem(message.group_id):
        return code, None
    return None


def _failed(code: int, text: str | None) -> m.ShareGroupHeartbeatResponse:
    return m.ShareGroupHeartbeatResponse(0, code, text)


def _leave(
    call: Call[m.ShareGroupHeartbeatRequest], group: ShareGroup, member: GroupMember | None
) -> m.ShareGroupHeartbeatResponse:
    if member is None:
        return _failed(25, f"Member {call.message.member_id} is not a member of group {group.name}.")
    remove(call.state, group, member)
    return m.ShareGroupHeartbeatResponse(0, 0, None, member.member_id, LAST_EPOCH)


def _join(call: Call[m.ShareGroupHeartbeatRequest], group: ShareGroup) -> GroupMember:
    message = call.message
    group.joined += 1
    topics = sorted(set(message.subscribed_topic_names or ()))
    member = member_of(message.member_id, topics, call.client_id, "/127.0.0.1", message.rack_id)
    member.beats = True
    group.members[member.member_id] = member
    group.group_epoch += 1
    refresh(call.state, group)
    return member


def _fenced(member: GroupMember, epoch: int) -> str | None:
    """Return why a heartbeat with an epoch is refused."""
    if epoch in (FIRST_EPOCH, member.member_epoch, member.previous_epoch):
        return None
    greater = epoch > member.member_epoch
    also = "" if greater else f", and it does not match the previous member epoch ({max(0, member.previous_epoch)})"
    return (
        f"The share group member has a {'greater' if greater else 'smaller'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.member_epoch}){also}. The member must abandon all its partitions "
        "and rejoin."
    )


def _update(call: Call[m.ShareGroupHeartbeatRequest], group: ShareGroup, member: GroupMember) -> None:
    """Take what the member subscribes to, if it says so."""
    named = call.message.subscribed_topic_names
    if named is None:
        return
    topics = tuple(sorted(set(named)))
    if topics != member.topics:
        member.topics = topics
        group.group_epoch += 1
        refresh(call.state, group)


def _assignment(
    call: Call[m.ShareGroupHeartbeatRequest], member: GroupMember
) -> m.ShareGroupHeartbeatResponseAssignment:
    by_name = call.state.topics.by_name
    return m.ShareGroupHeartbeatResponseAssignment(
        [
            m.ShareGroupHeartbeatResponseTopicPartitions(by_name[topic].topic_id, sorted(partitions))
            for topic, partitions in member.assignment.items()
            if topic in by_name
        ]
    )
