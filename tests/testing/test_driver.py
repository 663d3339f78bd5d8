"""The Java driver against a real Kafka of the newest version: each operation does what its sentence says."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from shareproxy.testing.driver import Acks, DriverError, GroupListing, ShareDriver, SharePartition
from shareproxy.testing.kafka import KafkaFailed, LocalKafka
from tests.support.real_kafka import VERSIONS, require_kafka
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalKafka]:
    """One node of the newest version."""
    require_kafka()
    with LocalKafka(VERSIONS[-1]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: LocalKafka) -> Iterator[ShareDriver]:
    """Its driver."""
    with ShareDriver(cluster) as driver:
        yield driver


@pytest.fixture
def topic(driver: ShareDriver) -> str:
    """A new topic with one partition."""
    name = f"topic-{next(_numbers)}"
    driver.create_topic(name)
    return name


@pytest.fixture
def group(driver: ShareDriver) -> str:
    """A new share group that begins at the earliest offset."""
    name = f"group-{next(_numbers)}"
    driver.set_group_config(name, {"share.auto.offset.reset": "earliest"})
    return name


def _error_of(command: Callable[[], object]) -> str | None:
    try:
        command()
    except DriverError as error:
        return error.type
    return None


def test_topics_are_made_grown_and_deleted(driver: ShareDriver) -> None:
    """Creating and growing return when each partition has a leader."""
    name = f"topic-{next(_numbers)}"

    created = driver.create_topic(name, 2, configs={"retention.ms": "1000000"})
    grown = driver.add_partitions(name, 3)
    driver.delete_topic(name)

    assert created.leaders == {0: 1, 1: 1}
    assert grown.leaders == {0: 1, 1: 1, 2: 1}
    assert grown.topic_id == created.topic_id
    wait_until(
        lambda: _error_of(lambda: driver.describe_topic(name)) == "UnknownTopicOrPartitionException", "the end of it"
    )


def test_produce_returns_offsets(driver: ShareDriver, topic: str) -> None:
    """Each call appends, and says where."""
    first = driver.produce(topic, 0, 2)
    second = driver.produce(topic, [0], values=["a"], acks="1")
    blind = driver.produce(topic, 0, acks="0")

    assert (first, second, blind) == ({0: [0, 1]}, {0: [2]}, {0: [-1]})


def test_many_partitions_are_written_at_once(driver: ShareDriver) -> None:
    """One call reaches each partition, however many, without waiting for memory."""
    name = f"topic-{next(_numbers)}"
    driver.create_topic(name, 100)

    offsets = driver.produce(name, range(100))

    assert offsets == {p: [0] for p in range(100)}


def test_open_transaction_holds_the_stable_offset_back(driver: ShareDriver, topic: str) -> None:
    """Commit and abort each add a marker; an open transaction is what lies between the two kinds of end."""
    driver.produce_transaction(topic, 0, 2)
    driver.produce_transaction(topic, 0, 2, commit=False)
    driver.produce_transaction(topic, 0, 2, leave_open=True)

    ends = driver.list_offsets({topic: [0]}), driver.list_offsets({topic: [0]}, committed=True)
    driver.end_transaction(commit=True)

    assert ends == ({(topic, 0): 8}, {(topic, 0): 6})
    assert driver.list_offsets({topic: [0]}) == {(topic, 0): 9}


def test_deleted_records_move_the_log_start(driver: ShareDriver, topic: str) -> None:
    """The new log start offset is returned and listed."""
    driver.produce(topic, 0, 5)

    assert driver.delete_records(topic, 0, 3) == 3
    assert driver.list_offsets({topic: [0]}, earliest=True) == {(topic, 0): 3}


def test_released_records_come_again_with_a_higher_count(driver: ShareDriver, topic: str, group: str) -> None:
    """Accepted and rejected records are gone, released ones are delivered a second time."""
    driver.produce(topic, 0, 4)
    acks: Acks = {0: "accept", f"{topic}-0-1": "reject"}

    first = driver.share_consume(group, [topic], acks, otherwise="release", max_records=4)
    second = driver.share_consume(group, [topic], max_records=2)

    assert [(r.offset, r.delivery_count) for r in first] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [(r.offset, r.delivery_count) for r in second] == [(2, 2), (3, 2)]
    assert second[0].value == "value-2"


def test_consuming_nothing_ends_in_time(driver: ShareDriver, topic: str, group: str) -> None:
    """With no records it returns empty when its time is over."""
    assert driver.share_consume(group, [topic], max_records=1, timeout=0.5) == []


def test_open_consumer_holds_records_until_acknowledged(driver: ShareDriver, topic: str, group: str) -> None:
    """Marked "none" they stay acquired; acknowledged later they count; closed they are available again."""
    driver.produce(topic, 0, 3)

    with driver.open_consumer(group, [topic]) as consumer:
        polled = consumer.poll(otherwise="none", max_records=3)
        joined = driver.describe_group(group)
        before = driver.list_share_group_offsets(group)
        failures = consumer.acknowledge({0: "accept"})
        after = driver.list_share_group_offsets(group)

    assert [r.offset for r in polled.records] == [0, 1, 2]
    assert polled.errors == failures == {}
    assert joined.state == "Stable"
    assert list(joined.members.values()) == [[f"{topic}-0"]]
    assert [row.lag for row in before] == [None]
    assert [row.lag for row in after] == [2]
    assert [r.offset for r in driver.share_consume(group, [topic], max_records=2)] == [1, 2]


def test_groups_are_listed_with_their_type(driver: ShareDriver, topic: str, group: str) -> None:
    """Share groups are listed alone or among all."""
    classic = f"classic-{group}"
    driver.alter_offsets(group, {topic: {0: 0}})
    driver.produce(topic)
    driver.consume(classic, [topic], max_records=1)

    share_only = {row.group: row for row in driver.list_share_groups()}
    everything = {row.group: row.type for row in driver.list_groups()}

    assert share_only[group] == GroupListing(group, "Share", "share", "Empty")
    assert classic not in share_only
    assert everything[group] == "Share"
    assert everything[classic] in ("Classic", "Consumer")


def test_offsets_are_altered_and_forgotten(driver: ShareDriver, topic: str, group: str) -> None:
    """A start offset set by hand is listed with its lag; a deleted one is not listed any more."""
    driver.produce(topic, 0, 5)

    driver.alter_offsets(group, {topic: {0: 2}})
    altered = driver.list_share_group_offsets(group, {topic: [0]})
    driver.delete_offsets(group, [topic])

    assert altered == [SharePartition(topic, 0, start_offset=2, leader_epoch=0, lag=3)]
    assert driver.list_share_group_offsets(group) == []


def test_deleted_group_is_gone(driver: ShareDriver, topic: str, group: str) -> None:
    """It is listed no more."""
    driver.alter_offsets(group, {topic: {0: 0}})

    driver.delete_group(group)

    assert group not in {row.group for row in driver.list_share_groups()}


def test_classic_consumer_reads_from_the_start(driver: ShareDriver, topic: str) -> None:
    """And its records have no delivery count."""
    driver.produce(topic, 0, 2)

    records = driver.consume(f"classic-{topic}", [topic], max_records=2)

    assert [(r.offset, r.value, r.delivery_count) for r in records] == [(0, "value-0", None), (1, "value-1", None)]


def test_error_of_a_client_becomes_ours(driver: ShareDriver, topic: str) -> None:
    """The Java exception's name and text arrive, and the driver goes on."""
    with pytest.raises(DriverError, match="already exists") as caught:
        driver.create_topic(topic)

    assert caught.value.type == "TopicExistsException"
    assert driver.describe_topic(topic).leaders == {0: 1}


def test_another_address_shares_the_jvm(driver: ShareDriver, cluster: LocalKafka) -> None:
    """A second connection needs no second process."""
    other = driver.connected_to(cluster.bootstrap_servers)

    assert other.describe_cluster() == driver.describe_cluster()
    assert other._jvm is driver._jvm


def test_closed_driver_says_so(cluster: LocalKafka) -> None:
    """Closing twice is fine; using it is not."""
    driver = ShareDriver(cluster.jar_dir, cluster.bootstrap_servers)
    driver.close()
    driver.close()

    with pytest.raises(DriverError, match="was closed"):
        driver.describe_cluster()


def test_dead_jvm_is_noticed(cluster: LocalKafka) -> None:
    """If the JVM dies the next command fails at once, with the end of its log."""
    driver = ShareDriver(cluster)
    os.kill(driver._jvm._process.pid, signal.SIGKILL)

    with pytest.raises(DriverError, match="No answer to describe_cluster") as caught:
        driver.describe_cluster()

    assert caught.value.type == "Gone"
    driver.close()


def test_jars_alone_are_no_address(cluster: LocalKafka) -> None:
    """A directory of jars says nothing about where the brokers are."""
    with pytest.raises(KafkaFailed, match="bootstrap_servers"):
        ShareDriver(cluster.jar_dir)
