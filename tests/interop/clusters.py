"""A cluster's name comes in; a real Kafka with a shareproxy in front of each listener goes out.

Must never give a client an address of a broker, but where a direct run asks for it.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, Security, client_properties
from shareproxy.testing.kafka_jars import find_tool
from shareproxy.testing.kafka_node import write_properties
from tests.interop.client import MECHANISM
from tests.interop.sealed import Address, Surroundings
from tests.support.command import Served, serving

USER, PASSWORD = "admin", "admin-secret"
# Brokers are at 127.0.0.1, so a client that is given only half of a right address ends in a trap.
PROXY_HOST, BROKER_HOST = "127.0.0.2", "127.0.0.1"


@dataclass(frozen=True)
class Shape:
    """A cluster of the table: its title there, Kafka's version, and how many nodes."""

    title: str
    version: str
    nodes: int


SHAPES = {
    "three-nodes": Shape("Three nodes, Kafka 4.4.0", "4.4.0", 3),
    "4.2": Shape("One node, Kafka 4.2.2", "4.2.2", 1),
    "4.1": Shape("One node, Kafka 4.1.2", "4.1.2", 1),
}
# for one case while working on it: `CLUSTER=4.4`
MORE_SHAPES = {"4.4": Shape("One node, Kafka 4.4.0", "4.4.0", 1)}


@dataclass
class Fronted:
    """A running cluster, and how clients reach it.

    Attributes:
        kafka: the cluster.
        driver: Java clients connected to the brokers themselves.
        bootstrap: address for clients in plain text.
        secure_bootstrap: address for clients with TLS and a login.
        ca_file: authority of the certificate that they are shown there.
        nodes: node id → address that clients must be told, in plain text.
        around: what a client may reach; None when it runs against the brokers directly.
    """

    kafka: LocalKafka
    driver: ShareDriver
    bootstrap: str
    secure_bootstrap: str
    ca_file: Path
    nodes: dict[int, Address]
    around: Surroundings | None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_topic(self, partitions: int) -> str:
        """Create a topic, replicated to every node and with leaders on each, and return its name."""
        name = f"topic-{next(self._numbers)}"
        leaders = self.driver.create_topic(name, partitions, len(self.nodes)).leaders
        assert set(leaders.values()) == set(self.nodes), f"not every node leads: {leaders}"
        return name


@contextlib.contextmanager
def fronted(shape: Shape, *, direct: bool = False) -> Iterator[Fronted]:
    """Run a cluster and its proxies; `direct` leaves the proxies out."""
    security = Security(users={USER: PASSWORD}, tls=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interop-")))
        kafka = stack.enter_context(LocalKafka(shape.version, shape.nodes, security))
        driver = stack.enter_context(ShareDriver(kafka))
        assert kafka.certificates
        if direct:
            nodes = {node.node_id: (node.host, node.port) for node in kafka.nodes}
            secure = kafka.listeners["SASL_SSL"]
            yield Fronted(kafka, driver, kafka.bootstrap_servers, secure, kafka.certificates.ca_pem, nodes, None)
            return
        advertised = ("--advertised-host", PROXY_HOST, "--log-level", "warning")
        plain = stack.enter_context(serving(kafka.bootstrap_servers, *advertised))
        own, (certificate, key) = folder / "own.properties", make_certificate(folder)
        login = client_properties(USER, PASSWORD, MECHANISM, "SASL_SSL")
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka.certificates.ca_pem}
        write_properties(own, login | trust)
        tls = ("--command-config", str(own), "--tls-certificate", str(certificate), "--tls-key", str(key))
        secure_proxy = stack.enter_context(serving(kafka.listeners["SASL_SSL"], *advertised, *tls))
        for proxy in (plain, secure_proxy):
            proxy.wait_until_ready()
        ids = [node.node_id for node in kafka.nodes]
        around = surroundings(kafka, ids, (plain, secure_proxy))
        yield Fronted(
            kafka,
            driver,
            _moved(plain.bootstrap_servers),
            _moved(secure_proxy.bootstrap_servers),
            certificate,
            {node_id: (PROXY_HOST, plain.node_port(node_id)) for node_id in ids},
            around,
        )
        for proxy in (plain, secure_proxy):
            if log := proxy.log():
                sys.stderr.write(f"shareproxy logged:\n{log}")


def surroundings(kafka: LocalKafka, node_ids: list[int], proxies: tuple[Served, ...]) -> Surroundings:
    """Return what clients may reach, the proxies' ports, and what they must not know."""
    ports = [proxy.node_port(node_id) for proxy in proxies for node_id in node_ids]
    ports += [int(proxy.bootstrap_servers.rpartition(":")[2]) for proxy in proxies]
    brokers = [int(address.rpartition(":")[2]) for text in kafka.listeners.values() for address in text.split(",")]
    traps = [(BROKER_HOST, port) for port in (*brokers, *ports)] + [(PROXY_HOST, port) for port in brokers]
    return Surroundings({(PROXY_HOST, port): (BROKER_HOST, port) for port in ports}, traps)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make the certificate of the proxies, which is its own authority, and its key."""
    made, key = folder / "proxy.pem", folder / "proxy-key.pem"
    command = [str(find_tool("openssl")), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-batch", "-days", "3"]
    # librdkafka before 2.2 looks for an IP address among the host names
    command += ["-subj", "/CN=shareproxy", "-addext", f"subjectAltName=IP:{PROXY_HOST},DNS:{PROXY_HOST}"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    return made, key


def _moved(address: str) -> str:
    return f"{PROXY_HOST}:{address.rpartition(':')[2]}"
