"""The whole state of a simulated cluster, and the rules that span its parts.

In: nodes, topics, groups, rights, faults. Out: who leads and coordinates what, and under which rules a leader works.
Must never: touch a socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from shareproxy.protocol.ids import TopicId, topic_id_text
from shareproxy.testing.simulation.deadlines import Deadlines
from shareproxy.testing.simulation.faults import Faults
from shareproxy.testing.simulation.groups import Groups, ShareGroup, SharePartition
from shareproxy.testing.simulation.rights import Rights
from shareproxy.testing.simulation.share_partition import GroupRules, ShareLeader, Writer
from shareproxy.testing.simulation.share_sessions import ShareSessions
from shareproxy.testing.simulation.topics import Topic, Topics
from shareproxy.testing.simulation.versions import Release, release

if TYPE_CHECKING:
    from shareproxy.testing.simulation.call import Parked

GROUP_TOPIC: Final = "__consumer_offsets"
SHARE_TOPIC: Final = "__share_group_state"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
# seconds for which a real broker asks again and again before it answers without a partition (five attempts)
BROKER_PATIENCE: Final = 30.0
ATTEMPTS: Final = 5
MOST_MEMBERS: Final = 200  # of a share group, as brokers have it


class Broker:
    """One node as the others see it.

    Attributes:
        alive: it is in the metadata; a frozen node is, until somebody says otherwise.
        frozen: it takes requests and answers none.
        sessions: of share consumers.
    """

    def __init__(self, node_id: int, kafka: Release, rack: str | None) -> None:
        self.node_id, self.kafka, self.rack = node_id, kafka, rack
        self.host, self.port = "127.0.0.1", 0
        self.alive, self.frozen = True, False
        self.sessions = ShareSessions()

    @property
    def answers(self) -> bool:
        """Whether another broker gets an answer from it."""
        return self.alive and not self.frozen


class ClusterState:
    """Everything that answers are made from.

    Args:
        versions: node id → Kafka release.
        cluster_id: as clients are told.
        internal_partitions: of `__consumer_offsets` and `__share_group_state`.
        rights: who may do what.
        clock: milliseconds, for records without a timestamp of their own.
        broker_patience: seconds that a broker waits for partitions and nodes that do not answer.
    """

    def __init__(
        self,
        versions: Mapping[int, str],
        *,
        cluster_id: str,
        internal_partitions: int,
        rights: Rights,
        clock: Callable[[], int] | None = None,
        broker_patience: float = BROKER_PATIENCE,
    ) -> None:
        self.lock = threading.RLock()
        self.cluster_id = cluster_id
        self.brokers = {node: Broker(node, release(name), None) for node, name in versions.items()}
        self.topics = Topics(lambda: [node for node, broker in self.brokers.items() if broker.alive])
        self.groups = Groups()
        self.rights = rights
        self.faults = Faults()
        self.clock = clock or (lambda: int(time.time() * 1000))
        self.broker_patience = broker_patience
        self.share_version: int | None = None  # None: each release's own level
        self.loading: set[str] = set()
        self.users: dict[str, str] = {}
        self._internal_partitions = internal_partitions
        self._transactional_ids: dict[str, int] = {}
        self.dead_letters_held: set[str] = set()
        self.new_topics: set[str] = set()
        self.deadlines = Deadlines()
        self.parked: set[Parked] = set()
        self.assignment_delay = 0.0
        self.assignments_held: set[str] = set()
        self.most_members = MOST_MEMBERS

    # -- who is responsible -------------------------------------------------------------------------------------------

    @property
    def controller(self) -> int:
        """The node that clients are told is the controller."""
        return min((node for node, broker in self.brokers.items() if broker.alive), default=-1)

    def topic_of_coordinators(self, name: str) -> Topic | None:
        """Return a topic as coordinators know it: new ones not yet."""
        return None if name in self.new_topics else self.topics.by_name.get(name)

    def internal_topic(self, name: str) -> Topic:
        """Return `__consumer_offsets` or `__share_group_state`, which is created when it is first needed."""
        found = self.topics.by_name.get(name)
        return self.topics.create(name, self._internal_partitions, 3) if found is None else found

    def group_partition(self, group: str) -> int:
        """Return the partition of `__consumer_offsets` that holds a group."""
        return partition_of(java_hash(group), len(self.internal_topic(GROUP_TOPIC).partitions))

    def group_coordinator(self, group: str) -> int | None:
        """Return the node that keeps a group, None while nobody does."""
        topic = self.topics.by_name.get(GROUP_TOPIC)
        if topic is None:
            return None
        return topic.partitions[partition_of(java_hash(group), len(topic.partitions))].leader

    def share_partition_number(self, group: str, topic_id: TopicId, partition: int) -> int:
        """Return the partition of `__share_group_state` that holds a share partition."""
        key = f"{group}:{topic_id_text(topic_id)}:{partition}"
        return partition_of(java_hash(key), len(self.internal_topic(SHARE_TOPIC).partitions))

    def share_coordinators(self, group: str, topic_id: TopicId) -> Callable[[int], int | None]:
        """Return what tells the node that keeps a share partition; the hash of its prefix is made once."""
        topic = self.topics.by_name.get(SHARE_TOPIC)
        if topic is None:
            return lambda partition: None
        prefix, rows = java_hash(f"{group}:{topic_id_text(topic_id)}:"), topic.partitions
        return lambda partition: rows[partition_of(java_hash(str(partition), prefix), len(rows))].leader

    def level_of_share_version(self, kafka: Release) -> int:
        """Return the finalized level of the feature `share.version` as a node tells it."""
        return kafka.finalized["share.version"] if self.share_version is None else self.share_version

    # -- share partitions ---------------------------------------------------------------------------------------------

    def rules(self, group: str) -> GroupRules:
        """Return what a group's configuration says."""
        configs = self.groups.configs.get(group, {})
        return GroupRules(
            configs.get("share.auto.offset.reset", "latest"),
            configs.get("share.isolation.level", "read_uncommitted"),
            int(configs.get("share.delivery.count.limit", "5")),
            int(configs.get("share.partition.max.record.locks", "2000")),
            bool(configs.get(DEAD_LETTER_TOPIC)) and group in self.dead_letters_held,
            int(configs.get("share.record.lock.duration.ms", "30000")) / 1000,
            configs.get("share.renew.acknowledge.enable", "true") == "true",
        )

    def initialise(self, group: ShareGroup, topic: Topic) -> None:
        """Give state to the partitions of a topic that a group begins or goes on to read."""
        self.internal_topic(GROUP_TOPIC)
        self.internal_topic(SHARE_TOPIC)
        coordinator = self.coordinator_release(group.name)
        group.initialise(
            topic.topic_id, len(topic.partitions), coordinator.added_start, counts=coordinator.counts_deliveries
        )

    def coordinator_release(self, group: str) -> Release:
        """Return the Kafka release of a group's coordinator; while there is none, of any node."""
        return self.release_of(self.group_coordinator(group))

    def release_of(self, node: int | None) -> Release:
        """Return the Kafka release of a node."""
        broker = self.brokers.get(-1 if node is None else node)
        return next(iter(self.brokers.values())).kafka if broker is None else broker.kafka

    def share_partition(self, group: ShareGroup, topic: Topic, partition: int) -> SharePartition:
        """Return a share partition.

        Raises:
            ValueError: the group never had it.
        """
        found = group.at(topic.topic_id, partition)
        if found is None:
            raise ValueError(f"group {group.name!r} has no state of partition {partition} of topic {topic.name!r}")
        return found

    def leader_of(self, group: ShareGroup, topic: Topic, partition: int) -> ShareLeader:
        """Return what the leader of a share partition holds in memory; it loads the stored state first."""
        found = self.share_partition(group, topic, partition)
        if found.leader is None:
            found.leader = ShareLeader(found.stored, topic.partitions[partition].log, self.rules(group.name))
        return found.leader

    def writer(self, group: ShareGroup, topic: Topic, partition: int) -> Writer:
        """Return how the leader of a partition writes: it and the share coordinator must both know the count."""
        row = topic.partitions[partition]
        coordinator = self.share_coordinators(group.name, topic.topic_id)(partition)
        counts = self.release_of(row.leader).counts_deliveries and self.release_of(coordinator).counts_deliveries
        return Writer(row.leader_epoch, counts)

    def leader_lost(self, topic: Topic, partition: int) -> None:
        """Forget what the leader of a partition held in memory: the next one loads what is stored."""
        for group in self.groups.share_groups():
            found = group.at(topic.topic_id, partition)
            if found is not None:
                found.leader = None

    def wake(self) -> None:
        """Let requests that wait look again: there may be something for them."""
        for parked in tuple(self.parked):
            parked.notify()

    def producer_id(self, transactional_id: str) -> int:
        """Return the producer id of a transactional id, a new one for a new id."""
        return self._transactional_ids.setdefault(transactional_id, 1000 + len(self._transactional_ids))

    @property
    def transactional_ids(self) -> Mapping[str, int]:
        """Transactional id → producer id."""
        return self._transactional_ids


def java_hash(text: str, begin: int = 0) -> int:
    """Return Java's hash of a string, unsigned.

    Args:
        text: hashed by its UTF-16 units.
        begin: hash of what stands before the text.
    """
    value = begin
    if text.isascii():
        for byte in text.encode():
            value = (31 * value + byte) & 0xFFFF_FFFF
        return value
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & 0xFFFF_FFFF
    return value


def partition_of(unsigned_hash: int, count: int) -> int:
    """Return the partition of an internal topic that holds a key."""
    if unsigned_hash < 0x8000_0000:
        return unsigned_hash % count
    return (0x1_0000_0000 - unsigned_hash) % count if unsigned_hash > 0x8000_0000 else 0
