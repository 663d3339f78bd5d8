"""The simulated cluster as its users see it: life, nodes, faults, logins, its command line."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

import shareproxy.testing
from shareproxy.protocol import messages as m
from shareproxy.testing import SimulatedCluster
from tests.contract.wire import Wire, first_address
from tests.testing.simulation.asking import Client, ask, offsets_of, rows_of
from tests.testing.simulation.share_member import ACCEPT, Member, prepared, row_of

NOBODY = m.MetadataRequest([], False)


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Two nodes."""
    async with SimulatedCluster(2) as cluster:
        yield cluster


async def test_its_nodes_are_in_the_metadata(cluster: SimulatedCluster) -> None:
    """At the addresses of the bootstrap servers."""
    answer = await ask(cluster, NOBODY, 2)
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == [
        (node, *cluster.address(node)) for node in (1, 2)
    ]
    assert cluster.bootstrap_servers == ",".join(f"{node.host}:{node.port}" for node in answer.brokers)
    assert answer.cluster_id == cluster.cluster_id


def test_in_a_thread_for_blocking_clients() -> None:
    """`with` serves it from a thread; changes are seen at once, and at the end nobody listens."""
    with SimulatedCluster() as cluster:
        address = first_address(cluster.bootstrap_servers)
        wire = Wire(address)
        cluster.create_topic("t", 3)
        [topic] = wire.ask(m.MetadataRequest([m.MetadataRequestTopic(name="t")])).topics
        assert len(topic.partitions) == 3
        cluster.freeze_node(1)
        cluster.thaw_node(1)
        wire.close()
    with pytest.raises(ConnectionRefusedError):
        Wire(address)


async def test_answers_come_in_order(cluster: SimulatedCluster) -> None:
    """One request at a time, as brokers work: a slow one holds up those behind it."""
    client = await Client.to(cluster)
    cluster.slow(0.05, m.ListGroupsRequest, times=1)
    client.send(m.ListGroupsRequest(), 5, 11)
    client.send(NOBODY, 13, 12)
    assert [int.from_bytes((await client.frame())[:4]) for _ in range(2)] == [11, 12]
    client.close()


async def test_a_frozen_node_goes_on_when_thawed(cluster: SimulatedCluster) -> None:
    """It takes the request, the others answer meanwhile."""
    client = await Client.to(cluster, 2)
    cluster.freeze_node(2)
    client.send(NOBODY, 13)
    waiting = asyncio.create_task(client.frame())
    assert len((await ask(cluster, NOBODY, 1)).brokers) == 2
    assert not waiting.done()
    cluster.thaw_node(2)
    assert await waiting
    client.close()


async def test_a_late_answer_of_a_node_that_froze(cluster: SimulatedCluster) -> None:
    """It is held back as well."""
    client = await Client.to(cluster)
    with cluster.slow(0.01, 3, node=1):
        client.send(NOBODY, 13)
        while not cluster.requests.count(3):
            await asyncio.sleep(0)
    cluster.freeze_node(1)
    waiting = asyncio.create_task(client.frame())
    await ask(cluster, NOBODY, 2)
    cluster.thaw_node(1)
    assert await waiting
    client.close()


async def test_a_stopped_node_hands_over_and_comes_back() -> None:
    """Replicas lead what it led; what has no other replica has no leader until it is back, on the same port."""
    async with SimulatedCluster(2) as cluster:
        cluster.create_topic("safe", 2, replication=2)
        cluster.create_topic("lost", 2)
        client, address = await Client.to(cluster, 2), cluster.address(2)
        cluster.stop_node(2)
        assert await client.ended() == b""
        with pytest.raises(ConnectionRefusedError):
            await Client.to(cluster, 2)
        assert set(cluster.describe_topic("safe").leaders.values()) == {1}
        assert set(cluster.describe_topic("lost").leaders.values()) == {1, None}
        assert len((await ask(cluster, NOBODY)).brokers) == 1
        cluster.start_node(2)
        assert cluster.address(2) == address
        assert set(cluster.describe_topic("lost").leaders.values()) == {1, 2}
        assert len((await ask(cluster, NOBODY, 2)).brokers) == 2


async def test_cut_connections(cluster: SimulatedCluster) -> None:
    """On the request, in the middle of the answer, or at any moment."""
    cluster.cut(3)
    client = await Client.to(cluster)
    client.send(NOBODY, 13)
    assert await client.ended() == b""
    cluster.cut(3, after_bytes=7)
    client = await Client.to(cluster)
    client.send(NOBODY, 13)
    assert len(await client.ended()) == 7
    client = await Client.to(cluster)
    await client.ask(NOBODY)
    cluster.drop_connections(1)
    assert await client.ended() == b""


async def test_throttle_and_own_answers(cluster: SimulatedCluster) -> None:
    """A throttle time in an answer that has one; an answer of the test's own."""
    with cluster.throttle(250, [m.MetadataRequest]):
        assert (await ask(cluster, NOBODY)).throttle_time_ms == 250
    with cluster.answer_with(3, lambda request, node: m.MetadataResponse(cluster_id=f"of {node}")):
        assert (await ask(cluster, NOBODY, 2)).cluster_id == "of 2"
    cluster.fail(None, 15)
    cluster.lift_all_faults()
    answer = await ask(cluster, NOBODY)
    assert (answer.throttle_time_ms, answer.cluster_id) == (0, cluster.cluster_id)


async def test_what_a_broker_does_not_understand_closes(cluster: SimulatedCluster) -> None:
    """A version it does not have, an API it does not serve, a body that is none; of ApiVersions it tells its range."""
    for data in (b"\0\3\0\x7f\0\0\0\1\0\0", b"\0\0\0\x0d\0\0\0\1\0\0", b"\0\3\0\x0d\0\0\0\1\0\0\0\xff"):
        client = await Client.to(cluster)
        client.writer.write(len(data).to_bytes(4) + data)
        assert await client.ended() == b""
    client = await Client.to(cluster)
    client.writer.write(b"\0\0\0\x0a\0\x12\0\x09\0\0\0\1\0\0")
    assert await client.frame() == bytes.fromhex("00000001 0023 00000001 0012 0000 0005")
    client.close()


async def test_requests_are_recorded(cluster: SimulatedCluster) -> None:
    """By API and node, with the messages."""
    await ask(cluster, NOBODY, 1)
    await ask(cluster, m.ListGroupsRequest(types_filter=["share"]), 2)
    requests = cluster.requests
    assert (requests.count(), requests.count(3), requests.count(3, node=2)) == (2, 1, 0)
    assert (requests.by_api(), requests.by_api(node=2)) == ({3: 1, 16: 1}, {16: 1})
    assert [message.types_filter for message in requests.messages(m.ListGroupsRequest)] == [["share"]]
    assert requests.last[0].client_id == "tests"
    requests.clear()
    assert requests.count() == 0


async def test_users_log_in() -> None:
    """With SASL PLAIN; before that a node answers ApiVersions only, and rights are those of the user."""
    users = {"alice": "secret", "admin": "root"}
    async with SimulatedCluster(users=users, authorizer=True, super_users=["User:admin"]) as cluster:
        cluster.create_topic("t")
        cluster.add_acl("User:alice", "GROUP", "g", "READ")

        async def logged_in(name: str, password: str) -> tuple[Client, m.SaslAuthenticateResponse]:
            client = await Client.to(cluster)
            assert (await client.ask(m.SaslHandshakeRequest("PLAIN"))).error_code == 0
            return client, await client.ask(m.SaslAuthenticateRequest(f"\0{name}\0{password}".encode()))

        stranger = await Client.to(cluster)
        assert (await stranger.ask(m.ApiVersionsRequest("x", "1"))).error_code == 0
        assert (await stranger.ask(m.SaslAuthenticateRequest())).error_code == 34
        assert (await stranger.ask(m.SaslHandshakeRequest("GSSAPI"))).mechanisms == ["PLAIN"]
        stranger.send(NOBODY, 13)
        assert await stranger.ended() == b""
        assert (await logged_in("alice", "wrong"))[1].error_code == 58

        alice, answer = await logged_in("alice", "secret")
        assert answer.error_code == 0
        assert (await alice.ask(m.SaslHandshakeRequest("PLAIN"))).error_code == 34
        everything = m.MetadataRequest(None)
        assert (await alice.ask(everything)).topics == []
        [group] = (await alice.ask(m.ShareGroupDescribeRequest(["g"]))).groups
        assert group.error_code != 30
        admin, _ = await logged_in("admin", "root")
        assert [topic.name for topic in (await admin.ask(everything)).topics if not topic.is_internal] == ["t"]
        assert cluster.remove_acl("User:alice", "GROUP", "g", "READ") == 1
        [group] = (await alice.ask(m.ShareGroupDescribeRequest(["g"]))).groups
        assert group.error_code == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 0}, "at least one node"),
        ({"version": "3.9.0"}, "cannot be simulated"),
        ({"versions": {3: "4.1.2"}}, "nodes are 1 to 1"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    """They are refused with what would be right."""
    with pytest.raises(ValueError, match=message):
        SimulatedCluster(**arguments)  # type: ignore[arg-type]


def test_served_from_the_command_line() -> None:
    """It prints where it listens, has the groups that were asked for, and ends with SIGTERM."""
    command = [sys.executable, "-m", "shareproxy.testing.simulated", "--nodes", "2", "--groups", "3"]
    command += ["--partitions", "6", "--topics", "2", "--patience", "0.1", "--freeze", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        wire = Wire(first_address(process.stdout.readline().strip()))
        request = m.DescribeShareGroupOffsetsRequestGroup(
            "group-0002", [m.DescribeShareGroupOffsetsRequestTopic("topic-0000", [0, 1])]
        )
        [group] = wire.ask(m.DescribeShareGroupOffsetsRequest([request])).groups
        assert {row.partition_index for row in group.topics[0].partitions} == {0, 1}
        wire.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_the_package_knows_only_this_name() -> None:
    """`shareproxy.testing` gives it on first use."""
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = shareproxy.testing.Nonsense


async def test_moved_coordinators(cluster: SimulatedCluster) -> None:
    """The old one says that it is not, the new one answers."""
    cluster.create_topic("t")
    cluster.produce("t", 0, 3)
    cluster.alter_offsets("g", {"t": {0: 1}})
    old = cluster.group_coordinator("g")
    assert old is not None
    cluster.move_group_coordinator("g", 3 - old)
    assert (await offsets_of(cluster, "g", node=old)).error_code == 16
    assert rows_of(await offsets_of(cluster, "g", node=3 - old)) == [("t", 0, 1, 2, 0)]
    keeper = cluster.share_coordinator("g", "t")
    assert keeper is not None
    cluster.move_share_coordinator("g", "t", 0, 3 - keeper)
    topic_id = (await ask(cluster, m.MetadataRequest([m.MetadataRequestTopic(name="t")]))).topics[0].topic_id
    asked = m.ReadShareGroupStateSummaryRequestReadStateSummaryData(
        topic_id, [m.ReadShareGroupStateSummaryRequestPartitionData(0)]
    )
    for node, code in ((keeper, 16), (3 - keeper, 0)):
        answer = await ask(cluster, m.ReadShareGroupStateSummaryRequest("g", [asked]), node)
        assert answer.results[0].partitions[0].error_code == code
    with pytest.raises(ValueError, match="no node 9"):
        cluster.move_leader("t", 0, 9)


async def test_an_answer_that_is_lost() -> None:
    """What was asked for is done; then the connection ends, or nothing comes."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        lost = cluster.lose(79)
        with pytest.raises(asyncio.IncompleteReadError):
            await ada.acknowledge([(0, 0, [ACCEPT])])
        assert (lost.hits, [row.lag for row in cluster.list_share_group_offsets("g")]) == (1, [1])
        bob = await Member.of(cluster)
        await bob.fetch()
        with cluster.lose(79, close=False):
            bob.client.send(m.ShareAcknowledgeRequest("g", bob.member_id, 1), 2)
            bob.client.send(m.ApiVersionsRequest("tests", "1"), 4)
            answer = await bob.client.receive(m.ApiVersionsRequest(), 4)
        assert answer.error_code == 0  # the first one that came


@pytest.mark.parametrize("step", ["join", "open", "fetch", "acknowledge", "close"])
async def test_faults_of_one_step(step: str) -> None:
    """A fault strikes the step that it is about, and no other."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        fault = cluster.fail(None, 7, step=step)
        ada = await Member.of(cluster)
        join = await ada.client.ask(m.ShareGroupHeartbeatRequest("g", ada.member_id, 0, None, ["t"]))
        opened = await ada.fetch()
        if opened.error_code:
            fault.lift()
            await ada.fetch()
        fetched = await ada.fetch(max_wait_ms=0)
        acknowledged = await ada.acknowledge([(0, 0, [ACCEPT])])
        closed = await ada.acknowledge(epoch=-1)
        codes = {
            "join": join.error_code,
            "open": opened.error_code,
            "fetch": fetched.error_code,
            "acknowledge": acknowledged.error_code,
            "close": closed.error_code,
        }
        assert {name: code for name, code in codes.items() if code} == {step: 7}


async def test_codes_of_acknowledgements() -> None:
    """With a topic and the step "acknowledge" they stand beside the records, and nothing of it counts."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2, 2)
        ada = await Member.of(cluster)
        await ada.fetch(max_records=1)
        with cluster.fail((78, 79), 121, topic="t", step="acknowledge", times=1):
            row = row_of(await ada.fetch([(0, 1, [ACCEPT])]))
        assert (row.error_code, row.acknowledge_error_code, len(row.acquired_records)) == (0, 121, 1)
        assert [row.lag for row in cluster.list_share_group_offsets("g")] in ([4], [None])
        with cluster.fail(78, 6, topic="t", times=1):
            row = row_of(await ada.fetch([(0, 1, [ACCEPT])], max_wait_ms=0))
        assert (row.error_code, row.acknowledge_error_code, row.acquired_records) == (6, 0, [])
