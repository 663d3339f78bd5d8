"""Lay out aligned columns that fit the terminal: plain text that `awk` can cut.

In: columns and cells. Out: one line per row, never wrapped; into a pipe everything at full length.
Must never: let a control character of somebody's group name reach the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

GAP: Final = "  "
COMFORTABLE: Final = 20  # a name keeps so many characters for as long as a less important column can go instead
SHORTEST: Final = 6  # and this many when nothing else can go


class Column(NamedTuple):
    """How one column is shown.

    Attributes:
        name: its heading.
        right: flush right, for numbers.
        shrinks: its cells may be shortened in the middle, for names.
        rank: 0 stays for ever; of the others the highest is dropped first where the terminal is too narrow.
    """

    name: str
    right: bool = False
    shrinks: bool = False
    rank: int = 0


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a heading and rows, two blanks between columns, as wide as the terminal allows.

    Args:
        columns: from left to right.
        rows: cells, as many as there are columns.
    """
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, line in enumerate(layout(columns, rows, terminal_width(), ellipsis_sign())):
        print(f"\x1b[1m{line}\x1b[0m" if bold and number == 0 else line)


def terminal_width() -> int | None:
    """Return how many characters fit into a line of stdout, `None` where it is not a terminal."""
    if not sys.stdout.isatty():
        return None
    # only here: it brings the archive formats along, which takes longer than printing a table
    import shutil

    return shutil.get_terminal_size().columns


def ellipsis_sign() -> str:
    """Return the sign for what is left out that stdout can show."""
    return "…" if speaks_unicode() else "~"


def speaks_unicode() -> bool:
    """Return whether stdout can show more than ASCII."""
    try:
        "…█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def layout(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None, ellipsis: str = "…"
) -> list[str]:
    """Return the lines of a table.

    Args:
        columns: from left to right.
        rows: cells, as many as there are columns.
        width: characters in a line, `None` for no limit.
        ellipsis: stands for what is left out of a name.
    """
    cells = [[column.name for column in columns], *([printable(cell) for cell in row] for row in rows)]
    wanted = [max(display_width(row[number]) for row in cells) for number in range(len(columns))]
    kept = list(range(len(columns)))
    if width is not None:
        kept, wanted = _fit(columns, wanted, width)
    lines = []
    for row in cells:
        parts = [
            _aligned(shorten(row[number], wanted[number], ellipsis), wanted[number], columns[number].right)
            for number in kept
        ]
        line = GAP.join(parts).rstrip()
        lines.append(line if width is None else shorten(line, width, ellipsis, tail=0))
    return lines


def _fit(columns: Sequence[Column], wanted: Sequence[int], width: int) -> tuple[list[int], list[int]]:
    """Choose columns and widths: names down to a comfortable length, then fewer columns, then short names."""
    kept, widths = list(range(len(columns))), list(wanted)

    def excess() -> int:
        return sum(widths[number] for number in kept) + len(GAP) * (len(kept) - 1) - width

    def shrink(least: int) -> None:
        while (too_many := excess()) > 0:
            long = [number for number in kept if columns[number].shrinks and widths[number] > least]
            if not long:
                return
            widest = max(long, key=lambda number: widths[number])
            # down to the next narrower one, so that the burden is spread
            others = [widths[number] for number in long if widths[number] < widths[widest]]
            widths[widest] = max(widths[widest] - too_many, max(others, default=least) - 1, least)

    def least_of(number: int) -> int:
        return len(columns[number].name)

    shrink(COMFORTABLE)
    while excess() > 0:
        spare = [number for number in kept if columns[number].rank > 0]
        if not spare:
            break
        kept.remove(max(spare, key=lambda number: columns[number].rank))
    # what was cut for a column that had to go in the end is given back
    for number in kept:
        if columns[number].shrinks:
            widths[number] = max(wanted[number], least_of(number))
    shrink(COMFORTABLE)
    shrink(SHORTEST)
    return kept, widths


def printable(text: str) -> str:
    """Return the text with control characters written out, as in `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode() for sign in text
    )


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if _joins(sign, unicodedata.category(sign)) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def _joins(sign: str, category: str) -> bool:
    """Tell whether a sign stands on or in the one before it: accents, vowel signs, the inside of Hangul syllables."""
    return category in ("Mn", "Me") or "\u1160" <= sign <= "\u11ff"


def shorten(text: str, width: int, ellipsis: str = "…", *, tail: int | None = None) -> str:
    """Cut a text in its middle where it is too long.

    Args:
        text: such as a topic's name; both of its ends tell it from its neighbours.
        width: columns of the terminal.
        ellipsis: stands for what is left out, one column wide.
        tail: how many columns of the end are kept, by default about half.
    """
    if display_width(text) <= width:
        return text
    if width < 1:
        return ""
    tail = (width - 1) // 2 if tail is None else tail
    front, back = text, text[len(text) - tail :] if tail else ""
    while front and display_width(front) > width - 1 - tail:
        front = front[:-1]
    while display_width(back) > tail:
        back = back[1:]
    return front + ellipsis + back


def _aligned(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks
