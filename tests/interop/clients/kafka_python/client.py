"""kafka-python."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.interop.program import FLUSH_SECONDS, MAX_MESSAGE_BYTES, Arguments, Record, Skipped, answer, main, records

# a poll ends with the first records; one that ends before a slow broker answers may begin the same question again
READ_MS = 2000
REBALANCE_SECONDS = 60
ACKS: dict[str, str | int] = {"0": 0, "1": 1, "all": "all"}


def produce(arguments: Arguments) -> dict[str, Any]:
    """Send records and wait until each is acknowledged."""
    codec = None if arguments["codec"] == "none" else arguments["codec"]
    acks = ACKS[arguments["acks"]]
    settings = {**_servers(arguments), "acks": acks, "compression_type": codec, "enable_idempotence": acks == "all"}
    return {"sent": _send(settings, arguments["topic"], records(arguments["records"]))}


def consume(arguments: Arguments) -> dict[str, Any]:
    """Read with a group."""
    return answer(_read(_servers(arguments), arguments))


def transactions(arguments: Arguments) -> dict[str, Any]:
    """Commit one transaction and abort another."""
    aborted, committed = records(arguments["aborted"]), records(arguments["committed"])
    producer = KafkaProducer(**_servers(arguments), transactional_id=arguments["transactional_id"])
    producer.init_transactions()
    for wanted, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
        producer.begin_transaction()
        _put(producer, arguments["topic"], wanted)
        end()
    producer.close()
    return {"committed": len(committed)}


def rebalance(arguments: Arguments) -> dict[str, Any]:
    """Share the partitions between two members, and let one go."""
    settings = _servers(arguments) | _group(arguments)
    members = [KafkaConsumer(arguments["topic"], **settings) for _ in range(2)]
    everything = list(range(arguments["partitions"]))

    def held() -> list[list[int]]:
        for member in members:
            member.poll(READ_MS)
        return [sorted(partition.partition for partition in member.assignment()) for member in members]

    deadline = time.monotonic() + REBALANCE_SECONDS
    first, second = held()
    while not (first and second and sorted(first + second) == everything):
        assert time.monotonic() < deadline, f"not shared out: {first}, {second}"
        first, second = held()
    members.pop().close()
    (after,) = held()
    while after != everything:
        assert time.monotonic() < deadline, f"not taken over: {after}"
        (after,) = held()
    members.pop().close()
    return {"first": first, "second": second, "after": after}


def share(arguments: Arguments) -> dict[str, Any]:
    """Say that there is no such consumer."""
    raise Skipped("the library has no share consumer")


def admin(arguments: Arguments) -> dict[str, Any]:
    """Create, describe, list and delete."""
    client = KafkaAdminClient(**_servers(arguments))
    topic, count = arguments["topic"], arguments["partitions"]
    client.create_topics([NewTopic(topic, count, arguments["replication"])])
    client.wait_for_topics([topic])
    cluster = client.describe_cluster()
    described = client.describe_topics([topic])
    client.list_groups()
    consumer = KafkaConsumer(**_servers(arguments))
    partitions = [TopicPartition(topic, partition) for partition in range(count)]
    offsets = {row.partition: at for row, at in consumer.end_offsets(partitions).items()}
    consumer.close()
    client.delete_topics([topic])
    client.close()
    nodes = [{"id": row["broker_id"], "host": row["host"], "port": row["port"]} for row in cluster["brokers"]]
    return {"nodes": nodes, "partitions": len(described[0]["partitions"]), "offsets": offsets}


def roundtrip_sasl_tls(arguments: Arguments) -> dict[str, Any]:
    """Produce and consume over TLS with a login."""
    settings = _servers(arguments) | {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": arguments["ca_file"],
        "sasl_mechanism": arguments["mechanism"],
        "sasl_plain_username": arguments["user"],
        "sasl_plain_password": arguments["password"],
    }
    wanted = records(arguments["records"])
    _send(settings, arguments["topic"], wanted)
    return answer(_read(settings, {**arguments, "count": len(wanted)}))


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
    }


def _send(settings: dict[str, Any], topic: str, wanted: list[Record]) -> int:
    producer = KafkaProducer(**settings, max_request_size=MAX_MESSAGE_BYTES)
    _put(producer, topic, wanted)
    producer.close()
    return len(wanted)


def _put(producer: KafkaProducer, topic: str, wanted: list[Record]) -> None:
    sent = [producer.send(topic, record.value, record.key, list(record.headers), record.partition) for record in wanted]
    producer.flush(FLUSH_SECONDS)
    for future in sent:
        future.get(FLUSH_SECONDS)


def _read(settings: dict[str, Any], arguments: Arguments) -> list[Record]:
    found: list[Record] = []
    consumer = KafkaConsumer(arguments["topic"], **settings, **_group(arguments))
    deadline = time.monotonic() + arguments.get("timeout_s", 60)
    while len(found) < arguments["count"] and time.monotonic() < deadline:
        for rows in consumer.poll(READ_MS).values():
            found += [Record(row.partition, row.key, row.value, tuple(row.headers), row.offset) for row in rows]
    if found:
        consumer.commit()
    consumer.close()
    return found


if __name__ == "__main__":
    main(
        {
            "produce": produce,
            "consume": consume,
            "transactions": transactions,
            "rebalance": rebalance,
            "share": share,
            "admin": admin,
            "roundtrip_sasl_tls": roundtrip_sasl_tls,
        }
    )
