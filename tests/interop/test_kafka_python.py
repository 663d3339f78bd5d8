"""kafka-python through the proxy."""

from __future__ import annotations

import warnings

import pytest

from tests.support.running_proxy import RunningProxy

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_produce_and_consume(acks: str | int, proxy: RunningProxy, topic: str, group: str) -> None:
    """Records arrive unchanged with every kind of acknowledgement."""
    values = [f"{number}".encode() for number in range(300)]

    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, acks=acks)
    for value in values:
        producer.send(topic, value, partition=0)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=proxy.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    got = [record.value for _, record in zip(values, consumer, strict=False)]
    consumer.commit()
    consumer.close()

    assert got == values


def test_admin_sees_the_proxys_ports(proxy: RunningProxy, topic: str) -> None:
    """The brokers' own addresses never appear."""
    admin = KafkaAdminClient(bootstrap_servers=proxy.bootstrap_servers)
    try:
        cluster = admin.describe_cluster()
        topics = admin.list_topics()
    finally:
        admin.close()

    brokers = cluster["brokers"]
    assert [f"{row['host']}:{row['port']}" for row in brokers] == [proxy.node_ports[1]]
    assert topic in topics
