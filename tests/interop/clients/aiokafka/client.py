"""aiokafka."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.interop.program import MAX_MESSAGE_BYTES, Arguments, Operation, Record, Skipped, answer, main, records

POLL_MS = 200
REBALANCE_SECONDS = 60
ACKS: dict[str, str | int] = {"0": 0, "1": 1, "all": "all"}


async def produce(arguments: Arguments) -> dict[str, Any]:
    """Send records and wait until each is acknowledged."""
    codec = None if arguments["codec"] == "none" else arguments["codec"]
    settings = {**_servers(arguments), "acks": ACKS[arguments["acks"]], "compression_type": codec}
    return {"sent": await _send(settings, arguments["topic"], records(arguments["records"]))}


async def consume(arguments: Arguments) -> dict[str, Any]:
    """Read with a group."""
    return answer(await _read(_servers(arguments), arguments))


async def transactions(arguments: Arguments) -> dict[str, Any]:
    """Commit one transaction and abort another."""
    aborted, committed = records(arguments["aborted"]), records(arguments["committed"])
    settings = _servers(arguments)
    async with AIOKafkaProducer(**settings, transactional_id=arguments["transactional_id"]) as producer:
        for wanted, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
            await producer.begin_transaction()
            await _put(producer, arguments["topic"], wanted)
            await end()
    return {"committed": len(committed)}


async def rebalance(arguments: Arguments) -> dict[str, Any]:
    """Share the partitions between two members, and let one go."""
    settings = _servers(arguments) | _group(arguments)
    first = AIOKafkaConsumer(arguments["topic"], **settings)
    second = AIOKafkaConsumer(arguments["topic"], **settings)
    everything = list(range(arguments["partitions"]))
    held: tuple[list[int], list[int]] = ([], [])
    async with asyncio.timeout(REBALANCE_SECONDS), first:
        async with second:
            while not (held[0] and held[1] and sorted(held[0] + held[1]) == everything):
                await asyncio.gather(first.getmany(timeout_ms=POLL_MS), second.getmany(timeout_ms=POLL_MS))
                held = _held(first), _held(second)
        while _held(first) != everything:
            await first.getmany(timeout_ms=POLL_MS)
        return {"first": held[0], "second": held[1], "after": _held(first)}


async def admin(arguments: Arguments) -> dict[str, Any]:
    """Create, describe, list and delete."""
    client = AIOKafkaAdminClient(**_servers(arguments))
    topic, count = arguments["topic"], arguments["partitions"]
    await client.start()
    try:
        await client.create_topics([NewTopic(topic, count, arguments["replication"])])
        cluster = await client.describe_cluster()
        async with asyncio.timeout(30):
            described = await client.describe_topics([topic])
            while described[0]["error_code"] or any(row["leader"] < 0 for row in described[0]["partitions"]):
                described = await client.describe_topics([topic])
        await client.list_consumer_groups()
        # offsets are the consumer's to ask for in this library
        async with AIOKafkaConsumer(**_servers(arguments)) as consumer:
            partitions = [TopicPartition(topic, partition) for partition in range(count)]
            offsets = {row.partition: at for row, at in (await consumer.end_offsets(partitions)).items()}
        await client.delete_topics([topic])
    finally:
        await client.close()
    nodes = [{"id": row["node_id"], "host": row["host"], "port": row["port"]} for row in cluster["brokers"]]
    return {"nodes": nodes, "partitions": len(described[0]["partitions"]), "offsets": offsets}


async def roundtrip_sasl_tls(arguments: Arguments) -> dict[str, Any]:
    """Produce and consume over TLS with a login."""
    settings = _servers(arguments) | {
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=arguments["ca_file"]),
        "sasl_mechanism": arguments["mechanism"],
        "sasl_plain_username": arguments["user"],
        "sasl_plain_password": arguments["password"],
    }
    wanted = records(arguments["records"])
    await _send(settings, arguments["topic"], wanted)
    return answer(await _read(settings, {**arguments, "count": len(wanted)}))


def _servers(arguments: Arguments) -> dict[str, Any]:
    return {"bootstrap_servers": arguments["bootstrap"]}


def _group(arguments: Arguments) -> dict[str, Any]:
    if arguments.get("protocol", "classic") != "classic":
        raise Skipped("the library has no KIP-848 consumer")
    return {
        "group_id": arguments["group"],
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": arguments.get("isolation", "read_uncommitted"),
        "heartbeat_interval_ms": 500,  # so that a member hears soon of another
        "metadata_max_age_ms": 5000,
    }


def _held(consumer: AIOKafkaConsumer) -> list[int]:
    return sorted(partition.partition for partition in consumer.assignment())


async def _send(settings: dict[str, Any], topic: str, wanted: list[Record]) -> int:
    async with AIOKafkaProducer(**settings, max_request_size=MAX_MESSAGE_BYTES) as producer:
        await _put(producer, topic, wanted)
    return len(wanted)


async def _put(producer: AIOKafkaProducer, topic: str, wanted: list[Record]) -> None:
    sent = [
        await producer.send(topic, record.value, record.key, record.partition, headers=list(record.headers))
        for record in wanted
    ]
    await asyncio.gather(*sent)


async def _read(settings: dict[str, Any], arguments: Arguments) -> list[Record]:
    found: list[Record] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + arguments.get("timeout_s", 60)
    async with AIOKafkaConsumer(arguments["topic"], **settings, **_group(arguments)) as consumer:
        while len(found) < arguments["count"] and loop.time() < deadline:
            for rows in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                found += [Record(row.partition, row.key, row.value, tuple(row.headers), row.offset) for row in rows]
        if found:
            await consumer.commit()
    return found


def _operation(work: Callable[[Arguments], Awaitable[dict[str, Any]]]) -> Operation:
    async def run(arguments: Arguments) -> dict[str, Any]:
        return await work(arguments)

    return lambda arguments: asyncio.run(run(arguments))


def share(arguments: Arguments) -> dict[str, Any]:
    """Say that there is no such consumer."""
    raise Skipped("the library has no share consumer")


if __name__ == "__main__":
    main(
        {
            "produce": _operation(produce),
            "consume": _operation(consume),
            "transactions": _operation(transactions),
            "rebalance": _operation(rebalance),
            "share": share,
            "admin": _operation(admin),
            "roundtrip_sasl_tls": _operation(roundtrip_sasl_tls),
        }
    )
