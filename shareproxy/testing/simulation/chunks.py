"""Which offsets of a share partition were first handed out together.

In: runs of offsets. Out: the run that an offset belongs to. Must never: change a run once it is there: brokers count
from its size how many records they hand out of one that was delivered often.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class Chunk(NamedTuple):
    """Offsets from `first` to `last` that one fetch was the first to get."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.last - self.first + 1


class Chunks:
    """All chunks of one share partition, in the order of their offsets."""

    def __init__(self) -> None:
        self._rows: list[Chunk] = []

    def add(self, first: int, last: int, *, joins: bool) -> None:
        """Add offsets after all others, to the last chunk or as a new one."""
        if joins and self._rows and self._rows[-1].last + 1 == first:
            self._rows[-1] = Chunk(self._rows[-1].first, last)
        else:
            self._rows.append(Chunk(first, last))

    def at(self, offset: int) -> Chunk | None:
        """Return the chunk that an offset belongs to."""
        position = bisect_right(self._rows, offset, key=_first) - 1
        return self._rows[position] if position >= 0 and offset <= self._rows[position].last else None

    def drop_before(self, offset: int) -> None:
        """Forget the chunks that lie below an offset."""
        count = 0
        while count < len(self._rows) and self._rows[count].last < offset:
            count += 1
        del self._rows[:count]


def _first(chunk: Chunk) -> int:
    return chunk.first
