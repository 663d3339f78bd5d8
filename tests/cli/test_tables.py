"""Tables that fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.cli import tables
from shareproxy.cli.tables import Column, display_width, layout, print_table, printable, shorten

COLUMNS = (Column("TOPIC", shrinks=True), Column("PARTITION", right=True), Column("END", right=True, rank=1))
LONG = "payments-settled-by-card-in-europe-west-1"


def test_columns_are_aligned_and_numbers_flush_right(capsys: pytest.CaptureFixture[str]) -> None:
    """Two blanks between columns, no blanks at the end, no colour into a pipe."""
    print_table((Column("TOPIC"), Column("LAG", right=True)), [("orders", "7"), ("a", "1000")])
    assert capsys.readouterr().out == "TOPIC    LAG\norders     7\na       1000\n"


def test_a_heading_without_rows() -> None:
    """An empty table is its heading."""
    assert layout((Column("A"), Column("B")), []) == ["A  B"]


def test_into_a_pipe_everything_is_written_out() -> None:
    """What a program reads is never shortened."""
    assert layout(COLUMNS, [(LONG, "0", "11")])[1] == f"{LONG}          0   11"


def test_a_long_name_is_shortened_in_its_middle_first() -> None:
    """Both ends tell a name from its neighbours, and no number is lost."""
    assert layout(COLUMNS, [(LONG, "0", "11")], 44) == [
        "TOPIC                         PARTITION  END",
        "payments-settl…europe-west-1          0   11",
    ]


def test_then_the_least_important_column_goes() -> None:
    """Dropping a column beats a name of which nothing is left, and gives the name its room back."""
    lines = layout(COLUMNS, [("payments-settled", "0", "11")], 28)
    assert lines == ["TOPIC             PARTITION", "payments-settled          0"]


def test_columns_go_by_rank() -> None:
    """The highest rank first; rank 0 stays."""
    columns = (Column("A"), Column("B", rank=1), Column("C", rank=2))
    rows = [("aaaa", "bbbb", "cccc")]
    assert layout(columns, rows, 13)[0].split() == ["A", "B"]
    assert layout(columns, rows, 9)[0].split() == ["A"]


def test_a_terminal_of_no_width_at_all() -> None:
    """Nothing fits, nothing breaks, nothing wraps."""
    assert layout(COLUMNS, [(LONG, "0", "11")], 3) == ["TO…", "pa…"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    """A group may be named so that it would clear the screen."""
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert layout((Column("GROUP"),), [("x\x1b[2J",)])[1] == "x\\x1b[2J"


def test_wide_characters_count_twice() -> None:
    """Group names may be of any script."""
    assert display_width("群組") == 4
    lines = layout((Column("GROUP"), Column("LAG")), [("群組", "1"), ("abcd", "2")])
    assert lines[1:] == ["群組   1", "abcd   2"]


@pytest.mark.parametrize(("width", "text"), [(10, "abcdefghij"), (7, "abc…hij"), (6, "abc…ij"), (1, "…"), (0, "")])
def test_shortening_keeps_both_ends(width: int, text: str) -> None:
    """As much of the front as of the back, or one more."""
    assert shorten("abcdefghij", width) == text


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.text(max_size=60), st.integers(0, 10**12).map(str), st.integers(0, 10**6).map(str)), max_size=5
    ),
    st.integers(1, 200),
)
def test_no_line_is_ever_wider_than_the_terminal(rows: list[tuple[str, str, str]], width: int) -> None:
    """Whatever the names are, a line is a line."""
    lines = layout(COLUMNS, rows, width)
    assert len(lines) == len(rows) + 1
    assert all(display_width(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


def test_the_heading_is_bold_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And only there; NO_COLOR turns it off."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(tables, "terminal_width", lambda: 40)
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table((Column("A"),), [("1",)])
    assert capsys.readouterr().out == "\x1b[1mA\x1b[0m\n1\n"
    monkeypatch.setenv("NO_COLOR", "1")
    print_table((Column("A"),), [("1",)])
    assert capsys.readouterr().out == "A\n1\n"
