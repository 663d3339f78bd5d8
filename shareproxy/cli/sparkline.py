"""Draw a row of numbers as one line of small bars.

In: numbers, the oldest first, `None` where one is not known. Out: a text of a given width.
Must never: draw something for what is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BARS: Final = "_.-=+*%#"  # for terminals that know ASCII only


def sparkline(values: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """Draw the newest values, from zero to their maximum.

    Args:
        values: oldest first, 0 or more; `None` leaves a gap.
        width: characters; the newest value is the rightmost.
        bars: signs from low to high.
    """
    newest = values[-width:] if width > 0 else ()
    top = max((value for value in newest if value is not None), default=0)
    return "".join(" " if value is None else bars[_level(value, top, len(bars))] for value in newest).rjust(width)


def _level(value: float, top: float, levels: int) -> int:
    # the lowest bar is zero and nothing else: a lag of one among thousands has to show
    if value <= 0 or top <= 0:
        return 0
    return max(1, round(value / top * (levels - 1)))
