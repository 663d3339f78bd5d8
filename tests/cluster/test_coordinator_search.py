"""Finding coordinators: by asking, by hash, and without ever creating an internal topic."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable

import pytest

from shareproxy.cluster.cluster import Cluster, CoordinatorFailure, FailureReason
from shareproxy.cluster.coordinators import java_hash, share_key
from shareproxy.cluster.errors import BrokerError, InternalTopicMissing, NotAuthorized, Unreachable
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadShareGroupStateSummaryResponseReadStateSummaryResult,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseDescribedGroup,
)
from tests.cluster.scripted_broker import SILENCE, Answer, ScriptedCluster, soon

GROUP = GroupId("g")
TOPIC_ID = TopicId(bytes(range(1, 17)))
GROUP_TOPIC, SHARE_TOPIC = "__consumer_offsets", "__share_group_state"
HIDDEN = 29


@pytest.fixture
async def brokers() -> AsyncIterator[ScriptedCluster]:
    """Three brokers; node 2 coordinates every group."""
    async with ScriptedCluster((1, 2, 3)) as started:
        started.topics[GROUP_TOPIC] = [1, 2, 3]
        started.coordinator = lambda key, key_type: (2, 0)
        yield started


@pytest.fixture
async def cluster(brokers: ScriptedCluster) -> AsyncIterator[Cluster]:
    """A client that knows one of them."""
    async with Cluster([brokers.brokers[1].address]) as client:
        yield client


def describe_as(brokers: ScriptedCluster, code_of: Callable[[int], int]) -> None:
    """Let ShareGroupDescribe answer with an error code by node id."""
    for node_id, broker in brokers.brokers.items():
        group = ShareGroupDescribeResponseDescribedGroup(code_of(node_id), None, "g")
        broker.on(ShareGroupDescribeRequest, functools.partial(answer_with, ShareGroupDescribeResponse(groups=[group])))


def answer_with(answer: Answer, _: object) -> Answer:
    """Answer every request alike."""
    return answer


def summarize_as(brokers: ScriptedCluster, code_of: Callable[[int, int], int]) -> None:
    """Let ReadShareGroupStateSummary answer with an error code by node id and partition."""
    for node_id, broker in brokers.brokers.items():

        def answer(request: ReadShareGroupStateSummaryRequest, node_id: int = node_id) -> Answer:
            return ReadShareGroupStateSummaryResponse(
                [
                    ReadShareGroupStateSummaryResponseReadStateSummaryResult(
                        topic.topic_id,
                        [
                            ReadShareGroupStateSummaryResponsePartitionResult(
                                row.partition, code_of(node_id, row.partition)
                            )
                            for row in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )

        broker.on(ReadShareGroupStateSummaryRequest, answer)


async def test_the_group_coordinator_is_asked_for_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Type 0, key the group id; remembered until forgotten, also when many ask at once."""
    found = await asyncio.gather(*(cluster.group_coordinator(GROUP, deadline=soon()) for _ in range(5)))
    again = await cluster.group_coordinator(GROUP, deadline=soon())

    assert [*found, again] == [2] * 6
    (request,) = brokers.brokers[1].messages(FindCoordinatorRequest)
    assert (request.key_type, request.coordinator_keys) == (0, ["g"])


async def test_many_groups_are_one_question(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Each has its own answer, or its own error."""
    brokers.coordinator = lambda key, key_type: (-1, 30) if key == "g7" else (int(key[1:]) % 3 + 1, 0)
    groups = [GroupId(f"g{number}") for number in range(20)]

    found = await asyncio.gather(
        *(cluster.group_coordinator(group, deadline=soon()) for group in groups), return_exceptions=True
    )

    assert isinstance(found[7], NotAuthorized)
    assert [node for number, node in enumerate(found) if number != 7] == [
        number % 3 + 1 for number in range(20) if number != 7
    ]
    assert brokers.count(FindCoordinatorRequest) == 1


async def test_a_coordinator_that_moved_is_found_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Whoever got error 16 forgets it and asks again."""
    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 2
    brokers.coordinator = lambda key, key_type: (3, 0)
    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 2

    cluster.forget_group_coordinator(GROUP)
    cluster.forget_group_coordinator(GroupId("never asked for"))

    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 3


async def test_an_older_broker_takes_one_key_at_a_time(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Many groups are as many requests then."""
    broker = brokers.brokers[1]
    broker.offers[FindCoordinatorRequest.api_key] = (0, 3)
    broker.on(FindCoordinatorRequest, lambda request: FindCoordinatorResponse(node_id=int(request.key[1:])))

    found = await asyncio.gather(
        *(cluster.group_coordinator(GroupId(f"g{number}"), deadline=soon()) for number in (1, 2, 3))
    )

    assert found == [1, 2, 3]


async def test_an_older_broker_takes_one_key(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Before version 4 the key is a field of its own, and so is the answer."""
    broker = brokers.brokers[1]
    broker.offers[FindCoordinatorRequest.api_key] = (0, 3)
    broker.on(FindCoordinatorRequest, lambda request: FindCoordinatorResponse(node_id=3 if request.key == "g" else 9))

    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 3


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_a_coordinator_on_the_move_is_waited_for(brokers: ScriptedCluster, cluster: Cluster, code: int) -> None:
    """Loading, not available, not here: asked again until it is there."""
    answers = iter([(-1, code), (-1, code), (3, 0)])
    brokers.coordinator = lambda key, key_type: next(answers)

    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 3


async def test_a_coordinator_that_stays_away_is_told_in_time(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """With the broker's code."""
    brokers.coordinator = lambda key, key_type: (-1, 15)

    with pytest.raises(BrokerError, match="coordinator of group g") as caught:
        await cluster.group_coordinator(GROUP, deadline=soon(0.1))

    assert caught.value.code == 15


async def test_a_group_we_may_not_see_is_told_at_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """With the right that is missing."""
    brokers.coordinator = lambda key, key_type: (-1, 30)

    with pytest.raises(NotAuthorized, match="DESCRIBE on the group") as caught:
        await cluster.group_coordinator(GROUP, deadline=soon(60))

    assert caught.value.code == 30


async def test_a_missing_group_topic_is_not_created(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """FindCoordinator would make the broker create it, so it is not sent."""
    del brokers.topics[GROUP_TOPIC]

    with pytest.raises(InternalTopicMissing, match=GROUP_TOPIC) as caught:
        await cluster.group_coordinator(GROUP, deadline=soon(60))

    assert caught.value.topic == GROUP_TOPIC
    assert brokers.count(FindCoordinatorRequest) == 0
    brokers.topics[GROUP_TOPIC] = [1]
    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 2


async def test_an_unusual_error_of_the_group_topic_is_told(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Nothing can be concluded from it."""
    brokers.topics[GROUP_TOPIC] = 17

    with pytest.raises(BrokerError, match=GROUP_TOPIC):
        await cluster.group_coordinator(GROUP, deadline=soon(60))

    assert brokers.count(FindCoordinatorRequest) == 0


@pytest.mark.parametrize("code", [0, 14, 69])
async def test_a_hidden_group_topic_is_proven_by_the_coordinator(
    brokers: ScriptedCluster, cluster: Cluster, code: int
) -> None:
    """Only the coordinator knows the group, or that there is none; from then on FindCoordinator is safe."""
    brokers.topics[GROUP_TOPIC] = HIDDEN
    describe_as(brokers, lambda node_id: code if node_id == 3 else 16)

    assert await cluster.group_coordinator(GROUP, deadline=soon()) == 3
    assert brokers.count(FindCoordinatorRequest) == 0
    assert await cluster.group_coordinator(GroupId("other"), deadline=soon()) == 2
    assert brokers.count(FindCoordinatorRequest) == 1


async def test_a_hidden_group_topic_that_nobody_proves_is_not_created(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """All brokers say that they are not the coordinator."""
    brokers.topics[GROUP_TOPIC] = HIDDEN
    describe_as(brokers, lambda node_id: 16)

    with pytest.raises(InternalTopicMissing, match="no broker coordinates group g"):
        await cluster.group_coordinator(GROUP, deadline=soon(60))

    assert brokers.count(FindCoordinatorRequest) == 0


async def test_a_silent_broker_does_not_hide_the_coordinator(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The first good answer is enough."""
    brokers.topics[GROUP_TOPIC] = HIDDEN
    describe_as(brokers, lambda node_id: 69 if node_id == 3 else 16)
    brokers.brokers[2].on(ShareGroupDescribeRequest, lambda _: SILENCE)

    assert await cluster.group_coordinator(GROUP, deadline=soon(60)) == 3


async def test_a_hidden_group_is_told_where_the_topic_is_hidden_too(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """One broker's refusal is everyone's."""
    brokers.topics[GROUP_TOPIC] = HIDDEN
    describe_as(brokers, lambda node_id: 30)

    with pytest.raises(NotAuthorized, match="group g"):
        await cluster.group_coordinator(GROUP, deadline=soon(60))


async def test_when_no_broker_answers_the_failure_is_told(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """It does not look like a missing topic."""
    brokers.topics[GROUP_TOPIC] = HIDDEN
    for broker in brokers.brokers.values():
        broker.on(ShareGroupDescribeRequest, lambda _: SILENCE)

    with pytest.raises(Unreachable):
        await cluster.group_coordinator(GROUP, deadline=soon(0.3))


async def test_share_coordinators_come_from_the_hash(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """One look at the metadata, no question to anyone."""
    brokers.topics[SHARE_TOPIC] = [1 + number % 3 for number in range(50)]
    partitions = [(TOPIC_ID, number) for number in range(20)]

    found = await cluster.share_coordinators(GROUP, partitions, deadline=soon())

    assert found == {partition: 1 + (abs(java_hash(share_key(GROUP, partition))) % 50) % 3 for partition in partitions}
    await cluster.share_coordinators(GroupId("other"), partitions, deadline=soon())
    assert brokers.count(MetadataRequest) == 1
    assert brokers.count(FindCoordinatorRequest) == 0


async def test_share_coordinators_are_computed_anew_when_forgotten(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Leaders moved."""
    brokers.topics[SHARE_TOPIC] = [1] * 50
    assert set((await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon())).values()) == {1}
    brokers.topics[SHARE_TOPIC] = [3] * 50
    assert set((await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon())).values()) == {1}

    cluster.forget_share_coordinators()

    assert set((await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon())).values()) == {3}


async def test_no_partitions_need_no_question(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The answer is empty."""
    assert await cluster.share_coordinators(GROUP, [], deadline=soon()) == {}
    assert brokers.count(MetadataRequest) == 0


async def test_a_missing_state_topic_is_a_reason_and_not_created(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """And not remembered: the first consumer makes it."""
    found = await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon())

    failure = found[TOPIC_ID, 0]
    assert isinstance(failure, CoordinatorFailure)
    assert failure.reason is FailureReason.STATE_TOPIC_MISSING
    assert brokers.count(FindCoordinatorRequest) == 0
    brokers.topics[SHARE_TOPIC] = [2]
    assert await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon()) == {(TOPIC_ID, 0): 2}


@pytest.mark.parametrize(("code", "reason"), [(5, FailureReason.NOT_AVAILABLE), (17, FailureReason.ERROR)])
async def test_another_error_of_the_state_topic_is_a_reason(
    brokers: ScriptedCluster, cluster: Cluster, code: int, reason: FailureReason
) -> None:
    """Retriable or not, as the code says."""
    brokers.topics[SHARE_TOPIC] = code

    failure = (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert (failure.reason, failure.error_code) == (reason, code)


async def test_a_hidden_state_topic_is_proven_by_reading(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Each coordinator answers for its own partitions; from then on FindCoordinator type 2 is safe."""
    brokers.topics[SHARE_TOPIC] = HIDDEN
    summarize_as(brokers, lambda node_id, partition: 0 if partition % 3 + 1 == node_id else 16)
    partitions = [(TOPIC_ID, number) for number in range(6)]

    found = await cluster.share_coordinators(GROUP, partitions, deadline=soon())

    assert found == {partition: partition[1] % 3 + 1 for partition in partitions}
    assert brokers.count(FindCoordinatorRequest) == 0
    more = await cluster.share_coordinators(GROUP, [*partitions, (TOPIC_ID, 6), (TOPIC_ID, 7)], deadline=soon())
    assert more[TOPIC_ID, 6] == 2
    assert more[TOPIC_ID, 5] == 3
    requests = [request for broker in brokers.brokers.values() for request in broker.messages(FindCoordinatorRequest)]
    assert [(request.key_type, request.coordinator_keys) for request in requests] == [
        (2, [share_key(GROUP, (TOPIC_ID, 6)), share_key(GROUP, (TOPIC_ID, 7))])
    ]


async def test_a_hidden_state_topic_without_the_right_to_read_is_a_reason(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """CLUSTER_ACTION is named, and nothing is created."""
    brokers.topics[SHARE_TOPIC] = HIDDEN
    summarize_as(brokers, lambda node_id, partition: 31)

    failure = (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon(60)))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert (failure.reason, failure.error_code) == (FailureReason.NOT_AUTHORIZED, 31)
    assert "CLUSTER_ACTION" in failure.message
    assert brokers.count(FindCoordinatorRequest) == 0


async def test_a_hidden_state_topic_that_nobody_proves_is_not_created(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """Nobody coordinates the partition now."""
    brokers.topics[SHARE_TOPIC] = HIDDEN
    summarize_as(brokers, lambda node_id, partition: 16)

    failure = (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon(60)))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert failure.reason is FailureReason.NOT_AVAILABLE
    assert brokers.count(FindCoordinatorRequest) == 0


async def prove_state_topic(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Let the client find out that the hidden topic exists."""
    brokers.topics[SHARE_TOPIC] = HIDDEN
    summarize_as(brokers, lambda node_id, partition: 0)
    await cluster.share_coordinators(GroupId("first"), [(TOPIC_ID, 0)], deadline=soon())


@pytest.mark.parametrize(
    ("code", "reason"),
    [(31, FailureReason.NOT_AUTHORIZED), (15, FailureReason.NOT_AVAILABLE), (42, FailureReason.ERROR)],
)
async def test_failures_of_find_coordinator_are_reasons(
    brokers: ScriptedCluster, cluster: Cluster, code: int, reason: FailureReason
) -> None:
    """Each share partition has its own, and is asked for again next time."""
    await prove_state_topic(brokers, cluster)
    brokers.coordinator = lambda key, key_type: (-1, code) if key.endswith(":0") else (3, 0)

    found = await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0), (TOPIC_ID, 1)], deadline=soon())

    assert found[TOPIC_ID, 1] == 3
    failure = found[TOPIC_ID, 0]
    assert isinstance(failure, CoordinatorFailure)
    assert (failure.reason, failure.error_code) == (reason, code)
    brokers.coordinator = lambda key, key_type: (1, 0)
    assert (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0] == 1


async def test_a_key_the_broker_leaves_out_is_a_reason(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Silence is not a coordinator."""
    await prove_state_topic(brokers, cluster)
    for broker in brokers.brokers.values():
        broker.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse())

    failure = (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert failure.reason is FailureReason.ERROR


async def test_a_broker_without_version_6_is_a_reason(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Share keys need it."""
    for broker in brokers.brokers.values():
        broker.offers[FindCoordinatorRequest.api_key] = (0, 5)
    await prove_state_topic(brokers, cluster)

    failure = (await cluster.share_coordinators(GROUP, [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert failure.reason is FailureReason.UNSUPPORTED


async def test_memory_is_bounded(brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit everything is asked for again."""
    monkeypatch.setattr("shareproxy.cluster.coordinator_search.MOST_REMEMBERED", 3)
    for number in range(4):
        await cluster.group_coordinator(GroupId(f"g{number}"), deadline=soon())
    await prove_state_topic(brokers, cluster)
    await cluster.share_coordinators(GROUP, [(TOPIC_ID, number) for number in range(3)], deadline=soon())

    assert len(cluster._search._groups) == 1
    assert len(cluster._search._share) == 3


def test_node_ids_are_numbers() -> None:
    """A failure can be told from a node id by its class."""
    assert isinstance(NodeId(1), int)
