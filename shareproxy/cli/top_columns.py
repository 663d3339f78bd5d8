"""Say which columns `top` has, how their cells read, and how rows are sorted and filtered.

In: rows of `top_history`. Out: cells as text, and rows in order.
Must never: write an unknown value as a number; it is "-".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from shareproxy.cli.tables import printable
from shareproxy.cli.top_history import GroupRow, PartitionRow

Row = TypeVar("Row", bound=GroupRow | PartitionRow)
SortValue: TypeAlias = str | float | None

UNKNOWN: Final = "-"
TREND: Final = "trend"
STATUS: Final = "status"

STATE_STYLES: Final = {"Stable": "green", "Empty": "yellow", "Dead": "red"}


class Heading(msgspec.Struct, frozen=True):
    """How one column is laid out.

    Attributes:
        name: for `--sort`.
        heading: on the screen.
        right: flush right, and largest first when sorted by it.
        rank: 0 is always there; of the others the highest goes first where the terminal is too narrow.
        least: columns of the terminal that it needs; 0 for all that its cells take.
        closer: only there when a closer look was asked for.
    """

    name: str
    heading: str
    right: bool = False
    rank: int = 0
    least: int = 0
    closer: bool = False


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """What one column says of a row.

    Attributes:
        text: its cell.
        value: what rows are sorted by; `None` for unknown, which comes last in either direction.
    """

    heading: Heading
    text: Callable[[Row], str]
    value: Callable[[Row], SortValue]


class TableRow(msgspec.Struct, frozen=True):
    """One row as text.

    Attributes:
        name: what the row is called; the selection stays with it when the order changes.
        cells: text by column.
        styles: by column, where there is one.
        trend: for the sparkline.
        message: why something is unknown.
    """

    name: str
    cells: Mapping[str, str]
    styles: Mapping[str, str]
    trend: tuple[int | None, ...] = ()
    message: str | None = None


class Table(msgspec.Struct, frozen=True):
    """Rows in order, and the columns they may have from left to right."""

    headings: tuple[Heading, ...]
    rows: tuple[TableRow, ...]

    @property
    def names(self) -> list[str]:
        """What the rows are called."""
        return [row.name for row in self.rows]


def number(value: int | None) -> str:
    """Write a count in full."""
    return UNKNOWN if value is None else str(value)


def lag_text(row: GroupRow) -> str:
    """Write a group's lag; a sum in which partitions are missing has a plus sign."""
    return number(row.lag) if row.lag is None or row.complete else f"{row.lag}+"


def rate(value: float | None) -> str:
    """Write a rate per second in at most six characters."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if round(abs(value), 1) < 10:
        return f"{value:.1f}" if round(value, 1) else "0"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{0 if unit == 'k' else 1}f}{unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """Write a length of time in its two largest units, as in `3m05s`; "never" for an infinite one."""
    if seconds is None or math.isnan(seconds):
        return UNKNOWN
    if math.isinf(seconds):
        return "never"
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days >= 100:
        return f"{days}d"
    if days:
        return f"{days}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    return f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"


GROUP_COLUMNS: Final[tuple[Column[GroupRow], ...]] = (
    Column(Heading("group", "GROUP", least=10), lambda row: row.group, lambda row: row.group),
    Column(Heading("state", "STATE", rank=2), lambda row: row.state or UNKNOWN, lambda row: row.state),
    Column(Heading("members", "MEMBERS", True, 5), lambda row: number(row.members), lambda row: row.members),
    Column(Heading("partitions", "PARTITIONS", True, 6), lambda row: f"{row.known}/{row.total}", lambda row: row.total),
    Column(Heading("lag", "LAG", True), lag_text, lambda row: row.lag),
    Column(
        Heading("consumable", "CONSUMABLE", True, 4, closer=True),
        lambda row: number(row.consumable),
        lambda row: row.consumable,
    ),
    Column(Heading("produced", "PRODUCED/S", True, 9), lambda row: rate(row.produced), lambda row: row.produced),
    Column(Heading("done", "DONE/S", True, 7), lambda row: rate(row.completed), lambda row: row.completed),
    Column(Heading("drain", "DRAIN", True, 8), lambda row: duration(row.drain), lambda row: row.drain),
    Column(Heading("oldest", "OLDEST", True, 3, closer=True), lambda row: duration(row.oldest), lambda row: row.oldest),
    Column(Heading(TREND, "TREND", rank=10, least=8), lambda row: "", lambda row: None),
    Column(Heading(STATUS, "STATUS", rank=1, least=9), lambda row: row.status, lambda row: row.status or None),
)

PARTITION_COLUMNS: Final[tuple[Column[PartitionRow], ...]] = (
    Column(Heading("topic", "TOPIC", least=10), lambda row: row.topic, lambda row: row.topic),
    Column(Heading("partition", "PARTITION", True), lambda row: str(row.partition), lambda row: row.partition),
    Column(Heading("start", "START", True, 7), lambda row: number(row.start_offset), lambda row: row.start_offset),
    Column(Heading("end", "END", True, 8), lambda row: number(row.end_offset), lambda row: row.end_offset),
    Column(Heading("lag", "LAG", True), lambda row: number(row.lag), lambda row: row.lag),
    Column(
        Heading("consumable", "CONSUMABLE", True, 3, closer=True),
        lambda row: number(row.consumable),
        lambda row: row.consumable,
    ),
    Column(
        Heading("phantom", "PHANTOM", True, 4, closer=True), lambda row: number(row.phantom), lambda row: row.phantom
    ),
    Column(Heading("produced", "PRODUCED/S", True, 6), lambda row: rate(row.produced), lambda row: row.produced),
    Column(Heading("done", "DONE/S", True, 5), lambda row: rate(row.completed), lambda row: row.completed),
    Column(Heading("oldest", "OLDEST", True, 2, closer=True), lambda row: duration(row.oldest), lambda row: row.oldest),
    Column(Heading(STATUS, "STATUS", rank=1, least=9), lambda row: row.status, lambda row: row.status or None),
)

SORT_NAMES: Final = tuple(column.heading.name for column in GROUP_COLUMNS if column.heading.name != TREND)


def table(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    sort: str,
    *,
    reverse: bool = False,
    containing: str = "",
    closer: bool = False,
) -> Table:
    """Filter rows by a part of their name, sort them, and write them as text.

    Args:
        rows: of one kind.
        columns: of the same kind.
        sort: name of a column; numbers start with the largest, names with the first.
        reverse: turn that round; rows whose value is unknown stay at the end.
        containing: what the name has to contain, in any case of letters; "" for all.
        closer: whether the columns of a closer look are wanted.
    """
    shown = [column for column in columns if closer or not column.heading.closer]
    return Table(
        tuple(column.heading for column in shown),
        tuple(_as_text(row, shown) for row in ordered(rows, columns, sort, reverse=reverse, containing=containing)),
    )


def ordered(
    rows: Sequence[Row], columns: Sequence[Column[Row]], sort: str, *, reverse: bool = False, containing: str = ""
) -> list[Row]:
    """Filter and sort rows; the arguments are those of `table`."""
    column = next(column for column in columns if column.heading.name == sort)
    wanted = containing.casefold()
    kept = sorted((row for row in rows if wanted in row.name.casefold()), key=lambda row: row.natural_order)
    known: list[tuple[str | float, Row]] = []
    unknown: list[Row] = []
    for row in kept:
        value = column.value(row)
        if value is None:
            unknown.append(row)
        else:
            known.append((value, row))
    # Python's sort is stable in both directions: equal rows stay in the order of their names
    known.sort(key=lambda pair: pair[0], reverse=column.heading.right != reverse)
    return [*(row for _, row in known), *unknown]


def _as_text(row: Row, columns: Sequence[Column[Row]]) -> TableRow:
    styles = {STATUS: "red", TREND: "cyan", "lag": "bold" if row.lag else "dim" if row.lag is None else ""}
    if isinstance(row, GroupRow):
        styles["state"] = STATE_STYLES.get(row.state or "", "dim")
    return TableRow(
        name=row.name,
        cells={column.heading.name: printable(column.text(row)) for column in columns},
        styles=styles,
        trend=row.trend if isinstance(row, GroupRow) else (),
        message=row.message,
    )
