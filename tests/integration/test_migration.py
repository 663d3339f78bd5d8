"""From a consumer group to a share group and back, on real brokers; R28–R31."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.command import run_shareproxy
from tests.support.real_kafka import VERSIONS

OLDEST_AND_NEWEST = pytest.mark.parametrize(
    "kafka_version", list(dict.fromkeys((VERSIONS[0], VERSIONS[-1]))), indirect=True, scope="session"
)


async def commit(kafka: LocalKafka, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets as an application does that assigns its partitions by hand."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    consumer.assign(list(wanted))
    await consumer.start()
    try:
        await consumer.commit(wanted)
    finally:
        await consumer.stop()


async def committed(kafka: LocalKafka, group: str, topic: str, partitions: int) -> dict[int, int | None]:
    """Return what a group committed."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
    await consumer.start()
    try:
        return {p: await consumer.committed(TopicPartition(topic, p)) for p in range(partitions)}
    finally:
        await consumer.stop()


@OLDEST_AND_NEWEST
async def test_r28_to_r31_offsets_are_taken_over_and_given_back(
    kafka: LocalKafka, kafka_version: str, driver: ShareDriver, topic: str, group: str
) -> None:
    """A share group goes on where a consumer group was, and the consumer group where the share group was."""
    share, broker = f"share-{group}", ("--bootstrap-server", kafka.bootstrap_servers, "--timeout", "20")
    driver.create_topic(topic, partitions=3, configs={"cleanup.policy": "compact"})
    driver.produce(topic, [0, 1, 2], 6, keys=[f"key-{number}" for number in range(6)])
    await commit(kafka, group, {(topic, 0): 2, (topic, 1): 6})

    shown = run_shareproxy("offsets", "migrate", share, "--from-group", group, *broker)
    assert f"{topic}: compacted" not in shown.stderr
    assert "keeps no order" in shown.stderr
    assert f"'{topic}': compacted, so its keys matter" in shown.stderr
    assert f"committed no offset of {topic}-2: there the share group begins at latest; what is there already is " in (
        shown.stderr
    )
    if kafka_version.startswith("4.1"):
        assert shown.returncode == 1
        assert "Kafka 4.1 ignores the request; upgrade to 4.2" in shown.stderr
        return
    assert shown.returncode == 0, shown.stderr
    assert "would begin where" in shown.stderr
    assert share not in {row.group for row in driver.list_share_groups()}  # nothing was done

    done = run_shareproxy(
        *("offsets", "migrate", share, "--from-group", group, "--auto-offset-reset", "earliest", "--execute"),
        *("--output", "json", *broker),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["executed"] is True
    assert answer["without_commit"] == [{"topic": topic, "partition": 2}]
    assert [row["new_offset"] for row in answer["rows"]] == [2, 6]

    received = driver.share_consume(share, [topic], max_records=10, timeout=60)
    assert sorted((record.partition, record.offset) for record in received) == [
        *((0, offset) for offset in range(2, 6)),
        *((2, offset) for offset in range(6)),
    ]

    taken = run_shareproxy("offsets", "migrate", group, "--auto-offset-reset", "earliest", *broker)
    assert taken.returncode == 1  # R29: the name is the consumer group's
    assert "is taken by a group of another type" in taken.stderr

    driver.share_consume(share, [topic], otherwise="release", timeout=0.1)
    back = run_shareproxy("offsets", "rollback", share, "--to-group", group, *broker)
    assert back.returncode == 0, back.stderr
    assert await committed(kafka, group, topic, 3) == {0: 2, 1: 6, 2: None}
    back = run_shareproxy("offsets", "rollback", share, "--to-group", group, "--execute", *broker)
    assert back.returncode == 0, back.stderr
    assert f"{group}: 2 of 2 offsets committed" in back.stderr
    assert await committed(kafka, group, topic, 3) == {0: 6, 1: 6, 2: 6}


@OLDEST_AND_NEWEST
async def test_r28_where_a_new_share_group_begins(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """`share.auto.offset.reset` is set before the group exists, and counts from the first fetch on."""
    broker = ("--bootstrap-server", kafka.bootstrap_servers, "--timeout", "20")
    driver.create_topic(topic)
    driver.produce(topic, 0, 3)
    shown = run_shareproxy("offsets", "migrate", group, "--auto-offset-reset", "by_duration:PT1H", *broker)
    assert shown.returncode == 0, shown.stderr
    assert f"{group}: share.auto.offset.reset would be by_duration:PT1H, it is latest" in shown.stderr

    done = run_shareproxy("offsets", "migrate", group, "--auto-offset-reset", "by_duration:PT1H", "--execute", *broker)
    assert done.returncode == 0, done.stderr
    assert f"{group}: share.auto.offset.reset is by_duration:PT1H" in done.stderr
    assert len(driver.share_consume(group, [topic], max_records=3, timeout=60)) == 3

    again = run_shareproxy("offsets", "migrate", group, "--auto-offset-reset", "earliest", *broker)
    assert f"share group '{group}' has begun with {topic}-0" in again.stderr


@OLDEST_AND_NEWEST
async def test_r30_a_consumer_group_with_members_or_further_on_is_left_alone(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Kafka takes offsets from outside only for a group without members; nobody is taken back."""
    share, broker = f"share-{group}", ("--bootstrap-server", kafka.bootstrap_servers, "--timeout", "20")
    driver.create_topic(topic)
    driver.produce(topic, 0, 3)
    driver.set_group_config(share, {"share.auto.offset.reset": "earliest"})
    driver.share_consume(share, [topic], otherwise="release", max_records=1, timeout=30)
    await commit(kafka, group, {(topic, 0): 2})
    further = run_shareproxy("offsets", "rollback", share, "--to-group", group, "--execute", *broker)
    assert further.returncode == 0
    assert "there is nothing to commit" in further.stderr
    assert "is further on, and is not taken back" in further.stderr

    consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap_servers, group_id=f"{group}-live")
    async with consumer:
        live = run_shareproxy("offsets", "rollback", share, "--to-group", f"{group}-live", "--execute", *broker)
    assert live.returncode == 1
    assert "has 1 member, and Kafka takes offsets from outside only while a group has none" in live.stderr
