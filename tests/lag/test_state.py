"""The questions to share coordinators, as they go on the wire."""

from __future__ import annotations

from typing import cast

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.state import Batches, StoredState, Summaries
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import N1, T1, T2, SimulatedBrokers, Stored, Topic, soon

G = GroupId("g")
ITEMS = [Wanted("t", T1, 0), Wanted("u", T2, 3), Wanted("t", T1, 1)]
EPOCHS = {ITEMS[0]: 3, ITEMS[1]: 4, ITEMS[2]: 5}


def cluster() -> SimulatedBrokers:
    """Return a broker with state for all items."""
    brokers = SimulatedBrokers()
    brokers.topics = {"t": Topic(T1, [N1] * 2, [0] * 2), "u": Topic(T2, [N1] * 4, [0] * 4)}
    for item, epoch in EPOCHS.items():
        brokers.states["g", item.topic_id, item.partition] = Stored(epoch * 10, epoch, 0, [(epoch * 10, epoch * 10, 2)])
    return brokers


async def test_one_summary_request_holds_all_topics() -> None:
    """Partitions are grouped by topic id; the epoch of the request is 0, which every version accepts."""
    brokers = cluster()

    states = await Summaries(brokers, G, lambda _: True, "it").ask(N1, ITEMS, deadline=soon())

    assert states == {item: StoredState(epoch * 10, epoch, 0) for item, epoch in EPOCHS.items()}
    [request] = cast("list[m.ReadShareGroupStateSummaryRequest]", brokers.sent(m.ReadShareGroupStateSummaryRequest))
    assert [
        (topic.topic_id, [(row.partition, row.leader_epoch) for row in topic.partitions]) for topic in request.topics
    ] == [(T1, [(0, 0), (1, 0)]), (T2, [(3, 0)])]


async def test_each_partition_goes_with_its_own_epoch() -> None:
    """API 84 carries exactly what was stored, partition by partition."""
    brokers = cluster()

    states = await Batches(brokers, G, lambda _: True, "it", EPOCHS).ask(N1, ITEMS, deadline=soon())

    found = [states[item] for item in EPOCHS]
    assert [
        (state.start_offset, state.leader_epoch, state.delivery_complete_count)
        for state in found
        if isinstance(state, StoredState)
    ] == [(epoch * 10, epoch, 1) for epoch in EPOCHS.values()]
    assert all(isinstance(state, StoredState) and len(state.batches or ()) == 1 for state in found)
    assert brokers.epochs_sent() == [3, 5, 4]


async def test_rows_left_out_or_strange_are_noticed() -> None:
    """A row that is missing is a trouble; one that was not asked for is ignored."""
    brokers = cluster()
    strange = m.ReadShareGroupStateResponseReadStateResult(
        T1, [m.ReadShareGroupStateResponsePartitionResult(9), m.ReadShareGroupStateResponsePartitionResult(0)]
    )
    unknown = m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(
        bytes(16), [m.ReadShareGroupStateSummaryResponsePartitionResult(0)]
    )
    brokers.fail_once(m.ReadShareGroupStateRequest, m.ReadShareGroupStateResponse([strange]))
    brokers.fail_once(m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse([unknown]))

    batches = await Batches(brokers, G, lambda _: True, "it", EPOCHS).ask(N1, ITEMS, deadline=soon())
    summaries = await Summaries(brokers, G, lambda _: True, "it").ask(N1, ITEMS, deadline=soon())

    assert [isinstance(batches[item], Trouble) for item in ITEMS] == [False, True, True]
    assert all(isinstance(state, Trouble) and state.again for state in summaries.values())
