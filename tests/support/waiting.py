"""Wait for conditions instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

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
