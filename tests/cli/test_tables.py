"""Plain tables."""

from __future__ import annotations

import pytest

from shareproxy.cli.tables import print_columns


def test_columns_are_aligned_and_numbers_flush_right(capsys: pytest.CaptureFixture[str]) -> None:
    """Two blanks between columns, no blanks at the end, no colour into a pipe."""
    print_columns(("TOPIC", "LAG"), [("orders", "7"), ("a", "1000")], right=[1])
    assert capsys.readouterr().out == "TOPIC    LAG\norders     7\na       1000\n"


def test_a_heading_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table is its heading."""
    print_columns(("A", "B"), [])
    assert capsys.readouterr().out == "A  B\n"
