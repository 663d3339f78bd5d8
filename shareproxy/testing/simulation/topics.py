"""Topics, their partitions and who leads them.

In: names, counts, leaders. Out: the same, with ids and epochs as Kafka keeps them.
Must never: give a topic that is created again its old id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.record_log import RecordLog


class Partition:
    """One partition of a topic."""

    __slots__ = ("leader", "leader_epoch", "log", "replicas")

    def __init__(self, replicas: tuple[int, ...]) -> None:
        self.log = RecordLog()
        self.replicas = replicas
        self.leader: int | None = replicas[0]
        self.leader_epoch = 0

    def lead(self, node: int | None) -> None:
        """Let another node lead, or nobody."""
        self.leader = node
        self.leader_epoch += 1
        if node is not None and node not in self.replicas:
            self.replicas = (*self.replicas[:-1], node)


class Topic:
    """A topic; its partitions lie on the nodes in turn."""

    __slots__ = ("configs", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, partitions: Sequence[Partition]) -> None:
        self.name, self.topic_id, self.partitions = name, topic_id, list(partitions)
        self.is_internal = name.startswith("__")
        self.configs: dict[str, str] = {}


class Topics:
    """All topics of a cluster, by name and by id.

    Args:
        nodes: returns the ids of the nodes that partitions are laid on.
    """

    def __init__(self, nodes: Callable[[], Sequence[int]]) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[TopicId, Topic] = {}
        self._nodes = nodes
        self._created = 0

    def create(self, name: str, partitions: int, replication: int = 1) -> Topic:
        """Create a topic.

        Raises:
            ValueError: it exists, or has no partition.
        """
        if name in self.by_name:
            raise ValueError(f"topic {name!r} exists already")
        if partitions < 1:
            raise ValueError(f"topic {name!r} needs at least one partition, not {partitions}")
        self._created += 1
        # the same script gives the same ids each time
        topic_id = TopicId(hashlib.sha256(f"{name}#{self._created}".encode()).digest()[:16])
        topic = self.by_name[name] = self.by_id[topic_id] = Topic(name, topic_id, ())
        self.add_partitions(name, partitions, replication)
        return topic

    def add_partitions(self, name: str, total: int, replication: int = 1) -> Topic:
        """Raise the number of partitions."""
        topic, nodes = self.get(name), self._nodes()
        first = self._created
        for index in range(len(topic.partitions), total):
            at = first + index
            replicas = tuple(nodes[(at + step) % len(nodes)] for step in range(min(replication, len(nodes))))
            topic.partitions.append(Partition(replicas))
        return topic

    def delete(self, name: str) -> Topic:
        """Delete a topic and return what it was."""
        topic = self.get(name)
        del self.by_name[name], self.by_id[topic.topic_id]
        return topic

    def get(self, name: str) -> Topic:
        """Return a topic.

        Raises:
            ValueError: there is none of that name.
        """
        try:
            return self.by_name[name]
        except KeyError:
            raise ValueError(f"there is no topic {name!r}; create_topic makes one") from None

    def partition(self, name: str, index: int) -> Partition:
        """Return a partition.

        Raises:
            ValueError: there is no such topic or partition.
        """
        partitions = self.get(name).partitions
        if not 0 <= index < len(partitions):
            raise ValueError(f"topic {name!r} has {len(partitions)} partitions, none of them is {index}")
        return partitions[index]
