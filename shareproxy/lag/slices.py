"""Do long work on the event loop in slices, so that nobody else on it waits.

In: work that asks between its steps. Out: the loop, for a moment, whenever a slice is used up.
Must never: hold the loop longer than one slice and one step.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

# A proxied request waits at most about this long. A thread would be no better: every time the loop lets go of the
# interpreter lock, the thread keeps it for as long as this.
SLICE_SECONDS: Final = 0.005
# work between two looks at the clock: some tens of microseconds
STEP_ROWS: Final = 200


class Slices:
    """Remember when the present slice ends.

    Args:
        seconds: of work before the others have their turn.
    """

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._end = perf_counter() + seconds

    async def turn(self) -> None:
        """Let the others have their turn if the slice is used up; call it between two steps."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._seconds
