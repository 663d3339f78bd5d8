"""Which member of a share group holds which offsets of a partition, and until when.

In: acquired ranges, renewals, ends. Out: who holds what, and which locks have run out.
Must never: give one offset to two members, or look at a clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple


class Lock(NamedTuple):
    """Offsets from `first` to `last` that a member holds; a deadline of None is never reached."""

    first: int
    last: int
    member: str
    deadline: float | None = None


class Locks:
    """All locks of one share partition, in the order of their offsets."""

    def __init__(self) -> None:
        self._rows: list[Lock] = []

    def take(self, lock: Lock) -> None:
        """Add a lock, in the place of those that hold the same offsets."""
        self._put(lock.first, lock.last, [lock])

    def drop(self, first: int, last: int) -> None:
        """End the locks of a range."""
        self._put(first, last, [])

    def renew(self, first: int, last: int, deadline: float | None) -> None:
        """Let the locks of a range end later."""
        for lock in self.within(first, last):
            self.take(lock._replace(deadline=deadline))

    def within(self, first: int, last: int) -> list[Lock]:
        """Return the locks of a range, cut at its ends."""
        rows = self._rows
        low, high = self._touched(first, last)
        return [row._replace(first=max(row.first, first), last=min(row.last, last)) for row in rows[low:high]]

    def held(self, member: str, first: int, last: int) -> bool:
        """Tell whether a member holds every offset of a range."""
        at = first
        for lock in self.within(first, last):
            if lock.first != at or lock.member != member:
                return False
            at = lock.last + 1
        return at > last

    def due(self, now: float) -> list[Lock]:
        """Return the locks that have run out."""
        return [row for row in self._rows if row.deadline is not None and row.deadline <= now]

    @property
    def next_deadline(self) -> float | None:
        """When the first lock will run out, None for never."""
        return min((row.deadline for row in self._rows if row.deadline is not None), default=None)

    def __iter__(self) -> Iterator[Lock]:
        return iter(tuple(self._rows))

    def _touched(self, first: int, last: int) -> tuple[int, int]:
        low = bisect_left(self._rows, first, key=_last)
        return low, bisect_right(self._rows, last, low, key=_first)

    def _put(self, first: int, last: int, new: list[Lock]) -> None:
        rows = self._rows
        low, high = self._touched(first, last)
        if low < high and rows[low].first < first:
            new = [rows[low]._replace(last=first - 1), *new]
        if low < high and rows[high - 1].last > last:
            new = [*new, rows[high - 1]._replace(first=last + 1)]
        rows[low:high] = new


def _first(lock: Lock) -> int:
    return lock.first


def _last(lock: Lock) -> int:
    return lock.last
