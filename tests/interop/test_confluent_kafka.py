"""librdkafka, by way of confluent-kafka, through the proxy."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.support.running_proxy import RunningProxy
from tests.support.waiting import wait_until


@pytest.mark.parametrize("acks", ["all", "1", "0"])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_produce_and_consume(acks: str, codec: str, proxy: RunningProxy, topic: str, group: str) -> None:
    """Records arrive unchanged, many in flight, with every codec and acknowledgement."""
    records = _round_trip(proxy, topic, group, {"acks": acks, "compression.type": codec}, count=2000, size=200)

    assert len(records) == 2000


def test_large_records(proxy: RunningProxy, topic: str, group: str) -> None:
    """900 KB records pass both ways."""
    records = _round_trip(proxy, topic, group, {"acks": "all"}, count=20, size=900_000)

    assert len(records) == 20


def test_idempotent_producer(proxy: RunningProxy, topic: str, group: str) -> None:
    """Sequence numbers are the broker's matter."""
    assert len(_round_trip(proxy, topic, group, {"enable.idempotence": True}, count=500, size=100)) == 500


def test_admin_sees_the_proxys_ports(proxy: RunningProxy, topic: str) -> None:
    """The brokers' own addresses never appear."""
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap_servers})

    metadata = admin.list_topics(timeout=20)

    assert {node.id: f"{node.host}:{node.port}" for node in metadata.brokers.values()} == {1: proxy.node_ports[1]}
    assert topic in metadata.topics
    described = admin.describe_cluster(request_timeout=20).result()
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [proxy.node_ports[1]]


def test_admin_lists_groups(proxy: RunningProxy, topic: str, group: str) -> None:
    """Coordinators are found through the proxy."""
    _round_trip(proxy, topic, group, {}, count=10, size=10)
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap_servers})

    listed = admin.list_consumer_groups(request_timeout=20).result()
    described = admin.describe_consumer_groups([group], request_timeout=20)[group].result()

    assert group in [row.group_id for row in listed.valid]
    assert f"{described.coordinator.host}:{described.coordinator.port}" == proxy.node_ports[1]


def _round_trip(
    proxy: RunningProxy, topic: str, group: str, settings: dict[str, Any], *, count: int, size: int
) -> set[bytes]:
    """Produce records, consume them in a group, check that they are the same, and return them."""
    servers = {"bootstrap.servers": proxy.bootstrap_servers}
    sent = {(f"{number}:" + "x" * size).encode() for number in range(count)}
    failures: list[KafkaError] = []
    producer = Producer({**servers, "linger.ms": 1, "message.max.bytes": 1_000_000, **settings})
    for value in sent:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures

    got: set[bytes] = set()
    consumer = Consumer({**servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:

        def consume() -> bool:
            for message in consumer.consume(500, timeout=0.5):
                assert message.error() is None, message.error()
                got.add(message.value() or b"")
            return len(got) >= count

        wait_until(consume, "all records are consumed")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert got == sent
    return got
