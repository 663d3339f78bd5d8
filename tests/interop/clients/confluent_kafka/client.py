"""librdkafka, by way of confluent-kafka."""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tests.interop.program import FLUSH_SECONDS, MAX_MESSAGE_BYTES, Arguments, Record, answer, main, records

POLL_SECONDS = 0.2
REBALANCE_SECONDS = 60
MOST_LINES = 100
NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


def produce(arguments: Arguments) -> dict[str, Any]:
    """Send records and wait until each is acknowledged."""
    settings = {"acks": arguments["acks"], "compression.type": arguments["codec"]}
    return {"sent": _send(_servers(arguments) | settings, arguments["topic"], records(arguments["records"]))}


def consume(arguments: Arguments) -> dict[str, Any]:
    """Read with a group."""
    return answer(_read(_servers(arguments), arguments))


def transactions(arguments: Arguments) -> dict[str, Any]:
    """Commit one transaction and abort another."""
    producer = Producer(_servers(arguments) | {"transactional.id": arguments["transactional_id"]})
    producer.init_transactions(FLUSH_SECONDS)
    aborted, committed = records(arguments["aborted"]), records(arguments["committed"])
    for wanted, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
        producer.begin_transaction()
        _put(producer, arguments["topic"], wanted)
        producer.flush(FLUSH_SECONDS)  # an abort would drop what was not sent yet
        end(FLUSH_SECONDS)
    return {"committed": len(committed)}


def rebalance(arguments: Arguments) -> dict[str, Any]:
    """Share the partitions between two members, and let one go."""
    settings = _servers(arguments) | _group(arguments)
    members = [Consumer(settings), Consumer(settings)]
    everything = set(range(arguments["partitions"]))
    for member in members:
        member.subscribe([arguments["topic"]])

    def held() -> list[list[int]]:
        for member in members:
            member.poll(POLL_SECONDS)
        return [sorted(partition.partition for partition in member.assignment()) for member in members]

    deadline = time.monotonic() + REBALANCE_SECONDS
    first, second = held()
    while not (first and second and {*first, *second} == everything and len(first) + len(second) == len(everything)):
        assert time.monotonic() < deadline, f"not shared out: {first}, {second}"
        first, second = held()
    members.pop().close()
    (after,) = held()
    while set(after) != everything:
        assert time.monotonic() < deadline, f"not taken over: {after}"
        (after,) = held()
    members.pop().close()
    return {"first": first, "second": second, "after": after}


def share(arguments: Arguments) -> dict[str, Any]:
    """Read with a share group and accept everything."""
    consumer = _share_consumer(_servers(arguments) | {"group.id": arguments["group"]}, arguments["topic"])
    found: list[Record] = []
    deadline = time.monotonic() + arguments["timeout_s"]
    while len(found) < arguments["count"] and time.monotonic() < deadline:
        found += map(_record, consumer.poll(POLL_SECONDS))
        for partition, error in consumer.commit_sync(FLUSH_SECONDS).items():
            assert error is None, f"{partition} not acknowledged: {error}"
    consumer.close()
    return answer(found)


def admin(arguments: Arguments) -> dict[str, Any]:
    """Create, describe, list and delete."""
    client = AdminClient(_servers(arguments))
    topic, count = arguments["topic"], arguments["partitions"]
    client.create_topics([NewTopic(topic, count, arguments["replication"])])[topic].result(30)
    described = client.describe_cluster(request_timeout=30).result()
    deadline = time.monotonic() + 30
    metadata = client.list_topics(topic, timeout=30).topics[topic]
    while metadata.error or any(row.leader < 0 for row in metadata.partitions.values()):
        assert time.monotonic() < deadline, f"no leaders: {metadata.error}"
        metadata = client.list_topics(topic, timeout=30).topics[topic]
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, partition): latest for partition in range(count)}
    offsets = _offsets(client, wanted, deadline)
    client.list_consumer_groups(request_timeout=30).result()
    client.delete_topics([topic])[topic].result(30)
    nodes = [{"id": node.id, "host": node.host, "port": node.port} for node in described.nodes]
    return {"nodes": nodes, "partitions": len(metadata.partitions), "offsets": offsets}


def roundtrip_sasl_tls(arguments: Arguments) -> dict[str, Any]:
    """Produce and consume over TLS with a login."""
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": arguments["ca_file"],
        "sasl.mechanism": arguments["mechanism"],
        "sasl.username": arguments["user"],
        "sasl.password": arguments["password"],
    }
    wanted = records(arguments["records"])
    _send(_servers(arguments) | login, arguments["topic"], wanted)
    return answer(_read(_servers(arguments) | login, {**arguments, "count": len(wanted)}))


def _offsets(client: AdminClient, wanted: dict[TopicPartition, OffsetSpec], deadline: float) -> dict[int, int]:
    # a node may not know yet that the topic exists, or that it leads it; this library leaves the retry to us
    while True:
        try:
            return {row.partition: future.result(30).offset for row, future in client.list_offsets(wanted).items()}
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def _share_consumer(settings: dict[str, Any], topic: str) -> ShareConsumer:
    """Return a consumer of a topic whose member id brokers can read.

    The library writes it in ordinary Base64, brokers read the one for addresses: to a "/" or "+", which every second id
    has, they answer UNKNOWN_SERVER_ERROR for ever. Nothing but the library's debug log tells the id.
    """
    while True:
        heard: list[str] = []
        logger = logging.Logger("librdkafka", logging.DEBUG)
        logger.addHandler(_Hearing(heard))
        consumer = ShareConsumer({**settings, "debug": "cgrp", "logger": logger})
        consumer.subscribe([topic])
        consumer.poll(0)  # hands over what was logged
        named = [line.rpartition(" -> ")[2] for line in heard if line.startswith("MEMBERID")]
        if named and not {"/", "+"} & set(named[-1]):
            return consumer
        consumer.close()
        assert named, "the library does not tell the member id"


class _Hearing(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._heard) < MOST_LINES:
            self._heard.append(record.getMessage())


def _servers(arguments: Arguments) -> dict[str, Any]:
    return {"bootstrap.servers": arguments["bootstrap"]}


def _group(arguments: Arguments) -> dict[str, Any]:
    protocol = arguments.get("protocol", "classic")
    return {
        "group.id": arguments["group"],
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": arguments.get("isolation", "read_uncommitted"),
    }


def _send(settings: dict[str, Any], topic: str, wanted: list[Record]) -> int:
    producer = Producer(settings | {"message.max.bytes": MAX_MESSAGE_BYTES, "linger.ms": 5})
    failures = _put(producer, topic, wanted)
    assert producer.flush(FLUSH_SECONDS) == 0, "not everything was sent in time"
    assert not failures, f"not sent: {failures[0]}"
    return len(wanted)


def _put(producer: Producer, topic: str, wanted: list[Record]) -> list[KafkaError]:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error:
            failures.append(error)

    for record in wanted:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
    return failures


def _read(settings: dict[str, Any], arguments: Arguments) -> list[Record]:
    consumer = Consumer(settings | _group(arguments))
    consumer.subscribe([arguments["topic"]])
    found: list[Record] = []
    deadline = time.monotonic() + arguments.get("timeout_s", 60)
    while len(found) < arguments["count"] and time.monotonic() < deadline:
        for message in consumer.consume(arguments["count"] - len(found), POLL_SECONDS):
            found.append(_record(message))
    if found:
        consumer.commit(asynchronous=False)
    consumer.close()
    return found


def _record(message: Message) -> Record:
    assert message.error() is None, str(message.error())
    partition = message.partition()
    assert partition is not None
    headers: Any = message.headers() or ()
    return Record(partition, message.key(), message.value(), tuple(headers), message.offset())


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
