"""Keep one deadline for all the questions of a command.

In: the seconds that the person gave. Out: what is left of them for the next question.
Must never: let a second question begin its time anew.
"""

from __future__ import annotations

import asyncio
from typing import Final

LEAST: Final = 0.05  # a question needs some time, if only to fail in its own words


class TimeLeft:
    """The time that a command has; make it where the first question is asked, in the running loop.

    Args:
        seconds: for the whole command.
    """

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds

    def seconds(self, part: float = 1.0) -> float:
        """Return a part of what is left, for a question that others follow; a little above 0 when it is over."""
        return max(LEAST, (self._deadline - asyncio.get_running_loop().time()) * part)
