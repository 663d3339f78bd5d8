"""Real clusters of the newest version: they start, are ready, fail with words, and leave nothing behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.testing import kafka as kafka_module
from shareproxy.testing.driver import DriverError, ShareDriver
from shareproxy.testing.kafka import (
    SHARE_GROUP_COMMAND,
    KafkaFailed,
    LocalKafka,
    Security,
    client_properties,
)
from shareproxy.testing.kafka_node import brokers_seen_by, free_ports
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.waiting import wait_until

VERSION = VERSIONS[-1]
pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_kafka()


@pytest.fixture(scope="module")
def three() -> Iterator[LocalKafka]:
    """Three nodes, all running at the begin of each test."""
    require_kafka()
    with LocalKafka(VERSION, nodes=3) as cluster:
        yield cluster


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_ready_cluster_answers_and_leaves_nothing() -> None:
    """After `with` the node answers a tool of Kafka; after the block its process, data and logs are gone."""
    with LocalKafka(VERSION) as cluster:
        (node,) = cluster.nodes
        done = cluster.java(SHARE_GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap_servers, "--list")
        log = cluster.log_file()
        data = cluster._data_dir(1)
        assert log.exists()
        assert data.exists()

    assert done.returncode == 0, done.stderr
    assert cluster.bootstrap_servers == f"{node.host}:{node.port}"
    assert node.pid is not None
    assert not _is_running(node.pid)
    assert not log.exists()
    assert not data.parent.exists()


def test_logs_stay_in_a_given_directory(tmp_path: Path) -> None:
    """Who names a directory gets to keep the logs, without the data."""
    with LocalKafka(VERSION, log_dir=tmp_path) as cluster:
        data = cluster._data_dir(1)

    assert "Kafka Server started" in cluster.log_file().read_text()
    assert tmp_path in cluster.log_file().parents
    assert not data.exists()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, for tests that leave some on purpose."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_failed_start_shows_the_log_and_keeps_it(temporary: Path) -> None:
    """A broker that refuses its configuration says so in the message, and the named log is there."""
    with pytest.raises(KafkaFailed, match="ended with exit code 1 before it was ready") as caught:
        LocalKafka(VERSION, properties={"num.io.threads": "many"}).start()

    message = str(caught.value)
    (log,) = [Path(word.rstrip(",")) for word in message.split() if word.rstrip(",").endswith("server.log")]
    assert temporary in log.parents
    assert "num.io.threads" in message
    assert "num.io.threads" in log.read_text()


def test_failed_test_keeps_the_log(temporary: Path) -> None:
    """An exception inside the block is a reason to look at the broker's log later."""
    cluster = LocalKafka(VERSION)

    with pytest.raises(ZeroDivisionError), cluster:
        raise ZeroDivisionError

    assert cluster.log_file().exists()
    assert temporary in cluster.log_file().parents
    assert not cluster._data_dir(1).exists()


def test_taken_port_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """When another program takes a port before the broker does, the start is tried with other ports."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken_port = taken.getsockname()[1]
        offers = [[taken_port, *free_ports(1)], free_ports(2)]
        monkeypatch.setattr(kafka_module, "free_ports", lambda count: offers.pop(0))
        with LocalKafka(VERSION) as cluster:
            started_on = cluster.nodes[0].port

    assert offers == []
    assert started_on != taken_port


def test_taken_ports_end_in_words(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every set of ports is taken, it says so."""
    monkeypatch.setattr(kafka_module, "PORT_TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(kafka_module, "free_ports", lambda count: [port, *free_ports(1)])

        with pytest.raises(KafkaFailed, match="Another program took a port of node 1"):
            LocalKafka(VERSION).start()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_broker_does_not_outlive_its_python(how: signal.Signals) -> None:
    """However Python ends, the broker ends too and its data goes."""
    script = (
        "import sys; from shareproxy.testing.kafka import LocalKafka\n"
        f"cluster = LocalKafka({VERSION!r}).start()\n"
        "print(cluster.nodes[0].pid, cluster._data_dir(1), cluster.log_file(), flush=True); sys.stdin.read()"
    )
    python = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert python.stdout
    assert python.stdin
    pid, data, log = python.stdout.readline().decode().split()

    python.send_signal(how)
    python.wait()
    python.stdout.close()
    python.stdin.close()

    wait_until(lambda: not _is_running(int(pid)), "the end of the broker")
    wait_until(lambda: not Path(data).parent.exists(), "the end of its data")
    shutil.rmtree(Path(log).parents[1])


def test_unknown_address_before_start_is_explained() -> None:
    """A cluster that was not started has no log yet."""
    with pytest.raises(KafkaFailed, match="not started yet"):
        LocalKafka(VERSION).log_file()


def test_features_can_be_chosen() -> None:
    """Share groups can be formatted away, for tests of brokers that have them off."""
    cluster = LocalKafka(VERSION, features={"share.version": 0})

    with cluster, ShareDriver(cluster) as driver, pytest.raises(DriverError) as caught:
        driver.describe_group("any")

    assert caught.value.type == "UnsupportedVersionException"


def test_unknown_feature_level_is_explained(temporary: Path) -> None:
    """What Kafka's storage tool refuses is in the message, and nothing half-made stays in the cache."""
    cluster = LocalKafka(VERSION, features={"share.version": 99})

    with pytest.raises(KafkaFailed, match=r"could not format its storage(?s:.*)share\.version"):
        cluster.start()

    assert not list(cluster.jar_dir.parent.glob(".format-*"))


def test_every_node_sees_all_when_ready(three: LocalKafka) -> None:
    """Ready means that each broker's own Metadata names every node."""
    assert [node.node_id for node in three.nodes] == [1, 2, 3]
    assert [brokers_seen_by(node.port) for node in three.nodes] == [{1, 2, 3}] * 3


def test_stopped_node_comes_back_on_its_port(three: LocalKafka) -> None:
    """A node can be stopped and started; the others notice both."""
    before = three.nodes[2]

    three.stop_node(3)
    wait_until(lambda: brokers_seen_by(three.nodes[0].port) == {1, 2}, "the others to notice the stop")
    stopped = three.nodes[2]
    three.start_node(3)

    assert stopped.pid is None
    assert three.nodes[2].port == before.port
    assert three.nodes[2].pid != before.pid
    assert brokers_seen_by(three.nodes[2].port) == {1, 2, 3}


def test_killed_node_comes_back(three: LocalKafka) -> None:
    """A node can be killed as by a crash and started again."""
    three.stop_node(2, kill=True)
    assert brokers_seen_by(three.nodes[1].port) == set()

    three.start_node(2)

    assert brokers_seen_by(three.nodes[1].port) == {1, 2, 3}


def test_frozen_node_takes_connections_but_does_not_answer(three: LocalKafka) -> None:
    """Freezing leaves the sockets open and silent; thawing lets it go on."""
    port = three.nodes[0].port

    three.freeze_node(1)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        silent = brokers_seen_by(port)
    three.thaw_node(1)

    assert silent == set()
    wait_until(lambda: brokers_seen_by(port) == {1, 2, 3}, "the thawed node to answer")


@pytest.fixture(scope="module")
def secure() -> Iterator[LocalKafka]:
    """One node with every listener and an authorizer; alice has no rights."""
    require_kafka()
    security = Security(
        users={"admin": "admin-secret", "alice": "alice-secret"},
        tls=True,
        client_auth="requested",
        authorizer=True,
        super_users=("admin",),
    )
    with LocalKafka(VERSION, security=security) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def super_driver(secure: LocalKafka) -> Iterator[ShareDriver]:
    """Clients on the PLAINTEXT listener, where everybody is a super user; topic `t` exists."""
    with ShareDriver(secure) as driver:
        driver.create_topic("t")
        yield driver


def test_all_listeners_are_there(secure: LocalKafka) -> None:
    """Each variant has its own address."""
    assert list(secure.listeners) == ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]
    assert len(set(secure.listeners.values())) == 4


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_can_log_in(mechanism: str, secure: LocalKafka, super_driver: ShareDriver) -> None:
    """A super user may do everything through each mechanism, and a wrong password nothing."""
    address = secure.listeners["SASL_PLAINTEXT"]
    admin = super_driver.connected_to(address, client_properties("admin", "admin-secret", mechanism))
    stranger = super_driver.connected_to(address, client_properties("admin", "guess", mechanism))

    assert admin.list_offsets({"t": [0]}) == {("t", 0): 0}
    with pytest.raises(DriverError, match="Authentication failed"):
        stranger.describe_cluster()


def test_rights_are_restricted_until_granted(secure: LocalKafka, super_driver: ShareDriver) -> None:
    """Without an ACL alice may not see a topic, with one she may, and after its removal no more."""
    alice = super_driver.connected_to(
        secure.listeners["SASL_PLAINTEXT"], client_properties("alice", "alice-secret", "SCRAM-SHA-512")
    )

    def allowed() -> bool:
        try:
            return alice.list_offsets({"t": [0]}) == {("t", 0): 0}
        except DriverError:
            return False

    before = allowed()
    super_driver.add_acl("User:alice", "TOPIC", "t", "DESCRIBE")
    granted = allowed()
    removed = super_driver.remove_acl("User:alice", "TOPIC", "t", "DESCRIBE")

    assert (before, granted, removed, allowed()) == (False, True, 1, False)


def test_tls_names_the_client_by_its_certificate(secure: LocalKafka, super_driver: ShareDriver) -> None:
    """With a client certificate the principal is its subject, which has no rights here."""
    assert secure.certificates
    with_certificate = super_driver.connected_to(
        secure.listeners["SSL"], secure.certificates.ssl_properties(client_certificate=True)
    )
    without = super_driver.connected_to(secure.listeners["SSL"], secure.certificates.ssl_properties())

    assert without.list_offsets({"t": [0]}) == {("t", 0): 0}
    with pytest.raises(DriverError, match="TopicAuthorizationException"):
        with_certificate.list_offsets({"t": [0]})


def test_sasl_goes_over_tls(secure: LocalKafka, super_driver: ShareDriver) -> None:
    """SASL_SSL takes the same users, over the same certificates."""
    assert secure.certificates
    properties = secure.certificates.ssl_properties() | client_properties("admin", "admin-secret", protocol="SASL_SSL")

    admin = super_driver.connected_to(secure.listeners["SASL_SSL"], properties)

    assert admin.describe_cluster().nodes == {1: secure.listeners["SASL_SSL"]}


def test_new_scram_user_can_log_in(secure: LocalKafka, super_driver: ShareDriver) -> None:
    """Users can be added while the cluster runs."""
    super_driver.create_scram_user("carol", "carol-secret", "SCRAM-SHA-512")

    carol = super_driver.connected_to(
        secure.listeners["SASL_PLAINTEXT"], client_properties("carol", "carol-secret", "SCRAM-SHA-512")
    )

    assert carol.describe_cluster().cluster_id == secure.cluster_id
