"""The Kafka sink against a real cluster."""

from __future__ import annotations

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink import Outcome
from shareproxy.drain.sinks.kafka import KafkaSink
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.drain.sinks.records import Context, Record
from tests.support.copied_records import copied


async def test_records_arrive_with_key_headers_timestamp_and_where_they_come_from(
    kafka: LocalKafka, driver: ShareDriver
) -> None:
    """In the partition they come from, if that is wished; one that is too large is rejected by itself."""
    driver.create_topic("copy-of-orders", partitions=2)
    sink = KafkaSink()
    config = {"bootstrap_servers": kafka.bootstrap_servers, "topic": "copy-of-{topic}", "partition": "same"}
    await sink.start(Context(config=config))
    record = Record(partition=1, offset=7, key="k", value={"n": 1}, headers=(("h", b"v"), ("none", None)))
    large = Record(partition=0, offset=8, value=b"x" * 2_000_000)

    outcomes = await sink.put(
        [record, large, Record(offset=9, value=object()), Record(offset=10, key="t"), Record(offset=11)]
    )
    found = await copied(kafka.bootstrap_servers, "copy-of-orders", 2)
    await sink.stop()

    assert outcomes == [Outcome.ACCEPT, Outcome.REJECT, Outcome.REJECT, Outcome.ACCEPT, Outcome.REJECT]
    null, full = sorted(found, key=lambda message: message.partition)
    assert (full.partition, full.key, full.value, full.timestamp) == (1, b"k", b'{"n":1}', record.timestamp)
    assert full.headers == (
        ("h", b"v"), ("none", None), ("source.topic", b"orders"), ("source.partition", b"1"), ("source.offset", b"7"),
    )  # fmt: skip
    assert (null.partition, null.key, null.value) == (0, b"t", None)


async def test_a_record_that_was_copied_into_its_own_topic_is_not_copied_again(
    kafka: LocalKafka, driver: ShareDriver
) -> None:
    """The second time shows that source and target are one."""
    driver.create_topic("loop")
    sink = KafkaSink()
    await sink.start(
        Context(config={"bootstrap_servers": kafka.bootstrap_servers, "topic": "{topic}"}, topics=["loop"])
    )
    headers = (("source.topic", b"loop"), ("source.partition", b"0"), ("source.offset", b"0"))

    with pytest.raises(DrainError, match="would be again, without end"):
        await sink.put([Record(topic="loop", headers=headers)])
    await sink.stop()


async def test_a_record_that_is_too_large_costs_neither_its_neighbours_nor_what_comes_next(
    kafka: LocalKafka, driver: ShareDriver
) -> None:
    """The producer asks for many records at once, and the broker refuses them together."""
    driver.create_topic("small", configs={"max.message.bytes": "2000"})
    sink = KafkaSink()
    await sink.start(
        Context(config={"bootstrap_servers": kafka.bootstrap_servers, "topic": "small"}, topics=["orders"])
    )
    batch = [Record(offset=offset, key="k", value=b"x" * (4000 if offset == 3 else 500)) for offset in range(8)]

    outcomes = await sink.put(batch)
    again = await sink.put([Record(offset=8, key="k", value=b"y")])
    found = await copied(kafka.bootstrap_servers, "small", 8)
    await sink.stop()

    assert outcomes == [Outcome.REJECT if offset == 3 else Outcome.ACCEPT for offset in range(8)]
    assert again is None
    assert sorted(int(dict(message.headers)["source.offset"]) for message in found) == [0, 1, 2, 4, 5, 6, 7, 8]
