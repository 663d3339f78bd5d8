"""A condition comes in; the test goes on when it holds, or fails with words when its time is over."""

import time
from collections.abc import Callable

POLL_INTERVAL = 0.02  # seconds


def wait_until(condition: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Return when `condition()` is true; fail after `timeout` seconds, naming `what` was awaited."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout:.0f} s"
        time.sleep(POLL_INTERVAL)
