"""Which function answers which API.

In: API keys. Out: message class and function. Must never: know how an answer is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from shareproxy.protocol import messages as m
from shareproxy.protocol.message import Request, Response
from shareproxy.testing.simulation import (
    answer_cluster,
    answer_consumer_groups,
    answer_fetch,
    answer_groups,
    answer_heartbeat,
    answer_lag,
    answer_logs,
    answer_share_acknowledge,
    answer_share_fetch,
    answer_share_offsets,
    answer_share_state,
    answer_transactions,
)
from shareproxy.testing.simulation.call import Call, Late, Parked


class Known(NamedTuple):
    """An API that the simulation answers."""

    request: type[Request[Any]]
    answer: Callable[[Call[Any]], Response | Late | Parked]


ANSWERS: Final[Mapping[int, Known]] = {
    known.request.api_key: known
    for known in (
        Known(m.FetchRequest, answer_fetch.fetch),
        Known(m.ListOffsetsRequest, answer_logs.list_offsets),
        Known(m.MetadataRequest, answer_cluster.metadata),
        Known(m.OffsetFetchRequest, answer_consumer_groups.offset_fetch),
        Known(m.FindCoordinatorRequest, answer_cluster.find_coordinator),
        Known(m.DescribeGroupsRequest, answer_consumer_groups.describe_groups),
        Known(m.ListGroupsRequest, answer_groups.list_groups),
        Known(m.ApiVersionsRequest, answer_cluster.api_versions),
        Known(m.DescribeConfigsRequest, answer_cluster.describe_configs),
        Known(m.DeleteGroupsRequest, answer_consumer_groups.delete_groups),
        Known(m.DescribeProducersRequest, answer_transactions.describe_producers),
        Known(m.DescribeTransactionsRequest, answer_transactions.describe_transactions),
        Known(m.ListTransactionsRequest, answer_transactions.list_transactions),
        Known(m.ConsumerGroupDescribeRequest, answer_consumer_groups.consumer_group_describe),
        Known(m.DescribeClusterRequest, answer_cluster.describe_cluster),
        Known(m.ShareGroupHeartbeatRequest, answer_heartbeat.share_group_heartbeat),
        Known(m.ShareGroupDescribeRequest, answer_groups.share_group_describe),
        Known(m.ShareFetchRequest, answer_share_fetch.share_fetch),
        Known(m.ShareAcknowledgeRequest, answer_share_acknowledge.share_acknowledge),
        Known(m.ReadShareGroupStateRequest, answer_share_state.read_state),
        Known(m.ReadShareGroupStateSummaryRequest, answer_share_state.read_summary),
        Known(m.DescribeShareGroupOffsetsRequest, answer_lag.describe_share_group_offsets),
        Known(m.AlterShareGroupOffsetsRequest, answer_share_offsets.alter_share_group_offsets),
        Known(m.DeleteShareGroupOffsetsRequest, answer_share_offsets.delete_share_group_offsets),
    )
}
