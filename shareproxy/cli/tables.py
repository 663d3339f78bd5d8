"""Print aligned columns: plain text that `awk` can cut, colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence


def print_columns(heading: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Print a heading and rows, two blanks between columns.

    Args:
        heading: names of the columns.
        rows: cells, as many as the heading has.
        right: columns with numbers, flush right.
    """
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, row in enumerate((heading, *rows)):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        print(f"\x1b[1m{line}\x1b[0m" if bold and number == 0 else line)
