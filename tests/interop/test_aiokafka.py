"""aiokafka through the proxy."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from tests.support.running_proxy import RunningProxy


@pytest.mark.parametrize("acks", ["all", 1, 0])
async def test_produce_and_consume(acks: str | int, proxy: RunningProxy, topic: str, group: str) -> None:
    """Records arrive unchanged with every kind of acknowledgement."""
    values = [f"{number}".encode() for number in range(300)]

    async with AIOKafkaProducer(bootstrap_servers=proxy.bootstrap_servers, acks=acks) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)
        await producer.flush()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=proxy.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
    )
    async with consumer:
        got = [(await consumer.getone()).value for _ in values]
        await consumer.commit()

    assert got == values


async def test_admin_sees_the_proxys_ports(proxy: RunningProxy, topic: str) -> None:
    """The brokers' own addresses never appear."""
    admin = AIOKafkaAdminClient(bootstrap_servers=proxy.bootstrap_servers)
    await admin.start()
    try:
        cluster = await admin.describe_cluster()
        topics = await admin.list_topics()
    finally:
        await admin.close()

    assert [f"{row['host']}:{row['port']}" for row in cluster["brokers"]] == [proxy.node_ports[1]]
    assert topic in topics
