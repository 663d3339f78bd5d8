"""Groups as their coordinators know them: share groups with their share partitions, and groups of the older kinds.

In: members that come and go, offsets. Out: states, epochs, assignments. Must never: assign one partition of a
consumer group twice, or keep a share partition of a topic that was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.share_partition import ShareLeader
from shareproxy.testing.simulation.share_state import StoredState
from shareproxy.testing.simulation.topics import Topic

Assignment = dict[str, list[int]]


class GroupMember(msgspec.Struct):
    """A member.

    Attributes:
        assignment: topic → partitions, as the member knows them.
        target: the same, as it will learn it with its next heartbeat.
        beats: it sends heartbeats; else it belongs to the script, and knows everything at once.
        previous_epoch: the member epoch before this one; heartbeats with it are taken as well.
        last_heartbeat: when the last one came, in seconds.
    """

    member_id: str
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    rack_id: str | None = None
    member_epoch: int = 0
    assignment: Assignment = msgspec.field(default_factory=dict)
    target: Assignment = msgspec.field(default_factory=dict)
    beats: bool = False
    previous_epoch: int = -1
    last_heartbeat: float = 0.0


class SharePartition:
    """State as stored, and as its leader holds it in memory once that was needed."""

    __slots__ = ("leader", "stored")

    def __init__(self, stored: StoredState) -> None:
        self.stored = stored
        self.leader: ShareLeader | None = None


class ShareGroup:
    """A share group.

    Attributes:
        joined: how many members there ever were.
        partitions: topic id → partition → share partition; what was initialised.
    """

    kind = "share"

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, GroupMember] = {}
        self.joined = 0
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.partitions: dict[TopicId, dict[int, SharePartition]] = {}

    @property
    def state(self) -> str:
        """Kafka's word."""
        return "Stable" if self.members else "Empty"

    def at(self, topic_id: TopicId, partition: int) -> SharePartition | None:
        """Return a share partition, None if it was never initialised."""
        of_topic = self.partitions.get(topic_id)
        return None if of_topic is None else of_topic.get(partition)

    def initialise(self, topic_id: TopicId, count: int, start_offset: int = -1, *, counts: bool = True) -> None:
        """Give state to partitions that have none; those that join a known topic may have a start at once."""
        known = topic_id in self.partitions
        of_topic = self.partitions.setdefault(topic_id, {})
        for index in range(count):
            if index not in of_topic:
                start = start_offset if known else -1
                of_topic[index] = SharePartition(
                    StoredState(
                        self.group_epoch,
                        start_offset=start,
                        delivery_complete_count=0 if start >= 0 and counts else -1,
                    )
                )

    def assign(self, topics: Mapping[str, Topic]) -> None:
        """Share the initialised partitions of the subscribed topics out among the members."""
        members = list(self.members.values())
        for member in members:
            member.target = {}
        self.assignment_epoch = self.group_epoch
        for name in sorted({topic for member in members for topic in member.topics}):
            topic = topics.get(name)
            if topic is None:
                continue
            readers = [member for member in members if name in member.topics]
            numbers = sorted(self.partitions.get(topic.topic_id, ()))
            # each partition has a member and each member a partition, as far as there are any
            for turn in range(max(len(numbers), len(readers)) if numbers else 0):
                mine = readers[turn % len(readers)].target.setdefault(name, [])
                mine.append(numbers[turn % len(numbers)])
        for member in members:
            if not member.beats:
                member.assignment, member.member_epoch = member.target, self.group_epoch


class CommittedOffset(msgspec.Struct, frozen=True):
    """What a consumer group has committed for a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroup:
    """A group of kind "consumer" (KIP-848) or "classic"."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.members: dict[str, GroupMember] = {}
        self.joined = 0
        self.group_epoch = 0
        self.committed: dict[tuple[str, int], CommittedOffset] = {}

    @property
    def state(self) -> str:
        """Kafka's word."""
        return "Stable" if self.members else "Empty"

    def assign(self, topics: Mapping[str, Topic]) -> None:
        """Share the partitions of the subscribed topics out among the members, each to one."""
        members = list(self.members.values())
        for member in members:
            member.assignment = {}
            member.member_epoch = self.group_epoch
        for name in sorted({topic for member in members for topic in member.topics}):
            topic = topics.get(name)
            readers = [member for member in members if name in member.topics]
            for index in range(0 if topic is None else len(topic.partitions)):
                readers[index % len(readers)].assignment.setdefault(name, []).append(index)


Group = ShareGroup | ConsumerGroup


class Groups:
    """All groups of a cluster, and the configurations, which may be there before the group is."""

    def __init__(self) -> None:
        self.by_name: dict[str, Group] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def share(self, name: str) -> ShareGroup | None:
        """Return a share group, None if there is none of that name."""
        found = self.by_name.get(name)
        return found if isinstance(found, ShareGroup) else None

    def make_share(self, name: str) -> ShareGroup:
        """Return a share group, a new one if there is none.

        Raises:
            ValueError: a group of another kind has the name.
        """
        found = self.by_name.setdefault(name, ShareGroup(name))
        if not isinstance(found, ShareGroup):
            raise ValueError(f"group {name!r} is a {found.kind} group")
        return found

    def make_consumer(self, name: str, kind: str) -> ConsumerGroup:
        """Return a consumer or classic group, a new one if there is none.

        Raises:
            ValueError: a group of another kind has the name.
        """
        if kind not in ("consumer", "classic"):
            raise ValueError(f"a group is of the kind 'consumer' or 'classic' here, not {kind!r}")
        found = self.by_name.setdefault(name, ConsumerGroup(name, kind))
        if not isinstance(found, ConsumerGroup) or found.kind != kind:
            raise ValueError(f"group {name!r} is a {found.kind} group")
        return found

    def share_groups(self) -> Iterator[ShareGroup]:
        """Yield the share groups."""
        return (group for group in self.by_name.values() if isinstance(group, ShareGroup))

    def forget_topic(self, topic_id: TopicId) -> None:
        """Drop the state of a topic that was deleted."""
        for group in self.share_groups():
            group.partitions.pop(topic_id, None)


def member_of(
    member_id: str, topics: Sequence[str], client_id: str, client_host: str, rack_id: str | None
) -> GroupMember:
    """Return a member without assignment."""
    return GroupMember(member_id, client_id, client_host, tuple(topics), rack_id)
