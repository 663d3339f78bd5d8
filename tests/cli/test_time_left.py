"""One deadline for a whole command."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cli.time_left import LEAST, TimeLeft


class Clock:
    """The loop's clock, which a test moves."""

    now = 0.0


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the running loop."""
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock.now)
    return clock


async def test_what_is_left_shrinks(clock: Clock) -> None:
    """A question that comes later has less; one that others follow takes a part."""
    left = TimeLeft(3.0)
    assert (left.seconds(), left.seconds(0.5)) == (3.0, 1.5)
    clock.now = 2.0
    assert (left.seconds(), left.seconds(0.5)) == (1.0, 0.5)


async def test_when_it_is_over_a_moment_is_left(clock: Clock) -> None:
    """Enough for an answer in words; no time at all would be wrong usage."""
    left = TimeLeft(3.0)
    clock.now = 60.0
    assert left.seconds() == LEAST
