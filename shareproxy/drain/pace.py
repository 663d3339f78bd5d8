"""Know how quick a caller is with its records, and so how many may be fetched before it asks for them.

In: when it was given records, when it came back, whether it was done with them. Out: a number of records.
Must never: let more be fetched for a slow caller than it asks for: whoever is idle shall have those.
"""

from __future__ import annotations

from typing import Final

# A caller who comes back within this time, with everything acknowledged, finds the next records here already: as many
# as it works off in such a time.
QUICK_SECONDS: Final = 0.05
# what it did in less than this cannot be told from nothing
SHORTEST_SECONDS: Final = QUICK_SECONDS / 100
# so much of what may be fetched ahead is asked for at once: each request takes a broker some milliseconds
LEAST_PART: Final = 0.5


def asked_ahead(ahead: int, ready: int, free: int) -> int:
    """Return how many records to ask for that nobody waits for yet; 0 for none.

    Args:
        ahead: how many may be here before they are asked for.
        ready: how many are.
        free: how many more may be held.
    """
    wanted = min(ahead - ready, free)
    return wanted if wanted >= max(ahead * LEAST_PART, 1) else 0


class Pace:
    """The pace of one caller.

    Args:
        most: records that are ever fetched ahead.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._handed, self._handed_at = 0, float("-inf")
        self.asked_at = float("-inf")
        """When it last came for records, in the event loop's time."""
        self.ahead = 0
        """How many records may be fetched before it asks."""
        self.away = False
        """Whether it has not come for so long that nothing shall be fetched before it does, whatever was set."""

    def handed(self, records: int, now: float) -> None:
        """Note what the caller was given."""
        self._handed, self._handed_at = records, now

    def asked(self, now: float, *, done: bool) -> None:
        """Note that the caller asks for more, and whether it has acknowledged everything that it was given."""
        took = now - self._handed_at
        self.asked_at, self.ahead, self.away = now, 0, False
        if done and took < QUICK_SECONDS:
            self.ahead = min(round(self._handed * QUICK_SECONDS / max(took, SHORTEST_SECONDS)), self._most)

    def stays_away(self) -> None:
        """Note that the caller did not come for what was here."""
        self.ahead, self.away = 0, True
