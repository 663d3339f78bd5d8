"""What spans sessions and share partitions: locks that run out, sessions that end, records that go back.

In: sessions, deadlines. Out: released records, written as a leader writes them, and requests that are woken.
Must never: release what a member holds outside the session that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shareproxy.testing.simulation.cluster_state import Broker, ClusterState
from shareproxy.testing.simulation.groups import ShareGroup
from shareproxy.testing.simulation.share_partition import WriteRefused
from shareproxy.testing.simulation.share_sessions import Place, ShareSession
from shareproxy.testing.simulation.share_state import StateBatch
from shareproxy.testing.simulation.topics import Topic


def give_back(
    state: ClusterState, group: ShareGroup, topic: Topic, partition: int, held: Sequence[StateBatch], *, leaving: bool
) -> None:
    """Release acquired ranges of one share partition.

    Args:
        state: of the cluster.
        group: whose they are.
        topic: of the partition.
        partition: its number.
        held: the ranges.
        leaving: the member's session ends; with Kafka 4.1 the delivery does not count then.
    """
    row = group.at(topic.topic_id, partition)
    if row is None or row.leader is None or not held:
        return
    undo = leaving and not state.release_of(topic.partitions[partition].leader).leaving_counts
    try:
        row.leader.give_back(held, state.rules(group.name), state.writer(group, topic, partition), undo=undo)
    except WriteRefused:  # another leader has been here: what this one holds in memory no longer matters
        row.leader = None


def end_session(state: ClusterState, node: Broker, session: ShareSession) -> None:
    """End a share session: what its member holds of its partitions goes back."""
    node.sessions.end(session)
    group = state.groups.share(session.group)
    released: set[Place] = set()
    for topic_id, partition in session.partitions:
        topic = state.topics.by_id.get(topic_id)
        found = None if group is None else group.at(topic_id, partition)
        if group is None or topic is None or found is None or found.leader is None:
            continue
        if topic.partitions[partition].leader != node.node_id:
            continue
        if held := found.leader.held_by(session.member):
            give_back(state, group, topic, partition, held, leaving=True)
            released.add((topic_id, partition))
    wake_for_released(state, released)


def connection_ended(state: ClusterState, node: Broker, connection: object) -> None:
    """End the sessions of a connection; Kafka 4.1 ends those of the same members on other connections as well."""
    for session in node.sessions.left_by(connection, for_good=node.kafka.old_connection_ends_session):
        end_session(state, node, session)


def wake_for_released(state: ClusterState, places: Collection[Place]) -> None:
    """Tell those who wait that records were released; only Kafka 4.1 looks at them before their time is up."""
    for parked in tuple(state.parked):
        parked.released(places)


def watch_locks(state: ClusterState, group: ShareGroup, topic: Topic, partition: int, deadline: float) -> None:
    """Release what is still locked then, and look again when the next lock runs out."""

    def check() -> None:
        with state.lock:
            # the group may have been deleted and made again
            current = state.groups.share(group.name)
            if current is not None and (following := expire_locks(state, current, topic, partition)) is not None:
                watch_locks(state, current, topic, partition, following)

    state.deadlines.at(deadline, ("locks", group.name, topic.topic_id, partition), check)


def expire_locks(state: ClusterState, group: ShareGroup, topic: Topic, partition: int) -> float | None:
    """Release what is locked for too long, and return when the next lock runs out; None for never."""
    found = group.at(topic.topic_id, partition)
    if found is None or found.leader is None:
        return None
    leader = found.leader
    if due := leader.locks.due(state.deadlines.now()):
        held = [row for lock in due for row in leader.held_in(lock.first, lock.last)]
        give_back(state, group, topic, partition, held, leaving=False)
        state.wake()
    return leader.locks.next_deadline
