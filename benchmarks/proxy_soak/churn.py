"""Clients that come and go, well and badly behaved, until they are told to stop.

In: the proxy's address. Out: counts of what was done. Must never: keep anything between two turns.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from shareproxy.admin.errors import AdminError
from shareproxy.sync import ShareAdmin
from tests.support.flooder import GARBAGE, QUESTION, Flooder, most_connections

RESET: Final = struct.pack("ii", 1, 0)
FLOOD: Final = 2_000
FLOOD_EVERY: Final = 60.0
FLOOD_HELD: Final = 3.0
# a flood's memory goes back to the allocator in the next moments, and is not a sample of rest
QUIET_AFTER: Final = 10.0
PAUSE: Final = 0.2
RAW_AT_ONCE: Final = 20
TIMEOUT: Final = 60.0
KINDS_OF_WORK: Final = ("producers", "consumers", "admin clients", "lag look-ups", "raw sockets")


class Churn:
    """Threads of such clients, for as long as a `with` block lasts.

    Args:
        bootstrap_servers: the proxy's.
        topic: to work on.
        group: a share group whose lag is looked up.
        floods: whether there are floods in between.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, *, floods: bool = True) -> None:
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self._begun = time.monotonic()
        host, _, port = bootstrap_servers.rpartition(":")
        self._servers, self._address = bootstrap_servers, (host, int(port))
        self._topic, self._group = topic, group
        self._stop = threading.Event()
        self._last_flood = -QUIET_AFTER
        self._flooding = False
        self._numbers = itertools.count()
        work: list[tuple[Callable[[], None], float]] = [
            (self._produce_and_leave, PAUSE),
            (self._consume_and_leave, PAUSE),
            (self._administrate, 1.0),
            (self._look_up_lag, 1.0),
            (self._raw_sockets, PAUSE),
        ]
        if floods:
            work.append((self._flood, FLOOD_EVERY))
        self._threads = [threading.Thread(target=self._repeat, args=each, daemon=True) for each in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def quiet(self) -> bool:
        """Whether no flood is on, or was a moment ago."""
        return not self._flooding and time.monotonic() - self._last_flood >= QUIET_AFTER

    def _repeat(self, work: Callable[[], None], pause: float) -> None:
        while not self._stop.wait(pause):
            try:
                work()
            except (OSError, KafkaException, AdminError, AssertionError) as error:
                minute = (time.monotonic() - self._begun) / 60
                self.failures.append(f"{minute:.1f} min, {work.__name__.strip('_')}: {type(error).__name__}: {error}")

    def _produce_and_leave(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "acks": "all"})
        for _ in range(20):
            producer.produce(self._topic, b"x" * random.randrange(1, 20_000))
        assert producer.flush(TIMEOUT) == 0, "records were not acknowledged in time"
        self.done["producers"] += 1

    def _consume_and_leave(self) -> None:
        # a few groups again and again: the broker, too, should stay as it is
        group = f"churn-{next(self._numbers) % 10}"
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group, "auto.offset.reset": "latest"})
        try:
            consumer.subscribe([self._topic])
            consumer.consume(20, 1.0)
        finally:
            consumer.close()
        self.done["consumers"] += 1

    def _administrate(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers})
        assert self._topic in admin.list_topics(timeout=TIMEOUT).topics
        admin.list_consumer_groups(request_timeout=TIMEOUT).result()
        self.done["admin clients"] += 1

    def _look_up_lag(self) -> None:
        with ShareAdmin(self._servers) as admin:
            assert admin.lag(self._group, timeout=TIMEOUT).groups[0].lag is not None
        self.done["lag look-ups"] += 1

    def _raw_sockets(self) -> None:
        """Sockets that come in many ways and leave in many."""
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(RAW_AT_ONCE):
                client = stack.enter_context(socket.create_connection(self._address, TIMEOUT))
                clients.append(client)
            for number, client in enumerate(clients):
                match number % 6:
                    case 1:
                        client.sendall(QUESTION)
                        assert client.recv(65_536), "no answer"
                    case 2:
                        client.sendall(QUESTION[:9])
                    case 3:
                        client.sendall(GARBAGE)
                    case 4:
                        client.sendall(QUESTION)
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    case 5:
                        client.sendall(struct.pack(">ihhih", 1_000_000, 0, 9, 1, -1) + bytes(30_000))
        self.done["raw sockets"] += RAW_AT_ONCE

    def _flood(self) -> None:
        self._flooding = True
        try:
            count = min(FLOOD, most_connections())
            with Flooder(self._address[1], count, asking=count // 4, garbage=count // 10) as flood:
                flood.wait_until_settled(answers=count // 4)
                self._stop.wait(FLOOD_HELD)
            self.done["connections of floods"] += count
        finally:
            self._flooding, self._last_flood = False, time.monotonic()
