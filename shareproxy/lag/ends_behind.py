"""Ask where logs end right behind the question for a group's rows, where the same broker can tell both.

In: how the end offsets of a group were last asked for. Out: the same question, sent along with the next one for its
rows. Must never: show an end offset read before the rows, or of another topic of the same name.

A broker works on the requests of one connection one after the other, so the end offsets are read after the rows are
sent; but the way there and back, and the time in which the rows are read here, are saved. It spends some microseconds
on each partition, so a second half is asked for over another connection as soon as the rows are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from shareproxy.cluster.metadata import TopicMetadata
from shareproxy.lag.leaders import CONSUMER, READ_UNCOMMITTED, milliseconds_left
from shareproxy.protocol.ids import NodeId, TopicId
from shareproxy.protocol.messages import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic

TopicKey = tuple[str, TopicId]

# a question is kept as it goes out, some hundred bytes per partition; a larger group waits for milliseconds anyway
MOST_PARTITIONS: Final = 5_000
# below, the second request costs more than the broker's second thread saves
HALVES_FROM: Final = 400


class EndsQuestion(NamedTuple):
    """How the end offsets of all partitions of a group are asked for.

    Attributes:
        node_id: leader of all of them.
        topics: partitions with the leader epochs of Metadata.
        partitions: the same by topic name and id.
        metadata: the topics as Metadata had them; it stands for the leaders, the epochs and the topic ids.
    """

    node_id: NodeId
    topics: Sequence[ListOffsetsTopic]
    partitions: Mapping[TopicKey, Mapping[int, None]]
    metadata: Mapping[str, TopicMetadata]

    def requests(self, deadline: float) -> list[ListOffsetsRequest]:
        """Return what is sent: the request to send behind the one for the rows, and what to ask afterwards."""
        left = milliseconds_left(deadline)
        return [
            ListOffsetsRequest(CONSUMER, READ_UNCOMMITTED, topics, left) for topics in _halves(self.topics) if topics
        ]

    def covers(self, wanted: Mapping[TopicKey, Mapping[int, None]]) -> bool:
        """Tell whether it asks for all of these partitions."""
        asked = self.partitions
        return all(key in asked and partitions.keys() <= asked[key].keys() for key, partitions in wanted.items())

    def still_true(self, now: Mapping[str, TopicMetadata]) -> bool:
        """Tell whether Metadata still says what it said when the question was made."""
        return all((topic := now.get(name)) is before or topic == before for name, before in self.metadata.items())


class EndsAsked(NamedTuple):
    """A question that was sent behind the one for rows, and its answers."""

    question: EndsQuestion
    answers: Sequence[asyncio.Task[ListOffsetsResponse]]

    def cancel(self) -> None:
        """Give up what was asked."""
        for answer in self.answers:
            answer.cancel()


def _halves(topics: Sequence[ListOffsetsTopic]) -> tuple[list[ListOffsetsTopic], list[ListOffsetsTopic]]:
    total = sum(len(topic.partitions) for topic in topics)
    if total < HALVES_FROM:
        return list(topics), []
    first, second, left = list[ListOffsetsTopic](), list[ListOffsetsTopic](), total // 2
    for topic in topics:
        rows = topic.partitions
        if left:
            first.append(ListOffsetsTopic(topic.name, rows[:left]))
        if len(rows) > left:
            second.append(ListOffsetsTopic(topic.name, rows[left:]))
        left = max(left - len(rows), 0)
    return first, second
