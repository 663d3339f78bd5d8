"""Hold connections to the limits of time, by one timer for all of them.

In: connections that come and go, and what they have received. Out: refusals of those that are too slow or do nothing.
Must never: start a timer or read a clock per request, or look at all connections in one turn of the loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import Final, Protocol

from shareproxy.config import Limits
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.meter import Meter

# How often the timer fires while there are clients, and in how long each of them is looked at once. Limits are whole
# seconds and more; shorter ones, as in tests, make both shorter, but never a timer that is always due.
TICK_SECONDS: Final = 1.0
LEAST_TICK_SECONDS: Final = 0.005
PASS_SECONDS: Final = 5.0
# What a client in the middle of a request must send at least: any line that Kafka works on gives more.
SLOWEST_BYTES_PER_SECOND: Final = 1024


class Limited(Protocol):
    """What is looked at: `connection.Connection`."""

    client_bytes: int
    broker_bytes: int

    @property
    def receiving(self) -> bool:
        """Whether a request has come in part, and its rest is read as soon as it comes."""
        ...

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight either way."""
        ...

    @property
    def held_back(self) -> str:
        """Why one side is not read, or empty: nobody would notice its end then."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes for either side that its socket has not taken."""
        ...

    @property
    def unproven(self) -> CloseReason | None:
        """Which of its first steps the client has not taken yet, None once it has taken all."""
        ...

    def refuse(self, reason: CloseReason, detail: str) -> None:
        """Close it."""
        ...


class _Marks:
    """What was seen of a connection at the last look."""

    __slots__ = (
        "broker_bytes",
        "client_bytes",
        "request_began",
        "request_bytes",
        "stalled_since",
        "still_since",
        "unsent_bytes",
    )

    def __init__(self, now: float) -> None:
        self.client_bytes = self.broker_bytes = 0
        self.still_since = self.request_began = self.stalled_since = now
        self.unsent_bytes = 0
        self.request_bytes = 0


class Sweep:
    """The timer of all connections of one proxy; it runs while there are any.

    A limit is kept a few seconds late, and never early.

    Args:
        limits: returns the limits; they may change.
        open: the connections.
        meter: gets the bytes that they received, and how late the event loop is.
    """

    def __init__(self, limits: Callable[[], Limits], open: Collection[Limited], meter: Meter) -> None:
        self._limits, self._open, self._meter = limits, open, meter
        self._loop = asyncio.get_running_loop()
        self._young: dict[Limited, float] = {}  # by when they came
        self._marks: dict[Limited, _Marks] = {}
        self._to_look_at: list[Limited] = []
        self._per_tick = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def begin(self, connection: Limited) -> None:
        """Take a new connection."""
        self._young[connection] = self._loop.time()
        if self._timer is None:
            self._schedule(_tick_seconds(self._limits()))

    def end(self, connection: Limited) -> None:
        """Forget a connection; its last bytes are counted."""
        self._young.pop(connection, None)
        marks = self._marks.pop(connection, None)
        self._count(connection, _Marks(0.0) if marks is None else marks)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._meter.loop_delay = 0.0

    def _schedule(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        limits, now = self._limits(), self._loop.time()
        self._meter.loop_delay = max(now - self._due, 0.0)
        tick = _tick_seconds(limits)
        self._schedule(tick)
        self._look_at_young(now, limits)
        if not self._to_look_at:
            self._to_look_at = list(self._open)
            self._per_tick = math.ceil(len(self._to_look_at) * tick / min(PASS_SECONDS, _shortest(limits) / 2))
        for _ in range(min(self._per_tick, len(self._to_look_at))):
            connection = self._to_look_at.pop()
            if connection in self._open:
                self._look_at(connection, now, limits)

    def _look_at_young(self, now: float, limits: Limits) -> None:
        allowed, due = limits.unauthenticated_timeout, []
        for connection, since in self._young.items():
            if now - since < allowed:
                break
            due.append(connection)
        for connection in due:
            del self._young[connection]
            reason = connection.unproven
            if reason is not None:
                what = "no request" if reason is CloseReason.FIRST_REQUEST_TIMEOUT else "not authenticated"
                connection.refuse(reason, f"{what} within limits.unauthenticated_timeout, {allowed:g} s")

    def _look_at(self, connection: Limited, now: float, limits: Limits) -> None:
        marks = self._marks.get(connection)
        if marks is None:
            marks = self._marks[connection] = _Marks(now)
        if self._count(connection, marks):
            marks.still_since = marks.stalled_since = now
        elif why := self._why_stalled(connection, marks, now, limits.stalled_timeout):
            connection.refuse(CloseReason.STALLED, why)
            return
        elif limits.idle_timeout and now - marks.still_since >= limits.idle_timeout and connection.idle:
            detail = f"nothing was sent within limits.idle_timeout, {limits.idle_timeout:g} s"
            connection.refuse(CloseReason.IDLE_TIMEOUT, detail)
            return
        allowed = limits.slow_request_timeout
        if not connection.receiving:
            marks.request_began, marks.request_bytes = now, connection.client_bytes
        elif now - marks.request_began >= allowed:
            sent = connection.client_bytes - marks.request_bytes
            if sent < SLOWEST_BYTES_PER_SECOND * allowed:
                detail = f"{sent} bytes of a request within limits.slow_request_timeout, {allowed:g} s"
                connection.refuse(CloseReason.SLOW_REQUEST, detail)
            else:
                marks.request_began, marks.request_bytes = now, connection.client_bytes

    def _why_stalled(self, connection: Limited, marks: _Marks, now: float, allowed: float) -> str:
        """Return what has stood still for too long, if anything has: whoever is not read is not seen to end either."""
        held_back = connection.held_back
        unsent_bytes = connection.unsent_bytes if held_back else 0
        if not held_back or unsent_bytes != marks.unsent_bytes:
            marks.stalled_since, marks.unsent_bytes = now, unsent_bytes
        elif allowed and now - marks.stalled_since >= allowed:
            return f"nothing moved within limits.stalled_timeout, {allowed:g} s: {held_back}"
        return ""

    def _count(self, connection: Limited, marks: _Marks) -> bool:
        """Add what was received since the last look to the meter; return whether that was anything."""
        client_bytes = connection.client_bytes - marks.client_bytes
        broker_bytes = connection.broker_bytes - marks.broker_bytes
        if not client_bytes and not broker_bytes:
            return False
        self._meter.client_bytes += client_bytes
        self._meter.broker_bytes += broker_bytes
        marks.client_bytes, marks.broker_bytes = connection.client_bytes, connection.broker_bytes
        return True


def _shortest(limits: Limits) -> float:
    off = math.inf
    longer = min(limits.stalled_timeout or off, limits.idle_timeout or off)
    return min(limits.unauthenticated_timeout, limits.slow_request_timeout, longer)


def _tick_seconds(limits: Limits) -> float:
    return max(LEAST_TICK_SECONDS, min(TICK_SECONDS, _shortest(limits) / 4))
