"""Brokers die, come back and hand over partitions while clients work through the proxy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.command import Served, serving
from tests.support.load import Load, both_loads, read_all
from tests.support.waiting import wait_until

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore")]

PREFERRED = 0
PARTITIONS = 6
MOVES = 3
# enough that every partition's leader had a part in it
MORE = 600


@pytest.fixture(scope="module")
def proxy(three_nodes: LocalKafka) -> Iterator[Served]:
    """The proxy as a process, as people run it."""
    with serving(three_nodes.bootstrap_servers) as served:
        served.wait_until_ready()
        yield served
        assert "bug in the proxy" not in served.log()


@pytest.fixture(scope="module")
def topic(driver: ShareDriver) -> str:
    """A topic of which two of three replicas must have a record before it is acknowledged."""
    driver.create_topic("adversity", PARTITIONS, 3, {"min.insync.replicas": "2"})
    return "adversity"


@pytest.fixture(scope="module")
def loads(three_nodes: LocalKafka, proxy: Served, topic: str) -> Iterator[tuple[Load, ...]]:
    """Producers with acks=all and consumers, of Java and of librdkafka, that work all the time."""
    with both_loads(three_nodes.jar_dir, proxy.bootstrap_servers, topic) as loads:
        wait_for_work(loads, "at first")
        yield loads


def wait_for_work(loads: Sequence[Load], when: str) -> None:
    """Return when all clients have produced and consumed more."""
    for load in loads:
        load.acked.wait_for_more(MORE, f"{load.name} is acknowledged {when}")
        load.consumed.wait_for_more(MORE, f"{load.name} consumes {when}")


def assert_nothing_lost(kafka: LocalKafka, topic: str, loads: Sequence[Load]) -> None:
    """Hold what was acknowledged until now against what the brokers have, and what the consumers got."""
    acknowledged = {load.name: load.acked.values.copy() for load in loads}
    there = read_all(kafka.bootstrap_servers, topic)
    for load in loads:
        acked = acknowledged[load.name]
        assert len(acked) >= MORE
        assert acked - there == set()
        wait_until(lambda load=load, acked=acked: acked <= load.consumed.values, f"{load.name} consumed them")  # type: ignore[misc]
        assert load.acked.failures == []


def wait_in_sync(admin: KafkaAdminClient, topic: str) -> None:
    """Return when all replicas of the topic have caught up."""

    def in_sync() -> bool:
        (described,) = admin.describe_topics([topic])
        return all(len(partition["isr_nodes"]) == 3 for partition in described["partitions"])

    wait_until(in_sync, "all replicas are in sync")


def move_leaders(admin: KafkaAdminClient, driver: ShareDriver, topic: str, first: int) -> None:
    """Make another replica of each partition its leader, beginning with node id `first`."""
    wanted = {number: [(first + number + step) % 3 + 1 for step in range(3)] for number in range(PARTITIONS)}
    admin.alter_partition_reassignments({TopicPartition(topic, number): nodes for number, nodes in wanted.items()})
    wait_until(lambda: not admin.list_partition_reassignments(), "the replicas are in their new order")
    admin.elect_leaders(PREFERRED, {topic: list(wanted)})
    leaders = {number: nodes[0] for number, nodes in wanted.items()}
    wait_until(lambda: driver.describe_topic(topic).leaders == leaders, "the leaders have moved")


@pytest.fixture
def admin(three_nodes: LocalKafka) -> Iterator[KafkaAdminClient]:
    """An admin client that is connected to the brokers themselves."""
    client = KafkaAdminClient(bootstrap_servers=three_nodes.bootstrap_servers)
    yield client
    client.close()


def test_no_acknowledged_record_is_lost_with_a_broker(
    three_nodes: LocalKafka, admin: KafkaAdminClient, topic: str, loads: Sequence[Load]
) -> None:
    """SIGKILL under load with acks=all: the clients go on by the other nodes, and again by the restarted one."""
    three_nodes.stop_node(2, kill=True)
    try:
        wait_for_work(loads, "without node 2")
    finally:
        three_nodes.start_node(2)
    wait_in_sync(admin, topic)
    wait_for_work(loads, "with node 2 again")

    assert_nothing_lost(three_nodes, topic, loads)


def test_broker_restarts_under_load(
    three_nodes: LocalKafka, admin: KafkaAdminClient, driver: ShareDriver, topic: str, loads: Sequence[Load]
) -> None:
    """In order: its partitions move away first, and back by election."""
    three_nodes.stop_node(3)
    three_nodes.start_node(3)
    wait_in_sync(admin, topic)
    move_leaders(admin, driver, topic, 0)
    wait_for_work(loads, "after the restart")

    assert_nothing_lost(three_nodes, topic, loads)


def test_leaders_move_under_load(
    three_nodes: LocalKafka, admin: KafkaAdminClient, driver: ShareDriver, topic: str, loads: Sequence[Load]
) -> None:
    """Every partition changes its leader again and again: clients follow, by the ports they were told."""
    for move in range(MOVES):
        move_leaders(admin, driver, topic, move + 1)
        wait_for_work(loads, f"after move {move}")

    assert_nothing_lost(three_nodes, topic, loads)
