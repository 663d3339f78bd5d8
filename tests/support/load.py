"""Clients that produce and consume without end, by librdkafka and by Java: what was acknowledged, and what arrived.

In: bootstrap servers and a topic. Out: the set of acknowledged values and the set of consumed ones, growing, and the
longest time without either. Must never: give a value twice, or call a record acknowledged that no broker has.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from shareproxy.testing.java_process import JavaProcess, tail
from shareproxy.testing.kafka_jars import classpath
from tests.support.waiting import wait_until

ACK_SECONDS = 60.0
RECORDS_PER_SECOND = 500
STOP_SECONDS = 30.0
JAVA_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
JAVA_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
# Kafka's tool switches retries off; applications leave them on
JAVA_PRODUCER_PROPERTIES = {"retries": 2**31 - 1, "enable.idempotence": "true", "delivery.timeout.ms": 60_000}


class Flow:
    """Values that went one way, and the longest time in which none did.

    Attributes:
        values: what was acknowledged, or consumed, so far.
        failures: what the client reported as lost, one line each.
    """

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.failures: list[str] = []
        self._last: float | None = None
        self._longest = 0.0

    def note(self, value: str) -> None:
        """Take a value that arrived now."""
        now = time.monotonic()
        if self._last is not None:
            self._longest = max(self._longest, now - self._last)
        self._last = now
        self.values.add(value)

    def longest_gap(self) -> float:
        """Return the longest time, in seconds, without a value since the last call."""
        longest, self._longest = self._longest, 0.0
        return longest

    def wait_for_more(self, count: int, what: str) -> None:
        """Return when so many more values came, and fail if they do not."""
        wanted = len(self.values) + count
        wait_until(lambda: len(self.values) >= wanted, f"{what}: {count} more records", ACK_SECONDS)


class LibrdkafkaLoad:
    """A producer and a consumer of librdkafka in two threads, for as long as a `with` block lasts.

    Args:
        bootstrap_servers: where they connect.
        topic: an existing topic.
        acks: of the producer.
        rate: records per second.
        properties: more client properties.
    """

    name = "librdkafka"

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        acks: str = "all",
        rate: int = RECORDS_PER_SECOND,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.acked, self.consumed = Flow(), Flow()
        self._topic, self._rate = topic, rate
        self._client = {"bootstrap.servers": bootstrap_servers, **(properties or {})}
        self._acks = acks
        self._stop_producing, self._stop_consuming = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, name="producer", daemon=True),
            threading.Thread(target=self._consume, name="consumer", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_producing.set()
        self._stop_consuming.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def finish(self) -> None:
        """Stop producing, and wait until every acknowledged record was consumed."""
        self._stop_producing.set()
        self._threads[0].join(ACK_SECONDS)
        wait_until(lambda: self.acked.values <= self.consumed.values, "librdkafka consumed all records", ACK_SECONDS)

    def _produce(self) -> None:
        producer = Producer(
            {
                **self._client, "acks": self._acks, "enable.idempotence": self._acks == "all", "linger.ms": 5,
                "message.timeout.ms": int(ACK_SECONDS * 1000),
            }
        )  # fmt: skip
        number, started = 0, time.monotonic()
        while not self._stop_producing.is_set():
            while number < (time.monotonic() - started) * self._rate:
                try:
                    producer.produce(self._topic, f"librdkafka-{number}", on_delivery=self._delivered)
                except BufferError:
                    break
                number += 1
            producer.poll(0.02)
        producer.flush(ACK_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.acked.note(value.decode())
        else:
            self.acked.failures.append(f"{value.decode()}: {error}")

    def _consume(self) -> None:
        group = f"{self._topic}-librdkafka"
        consumer = Consumer({**self._client, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        while not self._stop_consuming.is_set():
            for message in consumer.consume(500, 0.1):
                value = message.value()
                if message.error() is None and value is not None and value.startswith(b"librdkafka"):
                    self.consumed.note(value.decode())
        consumer.close()


class JavaLoad:
    """Kafka's own VerifiableProducer and VerifiableConsumer in two JVMs, for as long as a `with` block lasts.

    Args:
        jar_dir: Kafka's jars.
        bootstrap_servers: where they connect.
        topic: an existing topic.
        rate: records per second.
    """

    name = "java"

    def __init__(self, jar_dir: Path, bootstrap_servers: str, topic: str, *, rate: int = RECORDS_PER_SECOND) -> None:
        self.acked, self.consumed = Flow(), Flow()
        self._jars, self._servers, self._topic, self._rate = jar_dir, bootstrap_servers, topic, rate
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="java-load-")))
        properties = directory / "producer.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in JAVA_PRODUCER_PROPERTIES.items()))
        common = ["--bootstrap-server", self._servers, "--topic", self._topic]
        producer = [*common, "--acks", "-1", "--throughput", str(self._rate), "--command-config", str(properties)]
        consumer = [*common, "--group-id", f"{self._topic}-java", "--group-protocol", "CONSUMER", "--verbose"]
        try:
            self._producer = self._start(directory, JAVA_PRODUCER, producer, self._produced)
            self._consumer = self._start(directory, JAVA_CONSUMER, consumer, self._consumed)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def finish(self) -> None:
        """Stop producing, and wait until every acknowledged record was consumed."""
        self._producer.popen.terminate()  # it flushes, and tells of each record, before it ends
        self._producer.popen.wait(ACK_SECONDS)
        wait_until(lambda: self.acked.values <= self.consumed.values, "Java consumed all records", ACK_SECONDS)

    def _start(self, directory: Path, main: str, arguments: Sequence[str], take: Any) -> JavaProcess:
        log = directory / f"{main.rpartition('.')[2]}.log"
        options = ["-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        process = JavaProcess(options, classpath(self._jars), [main, *arguments], log, talk=True)
        reader = threading.Thread(target=self._read, args=(process, take), daemon=True)
        reader.start()

        def end() -> None:
            process.popen.kill()
            reader.join(STOP_SECONDS)
            process.stop(0)

        self._stack.callback(end)
        wait_until(lambda: process.exit_code() is None or bool(self._fail(log)), f"{main} runs")
        return process

    @staticmethod
    def _fail(log: Path) -> None:
        raise AssertionError(f"a Java client ended:\n{tail(log)}")

    @staticmethod
    def _read(process: JavaProcess, take: Any) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            with contextlib.suppress(ValueError):  # half a line of a JVM that was killed
                take(json.loads(line))

    def _produced(self, event: dict[str, Any]) -> None:
        if event["name"] == "producer_send_success":
            self.acked.note(f"java-{event['value']}")
        elif event["name"] == "producer_send_error":
            self.acked.failures.append(f"java-{event['value']}: {event['exception']} {event['message']}")

    def _consumed(self, event: dict[str, Any]) -> None:
        if event["name"] == "record_data" and event["value"].isdecimal():
            self.consumed.note(f"java-{event['value']}")


Load = LibrdkafkaLoad | JavaLoad


@contextlib.contextmanager
def both_loads(jar_dir: Path, bootstrap_servers: str, topic: str) -> Iterator[tuple[Load, Load]]:
    """Run the two kinds of clients on one topic."""
    with (
        JavaLoad(jar_dir, bootstrap_servers, topic) as java,
        LibrdkafkaLoad(bootstrap_servers, topic) as librdkafka,
    ):
        yield java, librdkafka


def read_all(bootstrap_servers: str, topic: str) -> set[str]:
    """Return every value that the brokers have in a topic; Java's are plain numbers, and get `java-` before them."""
    found: set[str] = set()
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "read-all", "enable.auto.commit": False})
    try:
        partitions = list(consumer.list_topics(topic, ACK_SECONDS).topics[topic].partitions)
        left = {}
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), ACK_SECONDS)
            if high > low:
                left[partition] = high
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        deadline = time.monotonic() + ACK_SECONDS
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} of {topic} could not be read to their end"
            for message in consumer.consume(1000, 0.2):
                value, partition = message.value(), message.partition()
                if message.error() is not None or value is None or partition is None:
                    continue
                text = value.decode()
                found.add(f"java-{text}" if text.isdecimal() else text)
                if partition in left and (message.offset() or 0) + 1 >= left[partition]:
                    del left[partition]
    finally:
        consumer.close()
    return found
