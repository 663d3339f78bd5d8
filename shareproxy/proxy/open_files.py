"""Say how many file descriptors this process has open, and how many it may have.

In: nothing. Out: two numbers, counted anew now and then. Must never: be asked on the data path, as counting 20,000
descriptors takes milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import Final

COUNT_EVERY_SECONDS: Final = 15.0
# Linux has the first one, macOS and the BSDs the second, Windows none.
_DIRECTORIES: Final = ("/proc/self/fd", "/dev/fd")


class OpenFiles:
    """Counts, and remembers the result for a while.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counted_at: float | None = None
        self._found: tuple[int, int] | None = None

    def __call__(self) -> tuple[int, int] | None:
        """Return open file descriptors and their limit; None where the system does not tell."""
        now = self._clock()
        if self._counted_at is None or now - self._counted_at >= COUNT_EVERY_SECONDS:
            self._counted_at, self._found = now, count_open_files()
        return self._found


def count_open_files() -> tuple[int, int] | None:
    """Count now."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for directory in _DIRECTORIES:
        try:
            return len(os.listdir(directory)) - 1, limit  # without the one that lists them
        except OSError:
            continue
    return None
