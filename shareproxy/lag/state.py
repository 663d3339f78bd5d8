"""Ask share coordinators for the stored state of share partitions: APIs 87 and 84.

In: partitions of one group. Out: start offset, stored leader epoch and count or batches, or the trouble.
Must never: send API 84 an epoch that was not just read as the stored one; a higher one is stored and cuts off the
partition's leader (KIP-932).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.cluster.coordinators import CoordinatorFailure, FailureReason
from shareproxy.cluster.retries import Retry
from shareproxy.lag.arithmetic import complete_count, known
from shareproxy.lag.brokers import Brokers, Offered, Trouble, trouble_from_code
from shareproxy.lag.leaders import Wanted, fill_in
from shareproxy.lag.model import Status
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.messages import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateRequestReadStateData,
    ReadShareGroupStateResponseStateBatch,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryRequestReadStateSummaryData,
)

# API 87 ignores the epoch of the request; 0 is what every broker accepts
ANY_EPOCH: Final = 0


class StoredState(msgspec.Struct, gc=False):
    """What the share coordinator keeps of one share partition; `start_offset` `None`: nothing was ever written.

    Attributes:
        batches: delivery states where they were asked for (API 84).
    """

    start_offset: int | None
    leader_epoch: int | None
    delivery_complete_count: int | None
    batches: Sequence[ReadShareGroupStateResponseStateBatch] | None = None


class Coordinators:
    """Find the share coordinators of one group's partitions."""

    def __init__(self, brokers: Brokers, group: GroupId) -> None:
        self._brokers, self._group = brokers, group

    async def route(
        self, items: Sequence[Wanted], *, fresh: bool, deadline: float
    ) -> Mapping[Wanted, NodeId | Trouble]:
        """Return each partition's share coordinator."""
        if fresh:
            self._brokers.forget_share_coordinators()
        found = await self._brokers.share_coordinators(
            self._group, [(item.topic_id, item.partition) for item in items], deadline=deadline
        )
        routes: dict[Wanted, NodeId | Trouble] = {}
        for item in items:
            node_id = found[item.topic_id, item.partition]
            routes[item] = _trouble(node_id) if isinstance(node_id, CoordinatorFailure) else node_id
        return routes


class _StateQuestion(Coordinators):
    """Base of the questions to share coordinators.

    Args:
        supports: whether a broker speaks what is needed; one that does not is not asked.
        needs: what it has to speak, for the sentence that says so.
    """

    def __init__(self, brokers: Brokers, group: GroupId, supports: Callable[[Offered], bool], needs: str) -> None:
        super().__init__(brokers, group)
        self._supports, self._needs = supports, needs

    async def _refusal(self, node_id: NodeId, deadline: float) -> Trouble | None:
        if self._supports(await self._brokers.versions(node_id, deadline=deadline)):
            return None
        text = f"broker {node_id} does not speak {self._needs}; another lag source or a newer broker does"
        return Trouble(Status.UNSUPPORTED, ErrorCode.UNSUPPORTED_VERSION, text)


class Summaries(_StateQuestion):
    """The `Question` that API 87 answers: start offset, stored epoch and, from version 1, the count."""

    async def ask(
        self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float
    ) -> Mapping[Wanted, StoredState | Trouble]:
        """Ask one share coordinator; this API never writes."""
        if refusal := await self._refusal(node_id, deadline):
            return dict.fromkeys(items, refusal)
        by_topic = _by_topic(items)
        request = ReadShareGroupStateSummaryRequest(
            self._group,
            [
                ReadShareGroupStateSummaryRequestReadStateSummaryData(
                    topic_id,
                    [ReadShareGroupStateSummaryRequestPartitionData(index, ANY_EPOCH) for index in partitions],
                )
                for topic_id, partitions in by_topic.items()
            ],
        )
        response = await self._brokers.request(node_id, request, deadline=deadline)
        states: dict[Wanted, StoredState | Trouble] = {}
        for topic in response.results:
            asked = by_topic.get(TopicId(topic.topic_id), _NOTHING)
            for row in topic.partitions:
                item = asked.get(row.partition)
                if item is None:
                    continue
                if row.error_code:
                    states[item] = trouble_from_code(row.error_code, row.error_message)
                else:
                    states[item] = StoredState(
                        known(row.start_offset), known(row.leader_epoch), known(row.delivery_complete_count)
                    )
        return fill_in(states, items, "ReadShareGroupStateSummary")


class Batches(_StateQuestion):
    """The `Question` that API 84 answers.

    Args:
        epochs: the stored leader epoch of every item, as it was just read.
    """

    def __init__(
        self,
        brokers: Brokers,
        group: GroupId,
        supports: Callable[[Offered], bool],
        needs: str,
        epochs: Mapping[Wanted, int],
    ) -> None:
        super().__init__(brokers, group, supports, needs)
        self._epochs = epochs

    async def ask(
        self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float
    ) -> Mapping[Wanted, StoredState | Trouble]:
        """Ask one share coordinator with exactly the stored epochs."""
        if refusal := await self._refusal(node_id, deadline):
            return dict.fromkeys(items, refusal)
        by_topic, epochs = _by_topic(items), self._epochs
        request = ReadShareGroupStateRequest(
            self._group,
            [
                ReadShareGroupStateRequestReadStateData(
                    topic_id,
                    [ReadShareGroupStateRequestPartitionData(index, epochs[item]) for index, item in wanted.items()],
                )
                for topic_id, wanted in by_topic.items()
            ],
        )
        response = await self._brokers.request(node_id, request, deadline=deadline)
        states: dict[Wanted, StoredState | Trouble] = {}
        for topic in response.results:
            asked = by_topic.get(TopicId(topic.topic_id), _NOTHING)
            for row in topic.partitions:
                item = asked.get(row.partition)
                if item is None:
                    continue
                start = row.start_offset
                if row.error_code:
                    states[item] = _batches_trouble(row.error_code, row.error_message)
                elif start < 0:
                    states[item] = StoredState(None, epochs[item], None)
                else:
                    batches = row.state_batches
                    states[item] = StoredState(start, epochs[item], complete_count(batches, start), batches)
        return fill_in(states, items, "ReadShareGroupState")


def _trouble(failure: CoordinatorFailure) -> Trouble:
    status = _STATUS.get(failure.reason, Status.ERROR)
    return Trouble(status, failure.error_code, failure.message, failure.retry is not Retry.FINAL)


def _by_topic(items: Sequence[Wanted]) -> dict[TopicId, dict[int, Wanted]]:
    by_topic: dict[TopicId, dict[int, Wanted]] = {}
    for item in items:
        by_topic.setdefault(item.topic_id, {})[item.partition] = item
    return by_topic


def _batches_trouble(code: int, text: str | None) -> StoredState | Trouble:
    if code == ErrorCode.INVALID_REQUEST:
        # "uninitialized share partition": nothing was ever written (the epochs we send are never negative)
        return StoredState(None, None, None)
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        return FENCED
    return trouble_from_code(code, text)


FENCED: Final = Trouble(
    Status.ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    "the partition's leader changed twice while its state was read; ask again (error 74 FENCED_LEADER_EPOCH)",
)
_STATUS: Final[Mapping[FailureReason, Status]] = {
    # without the topic no share group of this cluster has ever stored anything
    FailureReason.STATE_TOPIC_MISSING: Status.NO_START_OFFSET,
    FailureReason.NOT_AUTHORIZED: Status.NOT_AUTHORIZED,
    FailureReason.UNSUPPORTED: Status.UNSUPPORTED,
}
_NOTHING: Final[Mapping[int, Wanted]] = {}
