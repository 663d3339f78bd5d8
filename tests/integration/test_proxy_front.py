"""Ways to stand in front of three nodes: one port for all by server name, IPv6, TLS to the brokers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.cluster.addresses import Address, parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import Security as BrokerSecurity
from shareproxy.protocol.messages import ApiVersionsRequest
from shareproxy.proxy.client_tls import ClientTls
from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, Security, client_properties
from shareproxy.testing.kafka_node import free_ports
from tests.support import scenarios
from tests.support.certificates import Issued, issue
from tests.support.raw_frames import hear, request
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.running_proxy import RunningProxy, running_proxy
from tests.support.waiting import wait_until

DOMAIN = "kafka.test"
PATTERN = "b{node_id}." + DOMAIN
NODES = (1, 2, 3)

ROUND_TRIP = """
import json, sys
from confluent_kafka import Consumer, Producer
client, topic = json.loads(sys.argv[1]), sys.argv[2]
producer = Producer(client)
for partition in range(3):
    producer.produce(topic, f"value-{partition}", partition=partition)
assert producer.flush(30) == 0
consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
found = []
while len(found) < 3:
    message = consumer.poll(30)
    assert message is not None and not message.error(), message and message.error()
    found.append(message.value().decode())
consumer.close()
print(json.dumps(sorted(found)))
"""
"""A librdkafka client that writes to three partitions and reads them in a consumer group."""


class DualKafka(LocalKafka):
    """Three nodes that listen on IPv6 as well: SIX without, SIXTLS with TLS, whose certificate lacks that address."""

    def __init__(self, version: str, security: Security) -> None:
        super().__init__(version, len(NODES), security)
        ports = free_ports(2 * len(NODES))
        self.six = dict(zip(NODES, ports, strict=False))
        self.six_tls = dict(zip(NODES, ports[len(NODES) :], strict=True))

    def _node_properties(self, node_id: int) -> dict[str, str]:
        properties = super()._node_properties(node_id)
        more = f",SIX://[::1]:{self.six[node_id]},SIXTLS://[::1]:{self.six_tls[node_id]}"
        properties["listeners"] += more
        properties["advertised.listeners"] += more
        properties["listener.security.protocol.map"] += ",SIX:PLAINTEXT,SIXTLS:SSL"
        return properties

    @staticmethod
    def addresses(ports: dict[int, int]) -> str:
        """Return bootstrap servers on IPv6."""
        return ",".join(f"[::1]:{port}" for port in ports.values())


@pytest.fixture(scope="module")
def nodes() -> Iterator[DualKafka]:
    """Three nodes of the newest version with TLS, logins, rights and IPv6."""
    require_kafka()
    security = Security(users={"admin": "admin-secret"}, tls=True, authorizer=True, super_users=("admin",))
    with DualKafka(VERSIONS[-1], security) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    """A certificate for all names of the one port."""
    return issue(tmp_path_factory.mktemp("front"), f"DNS:{DOMAIN}", f"DNS:*.{DOMAIN}")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of names as in /etc/hosts."""
    file = tmp_path_factory.mktemp("hosts") / "hosts"
    file.write_text(f"127.0.0.1 localhost {DOMAIN} {' '.join(HostPattern(PATTERN).host_of(n) for n in NODES)}\n")
    return file


@pytest.fixture(scope="module")
def java(nodes: DualKafka, hosts: Path) -> Iterator[ShareDriver]:
    """Java clients that know those names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djdk.net.hosts.file={hosts}")
        driver = ShareDriver(nodes)
    with driver:
        yield driver


@pytest.fixture(scope="module")
def one_port(nodes: DualKafka, certificate: Issued) -> Iterator[RunningProxy]:
    """A proxy with one port for all nodes; it speaks TLS on both sides and logs in by SCRAM."""
    assert nodes.certificates is not None
    admin = BrokerSecurity("SASL_SSL", "SCRAM-SHA-512", "admin", "admin-secret", ca_file=str(nodes.certificates.ca_pem))
    with running_proxy(
        nodes.listeners["SASL_SSL"],
        broker_security=admin,
        listen=Address("127.0.0.1", free_ports(1)[0]),
        client_tls=ClientTls(str(certificate.pem)),
        node_hosts=HostPattern(PATTERN),
    ) as proxy:
        yield proxy


def test_java_clients_find_all_nodes_at_one_port(
    java: ShareDriver, one_port: RunningProxy, certificate: Issued, topic: str, group: str
) -> None:
    """They check the certificate for the name of each node, and ask for it (SNI)."""
    port = one_port.proxy.bootstrap_address.port
    properties = client_properties("admin", "admin-secret", "SCRAM-SHA-512", "SASL_SSL")
    properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificate.ca_pem)}
    through = java.connected_to(f"{DOMAIN}:{port}", properties)

    assert through.describe_cluster().nodes == {n: f"b{n}.{DOMAIN}:{port}" for n in NODES}
    layout = scenarios.many_partitions(through, topic, group, 3, replication=3)
    assert {row.partition: row.lag for row in through.list_share_group_offsets(group)} == layout.lags


def test_librdkafka_finds_all_nodes_at_one_port(
    java: ShareDriver, one_port: RunningProxy, certificate: Issued, hosts: Path, topic: str
) -> None:
    """In a mount namespace with its own /etc/hosts: the library has no other way to be told a name."""
    java.create_topic(topic, 3, 3)
    client = {
        "bootstrap.servers": f"{DOMAIN}:{one_port.proxy.bootstrap_address.port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "ssl.ca.location": str(certificate.ca_pem),
    }
    inside = ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not allowed here")

    done = subprocess.run(
        [*inside, sys.executable, "-c", ROUND_TRIP, json.dumps(client), topic],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["value-0", "value-1", "value-2"]


@pytest.fixture(scope="module")
def on_ipv6(nodes: DualKafka) -> Iterator[RunningProxy]:
    """A proxy that listens on IPv6, is advertised there, and knows the brokers by IPv6 alone; ids have gaps."""
    low = free_ports(1)[0]
    with running_proxy(
        DualKafka.addresses(nodes.six),
        listen=Address("::1", free_ports(1)[0]),
        advertised_host="::1",
        node_ports=(low, low + 3),
        node_ids=(range(1000, 1001), range(1, 4)),
    ) as proxy:
        yield proxy


def test_ipv6_on_all_sides(java: ShareDriver, on_ipv6: RunningProxy, topic: str, group: str) -> None:
    """The host on the wire has no brackets; Java connects to each node."""
    through = java.connected_to(on_ipv6.bootstrap_servers)

    found = through.describe_cluster().nodes

    assert {n: address.replace("[", "").replace("]", "") for n, address in found.items()} == {
        n: address.replace("[", "").replace("]", "") for n, address in on_ipv6.node_ports.items() if n != 1000
    }
    layout = scenarios.many_partitions(through, topic, group, 3, replication=3)
    assert {row.partition: row.lag for row in through.list_share_group_offsets(group)} == layout.lags


def test_ipv6_with_librdkafka(java: ShareDriver, on_ipv6: RunningProxy, topic: str) -> None:
    """It makes an address of host and port itself."""
    java.create_topic(topic, 3, 3)
    client = json.dumps({"bootstrap.servers": on_ipv6.bootstrap_servers})

    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP, client, topic], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["value-0", "value-1", "value-2"]


def test_name_in_the_brokers_certificate_is_checked(nodes: DualKafka) -> None:
    """By default; a person reads what is wrong with which address, and clients are closed."""
    files = nodes.certificates
    assert files is not None
    servers = DualKafka.addresses(nodes.six_tls)
    with running_proxy(
        servers, broker_security=BrokerSecurity("SSL", ca_file=str(files.ca_pem)), wait_ready=False
    ) as it:
        wait_until(lambda: "has answered yet" not in it.proxy.reason, "the cluster was tried")
        heard = hear(it.bootstrap_servers, request_versions(), closes=True)
        reason = it.proxy.reason

    assert heard.frames == ()
    assert "certificate" in reason
    assert "IP address mismatch" in reason
    assert any(f"[::1]:{port}: " in reason for port in nodes.six_tls.values())


def test_name_check_can_be_turned_off(nodes: DualKafka) -> None:
    """As with `ssl.endpoint.identification.algorithm=` in Java."""
    files = nodes.certificates
    assert files is not None
    careless = BrokerSecurity("SSL", ca_file=str(files.ca_pem), check_hostname=False)

    with running_proxy(DualKafka.addresses(nodes.six_tls), broker_security=careless) as proxy:
        assert hear(proxy.bootstrap_servers, request_versions()).open


def test_bootstrap_servers_that_are_down_are_passed_over(nodes: DualKafka) -> None:
    """Names with several addresses and dead machines among them: any live one will do."""
    dead = [f"127.0.0.1:{port}" for port in free_ports(2)]
    servers = ",".join((*dead, "no-such-host.invalid:9092", f"localhost:{nodes.nodes[2].port}"))

    with running_proxy(servers) as proxy:
        assert all(hear(proxy.bootstrap_servers, request_versions()).open for _ in range(8))
        assert asyncio.run(nodes_seen(proxy.bootstrap_servers)) == {
            n: address for n, address in proxy.node_ports.items() if n in NODES
        }


async def nodes_seen(address: str) -> dict[int, str]:
    """Return the nodes that our own client is told."""
    async with Cluster(parse_addresses(address)) as cluster:
        found = await cluster.metadata((), deadline=asyncio.get_running_loop().time() + 30)
        return {int(n): f"{node.host}:{node.port}" for n, node in found.nodes.items()}


def request_versions() -> bytes:
    """Return an ApiVersions request."""
    return request(ApiVersionsRequest(), 0)
