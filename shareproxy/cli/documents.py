"""Print answers for programs: JSON and comma-separated values.

In: values of a result's `to_dict`. Out: text on stdout. Must never: print anything else to stdout.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence


def print_json(document: object) -> None:
    """Print one document, indented."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def print_csv(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print comma-separated values below a heading; what is unknown is an empty cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
