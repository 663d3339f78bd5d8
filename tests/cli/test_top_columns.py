"""Cells and order of the tables of `top`."""

from __future__ import annotations

import pytest

from shareproxy.cli.top import SORT_NAMES as OFFERED
from shareproxy.cli.top_columns import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    SORT_NAMES,
    duration,
    lag_text,
    number,
    ordered,
    rate,
    table,
)
from shareproxy.cli.top_history import GroupRow, PartitionRow


def group(name: str, lag: int | None = 0, **others: object) -> GroupRow:
    """Make a row whose lag is complete if it is known."""
    values = {"state": "Stable", "members": 1, "known": 1, "total": 1, "complete": lag is not None, **others}
    return GroupRow(group=name, lag=lag, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.04, "0"),
        (0.06, "0.1"),
        (9.94, "9.9"),
        (9.96, "10"),
        (123.4, "123"),
        (99_999.0, "99999"),
        (123_456.0, "123k"),
        (12_345_678.0, "12.3M"),
        (3.2e9, "3.2G"),
        (-3.0, "-3.0"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_rates_are_short(value: float | None, text: str) -> None:
    """One decimal where it matters, a unit where the number would be long."""
    assert rate(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (3_599.0, "59m59s"),
        (3_600.0, "1h00m"),
        (90_061.0, "1d01h"),
        (100 * 86_400.0, "100d"),
        (float("inf"), "never"),
        (float("nan"), "-"),
        (-5.0, "0s"),
    ],
)
def test_durations_have_two_units(seconds: float | None, text: str) -> None:
    """The two largest; the smaller one is left out where it says nothing."""
    assert duration(seconds) == text


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    """They are never mixed up."""
    assert number(None) == "-"
    assert number(0) == "0"
    assert lag_text(group("a", None)) == "-"
    assert lag_text(group("a", 0)) == "0"


def test_a_lag_that_misses_partitions_is_marked() -> None:
    """It is a lower bound."""
    assert lag_text(group("a", 5, complete=False)) == "5+"


def names(sort: str, *rows: GroupRow, reverse: bool = False, containing: str = "") -> list[str]:
    """Return the names of rows in order."""
    return [row.group for row in ordered(rows, GROUP_COLUMNS, sort, reverse=reverse, containing=containing)]


def test_numbers_start_with_the_largest_and_names_with_the_first() -> None:
    """What one looks for is on top."""
    rows = [group("b", 1), group("a", 10), group("c", 2)]
    assert names("lag", *rows) == ["a", "c", "b"]
    assert names("group", *rows) == ["a", "b", "c"]
    assert names("lag", *rows, reverse=True) == ["b", "c", "a"]
    assert names("group", *rows, reverse=True) == ["c", "b", "a"]


def test_unknown_comes_last_in_either_direction() -> None:
    """It is neither the smallest nor the largest."""
    rows = [group("a", None), group("b", 1), group("c", 2)]
    assert names("lag", *rows) == ["c", "b", "a"]
    assert names("lag", *rows, reverse=True) == ["b", "c", "a"]


def test_equal_rows_stand_in_the_order_of_their_names() -> None:
    """So that they do not change places from one look to the next."""
    rows = [group("b"), group("c"), group("a")]
    assert names("lag", *rows) == ["a", "b", "c"]
    assert names("lag", *rows, reverse=True) == ["a", "b", "c"]


def test_a_filter_looks_for_a_part_of_the_name_in_any_case() -> None:
    """As a person types it."""
    assert names("lag", group("Orders"), group("payments"), group("reorder"), containing="ORDER") == [
        "Orders",
        "reorder",
    ]


@pytest.mark.parametrize("sort", SORT_NAMES)
def test_each_column_can_be_sorted_by(sort: str) -> None:
    """With known and unknown values beside each other."""
    full = group("a", 3, produced=1.0, completed=2.0, drain=3.0, consumable=3, oldest=4.0, status="no_leader (1)")
    bare = group("b", None, state=None, members=None)
    assert set(names(sort, bare, full)) == {"a", "b"}


def test_the_flag_offers_the_columns_that_there_are() -> None:
    """The command names them itself, because importing the table takes time that `--help` does not need."""
    assert set(OFFERED) == set(SORT_NAMES)


def test_partitions_of_a_topic_stand_in_numeric_order() -> None:
    """2 before 10."""
    rows = [PartitionRow("t", number, 0, 1, 1) for number in (10, 2, 1)] + [PartitionRow("s", 5, 0, 1, 1)]
    assert [row.name for row in ordered(rows, PARTITION_COLUMNS, "topic")] == ["s-5", "t-1", "t-2", "t-10"]


def test_columns_of_a_closer_look_are_there_when_asked_for() -> None:
    """Otherwise they would be empty."""
    without = {heading.name for heading in table([group("a")], GROUP_COLUMNS, "lag").headings}
    with_ = {heading.name for heading in table([group("a")], GROUP_COLUMNS, "lag", closer=True).headings}
    assert with_ - without == {"consumable", "oldest"}


def test_control_characters_of_a_name_never_reach_the_terminal() -> None:
    """Anybody who may make a group chooses its name."""
    [row] = table([group("a\x1b[2Jb")], GROUP_COLUMNS, "lag").rows
    assert row.cells["group"] == "a\\x1b[2Jb"
    assert row.name == "a\x1b[2Jb"
