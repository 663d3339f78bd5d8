"""Long work leaves the loop to others."""

from __future__ import annotations

import asyncio

from shareproxy.lag.slices import Slices


async def test_others_have_their_turn_when_a_slice_is_used_up() -> None:
    """A slice of no length is used up at once."""
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    task = asyncio.create_task(other())
    await Slices(0.0).turn()
    turns.append("work")
    await task
    assert turns == ["other", "work"]


async def test_work_goes_on_while_the_slice_lasts() -> None:
    """Nobody is woken for a few microseconds."""
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    task = asyncio.create_task(other())
    await Slices(3_600.0).turn()
    turns.append("work")
    await task
    assert turns == ["work", "other"]
