"""A closer look at lag on every supported version: what is waiting, and what only takes up offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import GroupLag
from shareproxy.lag.visible import VisibleReader
from shareproxy.lag.visible_model import DeliveryCount, PartitionVisible, Want
from shareproxy.testing.driver import Ack, ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support import scenarios
from tests.support.waiting import wait_until

PATIENCE = 15.0
UNCOMMITTED = {"share.auto.offset.reset": "earliest"}
COMMITTED = {**UNCOMMITTED, "share.isolation.level": "read_committed"}


def look_at(servers: str, group: str, want: Want = Want.ALL, security: Security = PLAINTEXT) -> GroupLag:
    """Look at one group, twice with the same reader: what it remembers must not change the answer."""

    async def run() -> GroupLag:
        async with Cluster(parse_addresses(servers), security) as cluster:
            engine, reader = LagEngine(cluster, timeout=PATIENCE), VisibleReader(cluster, clock=lambda: 1.9e9)
            report = await engine.report([group])
            loop = asyncio.get_running_loop()
            [first] = (await reader.look(report, want, deadline=loop.time() + PATIENCE)).groups
            [again] = (await reader.look(report, want, deadline=loop.time() + PATIENCE)).groups
            assert first.to_dict() == again.to_dict()
            return first

    return asyncio.run(run())


def visible(found: GroupLag) -> PartitionVisible:
    """Return the closer look at the only partition."""
    [row] = found.partitions
    assert row.visible is not None
    return row.visible


def numbers(found: GroupLag) -> tuple[int, int | None, int | None]:
    """Return lag, consumable lag and phantom offsets."""
    row = visible(found)
    return found.lag, row.consumable_lag, row.phantom_offsets


def begin(driver: ShareDriver, topic: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write one record, take it and give it back: each group starts at 0, nothing is done, and nobody is there."""
    driver.create_topic(topic)
    driver.produce(topic)
    for group, configs in groups.items():
        driver.set_group_config(group, configs)
        driver.share_consume(group, [topic], otherwise="release", max_records=1)


def await_end(driver: ShareDriver, topic: str, end: int) -> None:
    """Wait until markers are where they belong."""
    for committed in (False, True):
        wait_until(
            lambda committed=committed: driver.list_offsets({topic: [0]}, committed=committed)[topic, 0] == end,  # type: ignore[misc]
            f"the log ends at {end}",
        )


def test_markers_and_aborted_records_are_phantoms(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Fourteen offsets hold eleven records, of which six are there for who reads committed ones only."""
    begin(driver, topic, {group: UNCOMMITTED, f"{group}-committed": COMMITTED})
    for count, commit in ((3, True), (5, False), (2, True)):
        driver.produce_transaction(topic, 0, count, commit=commit)
    await_end(driver, topic, 14)

    everything = look_at(kafka.bootstrap_servers, group)
    committed = look_at(kafka.bootstrap_servers, f"{group}-committed")

    assert numbers(everything) == (14, 11, 3)
    assert numbers(committed) == (14, 6, 8)
    row = visible(committed)
    assert (row.log_start_offset, row.last_stable_offset, row.unavailable_offsets) == (0, 14, 0)
    assert row.oldest_record_age_seconds is not None
    assert row.oldest_record_age_seconds > 0
    assert committed.visible is not None
    assert (committed.visible.isolation_level, committed.visible.auto_offset_reset) == ("read_committed", "earliest")
    assert committed.visible.record_lock_duration_ms == 30_000


def test_open_transaction_is_neither_waiting_nor_phantom(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Committed readers wait for its end; then its marker does not keep a quiet topic's lag at 1."""
    committed, everything = f"{group}-committed", group
    begin(driver, topic, {everything: UNCOMMITTED, committed: COMMITTED})
    driver.produce_transaction(topic, 0, 4, leave_open=True)

    found = look_at(kafka.bootstrap_servers, committed)
    assert numbers(found) == (5, 1, 0)
    assert (visible(found).open_transaction_offsets, visible(found).last_stable_offset) == (4, 1)
    assert any(note.startswith("a transaction of 'driver' is open from offset 1") for note in visible(found).notes)
    assert numbers(look_at(kafka.bootstrap_servers, everything)) == (5, 5, 0)

    driver.share_consume(everything, [topic], max_records=5)
    driver.end_transaction(commit=True)
    await_end(driver, topic, 6)
    assert numbers(look_at(kafka.bootstrap_servers, committed)) == (6, 5, 1)
    assert numbers(look_at(kafka.bootstrap_servers, everything)) == (1, 0, 1)

    driver.produce_transaction(topic, 0, 3, commit=False)
    await_end(driver, topic, 10)
    driver.share_consume(committed, [topic], max_records=5, timeout=5)
    found = look_at(kafka.bootstrap_servers, committed)
    assert visible(found).consumable_lag == 0
    assert visible(found).oldest_record_age_seconds is None


def test_compacted_offsets_are_phantoms(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Of twenty versions of one key the last is left, as soon as the cleaner has been there."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    driver.create_topic(topic, configs=configs)
    driver.produce(topic, keys=["first"])
    driver.set_group_config(group, UNCOMMITTED)
    driver.share_consume(group, [topic], otherwise="release", max_records=1)
    for _ in range(4):
        driver.produce(topic, 0, 5, keys=["same"] * 5)

    def compacted() -> bool:
        # a segment is closed by the first record after its time, and never compacted before
        driver.produce(topic, keys=["last"])
        return (visible(look_at(kafka.bootstrap_servers, group)).phantom_offsets_min or 0) >= 19

    wait_until(compacted, "nineteen of twenty records are gone")
    found = look_at(kafka.bootstrap_servers, group)
    row = visible(found)
    assert row.phantom_offsets_min is not None
    assert row.phantom_offsets_min >= 19
    assert row.consumable_lag_max is not None
    assert row.consumable_lag_max <= found.lag - 19


def test_deleted_offsets_are_gone(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """What is done may lie below the log start: four of the four offsets that are left can still be delivered."""
    begin(driver, topic, {group: UNCOMMITTED})
    driver.produce(topic, 0, 9)
    done: dict[int | str, Ack] = dict.fromkeys((1, 2, 3, 4), "accept")
    with driver.open_consumer(group, [topic]) as consumer:
        taken: set[int] = set()
        while not taken >= done.keys():
            taken |= {record.offset for record in consumer.poll(done, otherwise="none").records}
            consumer.acknowledge(otherwise="release")
    driver.delete_records(topic, 0, 6)

    found = look_at(kafka.bootstrap_servers, group)
    row = visible(found)
    assert (found.partitions[0].start_offset, found.lag) == (0, 6)
    assert (row.consumable_lag, row.phantom_offsets, row.unavailable_offsets) == (4, 2, 6)
    assert row.runs is not None
    assert {run.state for run in row.runs} == {"available"}
    assert row.delivery_counts is not None
    assert row.log_start_offset == 6

    driver.delete_records(topic, 0, 10)
    assert numbers(look_at(kafka.bootstrap_servers, group)) == (6, 0, 6)


def test_picture_of_a_partition(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Runs of states as in KIP-1226, delivery counts, and how many records may be in flight at most."""
    scenarios.kip_1226_layout(driver, topic, group)

    row = visible(look_at(kafka.bootstrap_servers, group))

    assert row.runs is not None
    assert [(run.first_offset, run.last_offset, run.state) for run in row.runs] == [
        (0, 1, "acknowledged"),
        (2, 4, "available"),
        (5, 5, "acknowledged"),
        (6, 6, "archived"),
    ]
    assert row.delivery_counts == (DeliveryCount(row.runs[1].delivery_count, 3),)
    assert (row.consumable_lag, row.in_flight, row.in_flight_max, row.waiting) == (7, None, 7, None)
    assert row.notes == ()  # nothing can be done about what only the leader knows


def test_lag_before_the_first_member(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """It follows from where the group would start."""
    driver.create_topic(topic)
    driver.produce(topic, 0, 4)
    driver.delete_records(topic, 0, 1)
    with driver.open_consumer(group, [topic]) as consumer:
        wait_until(
            lambda: bool(consumer.poll(timeout=0.2)) and bool(driver.list_share_group_offsets(group)), "initialised"
        )
    expected = {"latest": 0, "earliest": 3, "by_duration:PT10M": None}
    for reset, projected in expected.items():
        driver.set_group_config(group, {"share.auto.offset.reset": reset})
        row = visible(look_at(kafka.bootstrap_servers, group))
        # the clock of these looks is years ahead, so no record is as young as ten minutes
        assert row.projected_lag == (0 if projected is None else projected), reset
        assert (row.consumable_lag, row.phantom_offsets) == (None, None)


def test_depth_of_the_dead_letter_topic(
    kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """It is the topic's offsets; without the topic a sentence says what to do."""
    if not kafka_version.startswith("4.4."):
        pytest.skip("dead-letter topics came with Kafka 4.4")
    letters = f"dlq.{topic}"
    begin(driver, topic, {group: {**UNCOMMITTED, "errors.deadletterqueue.topic.name": letters}})

    missing = look_at(kafka.bootstrap_servers, group).visible
    assert missing is not None
    assert missing.dead_letter is not None
    assert (missing.dead_letter.topic, missing.dead_letter.depth) == (letters, None)
    assert "create it" in (missing.dead_letter.message or "")

    driver.create_topic(letters, 2, configs={"errors.deadletterqueue.group.enable": "true"})
    driver.share_consume(group, [topic], otherwise="reject", max_records=1)

    def depth() -> int | None:
        found = look_at(kafka.bootstrap_servers, group, Want.DEAD_LETTERS).visible
        return None if found is None or found.dead_letter is None else found.dead_letter.depth

    wait_until(lambda: depth() == 1, "the rejected record is in the dead-letter topic")


def test_missing_rights_are_named(
    kafka_version: str, secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str
) -> None:
    """A user who may only describe gets bounds and the rights to ask for; READ makes the bounds meet."""
    scenarios.kip_1226_layout(secure_driver, topic, group)
    secure_driver.add_acl("User:alice", "GROUP", group, "DESCRIBE")
    secure_driver.add_acl("User:alice", "TOPIC", topic, "DESCRIBE")
    servers, alice = (
        secure_kafka.listeners["SASL_PLAINTEXT"],
        Security("SASL_PLAINTEXT", "PLAIN", "alice", "alice-secret"),
    )
    wait_until(lambda: bool(look_at(servers, group, security=alice).partitions), "alice may see the topic")

    found = look_at(servers, group, security=alice)
    row = visible(found)
    text = " ".join((*row.notes, *(found.visible.notes if found.visible else ())))
    assert "READ on the topic" in text
    assert "CLUSTER_ACTION" in text
    assert "DESCRIBE_CONFIGS on the group" in text
    assert (row.consumable_lag, row.runs, row.oldest_record_age_seconds) == (None, None, None)
    if not kafka_version.startswith("4.1."):
        assert (row.consumable_lag_min, row.consumable_lag_max) == (0, 7)
        secure_driver.add_acl("User:alice", "TOPIC", topic, "READ")
        wait_until(lambda: numbers(look_at(servers, group, security=alice)) == (7, 7, 0), "alice may read")
