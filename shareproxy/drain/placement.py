"""Know which broker leads each assigned partition.

In: assignments by topic id, metadata, what brokers say of a new leader. Out: partitions by broker, when that changes.
Must never: go back to a leader that an older answer names, or ask for metadata without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster, ClusterMetadata
from shareproxy.cluster.errors import ClusterError, Unreachable
from shareproxy.drain.events import ConsumerEvent, LeaderMoved
from shareproxy.drain.membership import Assignment
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.session import PartitionTrouble, SharePartition
from shareproxy.protocol.ids import NodeId, TopicId

Placed = Mapping[NodeId, Sequence[SharePartition]]

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
METADATA_SECONDS: Final = 10.0
# how often the same leader in the same epoch has to be named again before a broker that denied it is asked again
DOUBTS: Final = 3


class _Led:
    """What is known of one partition's leader."""

    __slots__ = ("doubts", "leader", "leader_epoch")

    def __init__(self) -> None:
        self.leader: NodeId | None = None
        self.leader_epoch = -1
        self.doubts = 0


class Placement:
    """Who leads what.

    Args:
        cluster: asked for metadata.
        topics: all that the member subscribed to.
        changed: called with the partitions of every broker.
        tell: called with events.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        changed: Callable[[Placed], None],
        tell: Callable[[ConsumerEvent], None],
    ) -> None:
        self._cluster, self._topics, self._changed, self._tell = cluster, topics, changed, tell
        self._assigned: dict[tuple[TopicId, int], _Led] = {}
        self._names: dict[TopicId, str] = {}
        self._addresses: dict[NodeId, Address] = {}
        self._moving: dict[SharePartition, NodeId] = {}
        self._ask = asyncio.Event()

    def assign(self, assignment: Assignment) -> None:
        """Take all partitions from now on."""
        wanted = {(topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions}
        self._assigned = {key: self._assigned.get(key) or _Led() for key in wanted}
        self._publish()
        if any(led.leader is None for led in self._assigned.values()):
            self._ask.set()

    def named(self) -> list[SharePartition]:
        """Return the assigned partitions whose topic's name is known."""
        return [
            SharePartition(self._names[topic_id], partition, topic_id)
            for topic_id, partition in self._assigned
            if topic_id in self._names
        ]

    def misplaced(self, node_id: NodeId, trouble: PartitionTrouble) -> None:
        """Take it that a broker does not lead a partition, or no more."""
        partition, hint = trouble.partition, trouble.leader
        led = self._assigned.get((partition.topic_id, partition.partition))
        if led is None:
            return
        if hint is not None and hint.leader_epoch >= led.leader_epoch and hint.node_id != node_id:
            led.leader, led.leader_epoch, led.doubts = hint.node_id, hint.leader_epoch, 0
            if hint.host and hint.port and hint.node_id not in self._addresses:
                self._addresses[hint.node_id] = Address(hint.host, hint.port)
            self._tell(LeaderMoved(partition.name, node_id, hint.node_id))
            self._publish()
        else:
            led.leader, led.doubts = None, DOUBTS
            self._moving.setdefault(partition, node_id)
        self._ask.set()

    def look_again(self) -> None:
        """Ask for metadata: a broker does not answer."""
        self._ask.set()

    async def address_of(self, node_id: NodeId, deadline: float) -> Address:
        """Return where a broker is now.

        Raises:
            ClusterError: nobody knows, or nobody answers.
        """
        known = self._addresses.get(node_id)
        if known is None:
            self._learn(await self._cluster.metadata(self._topics, deadline=deadline))
            known = self._addresses.get(node_id)
        if known is None:
            raise Unreachable(f"node {node_id} is not in the cluster now")
        return known

    async def run(self) -> None:
        """Ask for metadata whenever something is not known."""
        pause = FIRST_PAUSE
        while True:
            await self._ask.wait()
            self._ask.clear()
            loop = asyncio.get_running_loop()
            with contextlib.suppress(ClusterError):
                self._learn(await self._cluster.metadata(self._topics, deadline=loop.time() + METADATA_SECONDS))
            if any(led.leader is None for led in self._assigned.values()):
                self._ask.set()
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)

    def _learn(self, metadata: ClusterMetadata) -> None:
        self._addresses = {node_id: node.address for node_id, node in metadata.nodes.items()}
        changed = False
        for name, topic in metadata.topics.items():
            if topic.error_code:
                continue
            if topic.topic_id not in self._names:
                self._names[topic.topic_id] = name
                changed = True
            for row in topic.partitions.values():
                led = self._assigned.get((topic.topic_id, row.partition))
                if led is None or row.leader is None:
                    continue
                before = led.leader
                if self._lead(led, row.leader, row.leader_epoch):
                    changed = True
                    if before is not None:
                        self._tell(LeaderMoved(TopicPartition(name, row.partition), before, row.leader))
        for partition, node_id in list(self._moving.items()):
            led = self._assigned.get((partition.topic_id, partition.partition))
            if led is None or led.leader is not None:
                del self._moving[partition]
                if led is not None and led.leader != node_id:
                    self._tell(LeaderMoved(partition.name, node_id, led.leader))
        if changed:
            self._publish()

    @staticmethod
    def _lead(led: _Led, leader: NodeId, leader_epoch: int | None) -> bool:
        epoch = led.leader_epoch if leader_epoch is None else leader_epoch
        if epoch < led.leader_epoch:
            return False
        if epoch == led.leader_epoch and led.leader is None and led.doubts > 1:
            # the broker said that it leads no more, and this answer may be older than that
            led.doubts -= 1
            return False
        changed = led.leader != leader
        led.leader, led.leader_epoch, led.doubts = leader, epoch, 0
        return changed

    def _publish(self) -> None:
        placed: dict[NodeId, list[SharePartition]] = {}
        for (topic_id, partition), led in self._assigned.items():
            name = self._names.get(topic_id)
            if name is not None and led.leader is not None:
                placed.setdefault(led.leader, []).append(SharePartition(name, partition, topic_id))
        self._changed(placed)
