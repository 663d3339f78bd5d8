"""A driver, a topic name and a group name come in; a share group in a known state, and its right lag, go out.

Each scenario makes its own topic and group, so names must be new. Must never depend on the order or speed of consumers.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shareproxy.testing.driver import Ack, DriverError, ShareDriver
from tests.support.waiting import wait_until

SETTLE_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Layout:
    """The state a scenario made.

    Attributes:
        group: the share group, which has no members any more.
        topic: its topic.
        end_offsets: partition → high watermark.
        lags: partition → lag by KIP-1226's formula; None where no broker can know it yet.
    """

    group: str
    topic: str
    end_offsets: dict[int, int]
    lags: dict[int, int | None]

    @property
    def total(self) -> int:
        """The sum of the known lags."""
        return sum(lag for lag in self.lags.values() if lag is not None)


def kip_1226_layout(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make KIP-1226's picture: 11 offsets; 0, 1 and 5 accepted, 6 rejected, 2 to 4 released, 7 to 10 never fetched."""
    _begin(driver, topic, group)
    # Two writes make two batches: a fetch takes whole batches, and the second must stay unfetched.
    driver.produce(topic, 0, 7)
    _consume(driver, topic, group, accepted=(0, 1, 5), rejected=(6,), count=7)
    driver.produce(topic, 0, 4)
    return Layout(group, topic, {0: 11}, {0: 7})


def never_consumed(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make a group that had a member which never got a record: the brokers know no start offset, so no lag."""
    _begin(driver, topic, group)
    deadline = time.monotonic() + SETTLE_TIMEOUT
    with driver.open_consumer(group, [topic]) as consumer:
        while not any(row.topic == topic for row in driver.list_share_group_offsets(group)):
            consumer.poll(max_records=1, timeout=0.2)
            assert time.monotonic() < deadline, f"group {group} did not initialise {topic} in {SETTLE_TIMEOUT:.0f} s"
    driver.produce(topic, 0, 5)
    return Layout(group, topic, {0: 5}, {0: None})


def partly_acknowledged(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make 10 offsets of which the first 4 are accepted and the others released."""
    _begin(driver, topic, group)
    driver.produce(topic, 0, 10)
    _consume(driver, topic, group, accepted=range(4), count=10)
    return Layout(group, topic, {0: 10}, {0: 6})


def released(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make 5 offsets, all fetched and released again."""
    _begin(driver, topic, group)
    driver.produce(topic, 0, 5)
    _consume(driver, topic, group, count=5)
    return Layout(group, topic, {0: 5}, {0: 5})


def rejected(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make 5 offsets of which 1 and 3 are rejected (archived) and the others released."""
    _begin(driver, topic, group)
    driver.produce(topic, 0, 5)
    _consume(driver, topic, group, rejected=(1, 3), count=5)
    return Layout(group, topic, {0: 5}, {0: 3})


def all_acknowledged(driver: ShareDriver, topic: str, group: str) -> Layout:
    """Make 5 offsets, all accepted at once: lag 0, though the stored start offset may still be 0 (KAFKA-19922)."""
    _begin(driver, topic, group)
    driver.produce(topic, 0, 5)
    _consume(driver, topic, group, accepted=range(5), count=5)
    return Layout(group, topic, {0: 5}, {0: 0})


def altered(driver: ShareDriver, topic: str, group: str, start_offset: int = 3) -> Layout:
    """Make 10 offsets and set the start offset by hand. Not for Kafka 4.1, which does nothing then."""
    _begin(driver, topic, group)
    driver.produce(topic, 0, 10)
    _alter(driver, group, {topic: {0: start_offset}})
    return Layout(group, topic, {0: 10}, {0: 10 - start_offset})


def many_partitions(driver: ShareDriver, topic: str, group: str, partitions: int, replication: int = 1) -> Layout:
    """Make a group with many initialised share partitions, whose lags are 1, 2 and 3 in turn."""
    _begin(driver, topic, group, partitions, replication)
    everything = range(partitions)
    _alter(driver, group, {topic: dict.fromkeys(everything, 0)})
    consumed = 0
    if not driver.list_share_group_offsets(group):  # Kafka 4.1: a first record of each partition has to be consumed
        consumed = 1
        driver.produce(topic, everything)
        got = driver.share_consume(group, [topic], max_records=partitions, timeout=SETTLE_TIMEOUT + partitions / 20)
        assert {record.partition for record in got} == set(everything)
    lags: dict[int, int | None] = {}
    for lag in (1, 2, 3):
        these = everything[lag - 1 :: 3]
        driver.produce(topic, these, lag)
        lags |= dict.fromkeys(these, lag)
    return Layout(group, topic, {p: consumed + 1 + p % 3 for p in everything}, dict(sorted(lags.items())))


def _begin(driver: ShareDriver, topic: str, group: str, partitions: int = 1, replication: int = 1) -> None:
    driver.create_topic(topic, partitions, replication)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})


def _alter(driver: ShareDriver, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
    """Set start offsets, again while the group's coordinator has not heard of the new topic yet."""

    def altered() -> bool:
        try:
            driver.alter_offsets(group, offsets)
        except DriverError as error:
            if "UnknownTopicOrPartition" not in error.type:
                raise
            return False
        return True

    wait_until(altered, f"the coordinator of {group} knows the topics {list(offsets)}")


def _consume(
    driver: ShareDriver,
    topic: str,
    group: str,
    *,
    accepted: Iterable[int] = (),
    rejected: Sequence[int] = (),
    count: int,
) -> None:
    acks: dict[int | str, Ack] = {**dict.fromkeys(accepted, "accept"), **dict.fromkeys(rejected, "reject")}
    got = driver.share_consume(group, [topic], acks, otherwise="release", max_records=count, timeout=SETTLE_TIMEOUT)
    assert [record.offset for record in got] == list(range(count))
