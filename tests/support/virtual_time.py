"""An event loop whose clock jumps to the next timer: an hour of waiting costs no time, and no test hangs.

In: a coroutine. Out: what it returns. Must never: be used with threads or sockets, which live in real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Returns at once, and notes how long it should have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look for what is there; jump over the time until the next timer."""
        found = super().select(0)
        if not found:
            assert timeout is not None, "everything waits, and no timer is left that could end it"
            self.now += max(timeout, 0.0)
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, from 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._jumping.now


def in_virtual_time(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)


async def turns(number: int = 10) -> None:
    """Let everything go on that can, without time passing."""
    for _ in range(number):
        await asyncio.sleep(0)
