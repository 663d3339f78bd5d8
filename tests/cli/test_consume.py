"""`shareproxy consume` against a simulated cluster: output, exit codes, and what a person is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shareproxy.admin.errors import CannotReach
from shareproxy.cli import consume, consume_loop, what_is_left
from shareproxy.cli.main import app
from shareproxy.drain import deserializers
from shareproxy.drain.errors import GroupIsFull
from shareproxy.drain.events import AcknowledgementsLost, BrokerLost, GapsAcknowledged
from shareproxy.drain.model import OffsetRange, TopicPartition
from shareproxy.testing.simulated import SimulatedCluster
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.support.command import clean_environment


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    """A cluster with topic orders, 3 records in its one partition; each test has a group of its own."""
    with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.produce("orders", 0, values=["a", "b", "c"])
        yield simulated


@pytest.fixture(autouse=True)
def settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a partition without state for empty sooner: there are no others here."""
    monkeypatch.setattr(what_is_left, "SETTLING_SECONDS", 0.1)
    monkeypatch.setattr(consume_loop, "LOOK_SECONDS", 0.2)


def run(cluster: SimulatedCluster, *arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["consume", "--bootstrap-server", cluster.bootstrap_servers, *arguments])


def from_start(cluster: SimulatedCluster, group: str) -> str:
    """Let a group begin with what is there, and return its name."""
    cluster.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    return group


def test_records_are_printed_and_accepted(cluster: SimulatedCluster) -> None:
    """Records on stdout, talk on stderr, nothing left."""
    group = from_start(cluster, "accepting")

    result = run(cluster, group, "orders", "-e", "-f", r"%t-%p@%o %d %s\n")

    assert result.stdout == "orders-0@0 1 a\norders-0@1 1 b\norders-0@2 1 c\n"
    assert result.exit_code == 0
    said = result.stderr.splitlines()
    assert said[0].startswith("shareproxy: share group 'accepting', topic 'orders', lock 30000 ms, delivery limit 5")
    assert said[-1] == "shareproxy: 3 records written and accepted; nothing is left"


def test_a_topic_named_twice_is_one(cluster: SimulatedCluster) -> None:
    """It is said once."""
    result = run(cluster, from_start(cluster, "doubled"), "orders", "orders", "-c", "1")

    assert result.exit_code == 0
    assert result.stderr.startswith("shareproxy: share group 'doubled', topic 'orders', lock")


def test_count_and_json(cluster: SimulatedCluster) -> None:
    """So many records and no more; the next one who comes gets the others."""
    group = from_start(cluster, "counting")

    first = run(cluster, group, "orders", "--count", "2", "--output", "json", "-q")
    rest = run(cluster, group, "orders", "-c", "1", "-q")

    assert [json.loads(line)["value"] for line in first.stdout.splitlines()] == ["a", "b"]
    assert (first.exit_code, first.stderr) == (0, "")
    assert rest.stdout == "c\n"


def test_peek_gives_back_and_says_what_it_costs(cluster: SimulatedCluster) -> None:
    """What was looked at comes again, with one delivery more."""
    group = from_start(cluster, "peeking")

    peeked = run(cluster, group, "orders", "--peek", "-e")
    after = run(cluster, group, "orders", "-e", "-f", r"%s %d\n")

    assert (peeked.stdout, peeked.exit_code) == ("a\nb\nc\n", 0)
    assert "3 records written and given back; each has spent one of its delivery attempts" in peeked.stderr
    assert after.stdout == "a 2\nb 2\nc 2\n"


def test_reject_says_what_becomes_of_records(cluster: SimulatedCluster) -> None:
    """Without a dead-letter queue they are gone, which is said before."""
    group = from_start(cluster, "rejecting")

    result = run(cluster, group, "orders", "--reject", "-e")

    assert (result.stdout, result.exit_code) == ("a\nb\nc\n", 0)
    assert "shareproxy: what is rejected is gone: group 'rejecting' has no dead-letter queue" in result.stderr
    assert "3 records written and rejected" in result.stderr


def test_raw_output_is_the_value(cluster: SimulatedCluster) -> None:
    """For a file: the bytes, and no line ends."""
    group = from_start(cluster, "raw")

    assert run(cluster, group, "orders", "-e", "-o", "raw").stdout == "abc"


def test_values_that_cannot_be_read(cluster: SimulatedCluster) -> None:
    """They are told, given back, and make it a failure."""
    group = from_start(cluster, "reading")

    result = run(cluster, group, "orders", "-e", "--value-deserializer", "json")

    assert (result.stdout, result.exit_code) == ("", 1)
    assert "orders-0, offset 0: cannot be read: 'a' is not JSON" in result.stderr
    assert "; nothing else is left\n" in result.stderr
    assert "3 records could not be read; they were given back" in result.stderr


def test_a_closed_stdout_takes_no_record(cluster: SimulatedCluster) -> None:
    """What would stand in for it takes all and keeps nothing: `shareproxy consume … >&-`."""
    group = from_start(cluster, "closed")
    command = [sys.executable, "-m", "shareproxy", "consume", "--bootstrap-server", cluster.bootstrap_servers]

    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command, group, "orders", "-e"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=clean_environment(),
        timeout=60,
    )

    assert closed.returncode == 1
    assert "shareproxy: the answer cannot be written: stdout is closed\n" in closed.stderr
    assert run(cluster, group, "orders", "-e", "-f", r"%s %d\n").stdout == "a 1\nb 1\nc 1\n"


def test_new_group_is_told_where_it_begins(cluster: SimulatedCluster) -> None:
    """The default is the end of the topic, which surprises people; time is over is no failure by itself."""
    result = run(cluster, "nobody-before", "orders", "--timeout", "0.1")

    assert (result.stdout, result.exit_code) == ("", 0)
    assert "the group is new and begins with what is written from now on" in result.stderr
    assert "shareproxy offsets reset nobody-before --topic orders --to-earliest --execute" in result.stderr


def test_too_few_in_time_is_a_no(cluster: SimulatedCluster) -> None:
    """With --count the time-out means that the answer is no."""
    assert run(cluster, "too-few", "orders", "--count", "1", "--timeout", "0.1").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["g", "or.*"], "'or.*' is a pattern, and share groups have none"),
        (["g"], "Missing argument 'TOPIC...'"),
        (["", "orders", "--count", "1"], "'' is not the name of a group"),
        (["g", "orders", "--peek"], "say when: --count N, --timeout SECONDS or -e"),
        (["g", "orders", "--peek", "--reject", "-e"], "--peek and --reject exclude each other"),
        (["g", "orders", "-f", "%x"], "'%x' means nothing"),
        (["g", "orders", "-f", "%s", "-o", "json"], "leave out --output json, or the format"),
        (["g", "orders", "--count", "0"], "--count"),
        (["g", "orders", "--value-deserializer", "avro"], "'avro' is not one of"),
    ],
)
def test_wrong_usage(cluster: SimulatedCluster, arguments: list[str], sentence: str) -> None:
    """A sentence each, and exit code 2."""
    result = run(cluster, *arguments)

    assert sentence in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")


def test_group_of_another_type(cluster: SimulatedCluster) -> None:
    """R6: named with its type."""
    cluster.commit_offsets("old-consumer", {"orders": {0: 1}}, kind="consumer")

    result = run(cluster, "old-consumer", "orders")

    assert "the name 'old-consumer' is taken: it is a consumer group" in result.stderr
    assert result.exit_code == 1


def test_r3_keys_of_the_group_in_a_property_file(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """R3: a consumer's property file may hold keys that a share group has elsewhere; passed over they would mislead."""
    path = tmp_path / "consumer.properties"
    path.write_text("security.protocol=PLAINTEXT\nauto.offset.reset=earliest\n", encoding="utf-8")

    result = run(cluster, "g", "orders", "--command-config", str(path))

    assert "auto.offset.reset is not for a share group; set the group config share.auto.offset.reset" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)


def test_topic_that_is_not_there(cluster: SimulatedCluster) -> None:
    """It is said, as there would be no error else; it may still come."""
    result = run(cluster, "waiting", "ordres", "--timeout", "0.1")

    assert "topic 'ordres' does not exist, or this user may not see it" in result.stderr
    assert result.exit_code == 0


def test_nobody_answers() -> None:
    """Exit code 3."""
    with SimulatedCluster() as gone:
        address = gone.bootstrap_servers

    result = CliRunner().invoke(app, ["consume", "--bootstrap-server", address, "g", "orders"])

    assert result.exit_code == 3
    assert result.stderr.startswith("shareproxy: ")


@pytest.fixture
def fake(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> FakeShareConsumer:
    """A consumer that follows a script, in place of the real one."""
    made = FakeShareConsumer()

    def opened(job: Any) -> FakeShareConsumer:
        made.on_event = job._tell
        return made

    monkeypatch.setattr(consume.ConsumeJob, "_open_consumer", opened)
    return made


@pytest.mark.parametrize(
    ("error", "code"), [(GroupIsFull("the group is full", 81), 1), (CannotReach("no broker answers"), 3)]
)
def test_joining_fails(cluster: SimulatedCluster, fake: FakeShareConsumer, error: Exception, code: int) -> None:
    """The sentence of the error, and its exit code."""
    fake.fail_start(error)

    result = run(cluster, "g", "orders")

    assert (result.exit_code, fake.closed) == (code, True)
    assert f"shareproxy: {error}" in result.stderr


def test_events_are_told_once(cluster: SimulatedCluster, fake: FakeShareConsumer) -> None:
    """What goes wrong is said, the same thing once, and what is as it should be is not."""
    lost = BrokerLost(1, "the connection broke")
    gaps = GapsAcknowledged(TopicPartition("orders", 0), (OffsetRange(1, 1),))
    fake.give(FakeRecord(0))
    original = fake.start

    async def start() -> None:
        await original()
        for event in (lost, lost, gaps):
            fake.emit(event)

    fake.start = start  # type: ignore[method-assign]

    result = run(cluster, "g", "orders", "--count", "1")

    assert result.stderr.count("node 1: the connection broke") == 1
    assert "no records at" not in result.stderr
    assert result.exit_code == 0


def test_lost_acknowledgements_make_it_a_failure(cluster: SimulatedCluster, fake: FakeShareConsumer) -> None:
    """Records that may come again are not done."""
    fake.give(FakeRecord(0))
    original = fake.commit

    async def commit() -> Any:
        fake.emit(AcknowledgementsLost(TopicPartition("orders", 0), (OffsetRange(0, 0),), None))
        return await original()

    fake.commit = commit  # type: ignore[method-assign]

    result = run(cluster, "g", "orders", "--count", "1")

    assert result.exit_code == 1
    assert "the brokers did not confirm all acknowledgements; some of the records may come again" in result.stderr


def test_deserializers_of_the_library() -> None:
    """The names are written down once more for a short start; they are the same."""
    assert tuple(deserializers.DESERIALIZERS) == consume.DESERIALIZERS
