"""Turn the bytes of a fuzz input into decisions.

In: bytes. Out: numbers, choices and byte strings, the same for the same bytes. Must never: run dry with an error: when
the bytes are used up everything is zero, empty or the first choice, so that an input stays short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A source of decisions, each of which takes one byte or a few."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    @property
    def left(self) -> int:
        """Count the bytes not used yet."""
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        start = self._position
        self._position = min(start + size, len(self._data))
        return self._data[start : self._position]

    def number(self, size: int = 1) -> int:
        """Return an unsigned number of so many bytes."""
        return int.from_bytes(self.take(size))

    def signed(self, size: int) -> int:
        """Return a signed number of so many bytes."""
        value = self.number(size)
        return value - (1 << 8 * size) if value >> (8 * size - 1) else value

    def below(self, limit: int) -> int:
        """Return a number from 0 to below the limit, at most 256."""
        return self.number() % limit

    def seldom(self) -> bool:
        """Decide for the rarer of two ways: once in sixteen."""
        return self.number() >= 240

    def choose(self, choices: Sequence[T]) -> T:
        """Return one of at most 256 choices; the first is the ordinary one."""
        return choices[self.below(len(choices))]

    def blob(self) -> bytes:
        """Return a byte string, mostly short."""
        size = self.number()
        return self.take(size) if size < 240 else bytes((size,)) * self.number(2)
