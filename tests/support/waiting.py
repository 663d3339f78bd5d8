"""Wait for conditions instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.05


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return when the condition holds.

    Raises:
        AssertionError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"in {seconds:.0f} s it did not come about that {what}"
        time.sleep(POLL_SECONDS)


async def eventually(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str, seconds: float = WAIT_SECONDS
) -> None:
    """Return when the condition holds, plain or awaited, and let the event loop go on meanwhile.

    Raises:
        AssertionError: it did not in time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        assert loop.time() < deadline, f"in {seconds:.0f} s it did not come about that {what}"
        await asyncio.sleep(POLL_SECONDS)
