"""Write the records that are drained.

In: a topic, how many, how large. Out: records on the broker. Must never: be measured.
"""

from __future__ import annotations

import struct
import time

from confluent_kafka import Producer

PARTITIONS = 4


def fill(servers: str, topic: str, count: int, size: int) -> None:
    """Write so many records of so many bytes, the same number to each partition."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 65_536})
    value = bytes(size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(60):
        raise RuntimeError(f"not all of {count} records were written")


def trickle(servers: str, topic: str, count: int, pause: float) -> None:
    """Write records that hold the nanosecond they were written in, one after the other."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, struct.pack(">q", time.time_ns()) + bytes(92), partition=number % PARTITIONS)
        producer.poll(pause)
    if producer.flush(60):
        raise RuntimeError(f"not all of {count} records were written")
