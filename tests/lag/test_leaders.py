"""Leaders from Metadata, high watermarks from leaders."""

from __future__ import annotations

from typing import cast

import pytest

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import EndOffsets, Wanted, partitions_of, prefetch
from shareproxy.lag.model import Status
from shareproxy.lag.rounds import ask_all, route_all
from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.messages import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.lag.simulated_brokers import N1, N2, T1, T2, SimulatedBrokers, Topic, soon, unreachable

P0, P1 = Wanted("t", T1, 0), Wanted("t", T1, 1)


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """Two brokers; topic t has a partition on each."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics["t"] = Topic(T1, [N1, N2], [11, 20])
    return brokers


async def test_each_leader_is_asked_once(brokers: SimulatedBrokers) -> None:
    """One ListOffsets per leader, all topics in it: latest, read uncommitted, as a consumer."""
    brokers.topics["u"] = Topic(T2, [N1], [5])
    other = Wanted("u", T2, 0)

    ends = await ask_all(EndOffsets(brokers), [P0, P1, other], deadline=soon())

    assert ends == {P0: 11, P1: 20, other: 5}
    assert [node_id for node_id, _ in brokers.asked] == [N1, N2]


async def test_many_leaders_are_looked_up_in_parts(brokers: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer with very many partitions would hold the event loop while it is read."""
    monkeypatch.setattr("shareproxy.lag.leaders.MOST_LOOKED_UP", 10)

    await prefetch(brokers, {"t": 2, "u": 30, "v": 4, "w": 6, "x": 1}, deadline=soon())

    assert len(brokers.metadata_ages) == 4
    await prefetch(brokers, {}, deadline=soon())
    assert len(brokers.metadata_ages) == 4


async def test_the_epoch_of_metadata_goes_along(brokers: SimulatedBrokers) -> None:
    """A deposed leader that does not know it yet must refuse."""
    await ask_all(EndOffsets(brokers), [P0], deadline=soon())

    [request] = cast("list[ListOffsetsRequest]", brokers.sent(ListOffsetsRequest))
    assert request.topics[0].partitions[0].current_leader_epoch == 5


@pytest.mark.parametrize("code", [3, 5, 6, 7, 13, 74, 75, 78])
async def test_a_passing_error_is_asked_again(brokers: SimulatedBrokers, code: int) -> None:
    """Errors of moving leaders are not the answer."""
    row = ListOffsetsPartitionResponse(0, code)
    brokers.fail_once(ListOffsetsRequest, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [row])]))

    assert await ask_all(EndOffsets(brokers), [P0], deadline=soon()) == {P0: 11}
    assert brokers.metadata_ages[-1] == 0.0


async def test_a_lost_connection_is_asked_again(brokers: SimulatedBrokers) -> None:
    """One broken connection costs one attempt."""
    brokers.fail_once(ListOffsetsRequest, unreachable())

    assert await ask_all(EndOffsets(brokers), [P0], deadline=soon()) == {P0: 11}


async def test_a_row_left_out_is_asked_again(brokers: SimulatedBrokers) -> None:
    """An answer with fewer rows, or rows nobody asked for, is not trusted for the rest."""
    stray = ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(77, 0, -1, 3)])
    brokers.fail_once(ListOffsetsRequest, ListOffsetsResponse(topics=[stray]))

    assert await ask_all(EndOffsets(brokers), [P0], deadline=soon()) == {P0: 11}


async def test_an_answer_without_offset_is_no_end(brokers: SimulatedBrokers) -> None:
    """Offset −1 without an error never becomes an end offset."""
    row = ListOffsetsPartitionResponse(0, 0, -1, -1)
    brokers.faults.append(
        lambda _, message: (
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [row])])
            if isinstance(message, ListOffsetsRequest)
            else None
        )
    )

    [end] = (await ask_all(EndOffsets(brokers), [P0], deadline=soon(0.05))).values()

    assert isinstance(end, Trouble)


@pytest.mark.parametrize(
    ("item", "status", "words"),
    [
        (Wanted("nosuch", T1, 0), Status.TOPIC_MISSING, "does not exist"),
        (Wanted("t", T1, 2), Status.PARTITION_MISSING, "has no partition 2: it has 2"),
        (Wanted("t", T2, 0), Status.TOPIC_MISSING, "created again"),
        (Wanted("leaderless", T2, 0), Status.NO_LEADER, "no leader"),
        (Wanted("hidden", T2, 0), Status.NOT_AUTHORIZED, "grant DESCRIBE"),
    ],
)
async def test_what_metadata_rules_out_is_answered_at_once(
    brokers: SimulatedBrokers, item: Wanted, status: Status, words: str
) -> None:
    """Nothing is sent about partitions that no broker can answer, and nobody waits."""
    brokers.topics["leaderless"] = Topic(T2, [None], [0])
    brokers.topics["hidden"] = Topic(T2, [N1], [0], code=29)

    found = (await ask_all(EndOffsets(brokers), [item], deadline=soon()))[item]

    assert isinstance(found, Trouble)
    assert found.status is status
    assert words in found.message
    assert brokers.asked == []


async def test_a_leader_that_left_the_cluster_is_no_leader(brokers: SimulatedBrokers) -> None:
    """Metadata may still name a broker that is gone."""
    del brokers.apis[N2]

    found = (await ask_all(EndOffsets(brokers), [P1], deadline=soon()))[P1]

    assert isinstance(found, Trouble)
    assert found.status is Status.NO_LEADER


async def test_a_bad_word_from_aged_metadata_is_checked(brokers: SimulatedBrokers) -> None:
    """Only doubtful topics are looked up again, and only once."""
    await route_all(EndOffsets(brokers), [P0, Wanted("nosuch", T1, 0)], deadline=soon())

    assert brokers.metadata_ages == [pytest.approx(30.0, abs=1.0), 0.0]


async def test_good_aged_metadata_is_enough(brokers: SimulatedBrokers) -> None:
    """Leaders that are known cost no round."""
    await route_all(EndOffsets(brokers), [P0], deadline=soon())

    assert brokers.metadata_ages == [pytest.approx(30.0, abs=1.0)]


async def test_without_topic_ids_names_are_enough(brokers: SimulatedBrokers) -> None:
    """Old Metadata has no ids; then a topic cannot look recreated."""
    brokers.topics["t"].topic_id = TopicId(bytes(16))

    assert await route_all(EndOffsets(brokers), [P0], deadline=soon()) == {P0: N1}


async def test_partitions_of_existing_topics(brokers: SimulatedBrokers) -> None:
    """Topics that do not exist or are hidden have none."""
    brokers.topics["hidden"] = Topic(T2, [N1], [0], code=29)

    assert await partitions_of(brokers, {"t", "nosuch", "hidden"}, deadline=soon()) == [P0, P1]
