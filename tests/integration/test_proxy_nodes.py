"""The proxy in front of three nodes, of the oldest and the newest supported version."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.protocol.headers import decode_response, encode_request, sized
from shareproxy.protocol.ids import GroupId, NodeId, TopicId, topic_id_text
from shareproxy.protocol.message import Request
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ShareFetchRequest,
    ShareFetchRequestFetchPartition,
    ShareFetchRequestFetchTopic,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, SUPPORTED_VERSIONS, LocalKafka
from tests.support import scenarios
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.running_proxy import RunningProxy, running_proxy
from tests.support.waiting import wait_until

_RECORD = b"\x0e\0\0\0\1\2x\0"  # no key, value "x", no headers
ONE_BATCH = struct.pack(">qiibIhiqqqhii", 0, 49 + len(_RECORD), -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) + _RECORD
"""Record batch of one record; who does not lead the partition never looks at its checksum."""


@pytest.fixture(scope="module", params=sorted({VERSIONS[0], VERSIONS[-1]}))
def nodes(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A three-node cluster."""
    require_kafka()
    with LocalKafka(request.param, nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def direct(nodes: LocalKafka) -> Iterator[ShareDriver]:
    """The newest Java clients, which know lag, connected to the brokers."""
    with ShareDriver(LocalKafka(SUPPORTED_VERSIONS[-1]).jar_dir, nodes.bootstrap_servers) as driver:
        yield driver


@pytest.fixture(scope="module")
def proxy(nodes: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the three nodes."""
    with running_proxy(nodes.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture
def through(direct: ShareDriver, proxy: RunningProxy) -> ShareDriver:
    """The same Java clients, connected to the proxy."""
    return direct.connected_to(proxy.bootstrap_servers)


def answer_on(address: str, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
    """Ask one address and return the answer."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as answer:
        connection.sendall(sized(encode_request(request, version, 1, "test")))
        size = int.from_bytes(answer.read(4))
        _, message = decode_response(ApiVersionsResponse, version, answer.read(size))
        return message


def test_every_node_has_its_port(direct: ShareDriver, through: ShareDriver, proxy: RunningProxy) -> None:
    """The admin client is told the proxy's ports only."""
    found = through.describe_cluster().nodes

    assert found == {node_id: proxy.node_ports[node_id] for node_id in (1, 2, 3)}


def test_each_port_leads_to_its_node(
    nodes: LocalKafka, direct: ShareDriver, through: ShareDriver, proxy: RunningProxy
) -> None:
    """Brokers check it themselves: a wrong node id is answered by 129 (KIP-1242), and that answer passes."""
    if nodes.version != SUPPORTED_VERSIONS[-1]:
        pytest.skip("the check is new in Kafka 4.4")
    cluster_id = direct.describe_cluster().cluster_id
    codes = {
        (port_of, asked): answer_on(
            proxy.node_ports[port_of], ApiVersionsRequest("test", "1", cluster_id, asked), 5
        ).error_code
        for port_of in (1, 2, 3)
        for asked in (1, 2, 3)
    }

    assert codes == {(port_of, asked): 0 if port_of == asked else 129 for port_of, asked in codes}


def test_lag_of_groups_with_coordinators_everywhere(
    direct: ShareDriver, through: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Groups and partitions spread over all nodes; the admin client finds each."""
    layouts = [scenarios.many_partitions(direct, f"{topic}-{n}", f"{group}-{n}", 12, replication=3) for n in range(4)]

    found = {layout.group: through.list_share_group_offsets(layout.group) for layout in layouts}

    coordinators = {through.describe_group(layout.group).coordinator for layout in layouts}
    assert len(coordinators) > 1
    for layout in layouts:
        assert {row.partition: row.lag for row in found[layout.group]} == layout.lags


def test_kafkas_own_tool_shows_all_groups(
    nodes: LocalKafka, direct: ShareDriver, through: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """`--all-groups` asks every coordinator, each through its own port."""
    layout = scenarios.kip_1226_layout(direct, topic, group)

    arguments = ["--bootstrap-server", proxy.bootstrap_servers, "--describe", "--all-groups", "--offsets"]
    done = LocalKafka(SUPPORTED_VERSIONS[-1]).java(SHARE_GROUP_COMMAND, *arguments)

    rows = [line.split() for line in done.stdout.splitlines()]
    assert [layout.group, layout.topic, "0", "7"] in [[*row[:3], row[-1]] for row in rows if row], done.stderr


def test_wrong_coordinator_stays_the_brokers_answer(
    direct: ShareDriver, through: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Asked for all topics on another node's port, the group's answer is error 16; named topics any node answers."""
    scenarios.kip_1226_layout(direct, topic, group)

    async def errors() -> dict[int, int]:
        async with Cluster(parse_addresses(proxy.bootstrap_servers)) as cluster:
            deadline = asyncio.get_running_loop().time() + 30
            message = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group, None)])
            answers = {
                n: await cluster.request(NodeId(n), message, deadline=deadline, min_version=1) for n in (1, 2, 3)
            }
            coordinator = await cluster.group_coordinator(GroupId(group), deadline=deadline)
            assert answers[coordinator].groups[0].topics[0].partitions[0].lag == 7
            return {n: answer.groups[0].error_code for n, answer in answers.items() if n != coordinator}

    assert set(asyncio.run(errors()).values()) == {16}


def hint_questions(topic: str, topic_id: bytes) -> list[Request[Any]]:
    """Return requests for partition 0 of a topic that only its leader can answer."""
    fetched = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, partition_max_bytes=1_000)])
    shared = ShareFetchRequestFetchTopic(topic_id, [ShareFetchRequestFetchPartition(0)])
    produced = ProduceRequestTopicProduceData(topic, topic_id, [ProduceRequestPartitionProduceData(0, ONE_BATCH)])
    member = topic_id_text(TopicId(topic_id[::-1]))
    return [
        ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[produced]),
        FetchRequest(max_wait_ms=0, topics=[fetched]),
        ShareFetchRequest("hints", member, 0, 0, 1, 1_000, 1, 1, topics=[shared]),
    ]


def test_moved_leader_is_told_with_the_proxys_port(
    direct: ShareDriver, through: ShareDriver, proxy: RunningProxy, topic: str
) -> None:
    """Answers to Produce, Fetch and ShareFetch end with where the right broker is (KIP-951): the proxy's port."""
    direct.create_topic(topic, 1, 1)

    async def hints() -> tuple[int, dict[str, list[tuple[int, str]]]]:
        async with Cluster(parse_addresses(proxy.bootstrap_servers)) as cluster:
            deadline = asyncio.get_running_loop().time() + 30
            found = (await cluster.metadata([topic], deadline=deadline)).topics[topic]
            leader = found.partitions[0].leader
            assert leader is not None
            other = NodeId(leader % 3 + 1)
            told = {}
            for question in hint_questions(topic, found.topic_id):
                answer = await cluster.request(other, question, deadline=deadline)
                told[type(answer).__name__] = [(row.node_id, f"{row.host}:{row.port}") for row in answer.node_endpoints]
            return leader, told

    leader, told = asyncio.run(hints())

    right = [(leader, proxy.node_ports[leader])]
    assert told == {"ProduceResponse": right, "FetchResponse": right, "ShareFetchResponse": right}


def test_node_that_is_down_closes_and_comes_back(
    nodes: LocalKafka, direct: ShareDriver, through: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Its port closes at once, the other ports and the bootstrap port go on, and the restarted node is found again."""
    layout = scenarios.many_partitions(direct, topic, group, 3, replication=3)

    def lag_is_right() -> bool:
        return {row.partition: row.lag for row in through.list_share_group_offsets(group)} == layout.lags

    victim = next(n for n in (3, 2, 1) if n != through.describe_group(group).coordinator)
    request = ApiVersionsRequest("test", "1")

    nodes.stop_node(victim)
    try:
        assert _ends(proxy.node_ports[victim])
        for _ in range(4):
            assert answer_on(proxy.bootstrap_servers, request, 4).error_code == 0
        wait_until(lag_is_right, "the other nodes tell the lag")
    finally:
        nodes.start_node(victim)

    wait_until(lambda: not _ends(proxy.node_ports[victim]), "the restarted node answers through its port")
    wait_until(lag_is_right, "all nodes tell the lag")


def _ends(address: str) -> bool:
    """Tell whether an address closes the connection instead of answering."""
    host, port = address.rsplit(":", 1)
    try:  # a reset may come as early as the connect, before it has returned
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(sized(encode_request(ApiVersionsRequest("test", "1"), 4, 1, "test")))
            return connection.recv(4) == b""
    except ConnectionError:
        return True
