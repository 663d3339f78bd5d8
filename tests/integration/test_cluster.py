"""The cluster client against real brokers: what it finds is what the brokers say, and it changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster, CoordinatorFailure, FailureReason
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC, SharePartition, share_key
from shareproxy.cluster.errors import (
    AuthenticationFailed,
    ClusterError,
    InternalTopicMissing,
    NotAuthorized,
    Unreachable,
)
from shareproxy.cluster.properties import read_client_properties
from shareproxy.cluster.security import Security
from shareproxy.protocol.ids import GroupId, NodeId, TopicId, topic_id_text
from shareproxy.protocol.messages import FindCoordinatorRequest, ListGroupsRequest
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, client_properties
from shareproxy.testing.kafka import Security as BrokerSecurity
from tests.support import scenarios
from tests.support.real_kafka import VERSIONS, require_kafka

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ALICE = Security("SASL_PLAINTEXT", "PLAIN", "alice", "alice-secret")
ADMIN = Security("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret")
TOPIC_ID = TopicId(bytes(range(1, 17)))


def soon(seconds: float = 30.0) -> float:
    """Return a deadline."""
    return asyncio.get_running_loop().time() + seconds


def client(servers: str, security: Security | None = None) -> Cluster:
    """Return a client of a listener."""
    return Cluster(parse_addresses(servers), security or Security())


@pytest.fixture
async def cluster(kafka: LocalKafka) -> AsyncIterator[Cluster]:
    """A client of the one-node cluster."""
    async with client(kafka.bootstrap_servers) as opened:
        yield opened


@pytest.fixture(scope="module")
def untouched() -> Iterator[LocalKafka]:
    """A cluster on which no group was ever used; alice may log in, for a second at a time, and do nothing."""
    require_kafka()
    security = BrokerSecurity(users={"alice": "alice-secret"}, authorizer=True)
    with LocalKafka(VERSIONS[-1], security=security, properties={"connections.max.reauth.ms": 1_000}) as started:
        yield started


async def find_coordinators(cluster: Cluster, key_type: int, keys: list[str]) -> dict[str, int]:
    """Ask the broker itself."""
    answer = await cluster.request(
        None, FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), deadline=soon(), min_version=6
    )
    assert not any(row.error_code for row in answer.coordinators), answer
    return {row.key: row.node_id for row in answer.coordinators}


async def test_metadata_is_what_java_sees(cluster: Cluster, driver: ShareDriver, topic: str) -> None:
    """Cluster id, nodes, a topic with its id, and one that does not exist."""
    created = driver.create_topic(topic, 3)
    seen = driver.describe_cluster()

    metadata = await cluster.metadata([topic, "no-such-topic"], deadline=soon())

    assert metadata.cluster_id == seen.cluster_id
    assert {node_id: str(node.address) for node_id, node in metadata.nodes.items()} == seen.nodes
    assert sorted(metadata.topics[topic].partitions) == [0, 1, 2]
    assert topic_id_text(metadata.topics[topic].topic_id) == created.topic_id
    assert {row.leader for row in metadata.topics[topic].partitions.values()} == {NodeId(1)}
    assert metadata.topics["no-such-topic"].error_code == 3


async def test_versions_and_features_are_the_brokers(cluster: Cluster, kafka_version: str) -> None:
    """Lag on the wire came with 4.2; share groups are on."""
    versions = await cluster.versions(None, deadline=soon())

    assert versions[90] == (0, 0 if kafka_version.startswith("4.1.") else 1)
    assert versions.features["share.version"] >= 1


async def test_coordinators_are_found_on_one_node(
    cluster: Cluster, driver: ShareDriver, topic: str, group: str
) -> None:
    """On every version."""
    scenarios.kip_1226_layout(driver, topic, group)
    topic_id = (await cluster.metadata([topic], deadline=soon())).topics[topic].topic_id

    assert await cluster.group_coordinator(GroupId(group), deadline=soon()) == 1
    found = await cluster.share_coordinators(GroupId(group), [(topic_id, 0)], deadline=soon())
    assert found == {(topic_id, 0): 1}


async def test_coordinators_are_those_of_find_coordinator(
    three_nodes: LocalKafka, three_nodes_driver: ShareDriver, topic: str, group: str
) -> None:
    """Group and share coordinators over three nodes; the latter by hash."""
    scenarios.many_partitions(three_nodes_driver, topic, group, 3, replication=3)
    groups = [GroupId(group), GroupId("a:b"), GroupId("grün"), *(GroupId(f"group {number}") for number in range(9))]
    async with client(three_nodes.bootstrap_servers) as cluster:
        topic_id = (await cluster.metadata([topic], deadline=soon())).topics[topic].topic_id
        partitions: list[SharePartition] = [(topic_id, number) for number in range(40)]

        for name in groups:
            assert (
                await cluster.group_coordinator(name, deadline=soon())
                == (await find_coordinators(cluster, 0, [name]))[name]
            )
            keys = {partition: share_key(name, partition) for partition in partitions}
            by_hash = await cluster.share_coordinators(name, partitions, deadline=soon())
            asked = await find_coordinators(cluster, 2, list(keys.values()))
            assert by_hash == {partition: asked[key] for partition, key in keys.items()}
            assert set(by_hash.values()) == {1, 2, 3}


async def test_a_stopped_node_does_not_stop_the_client(three_nodes: LocalKafka) -> None:
    """It answers no more, and its connections stay open; the others take over."""
    async with client(three_nodes.bootstrap_servers) as cluster:
        nodes = (await cluster.metadata((), deadline=soon())).nodes
        for node_id in nodes:
            await cluster.request(node_id, ListGroupsRequest(), deadline=soon())
        frozen = next(iter(nodes))
        three_nodes.freeze_node(frozen)
        try:
            with pytest.raises(Unreachable):
                await cluster.request(frozen, ListGroupsRequest(), deadline=soon(1))
            for _ in range(3):
                assert (await cluster.metadata(None, deadline=soon(6))).cluster_id == three_nodes.cluster_id
        finally:
            three_nodes.thaw_node(frozen)
        await cluster.request(frozen, ListGroupsRequest(), deadline=soon())


async def test_asking_creates_nothing(untouched: LocalKafka) -> None:
    """Whether the internal topics are known to be missing, or hidden from alice."""
    group = GroupId("g")
    admin = ShareDriver(untouched)
    async with (
        client(untouched.bootstrap_servers) as everyone,
        client(untouched.listeners["SASL_PLAINTEXT"], ALICE) as alice,
    ):
        with admin:
            admin.add_acl("User:alice", "GROUP", group, "DESCRIBE")
            admin.add_acl("User:alice", "CLUSTER", "kafka-cluster", "CLUSTER_ACTION")
        for cluster in (everyone, alice):
            with pytest.raises(InternalTopicMissing):
                await cluster.group_coordinator(group, deadline=soon())
            failure = (await cluster.share_coordinators(group, [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0]
            assert isinstance(failure, CoordinatorFailure)
            expected = FailureReason.STATE_TOPIC_MISSING if cluster is everyone else FailureReason.NOT_AVAILABLE
            assert failure.reason is expected
            await cluster.metadata(["no-such-topic"], deadline=soon())
        with pytest.raises(NotAuthorized, match="DESCRIBE"):
            await alice.group_coordinator(GroupId("another"), deadline=soon())

        assert not (await everyone.metadata(None, deadline=soon())).topics


async def test_a_login_is_renewed_before_it_ends(untouched: LocalKafka) -> None:
    """The broker would close the connection after a second (KIP-368); requests never notice."""
    async with client(untouched.listeners["SASL_PLAINTEXT"], ALICE) as cluster:
        seen: set[Connection] = set()
        async with asyncio.timeout_at(soon()):
            while len(seen) < 3:
                await cluster.metadata((), deadline=soon())
                connection, _ = await cluster._brokers.connection(None, "data", soon())
                assert connection.expires_at is not None
                seen.add(connection)


async def test_hidden_internal_topics_do_not_hide_the_coordinators(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str
) -> None:
    """Alice may not DESCRIBE them, but their existence is proven before FindCoordinator is sent."""
    scenarios.kip_1226_layout(secure_driver, topic, group)
    grants = [
        ("GROUP", group, "DESCRIBE"),
        ("TOPIC", topic, "DESCRIBE"),
        ("CLUSTER", "kafka-cluster", "CLUSTER_ACTION"),
    ]
    for grant in grants:
        secure_driver.add_acl("User:alice", *grant)
    try:
        async with client(secure_kafka.listeners["SASL_PLAINTEXT"], ALICE) as cluster:
            metadata = await cluster.metadata([topic, GROUP_TOPIC, SHARE_TOPIC], deadline=soon())
            topic_id = metadata.topics[topic].topic_id
            assert {name: metadata.topics[name].error_code for name in (GROUP_TOPIC, SHARE_TOPIC)} == {
                GROUP_TOPIC: 29,
                SHARE_TOPIC: 29,
            }

            for _ in range(2):  # by asking around, then by FindCoordinator
                assert await cluster.group_coordinator(GroupId(group), deadline=soon()) == 1
                found = await cluster.share_coordinators(GroupId(group), [(topic_id, 0)], deadline=soon())
                assert found == {(topic_id, 0): 1}
                cluster.forget_group_coordinator(GroupId(group))
                cluster.forget_share_coordinators()
    finally:
        for grant in grants:
            secure_driver.remove_acl("User:alice", *grant)


async def test_missing_rights_are_named(secure_kafka: LocalKafka, secure_driver: ShareDriver, group: str) -> None:
    """Alice may do nothing."""
    scenarios.never_consumed(secure_driver, f"{group}-topic", group)
    async with client(secure_kafka.listeners["SASL_PLAINTEXT"], ALICE) as cluster:
        with pytest.raises(NotAuthorized, match=f"group {group}: DESCRIBE"):
            await cluster.group_coordinator(GroupId(group), deadline=soon())
        failure = (await cluster.share_coordinators(GroupId(group), [(TOPIC_ID, 0)], deadline=soon()))[TOPIC_ID, 0]

    assert isinstance(failure, CoordinatorFailure)
    assert failure.reason is FailureReason.NOT_AUTHORIZED
    assert "CLUSTER_ACTION" in failure.message


@pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
async def test_logins_work(secure_kafka: LocalKafka, mechanism: str) -> None:
    """Plain and over TLS, right and wrong password."""
    assert secure_kafka.certificates is not None
    security = replace(ADMIN, sasl_mechanism=mechanism)
    over_tls = replace(security, protocol="SASL_SSL", ca_file=str(secure_kafka.certificates.ca_pem))
    for protocol, right in (("SASL_PLAINTEXT", security), ("SASL_SSL", over_tls)):
        servers = secure_kafka.listeners[protocol]

        async with client(servers, right) as cluster:
            assert (await cluster.metadata((), deadline=soon())).cluster_id == secure_kafka.cluster_id
        async with client(servers, replace(right, password="wrong")) as cluster:
            with pytest.raises(AuthenticationFailed, match="refused the login: Authentication failed"):
                await cluster.metadata((), deadline=soon())


async def test_tls_works(secure_kafka: LocalKafka) -> None:
    """Without and with a client certificate; an unknown authority is refused."""
    assert secure_kafka.certificates is not None
    servers, certificates = secure_kafka.listeners["SSL"], secure_kafka.certificates
    trusting = Security("SSL", ca_file=str(certificates.ca_pem))
    known = replace(trusting, certificate_file=str(certificates.client_pem))
    for security in (trusting, known):
        async with client(servers, security) as cluster:
            assert (await cluster.metadata((), deadline=soon())).cluster_id == secure_kafka.cluster_id
    async with client(servers, Security("SSL")) as cluster:
        with pytest.raises(AuthenticationFailed, match=r"ssl\.truststore\.location"):
            await cluster.metadata((), deadline=soon())


@pytest.mark.parametrize(
    ("listener", "protocol", "sentence"),
    [
        ("SSL", "PLAINTEXT", r"set security\.protocol=SSL"),
        ("SSL", "SASL_PLAINTEXT", r"set security\.protocol=SSL"),
        ("PLAINTEXT", "SSL", r"set security\.protocol=PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", r"set security\.protocol=SASL_PLAINTEXT"),
        ("PLAINTEXT", "SASL_PLAINTEXT", r"set security\.protocol=PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", r"set security\.protocol=SASL_PLAINTEXT"),
        ("SASL_SSL", "SSL", r"set security\.protocol=SASL_SSL|closed the connection"),
    ],
)
async def test_the_wrong_listener_is_explained(
    secure_kafka: LocalKafka, listener: str, protocol: str, sentence: str
) -> None:
    """In words of the property file."""
    assert secure_kafka.certificates is not None
    security = replace(ADMIN, protocol=protocol, ca_file=str(secure_kafka.certificates.ca_pem))
    async with client(secure_kafka.listeners[listener], security) as cluster:
        with pytest.raises(ClusterError, match=sentence):
            await cluster.metadata((), deadline=soon(3))


def tls_properties(kafka: LocalKafka) -> Mapping[str, str]:
    """Return the trust store of a cluster as PEM."""
    assert kafka.certificates is not None
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(kafka.certificates.ca_pem)}


@pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
async def test_a_java_property_file_is_enough(secure_kafka: LocalKafka, mechanism: str, tmp_path: Path) -> None:
    """The same file that Kafka's own tools take."""
    file = tmp_path / "client.properties"
    properties = {
        **client_properties("admin", "admin-secret", mechanism, "SASL_SSL"),
        **tls_properties(secure_kafka),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    read = read_client_properties(file)

    assert read.ignored == ()
    async with client(secure_kafka.listeners["SASL_SSL"], read.security) as cluster:
        assert (await cluster.metadata((), deadline=soon())).cluster_id == secure_kafka.cluster_id
