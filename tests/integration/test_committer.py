"""Commits of a consumer group on a real Kafka: the lag that was not going away, rebalances, and a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from shareproxy import ReconcilingCommitter, ShareAdmin
from shareproxy.admin.errors import AccessDenied, UnknownTopic, WrongArgument
from shareproxy.cluster.security import Security
from shareproxy.drain.consumer_group_source import ConsumerGroupSource
from shareproxy.drain.consumer_keys import ConsumeSettings, GroupProtocol
from shareproxy.drain.sink import Outcome
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.real_kafka import VERSIONS
from tests.support.waiting import wait_until

# what a consumer group does is the same on all of them; the newest broker has to be enough for what takes long
NEWEST = pytest.mark.parametrize("kafka_version", VERSIONS[-1:], indirect=True, scope="session")
ROOT = Path(__file__).parent.parent.parent


def consumer(kafka: LocalKafka, group: str, **more: Any) -> AIOKafkaConsumer:
    """Return a consumer that begins with the first record and leaves its group soon when it is killed."""
    arguments = {
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "session_timeout_ms": 6000,
        **more,
    }
    return AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False, **arguments
    )


async def lag(kafka: LocalKafka, group: str) -> int | None:
    """Return what an operator sees of the group."""
    async with ShareAdmin(kafka.bootstrap_servers, timeout=20) as admin:
        (found,) = (await admin.consumer_lag(group)).groups
        assert found.error is None
        return found.lag if found.complete else None


async def drain(records: ReconcilingCommitter, until: Callable[[], bool]) -> list[tuple[int, int]]:
    """Finish all that comes until a condition holds, and return where it was."""
    seen = []
    async with asyncio.timeout(60):
        while not until():
            for batch in (await records.getmany(timeout_ms=200)).values():
                seen += [(record.partition, record.offset) for record in batch]
                records.finished_all(batch)
    return seen


def kill_when(command: list[str], condition: Callable[[], bool]) -> None:
    """Run a worker and kill it once it has done some of its work."""
    with subprocess.Popen(command, cwd=ROOT) as worker:
        try:
            wait_until(condition, "the worker has done some of its work")
        finally:
            worker.send_signal(signal.SIGKILL)


async def test_f4_f5_f6_the_lag_that_was_not_going_away(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Markers at the end and a partition of nothing but aborted records are committed over: the lag is 0."""
    driver.create_topic(topic, partitions=3)
    for number in range(3):
        driver.produce_transaction(topic, 0, 2, transactional_id=f"{topic}-{number}")
    driver.produce_transaction(topic, 0, 3, commit=False, transactional_id=topic)
    driver.produce_transaction(topic, 1, 6, commit=False, transactional_id=topic)
    driver.produce(topic, 2, 4)
    ends = driver.list_offsets({topic: range(3)})

    async with ReconcilingCommitter(consumer(kafka, group), [topic], commit_interval=0.05) as records:

        def committed() -> bool:
            return {tuple(p): offset for p, offset in records.stats.committed.items()} == ends

        seen = await drain(records, committed)
        stats = records.stats

    assert len(seen) == len(set(seen)) == 10
    assert ends[topic, 0] == 13  # three transactions of two records, an aborted one of three, and four markers
    assert (stats.failures, stats.waiting) == (0, 0)
    assert await lag(kafka, group) == 0


@NEWEST
async def test_f10_two_members_share_the_partitions_and_nothing_is_lost(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """A member that joins and one that leaves take over where the other committed, with no record twice."""
    driver.create_topic(topic, partitions=4)
    offsets = driver.produce(topic, range(4), 20)
    produced = sorted((partition, offset) for partition, of in offsets.items() for offset in of)
    seen: list[tuple[int, int]] = []

    async def work(records: ReconcilingCommitter, enough: int) -> None:
        while len(seen) < enough:
            for batch in (await records.getmany(timeout_ms=100, max_records=3)).values():
                seen.extend((record.partition, record.offset) for record in batch)
                records.finished_all(batch)

    first = ReconcilingCommitter(consumer(kafka, group), [topic], commit_interval=None)
    second = ReconcilingCommitter(consumer(kafka, group), [topic], commit_interval=None)
    async with asyncio.timeout(120), first:
        await work(first, 10)
        async with second:
            await asyncio.gather(work(first, 70), work(second, 70))
            assert len(first.assignment) == len(second.assignment) == 2
        await work(first, 80)
    assert sorted(seen) == produced
    assert await lag(kafka, group) == 0


@NEWEST
async def test_a_member_that_is_killed_loses_nothing(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """What it had finished or not: every record is in the ledger when the next one is done, and the lag is 0."""
    driver.create_topic(topic, partitions=2)
    produced: set[tuple[int, int]] = set()
    for _ in range(10):
        for partition, offsets in driver.produce_transaction(topic, [0, 1], 15, transactional_id=topic).items():
            produced.update((partition, offset) for offset in offsets)
    ledger = tmp_path / "ledger"
    ledger.touch()
    command = [sys.executable, "-m", "tests.support.group_worker", kafka.bootstrap_servers, group, topic, str(ledger)]
    kill_when(command, lambda: ledger.read_text().count("\n") >= 40)
    done = [tuple(map(int, line.split())) for line in ledger.read_text().splitlines()]
    ends = driver.list_offsets({topic: range(2)})

    async with ReconcilingCommitter(consumer(kafka, group), [topic], commit_interval=0.05) as records:

        def committed() -> bool:
            return {tuple(p): offset for p, offset in records.stats.committed.items()} == ends

        again = await drain(records, committed)
    assert {*done, *again} == produced
    assert len(done) < len(produced)
    assert await lag(kafka, group) == 0


@NEWEST
async def test_a_consumer_group_source_on_a_real_broker(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Outcomes become commits, beside a member of KIP-848's protocol a classic one can join, a share group cannot."""
    driver.create_topic(topic)
    driver.produce(topic, values=["a", "b", "c"])
    driver.consume(group, [topic], max_records=1, properties={"group.protocol": "consumer", "max.poll.records": "1"})
    settings = ConsumeSettings(
        protocol=GroupProtocol.CONSUMER, group=group, bootstrap_servers=kafka.bootstrap_servers, request_timeout=20.0
    )
    source = ConsumerGroupSource(settings, [topic])
    await source.start()
    batch: list[Any] = []
    async with asyncio.timeout(60):
        while not batch:
            batch = list(await source.get_batch(10, 1.0))
    source.settle(batch[:1], Outcome.RELEASE)
    again = list(await source.get_batch(10, 1.0))
    assert [record.delivery_count for record in again] == [2]
    source.settle([*again, *batch[1:]], Outcome.ACCEPT)
    assert (await source.commit()).accepted == len(batch)
    await source.close(20.0)
    assert await lag(kafka, group) == 0


@NEWEST
async def test_r6_what_cannot_be_joined_is_told_before_joining(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """The name of a share group, and a topic that is not there."""
    driver.create_topic(topic)
    driver.share_consume(group, [topic], timeout=0.1)
    settings = ConsumeSettings(
        protocol=GroupProtocol.CLASSIC, group=group, bootstrap_servers=kafka.bootstrap_servers, request_timeout=20.0
    )
    with pytest.raises(WrongArgument, match="it is a share group"):
        await ConsumerGroupSource(settings, [topic]).start()
    with pytest.raises(UnknownTopic, match="does not exist"):
        await ConsumerGroupSource(settings, [f"{topic}-not-there"]).start()


@NEWEST
async def test_logins_and_rights_that_are_missing_are_told(
    secure_kafka: LocalKafka, secure_driver: ShareDriver, topic: str, group: str
) -> None:
    """A wrong password, and a user who may read the topic but not use the group."""
    secure_driver.create_topic(topic)
    for operation in ("DESCRIBE", "READ"):
        secure_driver.add_acl("User:alice", "TOPIC", topic, operation)
    settings = ConsumeSettings(
        protocol=GroupProtocol.CLASSIC,
        group=group,
        bootstrap_servers=secure_kafka.listeners["SASL_PLAINTEXT"],
        request_timeout=20.0,
    )

    def source(password: str) -> ConsumerGroupSource:
        return ConsumerGroupSource(
            settings, [topic], security=Security("SASL_PLAINTEXT", "SCRAM-SHA-256", "alice", password)
        )

    with pytest.raises(AccessDenied, match="refused the login"):
        await source("wrong").start()
    with pytest.raises(AccessDenied, match=f"may not use group '{group}'; grant READ"):
        await source("alice-secret").start()
    secure_driver.add_acl("User:alice", "GROUP", group, "READ")
    granted = source("alice-secret")
    await granted.start()
    assert granted.partition_count == 1
    await granted.close(20.0)
