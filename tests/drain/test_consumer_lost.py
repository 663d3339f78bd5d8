"""Whether a share consumer reaches brokers that have records for it, as probes of workers tell it."""

from __future__ import annotations

from shareproxy.drain.events import BrokerLost, ConsumerEvent
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of, of_type, take, until

GROUP, TOPIC = "workers", "orders"
BEGINS = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "100"}


async def test_a_consumer_whose_only_broker_is_down_says_so_until_it_is_back() -> None:
    """Records come again by themselves."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic(TOPIC)
        cluster.set_group_config(GROUP, BEGINS)
        cluster.produce(TOPIC, 0, 1)
        async with consumer_of(cluster, GROUP, TOPIC) as consumer:
            (await consumer.get_batch()).accept()
            before = consumer.lost

            cluster.stop_node(1)
            await until(lambda: consumer.lost is not None, "the loss is told")
            while_down = consumer.lost
            cluster.start_node(1)
            cluster.produce(TOPIC, 0, 1)
            await take(consumer, 1)

            assert before is None
            assert while_down is not None
            assert while_down.startswith("node 1: ")
            assert consumer.lost is None


async def test_one_broker_of_two_is_enough() -> None:
    """A worker with fewer records is ready all the same."""
    async with SimulatedCluster(nodes=2) as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        cluster.set_group_config(GROUP, BEGINS)
        cluster.produce(TOPIC, 0, 1)
        cluster.produce(TOPIC, 1, 1)
        events: list[ConsumerEvent] = []
        async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
            await take(consumer, 2)

            cluster.stop_node(2)
            await until(lambda: bool(of_type(events, BrokerLost)), "the loss is told")

            assert consumer.lost is None
