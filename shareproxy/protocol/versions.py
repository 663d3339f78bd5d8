"""Ranges of API versions as the schema language writes them: "3", "1-4", "2+", "none"."""

from __future__ import annotations

import re
from typing import Final

import msgspec

HIGHEST: Final = 32767  # int16: an open range ends here
_RANGE: Final = re.compile(r"(\d{1,5})(?:(\+)|-(\d{1,5}))?")


class VersionRange(msgspec.Struct, frozen=True):
    """A closed range of versions; empty if `lowest > highest`.

    Args:
        lowest: first version, ≥ 0.
        highest: last version, `HIGHEST` if open.
    """

    lowest: int
    highest: int

    @staticmethod
    def parse(text: str) -> VersionRange:
        """Read a range.

        Raises:
            ValueError: the text is not a range, or runs backwards.
        """
        text = text.strip()
        if text == "none":
            return NONE
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f'{text!r} is not a version range; write "3", "1-4", "2+" or "none"')
        lowest = int(match[1])
        highest = HIGHEST if match[2] else int(match[3] or match[1])
        if lowest > highest or highest > HIGHEST:
            raise ValueError(f"{text!r} runs backwards or past {HIGHEST}")
        return VersionRange(lowest, highest)

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __and__(self, other: VersionRange) -> VersionRange:
        both = VersionRange(max(self.lowest, other.lowest), min(self.highest, other.highest))
        return both if both else NONE

    def __le__(self, other: VersionRange) -> bool:
        return not self or (other.lowest <= self.lowest and self.highest <= other.highest)

    @property
    def open_ended(self) -> bool:
        """Tell whether the range was written with a plus sign."""
        return self.highest == HIGHEST

    def span(self) -> range:
        """Return the versions one by one."""
        return range(self.lowest, self.highest + 1)

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.open_ended:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE: Final = VersionRange(0, -1)
