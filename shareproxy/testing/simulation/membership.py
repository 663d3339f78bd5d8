"""How members come into a share group and leave it, and what they are assigned.

In: joins, heartbeats, time. Out: epochs and assignments. Must never: release records; Kafka does not either when a
member leaves or its session times out (KIP-932): that is up to its share sessions.
"""

from __future__ import annotations

from typing import Final

from shareproxy.testing.simulation.cluster_state import ClusterState
from shareproxy.testing.simulation.groups import GroupMember, ShareGroup

SESSION_TIMEOUT: Final = "share.session.timeout.ms"


def refresh(state: ClusterState, group: ShareGroup) -> None:
    """Let a group begin with what its members subscribe to and it does not know yet, and assign all anew."""
    names = {topic for member in group.members.values() for topic in member.topics}
    new = [
        topic
        for name in sorted(names)
        if (topic := state.topic_of_coordinators(name)) is not None
        and len(group.partitions.get(topic.topic_id, ())) < len(topic.partitions)
    ]
    if new:
        group.group_epoch += 1
    for topic in new:
        state.initialise(group, topic)
    if not group.members and not state.coordinator_release(group.name).assigns_nothing:
        return
    held = group.name in state.assignments_held
    if not held and (state.assignment_delay <= 0 or not any(member.beats for member in group.members.values())):
        group.assign(state.topics.by_name)
        return
    # members have an epoch meanwhile, and what they had before
    group.assignment_epoch = group.group_epoch
    if not held:
        moment = state.deadlines.now() + state.assignment_delay
        state.deadlines.at(moment, ("assign", group.name), lambda: assign_late(state, group.name))


def assign_late(state: ClusterState, name: str) -> None:
    """Assign what was held back, with a new epoch."""
    with state.lock:
        group = state.groups.share(name)
        if group is not None and name not in state.assignments_held:
            group.group_epoch += 1
            group.assign(state.topics.by_name)


def beat(state: ClusterState, group: ShareGroup, member: GroupMember) -> bool:
    """Count a heartbeat, tell the member its assignment, and return whether that is another than before."""
    member.last_heartbeat = state.deadlines.now()
    _watch(state, group, member)
    if member.member_epoch != group.assignment_epoch:
        member.previous_epoch, member.member_epoch = member.member_epoch, group.assignment_epoch
    changed = member.assignment != member.target
    member.assignment = member.target
    return changed


def remove(state: ClusterState, group: ShareGroup, member: GroupMember) -> None:
    """Take a member out of its group; its records stay locked."""
    if group.members.get(member.member_id) is member:
        del group.members[member.member_id]
        group.group_epoch += 1
        refresh(state, group)


def _watch(state: ClusterState, group: ShareGroup, member: GroupMember) -> None:
    timeout = int(state.groups.configs.get(group.name, {}).get(SESSION_TIMEOUT, "45000")) / 1000

    def check() -> None:
        with state.lock:
            # it may have left and joined again
            current = state.groups.share(group.name)
            if current is None or (now_there := current.members.get(member.member_id)) is None or not now_there.beats:
                return
            if now_there.last_heartbeat + timeout <= state.deadlines.now():
                remove(state, current, now_there)
            else:
                _watch(state, current, now_there)

    state.deadlines.at(member.last_heartbeat + timeout, ("member", group.name, member.member_id), check)
