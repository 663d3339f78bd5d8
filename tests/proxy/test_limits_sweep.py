"""Limits of time, held by one timer."""

from __future__ import annotations

import asyncio
import math
from typing import Final

import pytest

from shareproxy.config import Limits
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.limits import LEAST_TICK_SECONDS, SLOWEST_BYTES_PER_SECOND, TICK_SECONDS, Sweep, _tick_seconds
from shareproxy.proxy.meter import Meter

pytestmark = pytest.mark.timeout(60)

LIMITS: Final = Limits(unauthenticated_timeout=30, slow_request_timeout=30, idle_timeout=600)


class Watched:
    """A connection as the sweep sees it."""

    def __init__(self, *, receiving: bool = False, idle: bool = True, unproven: CloseReason | None = None) -> None:
        self.client_bytes = self.broker_bytes = 0
        self.receiving, self.idle, self.unproven = receiving, idle, unproven
        self.held_back, self.unsent_bytes = "", 0
        self.refused: list[CloseReason] = []
        self.looks = 0

    def refuse(self, reason: CloseReason, detail: str) -> None:
        """Note it."""
        assert "limits." in detail
        self.refused.append(reason)


class Clock:
    """A sweep whose turns are made by hand, at times of our choice."""

    def __init__(self, *connections: Watched, limits: Limits = LIMITS) -> None:
        self.open, self.meter, self.limits = list(connections), Meter(), limits
        self.sweep = Sweep(lambda: self.limits, self.open, self.meter)
        self.began = math.ceil(asyncio.get_running_loop().time())  # whole, or sums and differences would be rounded
        for connection in connections:
            self.sweep.begin(connection)

    def turn(self, seconds: float) -> None:
        """Let the timer fire so many seconds after the connections came."""
        now = self.began + seconds
        limits = self.limits
        self.sweep._look_at_young(now, limits)
        for connection in self.open:
            self.sweep._look_at(connection, now, limits)

    def end(self) -> None:
        """Close all."""
        while self.open:
            self.sweep.end(self.open.pop())


async def test_client_that_has_done_its_first_steps_stays() -> None:
    """The limit is of the beginning only, and it is not early."""
    proven, silent = Watched(), Watched(unproven=CloseReason.FIRST_REQUEST_TIMEOUT)
    clock = Clock(proven, silent)

    clock.turn(29)
    assert silent.refused == []
    clock.turn(31)
    clock.turn(40)

    assert (proven.refused, silent.refused) == ([], [CloseReason.FIRST_REQUEST_TIMEOUT])
    clock.end()


async def test_request_must_get_on() -> None:
    """A byte now and then is not enough; a KiB a second is, however large the request."""
    slow, fast, waiting = Watched(receiving=True), Watched(receiving=True), Watched(receiving=True)
    clock = Clock(slow, fast, waiting)

    for second in range(0, 100, 5):
        slow.client_bytes += 1
        fast.client_bytes += 5 * SLOWEST_BYTES_PER_SECOND
        waiting.receiving = second != 25  # the broker did not take more at that moment
        clock.turn(second)
        assert fast.refused == []
        assert bool(slow.refused) == (second >= 30)
        assert bool(waiting.refused) == (second >= 55)

    assert set(slow.refused) == {CloseReason.SLOW_REQUEST}
    clock.end()


async def test_idle_means_nothing_sent_and_nothing_due() -> None:
    """A long poll is not idle, and whatever is sent begins the time anew."""
    silent, polling, talking = Watched(), Watched(idle=False), Watched()
    clock = Clock(silent, polling, talking)

    for second in range(0, 900, 100):
        talking.broker_bytes += second == 300
        clock.turn(second)
        assert bool(silent.refused) == (second >= 600)

    assert set(silent.refused) == {CloseReason.IDLE_TIMEOUT}
    assert polling.refused == talking.refused == []
    clock.end()


async def test_idle_has_no_limit_by_default() -> None:
    """Brokers have one."""
    silent = Watched()
    clock = Clock(silent, limits=Limits())

    clock.turn(0)
    clock.turn(100_000)

    assert silent.refused == []
    clock.end()


async def test_side_that_takes_nothing_is_closed() -> None:
    """Not one that takes little, nor one that has taken all in between."""
    stuck, slow, waking = Watched(idle=False), Watched(idle=False), Watched(idle=False)
    clock = Clock(stuck, slow, waking)

    for second in range(0, 2000, 100):
        for connection in (stuck, slow, waking):
            connection.held_back, connection.unsent_bytes = "the client does not read", 500_000
        slow.unsent_bytes -= second
        if second % 500 == 0:
            waking.held_back = ""
        clock.turn(second)
        assert bool(stuck.refused) == (second >= 600)

    assert set(stuck.refused) == {CloseReason.STALLED}
    assert slow.refused == waking.refused == []
    clock.end()


async def test_bytes_that_come_begin_the_time_of_a_stall_anew() -> None:
    """A broker that takes what the client sends is not hanging, though it answers late."""
    busy = Watched(idle=False)
    busy.held_back = "the broker does not answer"
    clock = Clock(busy)

    for second in range(0, 2000, 100):
        busy.client_bytes += second % 500 == 0
        clock.turn(second)

    assert busy.refused == []
    clock.end()


async def test_stall_may_have_no_limit() -> None:
    """With 0."""
    stuck = Watched(idle=False)
    stuck.held_back = "the client does not read"
    clock = Clock(stuck, limits=Limits(stalled_timeout=0.0))

    clock.turn(0)
    clock.turn(100_000)

    assert stuck.refused == []
    clock.end()


async def test_bytes_are_counted_once() -> None:
    """At looks, and the rest at the end."""
    connection = Watched()
    clock = Clock(connection)

    connection.client_bytes = 10
    clock.turn(1)
    clock.turn(2)
    connection.client_bytes, connection.broker_bytes = 15, 7
    clock.end()

    assert (clock.meter.client_bytes, clock.meter.broker_bytes) == (15, 7)


async def test_each_turn_looks_at_a_part() -> None:
    """10,000 connections must not hold the loop at one moment; in a few seconds all have had their turn."""

    class Counting(Watched):
        @property
        def receiving(self) -> bool:
            self.looks += 1
            return False

        @receiving.setter
        def receiving(self, value: bool) -> None:
            pass

    connections = [Counting() for _ in range(1000)]
    clock = Clock(*connections)
    looks = []
    for _ in range(5):
        clock.sweep._tick()
        looks.append(sum(connection.looks for connection in connections))

    assert looks == [200, 400, 600, 800, 1000]
    clock.end()


async def test_timer_runs_while_there_are_clients() -> None:
    """A proxy without clients does not wake up."""
    connection = Watched()
    clock = Clock(connection)
    running = clock.sweep._timer is not None
    clock.sweep._tick()
    clock.end()

    assert running
    assert clock.sweep._timer is None
    assert clock.meter.loop_delay == 0.0


def test_timer_is_never_always_due() -> None:
    """However short a limit is."""
    assert _tick_seconds(Limits(slow_request_timeout=1e-9)) == LEAST_TICK_SECONDS
    assert _tick_seconds(Limits(idle_timeout=2.0)) == 0.5
    assert _tick_seconds(Limits()) == TICK_SECONDS


async def test_lateness_of_the_loop_is_told() -> None:
    """The timer comes as late as everything else."""
    connection = Watched()
    clock = Clock(connection)
    clock.sweep._due -= 7
    clock.sweep._tick()

    assert clock.meter.loop_delay > 5
    clock.end()
