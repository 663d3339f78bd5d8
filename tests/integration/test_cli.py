"""The commands, run as processes against real brokers of each version."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, LocalKafka, client_properties
from tests.support.command import Served, clean_environment, run_shareproxy, serving
from tests.support.scenarios import Layout, kip_1226_layout, never_consumed, partly_acknowledged
from tests.support.waiting import wait_until


def write_properties(directory: Path, properties: dict[str, str]) -> str:
    """Write a Java client property file and return its path."""
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command that takes a while; it is killed if it is still there at the end."""
    command = [sys.executable, "-m", "shareproxy", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


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
        arguments += ["--timeout", "60000"]  # of 5 s, the default, a busy machine needs some for starting alone
        # the newest tool asks: that of Kafka 4.1 knows no lag
        tool = LocalKafka().java(SHARE_GROUP_COMMAND, *arguments)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["groups"][0]
    row = answer["partitions"][0]
    assert (answer["lag"], answer["complete"], answer["error"]) == (7, True, None)
    assert (row["topic"], row["partition"], row["lag"], row["end_offset"], row["status"]) == (topic, 0, 7, 11, "ok")
    assert lag_column(tool.stdout) == ["7"], tool.stdout + tool.stderr


def test_three_kinds_of_nothing_have_three_sentences(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """A group that is missing, without state, or hidden: never a traceback, never a number."""
    never_consumed(secure_driver, topic, f"{group}-new")
    secure_driver.delete_offsets(f"{group}-new", [topic])
    alice = write_properties(tmp_path, client_properties("alice", "alice-secret"))

    def ask(name: str, *flags: str, servers: str = secure_kafka.bootstrap_servers) -> tuple[int, str]:
        done = run_shareproxy("lag", name, "--bootstrap-server", servers, "--output", "csv", *flags)
        assert "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) == 1, "the heading only"
        return done.returncode, done.stderr

    hidden = secure_kafka.listeners["SASL_PLAINTEXT"]
    answers = [
        ask(f"{group}-missing"),
        ask(f"{group}-new"),
        ask(f"{group}-new", "--command-config", alice, servers=hidden),
    ]

    assert [code for code, _ in answers] == [1, 1, 4]
    for (_, sentence), words in zip(
        answers, ["does not exist", "no initialized partition", "grant DESCRIBE"], strict=True
    ):
        assert words in sentence


@pytest.fixture(scope="module")
def worked_on(driver: ShareDriver) -> Layout:
    """A group without members in KIP-1226's state, for commands that only look."""
    return kip_1226_layout(driver, "cli-orders", "cli-workers")


def test_groups_lists_a_share_group(kafka: LocalKafka, worked_on: Layout) -> None:
    """With its lag, and who coordinates it; beside groups of other types if these are wanted."""
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    done = run_shareproxy("groups", *server, "--state", "empty", "-o", "json")
    everything = run_shareproxy("groups", *server, "--type", "all", "-o", "csv")
    assert (done.returncode, everything.returncode) == (0, 0), done.stderr + everything.stderr
    assert f"\n{worked_on.group},share,Empty,0,1,1,7,true," in everything.stdout
    found = {row["group"]: row for row in json.loads(done.stdout)["groups"]}[worked_on.group]
    assert (found["state"], found["members"], found["partitions"], found["lag"]) == ("Empty", 0, 1, 7)
    assert (found["complete"], found["error"]) == (True, None)
    assert found["coordinator"] in {node.node_id for node in kafka.nodes}


def test_describe_draws_the_picture_of_kip_1226(kafka: LocalKafka, worked_on: Layout) -> None:
    """Two accepted (behind the start, or still before it), three given back, one accepted, one rejected, four left."""
    done = run_shareproxy("describe", worked_on.group, "--bootstrap-server", kafka.bootstrap_servers, "--balance")
    assert done.returncode == 0, done.stderr
    assert f"share group {worked_on.group}: Empty, 0 members" in done.stdout
    assert re.search("(2 |0 ██)▒▒▒█■░░░░ 11\n", done.stdout), done.stdout
    assert "  lag 7, 7 to consume" in done.stdout
    assert "balance: nothing to compare, nobody is in the group" in done.stdout


def test_describe_names_members_and_what_they_serve(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Two members, each with its host and a part of the backlog."""
    driver.create_topic(topic, 2)
    with driver.open_consumer(group, [topic]) as one, driver.open_consumer(group, [topic]) as other:
        one.poll(timeout=0.2)
        other.poll(timeout=0.2)

        def described() -> dict[str, Any]:
            done = run_shareproxy("describe", group, "--bootstrap-server", kafka.bootstrap_servers, "-o", "json")
            found: dict[str, Any] = json.loads(done.stdout)["description"] if done.returncode == 0 else {"members": []}
            return found

        wait_until(
            lambda: [len(member["assignment"]) for member in described()["members"]] == [1, 1],
            "both members serve a partition",
        )
        members = described()["members"]
    served = [partition for member in members for partition in member["assignment"][0]["partitions"]]
    assert set(served) == {0, 1}
    assert all(member["client_host"] == "/127.0.0.1" for member in members)


def test_describe_without_rights_says_which_are_missing(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """A user who may only see group and topic gets what these show, and the names of the rights for more."""
    kip_1226_layout(secure_driver, topic, group)
    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    secure_driver.add_acl("User:alice", "TOPIC", topic, "DESCRIBE")
    alice = write_properties(tmp_path, client_properties("alice", "alice-secret"))
    servers = secure_kafka.listeners["SASL_PLAINTEXT"]

    done = run_shareproxy(
        "describe", group, "--bootstrap-server", servers, "--command-config", alice, "--timeout", "30"
    )

    assert done.returncode == 0, done.stderr
    assert re.search(f"{topic}-0  [02] .. 11\n", done.stdout), done.stdout
    known = not secure_kafka.version.startswith("4.1.")
    assert ("  lag 7" in done.stdout) is known
    assert "CLUSTER_ACTION" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_transactional_topic_that_is_consumed_has_nothing_waiting(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """What is left are aborted records and a marker; `lag` counts them, and says that nobody will get them."""
    driver.create_topic(topic)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})
    driver.produce(topic, 0, 3)
    driver.share_consume(group, [topic], max_records=3)
    driver.produce_transaction(topic, 0, 5, commit=False, transactional_id=f"{group}-writer")
    wait_until(
        lambda: driver.list_offsets({topic: [0]}, committed=True)[topic, 0] == 9, "the abort marker has been written"
    )
    server = ("--bootstrap-server", kafka.bootstrap_servers)

    done = run_shareproxy("lag", group, "--visible", *server)
    waited = run_shareproxy("wait", group, "--visible", "--timeout", "0", *server)

    assert done.returncode == 0, done.stderr
    assert f"{group}: lag 6, of which 0 waiting, 6 phantom (" in done.stderr
    assert waited.returncode == 0, waited.stderr
    assert run_shareproxy("wait", group, "--timeout", "0", *server).returncode == 1


def test_lag_shows_a_consumer_group_too(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Whoever names a group wants to know how far behind it is."""
    driver.create_topic(topic)
    driver.produce(topic, 0, 2)
    driver.consume(group, [topic], max_records=2)
    driver.produce(topic, 0, 3)
    done = run_shareproxy("lag", group, "--bootstrap-server", kafka.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split() == [group, topic, "0", "2", "5", "3", "ok"]


def test_wait_ends_when_a_consumer_has_drained_the_group(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Exit code 1 before, 0 as soon as it is done."""
    partly_acknowledged(driver, topic, group)
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    before = run_shareproxy("wait", group, "--timeout", "0", *server)
    assert before.returncode == 1
    assert f"{group}: lag 6; lag 0 was not reached" in before.stderr
    with started("wait", group, *server) as waiting:
        driver.share_consume(group, [topic], max_records=6)
        assert waiting.wait(60) == 0


def test_ctrl_c_ends_a_wait_quietly(kafka: LocalKafka, worked_on: Layout) -> None:
    """With the shell's own exit code."""
    with started("wait", worked_on.group, "--bootstrap-server", kafka.bootstrap_servers) as waiting:
        assert waiting.stderr is not None
        assert "lag 7" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(20) == 130
        assert waiting.stderr.read() == ""


def test_offsets_are_reset_after_a_dry_run(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Shown, done, seen in the lag; Kafka 4.1 would do nothing and say "done", so it is refused there."""
    partly_acknowledged(driver, topic, group)
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    reset = ("offsets", "reset", group, "--to-offset", "1", *server)

    dry = run_shareproxy(*reset, "-o", "csv")
    done = run_shareproxy(*reset, "--execute")

    if kafka.version.startswith("4.1."):
        assert done.returncode == 1
        assert "4.1" in done.stderr or "4.2" in done.stderr
        return
    assert dry.returncode == 0, dry.stderr
    row = dict(zip(*(line.split(",") for line in dry.stdout.splitlines()), strict=True))
    assert (row["new_offset"], row["end"], row["lag"], row["new_lag"]) == ("1", "10", "6", "9")
    assert f"{group}: lag here would go from 6 to 9" in dry.stderr
    assert done.returncode == 0, done.stderr
    after = run_shareproxy("lag", group, *server, "-o", "json")
    assert json.loads(after.stdout)["groups"][0]["lag"] == 9
    beyond = run_shareproxy("offsets", "reset", group, "--to-offset", "11", *server, "--execute")
    assert beyond.returncode == 1
    assert "nothing was changed" in beyond.stderr


def test_offsets_of_an_active_group_are_refused(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """By the dry run already, with what to do; without members they can be deleted."""
    partly_acknowledged(driver, topic, group)
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    with driver.open_consumer(group, [topic]) as member:
        member.poll(timeout=1.0, otherwise="none", max_records=1)
        deletion = run_shareproxy("offsets", "delete", group, "--topic", topic, *server)
        moved = run_shareproxy("offsets", "reset", group, "--to-latest", *server)
    assert (deletion.returncode, moved.returncode) == (1, 1)
    assert "1 member" in deletion.stderr
    assert "member" in moved.stderr

    dry = run_shareproxy("offsets", "delete", group, "--topic", topic, *server)
    done = run_shareproxy("offsets", "delete", group, "--topic", topic, *server, "--execute")
    assert "would forget 1 partition with 6 waiting offsets" in dry.stderr
    assert done.returncode == 0, done.stderr
    assert driver.list_share_group_offsets(group) == []


def test_doctor_explains_a_missing_right(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """A user who may see groups and topics but not read their state is told which rights to grant."""
    secure_driver.create_topic(topic)
    secure_driver.add_acl("User:alice", "TOPIC", topic, "DESCRIBE")
    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    alice = write_properties(tmp_path, client_properties("alice", "alice-secret", "SCRAM-SHA-256"))

    done = run_shareproxy(
        "doctor", "--bootstrap-server", secure_kafka.listeners["SASL_PLAINTEXT"], "--command-config", alice,
        "--group", group, "--topic", topic,
    )  # fmt: skip

    assert "the right to read share-group state (CLUSTER_ACTION) is missing" in done.stdout, done.stderr
    assert "grant CLUSTER_ACTION" in done.stdout
    assert f"[no] topic {topic}: can be seen, but not read" in done.stdout
    # from 4.2 on the broker's own answer needs no such right
    assert done.returncode == (1 if secure_kafka.version.startswith("4.1.") else 0)


def test_sink_check_names_read_that_is_missing(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """On the group, which is not there yet, and on the topic; with both it can work, and nothing was made of it."""
    secure_driver.create_topic(topic)
    secure_driver.create_topic(f"{topic}-other")
    secure_driver.consume(f"{group}-other", [f"{topic}-other"], timeout=5.0)  # now the cluster has a coordinator
    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    secure_driver.add_acl("User:alice", "TOPIC", topic, "DESCRIBE")
    config = tmp_path / "sink.toml"
    config.write_text(
        f"""
[worker]
"bootstrap.servers" = "{secure_kafka.listeners["SASL_PLAINTEXT"]}"
"command.config" = "{write_properties(tmp_path, client_properties("alice", "alice-secret"))}"
[connectors.orders]
class = "files"
topics = ["{topic}"]
"share.group.id" = "{group}"
"consumer.override.group.protocol" = "share"
[connectors.orders.sink]
directory = "{tmp_path / "out"}"
"""
    )

    def check() -> subprocess.CompletedProcess[str]:
        return run_shareproxy("sink", "--config", str(config), "--check")

    neither = check()
    secure_driver.add_acl("User:alice", "GROUP", group, "READ")
    no_topic = check()
    secure_driver.add_acl("User:alice", "TOPIC", topic, "READ")
    both = check()

    said = "shareproxy: connector 'orders': this user lacks READ on "
    assert (neither.returncode, neither.stdout) == (4, ""), neither.stderr
    assert f"{said}group '{group}' and topic '{topic}'; grant it: kafka-acls.sh " in neither.stderr
    assert (no_topic.returncode, no_topic.stdout) == (4, ""), no_topic.stderr
    assert f"{said}topic '{topic}'; grant it: kafka-acls.sh " in no_topic.stderr
    assert both.returncode == 0, both.stderr
    assert f"connector 'orders': share group '{group}'" in both.stdout
    assert not (tmp_path / "out").exists()


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
