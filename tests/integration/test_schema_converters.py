"""A sink worker with a schema registry: real brokers, a real registry, and what Confluent's serialiser wrote."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.real_kafka import VERSIONS
from tests.support.real_registry import RealRegistry
from tests.support.waiting import eventually

CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "by", "type": "Customer"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
KEY = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
CONFIG = """
[worker]
"bootstrap.servers" = "BROKERS"
"key.converter" = "json-schema"
"key.converter.schema.registry.url" = "REGISTRY"
"value.converter" = "avro"
"value.converter.schema.registry.url" = "REGISTRY"

[connectors.shared]
class = "files"
topics = ["schema-orders"]
"consumer.override.group.protocol" = "share"
"share.group.id" = "schema-share"
"reject.without.dlq" = true
[connectors.shared.sink]
directory = "DIRECTORY/shared"

[connectors.plain]
class = "files"
topics = ["schema-orders"]
"consumer.override.group.id" = "schema-plain"
"errors.tolerance" = "all"
[connectors.plain.sink]
directory = "DIRECTORY/plain"
"""


async def produce(kafka: LocalKafka, registry: str, count: int) -> None:
    """Write orders as Confluent's serialiser does, and two records that nobody can read."""
    async with AsyncSchemaRegistryClient({"url": registry}) as client:
        await client.register_schema("customer", Schema(json.dumps(CUSTOMER), "AVRO"))
        key = await client.register_schema("schema-orders-key", Schema(KEY, "JSON"))
        order = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("Customer", "customer", 1)])
        serializer = await AsyncAvroSerializer(client, order)
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all") as producer:
            for number in range(count):
                value = await serializer(
                    {"id": number, "by": {"name": "Ada"}, "price": Decimal("1.50")},
                    SerializationContext("schema-orders", MessageField.VALUE),
                )
                framed = b"\x00" + key.to_bytes(4, "big") + json.dumps({"n": number}).encode()
                await producer.send("schema-orders", value, framed, partition=number % 2)
            await producer.send_and_wait("schema-orders", b"\x00\x7f\xff\xff\xff", partition=0)
            await producer.send_and_wait("schema-orders", b"plain", partition=1)


@pytest.mark.parametrize("kafka_version", VERSIONS[-1:], indirect=True, scope="session")
async def test_keys_and_values_are_read_in_both_kinds_of_group(
    kafka: LocalKafka, driver: ShareDriver, tmp_path: Path
) -> None:
    """References and logical types included; what names no schema, or an unknown one, is left out by itself."""
    driver.create_topic("schema-orders", 2)
    driver.set_group_config("schema-share", {"share.auto.offset.reset": "earliest"})
    file = tmp_path / "sink.toml"
    with RealRegistry(tmp_path) as registry:
        parts = {"BROKERS": kafka.bootstrap_servers, "REGISTRY": registry.url, "DIRECTORY": str(tmp_path)}
        text = CONFIG
        for name, value in parts.items():
            text = text.replace(name, value)
        file.write_text(text)
        await produce(kafka, registry.url, 20)
        worker = SinkWorker(load_sink_settings(file), BrokerParts())
        await worker.start()
        await eventually(
            lambda: all(meter.counts["record_unreadable"] >= 2 for meter in worker.meters), "two are not read in each"
        )
        await eventually(lambda: all(len(written(tmp_path / name)) >= 20 for name in ("shared", "plain")), "all came")
        await worker.stop()

    for name in ("shared", "plain"):
        found = sorted(written(tmp_path / name), key=lambda each: each["key"]["n"])
        assert [each["value"] for each in found] == [
            {"id": number, "by": {"name": "Ada"}, "price": "1.50"} for number in range(20)
        ]


def written(directory: Path) -> list[dict[str, Any]]:
    """Return what a sink wrote."""
    files = [path for path in directory.glob("*") if path.suffix in (".jsonl", ".open")]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]
