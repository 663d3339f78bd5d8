"""Watching keeps its pace, and survives looks that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from shareproxy.admin import watch as watching
from shareproxy.admin.errors import AccessDenied, AdminError, CannotReach
from shareproxy.admin.results import Snapshot
from shareproxy.admin.watch import watch
from shareproxy.lag.model import GroupLag, LagReport
from shareproxy.protocol.ids import GroupId


class Clock:
    """A clock that moves when somebody sleeps or looks."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looks: list[float] = []

    def time(self) -> float:
        """Return the loop's time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0
        self.now += seconds

    def looking(self, answers: Sequence[LagReport | Exception], takes: Callable[[int], float]) -> watching.Look:
        """Return a look that gives the answers in turn and takes a while."""

        async def look() -> LagReport:
            number = len(self.looks)
            self.looks.append(self.now)
            self.now += takes(number)
            answer = answers[min(number, len(answers) - 1)]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return look


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock in place of the event loop's."""
    clock = Clock()
    monkeypatch.setattr(
        watching, "asyncio", SimpleNamespace(get_running_loop=lambda: clock, sleep=clock.sleep), raising=True
    )
    return clock


def report(number: int = 1) -> LagReport:
    """Return a report that can be told from others."""
    return LagReport("cluster", datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC), (GroupLag(GroupId("g")),), ("old",))


async def take(count: int, look: watching.Look, interval: float = 5.0) -> list[Snapshot]:
    """Return the first snapshots."""
    found: list[Snapshot] = []
    async for snapshot in watch(look, interval):
        found.append(snapshot)
        if len(found) == count:
            break
    return found


async def test_the_pace_does_not_drift(clock: Clock) -> None:
    """However long each look takes, they begin at multiples of the interval."""
    await take(4, clock.looking([report()], lambda number: 0.25 * number))

    assert clock.looks == [100.0, 105.0, 110.0, 115.0]


async def test_a_slow_look_skips_what_it_ran_over(clock: Clock) -> None:
    """No look is made up for."""
    await take(3, clock.looking([report()], lambda number: 12.0 if number == 0 else 0.0))

    assert clock.looks == [100.0, 115.0, 120.0]


async def test_rates_are_between_good_reports(clock: Clock) -> None:
    """None at first; then over the seconds between the two."""
    first, second = await take(2, clock.looking([report(1), report(6)], lambda number: 0.0))

    assert (first.rates, first.seconds, first.fresh) == (None, None, True)
    assert second.seconds == 5.0
    assert second.rates is not None
    assert GroupId("g") in second.rates


async def test_a_failed_look_gives_the_last_good_report(clock: Clock) -> None:
    """With the reason among its problems, marked as not fresh; the next rates span the gap."""
    answers: list[LagReport | Exception] = [report(1), CannotReach("nobody answered"), report(11)]

    _, stale, again = await take(3, clock.looking(answers, lambda number: 0.0))

    assert (stale.fresh, stale.rates, stale.seconds) == (False, None, None)
    assert stale.report.time == report(1).time
    assert stale.report.problems == ("old", "nothing newer is known: nobody answered")
    assert (again.fresh, again.seconds, again.report.problems) == (True, 10.0, ("old",))


async def test_a_cluster_that_is_down_at_first_is_waited_for(clock: Clock) -> None:
    """The first snapshot says that nothing is known."""
    down, up = await take(2, clock.looking([CannotReach("nobody answered"), report()], lambda number: 0.0))

    assert (down.fresh, down.report.groups, down.report.problems) == (False, (), ("nobody answered",))
    assert (up.fresh, up.rates) == (True, None)


async def test_a_refusal_at_first_is_raised(clock: Clock) -> None:
    """A wrong password does not get right by waiting."""
    with pytest.raises(AccessDenied):
        await take(1, clock.looking([AccessDenied("who are you")], lambda number: 0.0))


async def test_a_refusal_later_is_survived(clock: Clock) -> None:
    """Brokers that restart refuse for a while what they knew before."""
    _, stale = await take(2, clock.looking([report(), AccessDenied("who are you")], lambda number: 0.0))

    assert not stale.fresh


async def test_a_bug_is_not_hidden(clock: Clock) -> None:
    """What is not an `AdminError` comes through."""
    with pytest.raises(ZeroDivisionError):
        await take(1, clock.looking([ZeroDivisionError()], lambda number: 0.0))


@pytest.mark.parametrize("during", ["look", "pause"])
async def test_it_ends_when_its_task_is_cancelled(during: str) -> None:
    """Whether it looks or waits."""
    reached = asyncio.Event()

    async def look() -> LagReport:
        reached.set()
        if during == "look":
            await asyncio.get_running_loop().create_future()
        return report()

    task = asyncio.create_task(take(2, look, 3600.0))
    await reached.wait()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_ends_when_it_is_closed() -> None:
    """As `break` does in the end."""
    snapshots = watch(lambda: _soon(report()), 3600.0)
    await anext(snapshots)

    await snapshots.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(snapshots)


async def _soon(report: LagReport | AdminError) -> LagReport:
    assert isinstance(report, LagReport)
    return report
