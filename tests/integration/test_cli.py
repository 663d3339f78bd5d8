"""The commands, run as processes against real brokers of each version."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, LocalKafka, client_properties
from tests.support.command import Served, run_shareproxy, serving
from tests.support.scenarios import kip_1226_layout, never_consumed
from tests.support.waiting import wait_until


def write_properties(directory: Path, properties: dict[str, str]) -> str:
    """Write a Java client property file and return its path."""
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


def lag_column(table: str) -> list[str]:
    """Return the cells below LAG of a table that Kafka's own tool printed."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    column = lines[0].index("LAG")
    return [cells[column] for cells in lines[1:]]


def test_lag_prints_what_kafkas_tool_prints_through_the_proxy(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """KIP-1226's picture is 7 on every version, straight from the broker and through the proxy."""
    kip_1226_layout(driver, topic, group)

    done = run_shareproxy("lag", group, "--bootstrap-server", kafka.bootstrap_servers, "--output", "json")
    with serving(kafka.bootstrap_servers) as proxy:
        proxy.wait_until_ready()
        arguments = ["--bootstrap-server", proxy.bootstrap_servers, "--describe", "--group", group, "--offsets"]
        # the newest tool asks: that of Kafka 4.1 knows no lag
        tool = LocalKafka().java(SHARE_GROUP_COMMAND, *arguments)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["groups"][0]
    row = answer["partitions"][0]
    assert (answer["lag"], answer["complete"], answer["error"]) == (7, True, None)
    assert (row["topic"], row["partition"], row["lag"], row["end_offset"], row["status"]) == (topic, 0, 7, 11, "ok")
    assert lag_column(tool.stdout) == ["7"], tool.stdout + tool.stderr


def test_four_kinds_of_nothing_have_four_sentences(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """A group that is missing, of another type, without state, or hidden: never a traceback, never a number."""
    never_consumed(secure_driver, topic, f"{group}-new")
    secure_driver.delete_offsets(f"{group}-new", [topic])
    secure_driver.produce(topic, 0, 1)
    secure_driver.consume(f"{group}-consumer", [topic])
    alice = write_properties(tmp_path, client_properties("alice", "alice-secret"))

    def ask(name: str, *flags: str, servers: str = secure_kafka.bootstrap_servers) -> tuple[int, str]:
        done = run_shareproxy("lag", name, "--bootstrap-server", servers, "--output", "csv", *flags)
        assert "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) == 1, "the heading only"
        return done.returncode, done.stderr

    hidden = secure_kafka.listeners["SASL_PLAINTEXT"]
    answers = [
        ask(f"{group}-missing"),
        ask(f"{group}-consumer"),
        ask(f"{group}-new"),
        ask(f"{group}-new", "--command-config", alice, servers=hidden),
    ]

    assert [code for code, _ in answers] == [1, 1, 1, 4]
    for (_, sentence), words in zip(
        answers, ["does not exist", "not a share group", "no initialized partition", "grant DESCRIBE"], strict=True
    ):
        assert words in sentence


def test_doctor_explains_a_missing_right(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, group: str, tmp_path: Path
) -> None:
    """A user who may see groups but not read their state is told which right to grant."""
    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    alice = write_properties(tmp_path, client_properties("alice", "alice-secret", "SCRAM-SHA-256"))

    done = run_shareproxy(
        "doctor", "--bootstrap-server", secure_kafka.listeners["SASL_PLAINTEXT"], "--command-config", alice,
        "--group", group,
    )  # fmt: skip

    assert "the right to read share-group state (CLUSTER_ACTION) is missing" in done.stdout, done.stderr
    assert "grant CLUSTER_ACTION" in done.stdout
    # from 4.2 on the broker's own answer needs no such right
    assert done.returncode == (1 if secure_kafka.version.startswith("4.1.") else 0)


def test_doctor_finds_a_healthy_cluster(kafka: LocalKafka) -> None:
    """With every right at least one source works."""
    done = run_shareproxy("doctor", "--bootstrap-server", kafka.bootstrap_servers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[ok] --lag-source batches" in done.stdout


def test_a_wrong_password_is_4_with_the_brokers_words(secure_kafka: LocalKafka, tmp_path: Path) -> None:
    """The person is told that the broker refused the credentials, not that something broke."""
    path = write_properties(tmp_path, client_properties("alice", "wrong"))
    servers = secure_kafka.listeners["SASL_PLAINTEXT"]
    done = run_shareproxy("lag", "g", "--bootstrap-server", servers, "--command-config", path)
    assert done.returncode == 4
    assert "Authentication failed" in done.stderr
    assert "wrong" not in done.stderr


def test_tls_works_from_a_property_file(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """The file that Kafka's own tools take is all that is needed."""
    kip_1226_layout(secure_driver, topic, group)
    assert secure_kafka.certificates is not None
    properties = client_properties("admin", "admin-secret", protocol="SASL_SSL") | {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secure_kafka.certificates.ca_pem),
    }
    path = write_properties(tmp_path, properties)
    servers = secure_kafka.listeners["SASL_SSL"]
    done = run_shareproxy("lag", group, "--bootstrap-server", servers, "--command-config", path, "-o", "csv")
    assert done.stdout.splitlines()[1].split(",")[5] == "7", done.stderr


@pytest.fixture
def own_kafka(kafka_version: str) -> LocalKafka:
    """A cluster that the test starts by itself; only the newest version, the others would show nothing new."""
    if not kafka_version.startswith("4.4."):
        pytest.skip("the proxy's own life does not depend on the broker's version")
    return LocalKafka(kafka_version)


def readiness(proxy: Served) -> tuple[int, str]:
    """Ask `/readyz`."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{proxy.http_port}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_serve_starts_without_a_cluster_and_recovers_by_itself(own_kafka: LocalKafka) -> None:
    """It says so, the probe is negative while the cluster is away, and nobody has to restart it."""
    with own_kafka:
        node = own_kafka.nodes[0]
        own_kafka.stop_node(node.node_id, kill=True)
        with serving(own_kafka.bootstrap_servers) as proxy:
            proxy.wait_until_listening()
            assert readiness(proxy)[0] == 503
            wait_until(lambda: str(node.port) in readiness(proxy)[1], "the probe names the broker out of reach")
            own_kafka.start_node(node.node_id)
            wait_until(lambda: readiness(proxy)[0] == 200, "the proxy is ready again")
            with ShareDriver(own_kafka, proxy.bootstrap_servers) as driver:
                assert driver.describe_cluster().nodes == {node.node_id: f"127.0.0.1:{proxy.node_port(node.node_id)}"}
            assert "cluster not reached" in proxy.log()


def test_serve_ends_quietly_on_sigterm(kafka: LocalKafka) -> None:
    """An orderly stop has exit code 0 and no traceback."""
    with serving(kafka.bootstrap_servers) as proxy:
        proxy.wait_until_ready()
        assert proxy.terminate() == 0
        assert "Traceback" not in proxy.log()
