"""Keep what a share session knows of one partition, and write the partition's part of a request.

In: rows of answers, acknowledgements. Out: results, entries of requests.
Must never: decide when something is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from shareproxy.drain.acknowledging import AckQueue, AckRange, wire_batches
from shareproxy.drain.acquired import HeldOffsets
from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange
from shareproxy.drain.session_outcomes import SharePartition
from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.messages import (
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestAcknowledgePartition,
    ShareAcknowledgeRequestAcknowledgeTopic,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestFetchPartition,
    ShareFetchRequestFetchTopic,
    ShareFetchRequestForgottenTopic,
)

# a partition that gives errors is asked for again after these pauses, in seconds
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0


class SessionPartition:
    """One partition in a share session with one broker."""

    __slots__ = ("failures", "held", "in_session", "leaving_since", "partition", "paused_until", "queue", "wanted")

    def __init__(self, partition: SharePartition) -> None:
        self.partition = partition
        self.held = HeldOffsets()
        self.queue = AckQueue()
        self.wanted = True
        self.in_session = False
        """Whether the broker counts it to the session."""
        self.paused_until = -inf
        """When to ask for it again after an error."""
        self.failures = 0
        """Errors since the last answer without one."""
        self.leaving_since: float | None = None
        """When it was first found to be held and not wanted."""

    @property
    def empty(self) -> bool:
        """Return whether nothing of it is held or waits for an answer."""
        return not self.held and not self.queue

    def served(self, now: float) -> bool:
        """Return whether records of it shall be fetched."""
        return self.wanted and self.paused_until <= now

    def pause(self, now: float) -> None:
        """Leave it alone for a while after an error."""
        self.paused_until = now + min(_FIRST_PAUSE * 2**self.failures, _LONGEST_PAUSE)
        self.failures = min(self.failures + 1, 10)

    def results(self, parts: Sequence[AckRange], error_code: int | None, message: str | None) -> list[AckResult]:
        """Say what became of ranges; nothing for none."""
        if not parts:
            return []
        ranges = tuple((OffsetRange(part.first, part.last), part.kind) for part in parts)
        return [AckResult(self.partition.name, ranges, error_code, message)]


def renews(parts: Iterable[AckRange]) -> bool:
    """Return whether some ranges only prolong a lock: the request has to say so (KIP-1222)."""
    return any(part.kind is Acknowledgement.RENEW for part in parts)


def fetch_topics(partitions: Iterable[SessionPartition]) -> list[ShareFetchRequestFetchTopic]:
    """Write partitions that join a session, or whose acknowledgements are sent along, as part of a fetch."""
    topics: dict[TopicId, ShareFetchRequestFetchTopic] = {}
    for state in partitions:
        _, index, topic_id = state.partition
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchRequestFetchTopic(topic_id, [])
        sent = state.queue.sent
        batches = wire_batches(sent, ShareFetchRequestAcknowledgementBatch) if sent else []
        topic.partitions.append(ShareFetchRequestFetchPartition(index, 0, batches))
    return list(topics.values())


def acknowledge_topics(partitions: Iterable[SessionPartition]) -> list[ShareAcknowledgeRequestAcknowledgeTopic]:
    """Write the acknowledgements that partitions send now."""
    topics: dict[TopicId, ShareAcknowledgeRequestAcknowledgeTopic] = {}
    for state in partitions:
        _, index, topic_id = state.partition
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeRequestAcknowledgeTopic(topic_id, [])
        batches = wire_batches(state.queue.sent, ShareAcknowledgeRequestAcknowledgementBatch)
        topic.partitions.append(ShareAcknowledgeRequestAcknowledgePartition(index, batches))
    return list(topics.values())


def forgotten_topics(partitions: Iterable[SessionPartition]) -> list[ShareFetchRequestForgottenTopic]:
    """Write partitions that leave a session."""
    topics: dict[TopicId, ShareFetchRequestForgottenTopic] = {}
    for state in partitions:
        _, index, topic_id = state.partition
        topics.setdefault(topic_id, ShareFetchRequestForgottenTopic(topic_id, [])).partitions.append(index)
    return list(topics.values())
