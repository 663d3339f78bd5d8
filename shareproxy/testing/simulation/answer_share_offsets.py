"""What group coordinators do for administrators of share groups: set start offsets, forget topics (APIs 91 and 92).

In: calls. Out: answers, and changed state. Must never: change a group that has members.
"""

from __future__ import annotations

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NO_TOPIC_ID
from shareproxy.testing.simulation.call import TEXTS, Call
from shareproxy.testing.simulation.cluster_state import ClusterState
from shareproxy.testing.simulation.groups import ShareGroup
from shareproxy.testing.simulation.share_state import UNKNOWN
from shareproxy.testing.simulation.topics import Topic


def alter_share_group_offsets(call: Call[m.AlterShareGroupOffsetsRequest]) -> m.AlterShareGroupOffsetsResponse:
    """Answer AlterShareGroupOffsets; Kafka 4.1 says yes, does nothing, and has rows for refusals only."""
    name = call.message.group_id
    code, text = _refused(call, name, "READ", needs_group=False)
    if code:
        return m.AlterShareGroupOffsetsResponse(0, code, text)
    alters = call.node.kafka.alters
    group = call.state.groups.make_share(name) if alters else ShareGroup(name)
    result = []
    for asked in call.message.topics:
        topic = call.state.topic_of_coordinators(asked.topic_name)
        refusal = 29 if not call.may("READ", "TOPIC", asked.topic_name) else 3 if topic is None else 0
        if not alters and not refusal:
            continue  # not even a row
        rows = []
        for row in asked.partitions:
            index = row.partition_index
            problem = refusal or call.fault(group=name, topic=asked.topic_name, partition=index)
            if not problem and topic is not None and not 0 <= index < len(topic.partitions):
                problem = 3
            if not problem and topic is not None:
                alter(call.state, group, topic, index, row.start_offset)
            rows.append(m.AlterShareGroupOffsetsResponsePartition(index, problem, TEXTS.get(problem)))
        topic_id = NO_TOPIC_ID if topic is None or refusal else topic.topic_id
        result.append(m.AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, rows))
    return m.AlterShareGroupOffsetsResponse(responses=result)


def alter(state: ClusterState, group: ShareGroup, topic: Topic, partition: int, start_offset: int) -> None:
    """Set a start offset by hand, as the coordinator of the group does in its release."""
    if not group.group_epoch:  # the group is new
        group.group_epoch = group.assignment_epoch = 1
    found = group.at(topic.topic_id, partition)
    if found is None:
        state.initialise(group, topic)
        found = state.share_partition(group, topic, partition)
    counts = state.coordinator_release(group.name).alter_counts
    found.stored.set_by_hand(start_offset, 0 if counts else UNKNOWN, group.group_epoch)
    found.leader = None


def delete_share_group_offsets(call: Call[m.DeleteShareGroupOffsetsRequest]) -> m.DeleteShareGroupOffsetsResponse:
    """Answer DeleteShareGroupOffsets."""
    name = call.message.group_id
    code, text = _refused(call, name, "DELETE", needs_group=True)
    if code:
        return m.DeleteShareGroupOffsetsResponse(0, code, text)
    group = call.state.groups.make_share(name)
    result = []
    for asked in call.message.topics:
        topic = call.state.topic_of_coordinators(asked.topic_name)
        problem = 0 if call.may("READ", "TOPIC", asked.topic_name) else 29
        problem = problem or call.fault(group=name, topic=asked.topic_name) or (3 if topic is None else 0)
        text = TEXTS.get(problem)
        if not problem and topic is not None and group.partitions.pop(topic.topic_id, None) is None:
            problem, text = 3, "There is no offset information to delete."
        topic_id = NO_TOPIC_ID if topic is None or problem else topic.topic_id
        result.append(m.DeleteShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, problem, text))
    return m.DeleteShareGroupOffsetsResponse(responses=result)


def _refused(
    call: Call[m.AlterShareGroupOffsetsRequest] | Call[m.DeleteShareGroupOffsetsRequest],
    name: str,
    operation: str,
    *,
    needs_group: bool,
) -> tuple[int, str | None]:
    """Return why nothing is done for the whole group: code and text, (0, None) if it is."""
    if call.state.level_of_share_version(call.node.kafka) < 1:
        return 35, None
    if not call.may(operation, "GROUP", name):
        return 30, TEXTS[30]
    if not name and call.node.kafka.alters:
        return 24, "The group id is invalid."
    if code := call.coordinator_problem(name):
        return code, TEXTS.get(code)
    group = call.state.groups.by_name.get(name)
    if group is None:
        return (69, f"Group {name} not found.") if needs_group else (0, None)
    if not isinstance(group, ShareGroup):
        return 69, f"Group {name} is not a share group."
    return (68, TEXTS[68]) if group.members else (0, None)
