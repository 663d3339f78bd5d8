"""Keep what one look at the cluster leaves for the next.

In: what a look found. Out: the same, until it is too old. Must never: grow without bound, or stand in for an answer
that a broker gives.

Everything that this program remembers of a cluster, and when it ends:
    nodes, topics, leaders   `cluster.Cluster`: as old as each question allows, here 30 s; a fresh look where a leader
                             refuses, and where Metadata itself says that something is missing; gone with its topic id
    group coordinators       `cluster`: until one answers that it is not (16) or cannot be (14, 15), or does not answer
    share coordinators       computed from the leaders of `__share_group_state`, 60 s; anew after any refusal
    API versions             each connection its own, as a node may be upgraded between two of them
    a group's partitions     here: replaced by each answer of the coordinator, topic ids included; an hour
    a coordinator's groups   here: replaced by each of its lists of groups; ten minutes
    end offsets              here: only to see that nothing was produced since; never shown
    scans of records         `visible.VisibleReader`: until an offset moves, at most 60 s, as compaction moves none
    nodes that stalled       here: ten minutes
    groups that hang         here: a minute
A topic that looks missing is never remembered: a new one does so for about a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from shareproxy.lag.leaders import Wanted
from shareproxy.protocol.ids import GroupId, NodeId, TopicId

if TYPE_CHECKING:
    from shareproxy.lag.groups import FoundGroup

PARTITIONS_SECONDS: Final = 3600.0
GROUPS_SECONDS: Final = 600.0
ALONE_SECONDS: Final = 600.0
HANGING_SECONDS: Final = 60.0
# partitions, a hundred bytes each
MOST_REMEMBERED: Final = 500_000
MOST_GROUPS: Final = 50_000

Topics = Mapping[tuple[str, TopicId], Sequence[int]]

K = TypeVar("K")
V = TypeVar("V")


class _Aged(Generic[K, V]):
    """A table whose entries end by themselves; the oldest go first where there are too many."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._entries: dict[K, tuple[float, V]] = {}

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        while len(self._entries) >= self._most:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (asyncio.get_running_loop().time() + self._seconds, value)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= asyncio.get_running_loop().time():
            del self._entries[key]
            return None
        return entry[1]

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)


class Memory:
    """What is remembered of one cluster."""

    def __init__(self) -> None:
        self._partitions: _Aged[GroupId, Topics] = _Aged(PARTITIONS_SECONDS, MOST_GROUPS)
        self._kept = 0
        self._groups: _Aged[NodeId, tuple[FoundGroup, ...]] = _Aged(GROUPS_SECONDS, 1_000)
        self._alone: _Aged[NodeId, bool] = _Aged(ALONE_SECONDS, 1_000)
        self._hanging: _Aged[GroupId, bool] = _Aged(HANGING_SECONDS, 10_000)
        self._ends: dict[TopicId, tuple[float, Mapping[int, int]]] = {}
        self._kept_ends = 0

    def partitions(self, group: GroupId) -> list[Wanted]:
        """Return the group's partitions as its coordinator last listed them, none if that is not known."""
        return [
            Wanted(name, topic_id, partition)
            for (name, topic_id), partitions in (self._partitions.get(group) or {}).items()
            for partition in partitions
        ]

    def rows(self, group: GroupId) -> int | None:
        """Return how many partitions the group has, `None` if that is not known."""
        known = self._partitions.get(group)
        return None if known is None else sum(map(len, known.values()))

    def keep_partitions(self, group: GroupId, topics: Topics) -> None:
        """Take what the group's coordinator has just listed: partitions by topic name and id."""
        self._kept += sum(map(len, topics.values())) - (self.rows(group) or 0)
        if self._kept > MOST_REMEMBERED:
            self._partitions = _Aged(PARTITIONS_SECONDS, MOST_GROUPS)
            self._kept = sum(map(len, topics.values()))
        self._partitions.put(group, topics)

    def groups(self, node_id: NodeId) -> Sequence[FoundGroup]:
        """Return the groups that a coordinator last listed."""
        return self._groups.get(node_id) or ()

    def keep_groups(self, by_node: Mapping[NodeId, Collection[FoundGroup]]) -> None:
        """Take the groups of the coordinators that have just listed theirs."""
        for node_id, groups in by_node.items():
            self._groups.put(node_id, tuple(groups))

    def asks_alone(self, node_id: NodeId) -> bool:
        """Tell whether the node stalled not long ago when it was asked for several groups in one request."""
        return self._alone.get(node_id) is not None

    def ask_alone(self, node_id: NodeId) -> None:
        """Ask this node for one group per request from now on."""
        self._alone.put(node_id, True)

    def hangs(self, group: GroupId) -> bool:
        """Tell whether the group's answer was held back not long ago although it was asked for alone."""
        return self._hanging.get(group) is not None

    def note_hanging(self, group: GroupId, *, hangs: bool) -> None:
        """Ask for this group last from now on, or like the others again."""
        if hangs:
            self._hanging.put(group, True)
        else:
            self._hanging.drop(group)

    def ends_before(self, topic_id: TopicId, moment: float) -> Mapping[int, int]:
        """Return the end offsets of a topic's partitions as far as they were read before that moment."""
        seen = self._ends.get(topic_id)
        return seen[1] if seen is not None and seen[0] <= moment else {}

    def keep_ends(self, topic_id: TopicId, ends: Mapping[int, int]) -> None:
        """Take end offsets of a topic that have just been read."""
        self._kept_ends += len(ends) - len(self._ends.pop(topic_id, (0.0, {}))[1])
        if self._kept_ends > MOST_REMEMBERED:
            self._ends.clear()
            self._kept_ends = len(ends)
        self._ends[topic_id] = (asyncio.get_running_loop().time(), ends)
