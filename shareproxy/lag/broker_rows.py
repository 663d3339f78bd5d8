"""Turn the rows in which a broker gave the lag into rows of a report: nearly all there are, so the short way.

In: rows of DescribeShareGroupOffsets with a lag, end offsets read afterwards. Out: `PartitionLag`s.
Must never: take a row with an error or without lag; those go the way of `sources`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from operator import attrgetter, lt, sub
from typing import Final, NamedTuple

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.leaders import (
    CONSUMER,
    LATEST,
    METADATA_MAX_AGE,
    READ_UNCOMMITTED,
    EndOffsets,
    Wanted,
    milliseconds_left,
)
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import PartitionLag, Source
from shareproxy.lag.rounds import ask_all
from shareproxy.lag.slices import Slices
from shareproxy.protocol.ids import NO_TOPIC_ID, NodeId, TopicId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsResponsePartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

TopicKey = tuple[str, TopicId]
Ends = Mapping[TopicKey, Mapping[int, int]]
NO_ENDS: Final[Mapping[int, int]] = {}

partition_index: Final = attrgetter("partition_index")


class Columns(NamedTuple):
    """The numbers of many rows, each kind in a list of its own, by partition: C loops are quicker over those."""

    partitions: list[int]
    start_offsets: list[int]
    lags: list[int]
    leader_epochs: list[int]


class TopicRows:
    """Rows with a lag of one topic, as one broker answered them.

    Args:
        key: name and id of the topic.
        rows: each with a lag.
        before: end offsets read before the broker was asked.
    """

    __slots__ = ("before", "columns", "key")

    def __init__(
        self,
        key: TopicKey,
        rows: Sequence[DescribeShareGroupOffsetsResponsePartition],
        before: Mapping[int, int],
    ) -> None:
        # made before the end offsets are there, in the time in which they are waited for
        self.key, self.columns, self.before = key, _columns(rows), before

    @property
    def partitions(self) -> Sequence[int]:
        """The partition numbers, in order."""
        return self.columns.partitions


def _columns(rows: Sequence[DescribeShareGroupOffsetsResponsePartition]) -> Columns:
    partitions = [row.partition_index for row in rows]
    if not all(map(lt, partitions, islice(partitions, 1, None))):
        rows = sorted(rows, key=partition_index)
        partitions = [row.partition_index for row in rows]
    return Columns(
        partitions,
        [row.start_offset for row in rows],
        [row.lag for row in rows],
        [row.leader_epoch for row in rows],
    )


def has_lag(row: DescribeShareGroupOffsetsResponsePartition) -> bool:
    """Tell whether nothing is left to be found out about a row: −1 and other negative numbers need a closer look."""
    return row.lag >= 0 and row.start_offset >= 0 and not row.error_code


def with_lag(
    rows: Sequence[DescribeShareGroupOffsetsResponsePartition],
) -> list[DescribeShareGroupOffsetsResponsePartition]:
    """Return the rows of which nothing is left to be found out, mostly all of them."""
    # `has_lag` written out: a call per row costs more than the question
    return [row for row in rows if row.lag >= 0 and row.start_offset >= 0 and not row.error_code]


def report_rows(topic: TopicRows, ends: Mapping[int, int]) -> list[PartitionLag]:
    """Return the rows of one topic, by partition.

    The count of completed records is not in the broker's answer. The end offset read afterwards is at least the
    broker's, so the difference is the count plus what was produced in between: it is the count if it is 0, or if
    nothing was produced since before the question.

    Args:
        topic: the broker's rows.
        ends: end offsets read afterwards.
    """
    name, topic_id = topic.key
    partitions, starts, lags, leader_epochs = topic.columns
    epochs: Sequence[int | None] = leader_epochs
    if leader_epochs and min(leader_epochs) < 0:
        epochs = [epoch if epoch >= 0 else None for epoch in leader_epochs]
    shown, counts = _ends_and_counts(topic, ends)
    # the status is ok by default
    return list(
        map(
            PartitionLag,
            repeat(name),
            repeat(topic_id),
            partitions,
            starts,
            shown,
            epochs,
            counts,
            lags,
            repeat(Source.BROKER),
            repeat(True),
        )
    )


def _ends_and_counts(topic: TopicRows, ends: Mapping[int, int]) -> tuple[Sequence[int | None], Sequence[int | None]]:
    """Return the end offset and the count of completed records of each row, as far as they fit the row."""
    partitions, starts, lags, _ = topic.columns
    if not ends:
        nothing = [None] * len(partitions)
        return nothing, nothing
    found = list(map(ends.get, partitions))
    before = list(map(topic.before.get, partitions))
    if None not in found:
        counts = list(map(sub, map(sub, found, starts), lags))
        if not any(counts) or (min(counts) >= 0 and before == found):
            return found, counts
    shown: list[int | None] = []
    certain: list[int | None] = []
    for start, waiting, end, end_before in zip(starts, lags, found, before, strict=True):
        count = None if end is None else end - start - waiting
        if count is not None and count < 0:
            end = count = None  # a new leader that has not caught up yet: not an end to show beside this lag
        shown.append(end)
        certain.append(None if count and end_before != end else count)
    return shown, certain


async def read_ends(
    brokers: Brokers, memory: Memory, ends: EndOffsets, topics: Iterable[TopicRows], *, deadline: float
) -> Ends:
    """Read the end offsets of many rows: each partition once for all groups, one request per leader.

    Args:
        brokers: where to ask.
        memory: keeps them for the next look.
        ends: asks again, one by one, for what does not come at the first attempt.
        topics: rows of all groups.
        deadline: `loop.time()` seconds.
    """
    slices = Slices()
    wanted: dict[TopicKey, dict[int, None]] = {}
    for topic in topics:
        partitions = wanted.setdefault(topic.key, {})
        partitions.update(dict.fromkeys(topic.partitions))
        await slices.turn()
    if not wanted:
        return {}
    found: dict[TopicKey, dict[int, int]] = {key: {} for key in wanted}
    requests = await _requests(brokers, wanted, deadline)
    keys = {key[0]: key for key in wanted}

    async def ask(node_id: NodeId, asked: list[ListOffsetsTopic]) -> None:
        request = ListOffsetsRequest(CONSUMER, READ_UNCOMMITTED, asked, milliseconds_left(deadline))
        try:
            response = await brokers.request(node_id, request, deadline=deadline)
        except ClusterError:
            return
        _take(response, keys, found)

    async with asyncio.TaskGroup() as tasks:
        for node_id, asked in requests.items():
            tasks.create_task(ask(node_id, asked))
            await asyncio.sleep(0)  # one large request is written before the next
    left = [
        Wanted(*key, partition)
        for key, partitions in wanted.items()
        if len(found[key]) < len(partitions)
        for partition in partitions
        if partition not in found[key]
    ]
    for item, end in (await ask_all(ends, left, deadline=deadline)).items():
        if not isinstance(end, Trouble):
            found[item.topic, item.topic_id][item.partition] = end
    for (_, topic_id), offsets in found.items():
        memory.keep_ends(topic_id, offsets)
    return found


async def _requests(
    brokers: Brokers, wanted: Mapping[TopicKey, Mapping[int, None]], deadline: float
) -> dict[NodeId, list[ListOffsetsTopic]]:
    """Sort partitions by their leaders; those that Metadata cannot place are left out.

    The epoch from Metadata goes along: a broker that led once and does not know better must not answer.
    """
    requests: dict[NodeId, list[ListOffsetsTopic]] = {}
    slices = Slices()
    try:
        names = {name for name, _ in wanted}
        metadata = await brokers.metadata(names, deadline=deadline, max_age=METADATA_MAX_AGE)
    except ClusterError:
        return requests
    for (name, topic_id), partitions in wanted.items():
        topic = metadata.topics.get(name)
        if topic is None or topic.error_code or topic.topic_id not in (topic_id, NO_TOPIC_ID):
            continue
        leaders = topic.partitions
        await slices.turn()
        by_leader: dict[NodeId, list[ListOffsetsPartition]] = {}
        for index in partitions:
            row = leaders.get(index)
            if row is None or (leader := row.leader) is None:
                continue
            epoch = row.leader_epoch
            asked = ListOffsetsPartition(index, -1 if epoch is None else epoch, LATEST)
            if leader in by_leader:
                by_leader[leader].append(asked)
            else:
                by_leader[leader] = [asked]
        for leader, rows in by_leader.items():
            if leader in metadata.nodes:
                requests.setdefault(leader, []).append(ListOffsetsTopic(name, rows))
    return requests


def _take(
    response: ListOffsetsResponse, keys: Mapping[str, TopicKey], found: Mapping[TopicKey, dict[int, int]]
) -> None:
    for topic in response.topics:
        key = keys.get(topic.name)
        if key is not None:
            offsets = found[key]
            offsets.update(
                {row.partition_index: row.offset for row in topic.partitions if not row.error_code and row.offset >= 0}
            )
