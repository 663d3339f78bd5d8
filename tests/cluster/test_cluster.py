"""The cluster client: metadata, the way to a node, what happens when brokers leave, move or fall silent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import (
    BadAnswer,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    Unreachable,
    UnsupportedApi,
)
from shareproxy.cluster.pool import ConnectionPool
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    ApiVersionsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from tests.cluster.scripted_broker import (
    HANG_UP,
    SILENCE,
    Answer,
    ScriptedBroker,
    ScriptedCluster,
    eventually,
    soon,
)


@pytest.fixture
async def brokers() -> AsyncIterator[ScriptedCluster]:
    """Three brokers and a topic."""
    async with ScriptedCluster((1, 2, 5)) as started:
        started.topics["t"] = [1, None]
        yield started


@pytest.fixture
async def cluster(brokers: ScriptedCluster) -> AsyncIterator[Cluster]:
    """A client that knows one of them."""
    async with Cluster([brokers.brokers[1].address], connect_timeout=1.0) as client:
        yield client


def free_port() -> int:
    """Return a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_metadata_tells_nodes_and_topics(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Asked topics only; empty asks for the nodes alone."""
    metadata = await cluster.metadata(["t", "missing"], deadline=soon())

    assert sorted(metadata.nodes) == [1, 2, 5]
    assert metadata.topics["t"].partitions[0].leader == 1
    assert metadata.topics["t"].partitions[1].leader is None
    assert metadata.topics["missing"].error_code == 3
    assert not (await cluster.metadata((), deadline=soon())).topics
    assert list((await cluster.metadata(None, deadline=soon())).topics) == ["t"]


async def test_equal_questions_are_asked_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Order of the names does not matter."""
    await asyncio.gather(
        *(cluster.metadata(["a", "b"], deadline=soon()) for _ in range(5)),
        *(cluster.metadata(["b", "a"], deadline=soon()) for _ in range(5)),
    )

    assert brokers.count(MetadataRequest) == 1


async def test_an_older_answer_serves_whoever_accepts_it(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Until it is forgotten."""
    first = await cluster.metadata(["t"], deadline=soon())

    assert await cluster.metadata(["t"], deadline=soon(), max_age=60) == first
    assert await cluster.metadata((), deadline=soon(), max_age=60) is not None
    assert brokers.count(MetadataRequest) == 1
    cluster.forget_metadata()
    assert await cluster.metadata(["t"], deadline=soon(), max_age=60) is not first
    assert brokers.count(MetadataRequest) == 2


async def test_topics_are_kept_one_by_one(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Whoever wants some of them asks only for those that are not known."""
    await cluster.metadata(["t"], deadline=soon())

    both = await cluster.metadata(["t", "missing"], deadline=soon(), max_age=60)

    assert set(both.topics) == {"t", "missing"}
    assert [
        [topic.name for topic in request.topics or ()] for request in brokers.brokers[1].messages(MetadataRequest)
    ] == [
        ["t"],
        ["missing"],
    ]


async def test_a_topic_that_looks_missing_is_not_remembered(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """A new one does so for about a second."""
    for _ in range(2):
        found = await cluster.metadata(["missing"], deadline=soon(), max_age=60)
        assert found.topics["missing"].error_code == 3

    assert brokers.count(MetadataRequest) == 2


async def test_few_topics_are_kept(brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one goes first."""
    brokers.topics["u"] = [1]
    monkeypatch.setattr("shareproxy.cluster.cluster.MOST_TOPICS", 1)
    await cluster.metadata(["t"], deadline=soon())
    await cluster.metadata(["u"], deadline=soon())

    await cluster.metadata(["u"], deadline=soon(), max_age=60)
    assert brokers.count(MetadataRequest) == 2
    await cluster.metadata(["t"], deadline=soon(), max_age=60)
    assert brokers.count(MetadataRequest) == 3


async def test_a_request_goes_to_its_node(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Over the one connection to it."""
    for broker in brokers.brokers.values():
        broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())

    for _ in range(3):
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon())

    assert brokers.brokers[5].count(ListGroupsRequest) == 3
    assert brokers.brokers[5].connections == 1
    assert brokers.count(ListGroupsRequest) == 3


async def test_requests_are_counted_by_api(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Metadata too, and a request that is sent twice counts twice."""
    brokers.brokers[5].on(ListGroupsRequest, lambda _: ListGroupsResponse())
    assert cluster.requests_sent == {}

    for _ in range(3):
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon())
    brokers.brokers[5].on(ListGroupsRequest, lambda _: HANG_UP)
    with pytest.raises(ConnectionClosed):
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon())

    assert cluster.requests_sent == {MetadataRequest.api_key: 1, ListGroupsRequest.api_key: 5}


async def test_any_broker_serves_where_none_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The connection that is open already."""
    brokers.brokers[1].on(ListGroupsRequest, lambda _: ListGroupsResponse())
    await cluster.metadata((), deadline=soon())

    await cluster.request(None, ListGroupsRequest(), deadline=soon())

    assert brokers.brokers[1].connections == 1


async def test_versions_come_from_the_connection(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Each node has its own."""
    brokers.brokers[2].offers = {18: (0, 4), 3: (0, 7)}

    assert (await cluster.versions(NodeId(2), deadline=soon()))[3] == (0, 7)
    assert (await cluster.versions(None, deadline=soon()))[3] == (0, 13)
    assert brokers.brokers[2].count(ApiVersionsRequest) == 1


async def test_bootstrap_servers_are_tried_in_turn(brokers: ScriptedCluster) -> None:
    """Some refuse, some are silent, some are no brokers; the last one answers."""
    async with ScriptedBroker() as silent, ScriptedBroker() as web:
        silent.on(ApiVersionsRequest, lambda _: SILENCE)
        web.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
        servers = [Address("127.0.0.1", free_port()), silent.address, web.address, brokers.brokers[1].address]

        async with Cluster(servers, connect_timeout=0.1) as cluster:
            assert len((await cluster.metadata((), deadline=soon())).nodes) == 3


async def test_a_cluster_that_comes_late_is_found() -> None:
    """Nobody listens at first; attempts go on until the deadline."""
    port = free_port()
    async with Cluster([Address("127.0.0.1", port)]) as cluster:
        asking = asyncio.ensure_future(cluster.metadata((), deadline=soon()))
        await eventually(lambda: cluster._brokers._turn > 0)  # one attempt has failed
        scripted = ScriptedCluster()
        await scripted.brokers[1].start(port)
        try:
            assert list((await asking).nodes) == [1]
        finally:
            await scripted.brokers[1].stop()


async def test_a_cause_that_was_found_is_not_replaced_by_running_out_of_time(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """The first attempt says what is wrong; a later one that only runs into the deadline must not hide it."""
    attempts = iter([HANG_UP])
    brokers.brokers[1].on(MetadataRequest, lambda _: next(attempts, SILENCE))

    with pytest.raises(ConnectionClosed, match="closed the connection"):
        await cluster.metadata((), deadline=soon(1.0))

    assert brokers.brokers[1].count(MetadataRequest) >= 2


async def test_when_nobody_answers_each_address_has_its_cause() -> None:
    """The sentence names all of them."""
    ports = [free_port(), free_port()]
    async with Cluster([Address("127.0.0.1", port) for port in ports]) as cluster:
        with pytest.raises(Unreachable) as caught:
            await cluster.metadata((), deadline=soon(0.1))

    for port in ports:
        assert f"127.0.0.1:{port}: connection refused" in str(caught.value)


async def test_a_server_that_is_no_broker_ends_the_search() -> None:
    """Waiting does not make it one."""
    async with ScriptedBroker() as web, Cluster([web.address]) as cluster:
        web.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")

        with pytest.raises(BadAnswer, match="answered with HTTP"):
            await cluster.metadata((), deadline=soon(60))

    assert web.connections == 1


async def test_a_silent_broker_is_left_for_another(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered before and then stopped; its share of the time is bounded."""
    monkeypatch.setattr("shareproxy.cluster.broker_calls.STAGGER_SECONDS", 0.05)
    await cluster.metadata((), deadline=soon())
    for broker in brokers.brokers.values():
        broker.on(MetadataRequest, lambda _: SILENCE)
    brokers.brokers[2].on(MetadataRequest, brokers._metadata)

    assert len((await cluster.metadata((), deadline=soon(2))).nodes) == 3


async def test_a_stale_connection_is_replaced_without_a_word(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The broker had closed it for being idle."""
    broker = brokers.brokers[2]
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    await cluster.request(NodeId(2), ListGroupsRequest(), deadline=soon())

    def hang_up_once(_: ListGroupsRequest) -> Answer:
        broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
        return HANG_UP

    broker.on(ListGroupsRequest, hang_up_once)
    await cluster.request(NodeId(2), ListGroupsRequest(), deadline=soon())

    assert broker.count(ListGroupsRequest) == 3


async def test_a_change_is_never_sent_twice(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Whether the first one took effect is unknown; the caller decides."""
    broker = brokers.brokers[2]
    broker.on(AlterShareGroupOffsetsRequest, lambda _: AlterShareGroupOffsetsResponse())
    await cluster.request(NodeId(2), AlterShareGroupOffsetsRequest(), deadline=soon())
    broker.on(AlterShareGroupOffsetsRequest, lambda _: HANG_UP)

    with pytest.raises(ConnectionClosed):
        await cluster.request(NodeId(2), AlterShareGroupOffsetsRequest(), deadline=soon())

    assert broker.count(AlterShareGroupOffsetsRequest) == 2


async def test_a_fresh_connection_that_closes_is_told(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """One attempt is one attempt."""
    brokers.brokers[2].on(ListGroupsRequest, lambda _: HANG_UP)
    await cluster.versions(NodeId(1), deadline=soon())

    with pytest.raises(ConnectionClosed, match="closed the connection"):
        await cluster.request(NodeId(2), ListGroupsRequest(), deadline=soon())

    assert brokers.brokers[2].count(ListGroupsRequest) == 1


async def test_a_garbage_answer_is_not_asked_for_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """It would be garbage again."""
    broker = brokers.brokers[2]
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    await cluster.request(NodeId(2), ListGroupsRequest(), deadline=soon())
    broker.on(ListGroupsRequest, lambda _: b"\xff\xff\xff\xff")

    with pytest.raises(BadAnswer):
        await cluster.request(NodeId(2), ListGroupsRequest(), deadline=soon())

    assert broker.count(ListGroupsRequest) == 2


async def test_an_unknown_node_is_looked_up_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The sentence says which nodes there are."""
    with pytest.raises(Unreachable, match=r"node 9 is not in the cluster now; its nodes are 1, 2, 5"):
        await cluster.request(NodeId(9), ListGroupsRequest(), deadline=soon())

    assert brokers.count(MetadataRequest) == 1


async def test_a_node_that_is_down_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """With its address and the cause."""
    await cluster.metadata((), deadline=soon())
    address = brokers.brokers[5].address
    await brokers.brokers[5].stop()

    with pytest.raises(Unreachable, match=rf"node 5 at {address}: connection refused"):
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon())


async def test_a_node_that_moved_is_followed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Its new address is in the metadata."""
    await cluster.metadata((), deadline=soon())
    old, new = brokers.brokers[5], ScriptedBroker(5)
    new.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    brokers.brokers[5] = await new.start()
    await old.stop()

    await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon())

    assert new.count(ListGroupsRequest) == 1


async def test_a_node_that_is_down_is_named_also_when_nobody_else_answers(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """What the caller asked for is more telling than the look for a new address."""
    await cluster.metadata((), deadline=soon())
    for broker in brokers.brokers.values():
        broker.on(MetadataRequest, lambda _: SILENCE)
    await brokers.brokers[5].stop()

    with pytest.raises(Unreachable, match=r"node 5 at .*: connection refused"):
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon(0.2))


async def test_a_silent_node_costs_the_deadline_only(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """And the sentence names it."""
    brokers.brokers[5].on(ApiVersionsRequest, lambda _: SILENCE)
    await cluster.metadata((), deadline=soon())

    with pytest.raises(Unreachable, match="node 5 at") as caught:
        await cluster.request(NodeId(5), ListGroupsRequest(), deadline=soon(0.05))

    assert isinstance(caught.value.__cause__, DeadlinePassed)


async def test_a_broker_that_knows_nobody_yet_is_asked_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """It has just started."""

    def nobody(_: MetadataRequest) -> Answer:
        brokers.brokers[1].on(MetadataRequest, brokers._metadata)
        return MetadataResponse()

    brokers.brokers[1].on(MetadataRequest, nobody)

    assert len((await cluster.metadata((), deadline=soon())).nodes) == 3
    brokers.brokers[1].on(MetadataRequest, lambda _: MetadataResponse())
    with pytest.raises(Unreachable, match="does not know the cluster's nodes yet"):
        await cluster.metadata((), deadline=soon(0.1))


async def test_a_broker_that_left_sends_the_client_back(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Error 129 asks clients to begin at the bootstrap servers again (KIP-1102)."""

    def elsewhere(_: MetadataRequest) -> Answer:
        brokers.brokers[1].on(MetadataRequest, brokers._metadata)
        return MetadataResponse(error_code=129, brokers=[MetadataResponseBroker(1, "h", 1)])

    brokers.brokers[1].on(MetadataRequest, elsewhere)

    assert len((await cluster.metadata((), deadline=soon())).nodes) == 3


async def test_another_metadata_error_is_told(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """With its number."""
    brokers.brokers[1].on(MetadataRequest, lambda _: MetadataResponse(error_code=42))

    with pytest.raises(BrokerError, match="error 42") as caught:
        await cluster.metadata((), deadline=soon())

    assert caught.value.code == 42


async def test_a_broker_too_old_for_metadata_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Version 4 is the first that can say that no topic shall be made."""
    brokers.brokers[1].offers[MetadataRequest.api_key] = (0, 3)

    with pytest.raises(UnsupportedApi, match="Metadata"):
        await cluster.metadata((), deadline=soon())


async def test_questions_without_a_node_go_on_to_the_next_broker(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """`ask_any` is for what every broker can answer."""
    await cluster.metadata((), deadline=soon())
    for broker in brokers.brokers.values():
        broker.on(ListGroupsRequest, lambda _: HANG_UP)
    brokers.brokers[5].on(ListGroupsRequest, lambda _: ListGroupsResponse())

    await cluster.ask_any(ListGroupsRequest(), deadline=soon())

    assert brokers.brokers[5].count(ListGroupsRequest) == 1


async def test_idle_connection_that_somebody_else_takes_is_replaced(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for an idle connection and its use another question may take it."""
    await cluster.metadata((), deadline=soon())
    for broker in brokers.brokers.values():
        broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    real = ConnectionPool.usable
    looks = 0

    def taken_after_the_first_look(pool: ConnectionPool, purpose: str) -> Connection | None:
        nonlocal looks
        looks += 1
        return real(pool, purpose) if looks == 1 else None

    monkeypatch.setattr(ConnectionPool, "usable", taken_after_the_first_look)

    answer = await cluster.request(None, ListGroupsRequest(), deadline=soon())

    assert answer == ListGroupsResponse()
    assert looks > 1


async def test_closing_ends_everything(brokers: ScriptedCluster) -> None:
    """Questions under way get an error, later ones too, and no connection stays."""
    brokers.brokers[1].on(MetadataRequest, lambda _: SILENCE)
    cluster = Cluster([brokers.brokers[1].address])
    asking = asyncio.ensure_future(cluster.metadata((), deadline=soon()))
    await eventually(lambda: brokers.count(MetadataRequest) == 1)

    await cluster.close()

    with pytest.raises(ClusterError):
        await asking
    for question in (
        cluster.metadata((), deadline=soon()),
        cluster.request(None, ListGroupsRequest(), deadline=soon()),
        cluster.group_coordinator(GroupId("g"), deadline=soon()),
        cluster.share_coordinators(GroupId("g"), [], deadline=soon()),
        cluster.ask_any(ListGroupsRequest(), deadline=soon()),
    ):
        with pytest.raises(ClusterError, match="the client is closed"):
            await question
    await eventually(lambda: not brokers.brokers[1]._tasks)


def test_a_client_needs_a_bootstrap_server() -> None:
    """There is nowhere to begin otherwise."""
    with pytest.raises(ValueError, match="no bootstrap server"):
        Cluster([])
