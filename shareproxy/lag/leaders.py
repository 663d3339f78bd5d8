"""Find the leaders of data partitions and ask them where their logs end.

In: partitions. Out: their leaders, their high watermarks, or the trouble: no such topic, no leader, not allowed.
Must never: send a partition to a broker when Metadata already says that it cannot be answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.model import Status
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import NO_TOPIC_ID, NodeId, TopicId
from shareproxy.protocol.messages import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

# leaders seldom move, and a moved one says so (6, 74, 75): this age only saves the Metadata round
METADATA_MAX_AGE: Final = 30.0
# partitions in one Metadata answer where there are very many: reading it holds the event loop for 30 ms
MOST_LOOKED_UP: Final = 20_000
LATEST: Final = -1
CONSUMER: Final = -1
READ_UNCOMMITTED: Final = 0

A = TypeVar("A")


class Wanted(NamedTuple):
    """A share partition to look at."""

    topic: str
    topic_id: TopicId
    partition: int


class EndOffsets:
    """The `Question` that ListOffsets answers: the high watermark of each partition, from its leader.

    One object per piece of work: it remembers the leaders it found, and the epochs that came with them.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._epochs: dict[tuple[str, int], int] = {}
        self._leaders: dict[Wanted, NodeId] = {}
        self._made = asyncio.get_running_loop().time()

    async def route(
        self, items: Sequence[Wanted], *, fresh: bool, deadline: float
    ) -> Mapping[Wanted, NodeId | Trouble]:
        """Return each partition's leader; a bad word from an aged Metadata answer is checked once."""
        if fresh:
            return await self._look_up(items, deadline, 0.0)
        known = self._leaders
        routes: dict[Wanted, NodeId | Trouble] = {item: known[item] for item in items if item in known}
        left = items if not routes else [item for item in items if item not in routes]
        if left:
            # what was young enough when this work began serves until its end, however long that takes
            age = METADATA_MAX_AGE + asyncio.get_running_loop().time() - self._made
            routes.update(await self._look_up(left, deadline, age))
            doubtful = [item for item in left if isinstance(routes[item], Trouble)]
            if doubtful:
                routes.update(await self._look_up(doubtful, deadline, 0.0))
        return routes

    async def _look_up(
        self, items: Sequence[Wanted], deadline: float, max_age: float
    ) -> dict[Wanted, NodeId | Trouble]:
        by_topic: dict[str, list[Wanted]] = {}
        for item in items:
            by_topic.setdefault(item.topic, []).append(item)
        metadata = await self._brokers.metadata(by_topic.keys(), deadline=deadline, max_age=max_age)
        nodes = metadata.nodes
        routes: dict[Wanted, NodeId | Trouble] = {}
        for name, wanted in by_topic.items():
            topic = metadata.topics.get(name)
            if topic is None or topic.error_code:
                routes.update(dict.fromkeys(wanted, _topic_trouble(name, 0 if topic is None else topic.error_code)))
                continue
            partitions = topic.partitions
            known_id = topic.topic_id != NO_TOPIC_ID
            for item in wanted:
                partition = partitions.get(item.partition)
                if known_id and item.topic_id != topic.topic_id:
                    routes[item] = _recreated(name)
                elif partition is None:
                    routes[item] = _no_partition(name, item.partition, len(partitions))
                elif partition.leader is None or partition.leader not in nodes:
                    routes[item] = _no_leader(name, item.partition)
                else:
                    routes[item] = self._leaders[item] = partition.leader
                    if partition.leader_epoch is not None:
                        self._epochs[name, item.partition] = partition.leader_epoch
        return routes

    async def ask(self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float) -> Mapping[Wanted, int | Trouble]:
        """Ask one leader where the logs of its partitions end.

        The epoch from Metadata goes along: a broker that led once and does not know better must not answer.
        """
        by_topic: dict[str, dict[int, Wanted]] = {}
        for item in items:
            by_topic.setdefault(item.topic, {})[item.partition] = item
        epochs = self._epochs
        request = ListOffsetsRequest(
            CONSUMER,
            READ_UNCOMMITTED,
            [
                ListOffsetsTopic(
                    name,
                    [ListOffsetsPartition(index, epochs.get((name, index), -1), LATEST) for index in partitions],
                )
                for name, partitions in by_topic.items()
            ],
            milliseconds_left(deadline),
        )
        response = await self._brokers.request(node_id, request, deadline=deadline)
        ends: dict[Wanted, int | Trouble] = {}
        for topic in response.topics:
            asked = by_topic.get(topic.name, {})
            for row in topic.partitions:
                found = asked.get(row.partition_index)
                if found is None:
                    continue
                if row.error_code:
                    ends[found] = trouble_from_code(row.error_code)
                elif row.offset < 0:
                    ends[found] = trouble_from_code(ErrorCode.OFFSET_NOT_AVAILABLE)
                else:
                    ends[found] = row.offset
        return fill_in(ends, items, "ListOffsets")


async def prefetch(brokers: Brokers, topics: Mapping[str, int], *, deadline: float) -> None:
    """Look up the leaders of many topics in few requests, for all who ask for some of them afterwards.

    Args:
        brokers: where to ask.
        topics: names, and how many partitions each has.
        deadline: `loop.time()` seconds.
    """
    parts: list[list[str]] = []
    room = 0
    for name, partitions in topics.items():
        if not parts or partitions > room:
            parts.append([])
            room = MOST_LOOKED_UP
        parts[-1].append(name)
        room -= partitions
    with contextlib.suppress(ClusterError):
        for part in parts:
            await brokers.metadata(part, deadline=deadline, max_age=METADATA_MAX_AGE)


async def partitions_of(brokers: Brokers, topics: Collection[str], *, deadline: float) -> list[Wanted]:
    """Return all partitions of the topics that exist and may be seen; none if Metadata cannot be had."""
    try:
        metadata = await brokers.metadata(topics, deadline=deadline)
    except ClusterError:
        return []
    return [
        Wanted(name, topic.topic_id, partition)
        for name in sorted(topics)
        if (topic := metadata.topics.get(name)) is not None and not topic.error_code
        for partition in sorted(topic.partitions)
    ]


def fill_in(answers: dict[Wanted, A | Trouble], items: Sequence[Wanted], api: str) -> dict[Wanted, A | Trouble]:
    """Give a trouble to the items that an answer left out."""
    if len(answers) < len(items):
        left_out = Trouble(Status.ERROR, None, f"the broker's answer to {api} leaves this partition out", again=True)
        for item in items:
            answers.setdefault(item, left_out)
    return answers


def milliseconds_left(deadline: float) -> int:
    """Return how long a broker may take."""
    return max(1, int((deadline - asyncio.get_running_loop().time()) * 1000))


def _topic_trouble(name: str, code: int) -> Trouble:
    if code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        text = f"topic {name!r} does not exist; if it was deleted, the group's state of it will go too"
        return Trouble(Status.TOPIC_MISSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return trouble_from_code(code)


def _recreated(name: str) -> Trouble:
    text = f"topic {name!r} was deleted and created again under another id; ask again"
    return Trouble(Status.TOPIC_MISSING, ErrorCode.UNKNOWN_TOPIC_ID, text)


def _no_partition(name: str, partition: int, count: int) -> Trouble:
    text = f"topic {name!r} has no partition {partition}: it has {count}, counted from 0"
    return Trouble(Status.PARTITION_MISSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def _no_leader(name: str, partition: int) -> Trouble:
    text = f"partition {partition} of topic {name!r} has no leader; check the brokers that hold its replicas"
    return Trouble(Status.NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, text)
