"""The share consumer against the brokers of every supported version."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy import (
    Acknowledgement,
    ConsumerClosed,
    ConsumerEvent,
    GapsAcknowledged,
    GroupFull,
    GroupIsFull,
    LockLost,
    NotAShareGroup,
    SessionReopened,
    TopicPartition,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.share_records import (
    PATIENCE,
    consumer_of,
    cut,
    lag_is_zero,
    of_type,
    prepare,
    take,
    until,
    watched_connections,
)

RECORDS = 40


def renews(kafka_version: str) -> bool:
    """Tell Kafka 4.2 and later from 4.1."""
    return not kafka_version.startswith("4.1.")


async def test_every_record_comes_once_and_lag_reaches_0(
    kafka: LocalKafka, driver: ShareDriver, kafka_version: str, topic: str, group: str
) -> None:
    """Two partitions, one transaction that was committed and one that was not: markers are closed as well."""
    events: list[ConsumerEvent] = []
    prepare(driver, topic, group, 2, isolation_level="read_committed")
    driver.produce(topic, [0, 1], RECORDS)
    driver.produce_transaction(topic, [0, 1], 3, transactional_id=topic)
    if renews(kafka_version):  # 4.1 keeps no count of what it passed over, so that its lag would stay at 4
        driver.produce_transaction(topic, [0, 1], 4, commit=False, transactional_id=topic)

    async with consumer_of(kafka, group, topic, events) as consumer:
        records = await take(consumer, 2 * (RECORDS + 3))
        for record in records:
            record.accept()
        results = await consumer.commit()
        await lag_is_zero(kafka, group, consumer)

    assert {(record.partition, record.offset) for record in records} == {
        (partition, offset) for partition in (0, 1) for offset in range(RECORDS + 3)
    }
    assert {(record.topic, record.delivery_count, record.key) for record in records} == {(topic, 1, None)}
    assert {bytes(record.value) for record in records[:3]} == {b"value-0", b"value-1", b"value-2"}
    assert all(result.confirmed for result in results.values())
    assert {event.partition for event in of_type(events, GapsAcknowledged)} == {
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
    }


async def test_what_becomes_of_records(
    kafka: LocalKafka, driver: ShareDriver, kafka_version: str, topic: str, group: str
) -> None:
    """Accepted and rejected ones are gone, released ones come again and are counted, the rest is released by close."""
    prepare(driver, topic, group)
    driver.produce(topic, 0, 8)

    async with consumer_of(kafka, group, topic) as consumer:
        records = await take(consumer, 8)
        accepted = await records[0].accept()
        rejected, released = records[1].reject(), records[2].release()
        await consumer.commit()
        [again] = await take(consumer, 1)
        delayed = again.release(0.3)
        [later] = await take(consumer, 1)
        results = [accepted, await rejected, await released, await delayed]
    async with consumer_of(kafka, group, topic) as consumer:
        left = await take(consumer, 6)
        for record in left:
            record.accept()
        await consumer.commit()
        await lag_is_zero(kafka, group, consumer)

    assert all(result.confirmed for result in results)
    assert [result.ranges[-1][1] for result in results][:1] == [Acknowledgement.ACCEPT]
    assert (again.offset, again.delivery_count, later.offset, later.delivery_count) == (2, 2, 2, 3)
    assert sorted(record.offset for record in left) == [2, 3, 4, 5, 6, 7]
    # a close costs an attempt from 4.2 on
    assert {record.delivery_count for record in left if record.offset > 2} == {2 if renews(kafka_version) else 1}


async def test_locks_are_renewed_while_records_are_held(
    kafka: LocalKafka, driver: ShareDriver, kafka_version: str, topic: str, group: str
) -> None:
    """Three locks long nobody else gets them; Kafka 4.1 cannot renew, so that they are lost, and the caller is told."""
    events: list[ConsumerEvent] = []
    prepare(driver, topic, group, record_lock_duration_ms="1000")
    driver.produce(topic, 0, 5)

    async with consumer_of(kafka, group, topic, events) as consumer, consumer_of(kafka, group, topic) as other:
        records = await take(consumer, 5)
        first_deadline = records[0].lock_deadline
        if renews(kafka_version):
            stolen = await other.get_batch(timeout=3.0)
            asked = await records[1].renew()
            result = await records[0].accept()
            held = consumer.held
        else:
            stolen = await take(other, 5)  # type: ignore[assignment]
            await until(lambda: bool(of_type(events, LockLost)), "the caller is told")
            asked = await records[1].renew()
            result = await records[0].accept()
            held = 0
        deadline = records[1].lock_deadline

    if renews(kafka_version):
        assert not stolen
        assert deadline > first_deadline + 2.0
        assert asked.confirmed
        assert result.confirmed
        assert held == 4
        assert not of_type(events, LockLost)
    else:
        assert [record.offset for record in stolen] == [0, 1, 2, 3, 4]
        assert deadline == 0.0
        assert (asked.confirmed, result.confirmed) == (False, False)


async def test_a_cut_connection_is_replaced(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was held comes again, to somebody; late acknowledgements are answered, and the caller is told."""
    events: list[ConsumerEvent] = []
    connections = watched_connections(monkeypatch)
    prepare(driver, topic, group)
    driver.produce(topic, 0, 5)

    async with consumer_of(kafka, group, topic, events) as consumer:
        records = await take(consumer, 5)
        cut(connections[-1])
        again = await take(consumer, 5)
        late = await records[0].accept()
        for record in again:
            record.accept()
        results = await consumer.commit()
        await lag_is_zero(kafka, group, consumer)

    assert [record.offset for record in again] == [0, 1, 2, 3, 4]
    assert late.error_code == 121
    assert [result.confirmed for result in results.values()] == [True]
    assert of_type(events, SessionReopened)
    assert of_type(events, LockLost)


async def test_members_of_both_languages_share_the_records(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Java's and ours in one group: each record once, with either."""
    prepare(driver, topic, group, 2)
    for _ in range(4):
        driver.produce(topic, [0, 1], 10)

    async with consumer_of(kafka, group, topic, max_records=1) as consumer:
        ours = await take(consumer, 10)
        theirs = await asyncio.to_thread(driver.share_consume, group, [topic], max_records=20, timeout=20.0)
        for record in ours:
            record.accept()
        async with asyncio.timeout(PATIENCE):
            while len(theirs) + len(ours) < 80:
                batch = await consumer.get_batch(timeout=10.0)
                await batch.accept()
                ours += batch
        await lag_is_zero(kafka, group, consumer)

    found = [(record.partition, record.offset) for record in ours] + [(each.partition, each.offset) for each in theirs]
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(40)]
    assert theirs


async def test_implicit_acknowledgement(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """What was handed out before is accepted with the next call; a record that says otherwise keeps its word."""
    prepare(driver, topic, group)
    driver.produce(topic, 0, 6)

    async with consumer_of(kafka, group, topic, acknowledgement="implicit", max_records=6) as consumer:
        async for record in consumer:
            if record.offset == 2 and record.delivery_count == 1:
                record.release()
            if record.delivery_count == 2:
                break
        results = await consumer.commit()
        await lag_is_zero(kafka, group, consumer)

    assert all(result.confirmed for result in results.values())
    assert record.offset == 2


async def test_closing_ends_whoever_waits(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """A batch that is waited for ends with an error, an iteration as iterations end; close may be called twice."""
    prepare(driver, topic, group)
    consumer = consumer_of(kafka, group, topic)
    await consumer.start()
    waiting = asyncio.ensure_future(consumer.get_batch())
    await until(lambda: bool(consumer.assignment), "partitions are assigned")

    await asyncio.gather(consumer.close(), consumer.close())

    with pytest.raises(ConsumerClosed):
        await waiting
    assert [record async for record in consumer] == []
    assert "closed" in repr(consumer)


async def test_a_group_of_another_type_is_named(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """A consumer group blocks the name, even when nobody is in it."""
    driver.create_topic(topic)
    driver.produce(topic, 0, 1)
    driver.consume(group, [topic], max_records=1)

    with pytest.raises(NotAShareGroup, match=group):
        await consumer_of(kafka, group, topic).start()


async def test_a_full_group(kafka_version: str) -> None:
    """Nobody more is let in; the caller is told each time and in the end by an error."""
    if kafka_version != "4.4.0":
        pytest.skip("one version says it for all")
    events: list[ConsumerEvent] = []
    with LocalKafka(kafka_version, properties={"group.share.max.size": 1}) as full, ShareDriver(full) as driver:
        prepare(driver, "orders", "workers")
        async with consumer_of(full, "workers", "orders"):
            late = consumer_of(full, "workers", "orders", events, request_timeout=2.0)
            with pytest.raises(GroupIsFull, match=r"group\.share\.max\.size"):
                await late.start()

    assert of_type(events, GroupFull)
