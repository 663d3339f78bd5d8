"""Write records all the time, and keep the offsets that the brokers acknowledged.

In: servers, a topic, a rate. Out: partitions and offsets. Must never: count a record that no broker has.
"""

from __future__ import annotations

import threading
import time
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.drain_chaos.ledger import Place

FLUSH_SECONDS = 120.0


class SteadyProducer:
    """A producer in a thread of its own.

    Args:
        servers: the brokers.
        topic: to write to.
        rate: records a second.
    """

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self.acknowledged: set[Place] = set()
        self.failed = 0
        self._topic, self._rate = topic, rate
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "message.timeout.ms": 120_000}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Write no more, and wait for what is on its way."""
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        self.failed += left

    def _run(self) -> None:
        begun, written = time.monotonic(), 0
        while not self._ending.is_set():
            due = int((time.monotonic() - begun) * self._rate)
            while written < due:
                try:
                    self._producer.produce(self._topic, str(written).encode(), on_delivery=self._note)
                except BufferError:
                    break
                written += 1
            self._producer.poll(0.02)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self.failed += 1
        else:
            self.acknowledged.add((partition, offset))
