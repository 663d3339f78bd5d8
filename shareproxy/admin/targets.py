"""Say where the start offsets of a share group should be put.

In: a caller's wish. Out: frozen values that a plan is made from. Must never: ask anyone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec


class Earliest(msgspec.Struct, frozen=True):
    """To the first offset that still exists: everything in the log is delivered again."""


class Latest(msgspec.Struct, frozen=True):
    """To the end: what is in the log now is skipped."""


class ToOffset(msgspec.Struct, frozen=True):
    """To one offset, the same in each partition.

    Attributes:
        offset: 0 or more.
    """

    offset: int


class ToTime(msgspec.Struct, frozen=True):
    """To the first record that is as late as a moment; to the end where there is none.

    Attributes:
        time: with its time zone.
    """

    time: datetime


class Shift(msgspec.Struct, frozen=True):
    """From where the start offset is now, so many offsets on, or back.

    Attributes:
        by: offsets; negative goes back.
    """

    by: int


Target: TypeAlias = Earliest | Latest | ToOffset | ToTime | Shift

Selection: TypeAlias = Collection[str] | Mapping[str, Collection[int] | None]
"""Topics, or for each topic its partitions (`None`: all of them)."""
