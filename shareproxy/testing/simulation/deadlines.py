"""What happens when time has passed: locks and memberships that run out.

In: moments, and what to do then. Out: calls, in the event loop that serves the cluster.
Must never: call anything after `close`.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable, Hashable

Work = Callable[[], None]


class Deadlines:
    """Moments to come; one timer for all of them, as there may be thousands of locks.

    Args:
        now: returns seconds, as the event loop counts them.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._work: dict[Hashable, tuple[float, Work]] = {}
        self._moments: list[tuple[float, int, Hashable]] = []
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._set()

    def close(self) -> None:
        """Forget everything; it belongs into the event loop as well."""
        with self._lock:
            self._work.clear()
            self._moments.clear()
        self._set()
        self._loop = None

    def at(self, moment: float, key: Hashable, work: Work) -> None:
        """Do something then; what the same key has to do earlier stays, and has to ask for more itself."""
        with self._lock:
            known = self._work.get(key)
            if known is not None and known[0] <= moment:
                return
            self._work[key] = moment, work
            self._number += 1
            heapq.heappush(self._moments, (moment, self._number, key))
            is_first = self._moments[0][1] == self._number
        if is_first and self._loop is not None:
            if _running_loop() is self._loop:
                self._set()
            else:
                self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            first = self._moments[0][0] if self._moments else None
        if first is not None and self._loop is not None:
            self._timer = self._loop.call_later(max(0.0, first - self.now()), self._due)

    def _due(self) -> None:
        now = self.now()
        while (work := self._next(now)) is not None:
            work()
        self._set()

    def _next(self, now: float) -> Work | None:
        """Return what is to be done by now, and forget it."""
        with self._lock:
            while self._moments and self._moments[0][0] <= now:
                moment, _, key = heapq.heappop(self._moments)
                known = self._work.get(key)
                if known is not None and known[0] == moment:
                    del self._work[key]
                    return known[1]
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
