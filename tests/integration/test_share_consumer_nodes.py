"""The share consumer on a three-node cluster: leaders that move, brokers that restart or are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shareproxy import BrokerLost, ConsumerEvent, LeaderMoved
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.share_records import consumer_of, lag_is_zero, of_type, take

PARTITIONS = 6
RECORDS = 5


@pytest.fixture
def whole(three_nodes: LocalKafka) -> Iterator[LocalKafka]:
    """The cluster, with all its nodes afterwards."""
    yield three_nodes
    for node in three_nodes.nodes:
        if node.pid is None:
            three_nodes.start_node(node.node_id)


def prepare(driver: ShareDriver, topic: str, group: str) -> int:
    """Make a topic that is led by all nodes, with records; return who leads partition 0."""
    found = driver.create_topic(topic, PARTITIONS, 3)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    driver.produce(topic, range(PARTITIONS), RECORDS)
    leader = found.leaders[0]
    assert leader is not None
    return leader


async def test_a_frozen_leader(whole: LocalKafka, three_nodes_driver: ShareDriver, topic: str, group: str) -> None:
    """A broker that is silent holds up neither the others, nor commit, nor close."""
    leader = prepare(three_nodes_driver, topic, group)
    led = {p for p, node in three_nodes_driver.describe_topic(topic).leaders.items() if node == leader}
    consumer = consumer_of(whole, group, topic, request_timeout=4.0, close_timeout=3.0)
    await consumer.start()
    first = await take(consumer, PARTITIONS * RECORDS)

    whole.freeze_node(leader)
    try:
        for record in first:
            record.accept()
        # a request that is parked, and the one behind it
        results = await asyncio.wait_for(consumer.commit(), 2 * 4.0 + 5.0)
        await asyncio.wait_for(consumer.close(), 3.0 + 2.0)
    finally:
        whole.thaw_node(leader)

    unknown = {partition.partition: result for partition, result in results.items() if not result.confirmed}
    assert len(results) == PARTITIONS
    # others may not answer either: where the silent one has a part in keeping the share state, they wait for it
    assert unknown.keys() >= led
    # 121 where it was not even sent: the silent fetch before it had ended the session
    assert {result.error_code for result in unknown.values()} <= {None, 121}


async def test_a_leader_that_is_killed_and_comes_back(
    whole: LocalKafka, three_nodes_driver: ShareDriver, topic: str, group: str
) -> None:
    """What was held of it comes again from others, the rest stays held; then its partitions are served by it again."""
    events: list[ConsumerEvent] = []
    leader = prepare(three_nodes_driver, topic, group)
    moved = {p for p, node in three_nodes_driver.describe_topic(topic).leaders.items() if node == leader}

    async with consumer_of(whole, group, topic, events, request_timeout=5.0) as consumer:
        first = await take(consumer, PARTITIONS * RECORDS)
        kept = [record for record in first if record.partition not in moved]
        await asyncio.to_thread(whole.stop_node, leader, kill=True)
        again = await take(consumer, len(moved) * RECORDS)
        for record in [*kept, *again]:
            record.accept()
        results = await consumer.commit()
        await asyncio.to_thread(whole.start_node, leader)
        await asyncio.to_thread(three_nodes_driver.produce, topic, range(PARTITIONS), 1)
        more = await take(consumer, PARTITIONS)
        for record in more:
            record.accept()
        await consumer.commit()
        await lag_is_zero(whole, group, consumer)

    assert {record.partition for record in again} == moved
    assert sorted((record.partition, record.offset) for record in [*kept, *again]) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)
    ]
    assert all(result.confirmed for result in results.values())
    assert sorted((record.partition, record.offset) for record in more) == [(p, RECORDS) for p in range(PARTITIONS)]
    assert leader in {event.node_id for event in of_type(events, LeaderMoved)}
    assert leader in {event.node_id for event in of_type(events, BrokerLost)}
