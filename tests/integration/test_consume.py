"""`shareproxy consume` on real brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shareproxy.cli.main import app
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka, client_properties
from tests.support.real_kafka import VERSIONS, require_kafka

OLDEST_AND_NEWEST = pytest.mark.parametrize(
    "kafka_version", list(dict.fromkeys((VERSIONS[0], VERSIONS[-1]))), indirect=True, scope="session"
)
SECONDS = "60"  # of a loaded machine


def consume(kafka: LocalKafka, *arguments: str) -> Result:
    """Run the command; it fails where it takes too long."""
    command = ["consume", "--bootstrap-server", kafka.bootstrap_servers, "--timeout", SECONDS, *arguments]
    return CliRunner().invoke(app, command)


def test_consume_to_the_end(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Records and transactions, markers and aborted ones: all that is there is printed, and lag reaches 0 (R-basic)."""
    driver.create_topic(topic, 2)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})
    driver.produce(topic, [0, 1], values=["a", "b", "c"])
    driver.produce_transaction(topic, 0, values=["gone"], commit=False)
    driver.produce_transaction(topic, 0, values=["d"], commit=True)

    result = consume(kafka, group, topic, "-e", "--output", "json")

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((row["partition"], row["value"]) for row in rows) == [
        *((0, "a"), (0, "b"), (0, "c"), (0, "d")),
        *((1, "a"), (1, "b"), (1, "c")),
    ]
    assert result.exit_code == 0, result.stderr
    assert "7 records written and accepted; nothing is left" in result.stderr
    lag = CliRunner().invoke(app, ["lag", "--bootstrap-server", kafka.bootstrap_servers, group, "-o", "json"])
    [found] = json.loads(lag.stdout)["groups"]
    # Kafka 4.1 keeps no word of aborted records: there the lag of such a group is an upper bound
    assert (found["lag"], found["complete"]) == (1 if kafka.version < "4.2" else 0, True)


@OLDEST_AND_NEWEST
def test_peek_count_and_what_it_costs(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """A look takes no more than it shows, and gives it back; from 4.2 on that is a delivery more."""
    driver.create_topic(topic, 1)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    driver.produce(topic, 0, values=["a", "b", "c"])

    peeked = consume(kafka, group, topic, "--peek", "-c", "2", "-f", "%s%d ")
    rest = consume(kafka, group, topic, "-c", "3", "-f", "%s%d ")

    assert (peeked.stdout, peeked.exit_code) == ("a1 b1 ", 0), peeked.stderr
    costs = kafka.version >= "4.2"
    assert ("each has spent one of its delivery attempts" in peeked.stderr) is costs
    # Kafka 4.1 cannot count records: it handed out all three
    assert rest.stdout == ("a2 b2 c1 " if costs else "a1 b1 c1 ")


@OLDEST_AND_NEWEST
def test_r6_name_of_a_consumer_group(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """R6: an empty consumer group with commits blocks the name; its type is in the sentence."""
    driver.create_topic(topic, 1)
    driver.produce(topic, 0, values=["a"])
    driver.consume(group, [topic], max_records=1)

    result = consume(kafka, group, topic)

    assert f"the name {group!r} is taken: it is a consumer group" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 1)


def test_r4_share_groups_switched_off() -> None:
    """R4: brokers offer the APIs although the feature is off; the sentence says how to switch it on."""
    require_kafka()
    with LocalKafka(VERSIONS[0], features={"share.version": 0}) as without:
        result = consume(without, "workers", "orders")

    assert "share groups are switched off on this cluster: the feature share.version is at 0" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 1)


@OLDEST_AND_NEWEST
def test_rights(secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str, tmp_path: Path) -> None:
    """Without READ on the group, and with a wrong password: exit code 4, and what is missing."""
    secure_driver.create_topic(topic, 1)
    secure_driver.add_acl("User:alice", "TOPIC", topic, "READ")
    for password, said in (("alice-secret", group), ("wrong", "refused the login")):
        path = tmp_path / "client.properties"
        properties = client_properties("alice", password)
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        command = ["consume", "--bootstrap-server", secure_kafka.listeners["SASL_PLAINTEXT"], group, topic]
        result = CliRunner().invoke(app, [*command, "--command-config", str(path), "--timeout", SECONDS])

        assert (result.stdout, result.exit_code) == ("", 4), result.stderr
        assert said in result.stderr.splitlines()[-1]
