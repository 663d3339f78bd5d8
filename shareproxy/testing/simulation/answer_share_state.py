"""What share coordinators answer: the state of share partitions, in short (API 87) and in full (API 84).

In: calls, also those of other brokers on their way to a lag. Out: answers.
Must never: answer for a share partition that another node keeps.
"""

from __future__ import annotations

from typing import Final

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.call import TEXTS, Call
from shareproxy.testing.simulation.share_state import StoredState

SUMMARY: Final = 87
STATE: Final = 84
# after these words comes the text of the error
_UNABLE: Final = {SUMMARY: "Unable to read share group state summary", STATE: "Unable to read share group state"}

_Call = Call[m.ReadShareGroupStateSummaryRequest] | Call[m.ReadShareGroupStateRequest]


def read_summary(call: Call[m.ReadShareGroupStateSummaryRequest]) -> m.ReadShareGroupStateSummaryResponse:
    """Answer ReadShareGroupStateSummary; the leader epochs of the request do not matter."""
    group = call.message.group_id
    if not _is_worth_an_answer(call):
        return m.ReadShareGroupStateSummaryResponse()
    result = []
    for topic in call.message.topics:
        rows = []
        check, of_topic = _Check(call, TopicId(topic.topic_id)), _stored(call, group, topic.topic_id)
        for asked in topic.partitions:
            index = asked.partition
            if refused := check(index):
                rows.append(m.ReadShareGroupStateSummaryResponsePartitionResult(index, *refused))
                continue
            stored = of_topic.get(index) or _NOTHING
            rows.append(
                m.ReadShareGroupStateSummaryResponsePartitionResult(
                    index,
                    0,
                    None,
                    stored.state_epoch,
                    stored.leader_epoch,
                    stored.start_offset,
                    stored.delivery_complete_count if call.node.kafka.counts_deliveries else -1,
                )
            )
        result.append(m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(topic.topic_id, rows))
    return m.ReadShareGroupStateSummaryResponse(result)


_NOTHING: Final = StoredState()


def read_state(call: Call[m.ReadShareGroupStateRequest]) -> m.ReadShareGroupStateResponse:
    """Answer ReadShareGroupState; a leader epoch higher than the stored one is stored, and cuts the leader off."""
    group = call.message.group_id
    if not _is_worth_an_answer(call):
        return m.ReadShareGroupStateResponse()
    result = []
    for topic in call.message.topics:
        rows = []
        check, of_topic = _Check(call, TopicId(topic.topic_id)), _stored(call, group, topic.topic_id)
        for asked in topic.partitions:
            index = asked.partition
            stored = of_topic.get(index)
            refused = check(index) or _epoch_problem(call, stored, asked.leader_epoch)
            if refused or stored is None:
                rows.append(m.ReadShareGroupStateResponsePartitionResult(index, *(refused or (-1, None))))
                continue
            if asked.leader_epoch > stored.fence:
                stored.fence = stored.leader_epoch = asked.leader_epoch
            rows.append(
                m.ReadShareGroupStateResponsePartitionResult(
                    index,
                    0,
                    None,
                    stored.state_epoch,
                    stored.start_offset,
                    [
                        m.ReadShareGroupStateResponseStateBatch(
                            batch.first_offset, batch.last_offset, batch.state, batch.delivery_count
                        )
                        for batch in stored.batches
                    ],
                )
            )
        result.append(m.ReadShareGroupStateResponseReadStateResult(topic.topic_id, rows))
    return m.ReadShareGroupStateResponse(result)


def _epoch_problem(
    call: Call[m.ReadShareGroupStateRequest], stored: StoredState | None, leader_epoch: int
) -> tuple[int, str] | None:
    kafka = call.node.kafka
    if leader_epoch < 0 and kafka.refuses_negative_epoch:
        return 42, "The leader epoch cannot be a negative number."
    if stored is None:
        return 42, "Read operation on uninitialized share partition not allowed."
    unfenced = leader_epoch == -1 and not kafka.fences_no_epoch
    if leader_epoch < stored.fence and not unfenced:
        return 74, "The leader epoch in the request is older than the epoch on the broker."
    return None


def _is_worth_an_answer(call: _Call) -> bool:
    return bool(call.message.group_id and call.message.topics) and all(
        topic.partitions for topic in call.message.topics
    )


def _stored(call: _Call, group: str, topic_id: bytes) -> dict[int, StoredState]:
    found = call.state.groups.share(group)
    of_topic = None if found is None else found.partitions.get(TopicId(topic_id))
    return {} if of_topic is None else {index: row.stored for index, row in of_topic.items()}


class _Check:
    """Tell why a row cannot be answered here: error code and text, None where it can."""

    def __init__(self, call: _Call, topic_id: TopicId) -> None:
        self._call = call
        self._topic = call.state.topics.by_id.get(topic_id)
        self._coordinator = call.state.share_coordinators(call.message.group_id, topic_id)
        self._allowed = call.may_in_cluster("CLUSTER_ACTION")

    def __call__(self, partition: int) -> tuple[int, str] | None:
        call, topic = self._call, self._topic
        if not self._allowed:
            return 31, TEXTS[31]
        code = call.fault(group=call.message.group_id, topic="" if topic is None else topic.name, partition=partition)
        if code:
            return code, _unable(call, code)
        if partition < 0:
            return 42, "The partition id cannot be a negative number."
        exists = topic is not None and partition < len(topic.partitions)
        if not exists and call.message.api_key == SUMMARY:
            return 3, TEXTS[3]
        if self._coordinator(partition) != call.node.node_id:
            return 16, _unable(call, 16)
        return None  # what does not exist has no state either: API 84 says so with error 42


def _unable(call: _Call, code: int) -> str:
    return f"{_UNABLE[call.message.api_key]}: {TEXTS.get(code, '')}"
