"""Break something every few seconds, and mend it again.

In: a crew of workers, a cluster, a seed. Out: what was broken, and when. Must never: break so many brokers at once that
the cluster itself may lose records.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from benchmarks.drain_chaos.workers import Crew
from shareproxy.testing.kafka import LocalKafka

PAUSE = (4.0, 12.0)
FROZEN_WORKER = (2.0, 25.0)
FROZEN_BROKER = (2.0, 12.0)
DEAD_BROKER = (1.0, 8.0)


class Faults:
    """What can break.

    Args:
        crew: workers and proxy.
        kafka: three nodes.
        seed: makes the order the same again.
    """

    def __init__(self, crew: Crew, kafka: LocalKafka, seed: int) -> None:
        self._crew, self._kafka = crew, kafka
        self._random = random.Random(seed)
        self.times: list[float] = []
        self.done: Counter[str] = Counter()

    def go_on_until(self, end: float) -> None:
        """Break one thing after the other until then (`time.monotonic()`)."""
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "worker killed": (5, lambda: self._crew.kill(self._place())),
            "worker stopped in order": (2, lambda: self._crew.kill(self._place(), signal.SIGTERM)),
            "worker frozen": (3, self._freeze_worker),
            "lines cut": (3, self._crew.cut_lines),
            "broker killed": (2, self._kill_broker),
            "broker stopped in order": (1, self._stop_broker),
            "broker frozen": (1, self._freeze_broker),
        }
        names, weights = list(kinds), [weight for weight, _ in kinds.values()]
        while time.monotonic() < end:
            time.sleep(self._random.uniform(*PAUSE))
            (name,) = self._random.choices(names, weights)
            self.times.append(time.time())
            kinds[name][1]()
            self.times.append(time.time())
            self.done[name] += 1
            self.done["worker ended by itself"] += self._crew.replace_ended()

    def _place(self) -> int:
        return self._random.randrange(len(self._crew.workers))

    def _freeze_worker(self) -> None:
        place = self._place()
        self._crew.freeze(place)
        time.sleep(self._random.uniform(*FROZEN_WORKER))
        self._crew.freeze(place, thaw=True)

    def _node(self) -> int:
        return self._random.randint(1, 3)

    def _kill_broker(self) -> None:
        self._restart(self._node(), kill=True)

    def _stop_broker(self) -> None:
        self._restart(self._node(), kill=False)

    def _restart(self, node_id: int, *, kill: bool) -> None:
        self._kafka.stop_node(node_id, kill=kill)
        time.sleep(self._random.uniform(*DEAD_BROKER))
        self._kafka.start_node(node_id)

    def _freeze_broker(self) -> None:
        node_id = self._node()
        self._kafka.freeze_node(node_id)
        time.sleep(self._random.uniform(*FROZEN_BROKER))
        self._kafka.thaw_node(node_id)
