"""The proxy in front of brokers with logins, TLS and rights."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

import pytest

from shareproxy.cluster.security import Security
from shareproxy.protocol.headers import decode_response, encode_request, sized
from shareproxy.protocol.messages import MetadataRequest, MetadataResponse, SaslHandshakeRequest
from shareproxy.testing.driver import DriverError, ShareDriver
from shareproxy.testing.kafka import SUPPORTED_VERSIONS, LocalKafka, client_properties
from tests.support import scenarios
from tests.support.running_proxy import RunningProxy, running_proxy

ADMIN = Security("SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="admin", password="admin-secret")


@pytest.fixture(scope="module")
def proxy(secure_kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the listener with logins; its own look-ups are admin's."""
    with running_proxy(secure_kafka.listeners["SASL_PLAINTEXT"], broker_security=ADMIN) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def newest_driver(secure_kafka: LocalKafka) -> Iterator[ShareDriver]:
    """The newest version's Java clients, which know lag, whatever the cluster's version."""
    jars = LocalKafka(SUPPORTED_VERSIONS[-1]).jar_dir
    with ShareDriver(jars, secure_kafka.bootstrap_servers) as driver:
        yield driver


def user(
    driver: ShareDriver, servers: str, name: str, mechanism: str = "PLAIN", password: str | None = None
) -> ShareDriver:
    """Return Java clients logged in as a user."""
    properties: Mapping[str, str] = client_properties(name, password or f"{name}-secret", mechanism)
    return driver.connected_to(servers, properties)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logins_pass_through(
    mechanism: str, secure_driver: ShareDriver, newest_driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Clients log in to the brokers as themselves and see the lag."""
    scenarios.kip_1226_layout(secure_driver, topic, group)

    rows = user(newest_driver, proxy.bootstrap_servers, "admin", mechanism).list_share_group_offsets(group)

    assert [row.lag for row in rows] == [7]


def test_raw_sasl_tokens_pass_through(secure_kafka: LocalKafka, proxy: RunningProxy) -> None:
    """SaslHandshake v0 and a token without a header, as old clients send them; later answers are edited."""
    host, port = proxy.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as answers:

        def answer() -> bytes:
            return answers.read(int.from_bytes(answers.read(4)))

        connection.sendall(sized(encode_request(SaslHandshakeRequest("PLAIN"), 0, 1, "old")))
        handshake = answer()
        connection.sendall(sized(b"\0admin\0admin-secret"))
        token = answer()
        connection.sendall(sized(encode_request(MetadataRequest(topics=[]), 9, 2, "old")))
        _, metadata = decode_response(MetadataResponse, 9, answer())

    assert handshake[:6] == b"\0\0\0\1\0\0"
    assert token == b""
    assert [f"{broker.host}:{broker.port}" for broker in metadata.brokers] == [proxy.node_ports[1]]


def test_wrong_password_is_the_brokers_answer(newest_driver: ShareDriver, proxy: RunningProxy) -> None:
    """The client sees the broker's own words."""
    with pytest.raises(DriverError, match="Authentication failed"):
        user(newest_driver, proxy.bootstrap_servers, "admin", password="wrong").describe_cluster()


def test_client_never_sees_more_than_it_may(
    secure_kafka: LocalKafka,
    secure_driver: ShareDriver,
    newest_driver: ShareDriver,
    proxy: RunningProxy,
    topic: str,
    group: str,
) -> None:
    """The proxy's own rights do not leak: without DESCRIBE on the group or the topic the broker's answer stays."""
    scenarios.kip_1226_layout(secure_driver, topic, group)
    direct = secure_kafka.listeners["SASL_PLAINTEXT"]

    def outcome(servers: str, partition: int | None) -> object:
        """Return alice's lags of one partition or all, or the error she gets."""
        try:
            alice = user(newest_driver, servers, "alice")
            named = None if partition is None else {topic: [partition]}
            return [row.lag for row in alice.list_share_group_offsets(group, named)]
        except DriverError as error:
            return error.type

    def outcomes(servers: str) -> list[object]:
        """Return what she gets for a named partition and for all."""
        return [outcome(servers, 0), outcome(servers, None)]

    assert outcomes(proxy.bootstrap_servers) == outcomes(direct) == ["GroupAuthorizationException"] * 2

    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    without_topic = outcomes(proxy.bootstrap_servers)
    assert without_topic == outcomes(direct)
    assert 7 not in [lag for found in without_topic if isinstance(found, list) for lag in found]
    # nor does an answer of our own tell that the topic exists
    assert outcome(proxy.bootstrap_servers, 99) == outcome(direct, 99) != [None]

    secure_driver.add_acl("User:alice", "TOPIC", topic, "DESCRIBE")
    assert outcomes(proxy.bootstrap_servers) == [[7], [7]]


def test_own_identity_without_rights_leaves_lag_unknown(
    kafka_version: str,
    secure_kafka: LocalKafka,
    secure_driver: ShareDriver,
    newest_driver: ShareDriver,
    topic: str,
    group: str,
) -> None:
    """On 4.1 the look-up needs CLUSTER_ACTION, else rows stay as the broker answered; 4.2 and later need no look-up."""
    scenarios.kip_1226_layout(secure_driver, topic, group)
    alice = Security("SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="alice", password="alice-secret")

    with running_proxy(secure_kafka.listeners["SASL_PLAINTEXT"], broker_security=alice) as proxy:
        rows = user(newest_driver, proxy.bootstrap_servers, "admin").list_share_group_offsets(group)

    assert [row.lag for row in rows] == [None if kafka_version.startswith("4.1.") else 7]


def test_proxy_without_a_login_still_passes_clients(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, newest_driver: ShareDriver, topic: str, group: str
) -> None:
    """It cannot read metadata itself and says so, but learns the nodes from clients' answers."""
    with running_proxy(secure_kafka.listeners["SASL_PLAINTEXT"], wait_ready=False) as proxy:
        nodes = user(newest_driver, proxy.bootstrap_servers, "admin").describe_cluster().nodes

        assert nodes == {1: proxy.node_ports[1]}
        assert not proxy.proxy.ready
        assert proxy.proxy.reason


def test_brokers_may_speak_tls(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, newest_driver: ShareDriver, topic: str, group: str
) -> None:
    """Clients speak plain text to the proxy, which checks the brokers' certificates and shows its own."""
    scenarios.kip_1226_layout(secure_driver, topic, group)
    files = secure_kafka.certificates
    assert files is not None
    secure_driver.add_acl("User:CN=client", "CLUSTER", "kafka-cluster", "ALL")
    secure_driver.add_acl("User:CN=client", "GROUP", group, "ALL")
    secure_driver.add_acl("User:CN=client", "TOPIC", topic, "ALL")
    tls = Security("SSL", ca_file=str(files.ca_pem), certificate_file=str(files.client_pem))

    with running_proxy(secure_kafka.listeners["SSL"], broker_security=tls) as proxy:
        rows = newest_driver.connected_to(proxy.bootstrap_servers).list_share_group_offsets(group)

    assert [row.lag for row in rows] == [7]
