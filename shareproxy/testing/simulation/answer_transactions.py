"""What brokers answer about transactions: DescribeProducers, ListTransactions, DescribeTransactions.

In: calls. Out: answers. Must never: show a transaction that nobody left open as ongoing.
"""

from __future__ import annotations

from collections.abc import Iterator

from shareproxy.protocol import messages as m
from shareproxy.testing.simulation.answer_logs import partition_problem
from shareproxy.testing.simulation.call import TEXTS, Call
from shareproxy.testing.simulation.cluster_state import ClusterState

ONGOING, COMPLETE = "Ongoing", "CompleteCommit"
STATES = frozenset(
    {ONGOING, COMPLETE, "Empty", "PrepareCommit", "PrepareAbort", "CompleteAbort", "Dead", "PrepareEpochFence"}
)
TIMEOUT_MS = 60_000


def describe_producers(call: Call[m.DescribeProducersRequest]) -> m.DescribeProducersResponse:
    """Answer DescribeProducers: who has a transaction open on a partition."""
    topics = []
    for asked in call.message.topics:
        rows = []
        for index in asked.partition_indexes:
            if problem := partition_problem(call, asked.name, index, -1, "READ"):
                rows.append(m.DescribeProducersResponsePartitionResponse(index, problem, TEXTS.get(problem)))
                continue
            log = call.state.topics.by_name[asked.name].partitions[index].log
            rows.append(
                m.DescribeProducersResponsePartitionResponse(
                    index,
                    active_producers=[
                        m.DescribeProducersResponseProducerState(
                            producer_id, 0, 0, call.state.clock(), 0, current_txn_start_offset=first
                        )
                        for producer_id, first in log.open_transactions.items()
                    ],
                )
            )
        topics.append(m.DescribeProducersResponseTopicResponse(asked.name, rows))
    return m.DescribeProducersResponse(topics=topics)


def list_transactions(call: Call[m.ListTransactionsRequest]) -> m.ListTransactionsResponse:
    """Answer ListTransactions; the first node coordinates them all."""
    if code := call.fault():
        return m.ListTransactionsResponse(0, code)
    message = call.message
    rows = []
    for name, producer_id in call.state.transactional_ids.items():
        state = _state(call.state, producer_id)
        wanted = (not message.state_filters or state in message.state_filters) and (
            not message.producer_id_filters or producer_id in message.producer_id_filters
        )
        if wanted and _is_coordinator(call) and call.may("DESCRIBE", "TRANSACTIONAL_ID", name):
            rows.append(m.ListTransactionsResponseTransactionState(name, producer_id, state))
    unknown = [name for name in message.state_filters if name not in STATES]
    return m.ListTransactionsResponse(0, 0, unknown, rows)


def describe_transactions(call: Call[m.DescribeTransactionsRequest]) -> m.DescribeTransactionsResponse:
    """Answer DescribeTransactions."""
    return m.DescribeTransactionsResponse(
        transaction_states=[_describe(call, name) for name in call.message.transactional_ids]
    )


def _describe(call: Call[m.DescribeTransactionsRequest], name: str) -> m.DescribeTransactionsResponseTransactionState:
    if not call.may("DESCRIBE", "TRANSACTIONAL_ID", name):
        return m.DescribeTransactionsResponseTransactionState(53, name)
    if not _is_coordinator(call):
        return m.DescribeTransactionsResponseTransactionState(16, name)
    producer_id = call.state.transactional_ids.get(name)
    if producer_id is None:
        return m.DescribeTransactionsResponseTransactionState(105, name)
    open_in = list(_open_in(call.state, producer_id))
    return m.DescribeTransactionsResponseTransactionState(
        0,
        name,
        _state(call.state, producer_id),
        TIMEOUT_MS,
        call.state.clock() if open_in else -1,
        producer_id,
        0,
        [m.DescribeTransactionsResponseTopicData(topic, partitions) for topic, partitions in open_in],
    )


def _is_coordinator(call: Call[m.ListTransactionsRequest] | Call[m.DescribeTransactionsRequest]) -> bool:
    return call.node.node_id == call.state.controller


def _state(state: ClusterState, producer_id: int) -> str:
    return ONGOING if any(_open_in(state, producer_id)) else COMPLETE


def _open_in(state: ClusterState, producer_id: int) -> Iterator[tuple[str, list[int]]]:
    for topic in state.topics.by_name.values():
        partitions = [index for index, row in enumerate(topic.partitions) if producer_id in row.log.open_transactions]
        if partitions:
            yield topic.name, partitions
