"""What `top` draws: pure lines from what was seen and what was chosen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import wcwidth
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.cli.terminal import Line
from shareproxy.cli.top_history import History, Look
from shareproxy.cli.top_screen import HELP, LEAST_HEIGHT, LEAST_WIDTH, Moment, draw, fit, page_of, snapshot, table_of
from shareproxy.cli.top_state import State, View
from shareproxy.lag.model import GroupLag, LagReport
from shareproxy.protocol.ids import GroupId
from tests.support.scripted_top import group_of

NOW = Moment("12:34:56", 0.1)


def history_of(*groups: GroupLag, members: int | None = 2, problems: tuple[str, ...] = ()) -> History:
    """Return a history of one look."""
    history = History()
    counts = {} if members is None else {group.group: members for group in groups}
    history.add(Look(LagReport("cluster-1", datetime.now(UTC), groups, problems), members=counts))
    return history


THREE = (
    group_of("orders", {"lags": [5, 7]}),
    group_of("payments", {"lags": [3, None], "state": "Empty"}),
    group_of("refunds", {"lags": [None, None], "state": "Empty"}),
)


def texts(lines: list[Line]) -> list[str]:
    """Return lines without their styles."""
    return ["".join(span.text for span in line).rstrip() for line in lines]


def drawn(history: History, state: State, width: int = 100, height: int = 14, moment: Moment = NOW) -> list[str]:
    """Draw a screen and return its lines without styles."""
    return texts(draw(history, state, moment, width, height))


def test_the_whole_screen() -> None:
    """Title, sum, trouble, table, detail, keys; unknown is a dash with its reason, never a number."""
    assert drawn(history_of(*THREE), State(cluster="kafka:9092")) == [
        "shareproxy top kafka:9092                                                        every 2 s  12:34:56",
        "3 groups (2 Empty, 1 Stable), lag 15 in 3 of 6 partitions, the others unknown",
        "",
        "GROUP     STATE    MEMBERS   PARTITIONS  LAG▼   PRODUCED/S   DONE/S   DRAIN  TREND     STATUS",
        "orders    Stable         2          2/2    12            -        -       -         █",
        "payments  Empty          2          1/2    3+            -        -       -            no_leader (1)",
        "refunds   Empty          2          0/2     -            -        -       -            no_leader (2)",
        *[""] * 6,
        "q quit  h help  / filter  Enter partitions  s sort  r reverse  p pause",
    ]


def test_the_reason_of_the_selected_row_is_at_the_bottom() -> None:
    """As a sentence."""
    lines = drawn(history_of(*THREE), State(View("lag", selected="payments")))
    assert lines[-2] == "orders-1: there is no leader"


def test_partitions_of_a_group() -> None:
    """Each with its offsets; the title names the group."""
    assert drawn(history_of(*THREE), State(opened="payments"), height=9) == [
        "shareproxy top payments                                                          every 2 s  12:34:56",
        "Empty, 2 members, lag 3 in 1 of 2 partitions, the others unknown",
        "",
        "TOPIC▲   PARTITION   START   END   LAG   PRODUCED/S   DONE/S  STATUS",
        "orders           0       0     3     3            -        -",
        "orders           1       -     -     -            -        -  no_leader",
        "",
        "",
        "q back  h help  / filter  s sort  r reverse  p pause",
    ]


def test_a_group_that_is_gone_while_it_is_open() -> None:
    """The way back is named."""
    lines = drawn(history_of(*THREE), State(opened="returns"))
    assert lines[1] == "group returns is not there any more; q goes back"
    assert lines[4] == "no partition is known of this group"


def test_members_that_are_not_known_are_a_dash() -> None:
    """Nobody said that there are none."""
    history = history_of(*THREE, members=None)
    assert drawn(history, State())[4].split()[:3] == ["orders", "Stable", "-"]
    assert "members unknown" in drawn(history, State(opened="orders"))[1]


def test_before_the_first_look() -> None:
    """There is no table to speak of, and no zero."""
    lines = drawn(History(), State())
    assert lines[1:3] == ["", "looking for groups…"]
    assert not any("0" in line for line in lines[1:])


def test_a_failure_is_named_and_the_numbers_are_said_to_be_old() -> None:
    """They are dimmed; how old they are stands first, where it is never cut off."""
    history = history_of(*THREE)
    history.fail("127.0.0.1:9092: connection refused")
    lines = draw(history, State(), Moment("12:34:56", 65.0), 100, 14)
    assert texts(lines)[2] == "trying again, 1m05s old: 127.0.0.1:9092: connection refused"
    assert lines[2][0].style == "red"
    assert {span.style for span in lines[5] if span.text.strip()} == {"dim"}


def test_a_failure_before_the_first_look() -> None:
    """Nothing was seen, so nothing is shown."""
    history = History()
    history.fail("connection refused")
    assert drawn(history, State(), moment=Moment("12:34:56", None))[2] == (
        "trying again, nothing seen yet: connection refused"
    )


def test_brokers_that_could_not_be_asked_are_named() -> None:
    """The table may lack their groups."""
    assert drawn(history_of(*THREE, problems=("broker 2: no answer in time",)), State())[2] == (
        "broker 2: no answer in time"
    )


def test_a_look_that_takes_long_is_named() -> None:
    """But not in a pause, where nobody is asked."""
    late = Moment("12:34:56", 9.0)
    assert drawn(history_of(*THREE), State(), moment=late)[2] == "waiting for an answer, 9s old"
    assert drawn(history_of(*THREE), State(paused=True), moment=late)[2] == ""


def test_a_cluster_without_groups_and_a_filter_without_hits() -> None:
    """Two reasons for an empty table."""
    assert drawn(history_of(), State())[4] == "no share group that you may see"
    assert drawn(history_of(*THREE), State(View("lag", containing="x")))[4] == "no name contains 'x'"


def test_a_filter_while_it_is_typed() -> None:
    """The end of it is what one looks at."""
    lines = drawn(history_of(*THREE), State(typing="pay"))
    assert lines[-1].startswith("filter: pay")
    assert [line.split()[0] for line in lines[4:6] if line] == ["payments"]
    assert drawn(history_of(*THREE), State(typing="x" * 60 + "end"), width=40)[-1].endswith("xend")


def test_a_filter_in_force_is_named() -> None:
    """With the key that drops it."""
    assert drawn(history_of(*THREE), State(View("lag", containing="pay")))[-1].startswith("Esc drops filter 'pay'")


def test_a_pause_is_named() -> None:
    """In place of the interval."""
    assert drawn(history_of(*THREE), State(paused=True))[0].endswith("paused  12:34:56")


def test_help_names_the_keys_and_the_columns() -> None:
    """On a usual screen all of it."""
    lines = drawn(history_of(*THREE), State(help=True), width=80, height=24)
    for keys, text in HELP:
        assert any(line.startswith(keys) and line.endswith(text) for line in lines)


def test_the_selected_row_is_reversed_and_states_have_colours() -> None:
    """So they are found at a glance."""
    lines = draw(history_of(*THREE), State(), NOW, 100, 14)
    assert [span.style for span in lines[4]] == ["reverse"]
    assert ("Empty ", "yellow") in {(span.text[:6], span.style) for span in lines[5]}
    lines = draw(history_of(*THREE), State(View("lag", selected="refunds")), NOW, 100, 14)
    assert ("Stable", "green") in {(span.text[:6], span.style) for span in lines[4]}


def test_many_rows_scroll_with_the_selection_in_the_middle() -> None:
    """The first and the last row are reached."""
    history = history_of(*(group_of(f"g{number:03}", {"lags": [1]}) for number in range(100)))
    page = page_of(14)
    for selected in (0, 50, 99):
        lines = drawn(history, State(View("group", selected=f"g{selected:03}")))
        shown = [int(line[1:4]) for line in lines[4 : 4 + page]]
        assert shown == list(range(shown[0], shown[0] + page))
        assert selected in shown
    assert drawn(history, State(View("group", selected="g000")))[4].startswith("g000")


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (40, ["GROUP", "STATE", "LAG▼", "STATUS"]),
        (60, ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG▼", "STATUS"]),
        (80, ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG▼", "DONE/S", "DRAIN", "STATUS"]),
        (
            120,
            ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG▼", "PRODUCED/S", "DONE/S", "DRAIN", "TREND", "STATUS"],
        ),
    ],
)
def test_a_narrow_screen_keeps_the_important_columns(width: int, columns: list[str]) -> None:
    """Name, lag, and why it is not known, come first."""
    assert drawn(history_of(*THREE), State(), width=width)[3].split() == columns


def test_a_closer_look_has_its_columns() -> None:
    """They come before rates when there is little room: somebody asked for them."""
    heading = drawn(history_of(*THREE), State(closer=True), width=80)[3].split()
    assert {"CONSUMABLE", "OLDEST"} <= set(heading)
    assert "PHANTOM" in drawn(history_of(*THREE), State(closer=True, opened="orders"), width=80)[3]


def test_what_is_left_of_the_width_goes_to_names_first() -> None:
    """A name is cut only where there is no room for it."""
    table = table_of(history_of(*THREE), State())
    contents = {heading.name: 5 for heading in table.headings} | {"group": 30, "status": 0}
    wide, narrow = fit(table.headings, contents, 200), fit(table.headings, contents, 40)
    assert wide["group"] == 30
    assert 10 <= narrow["group"] < 30
    assert "status" not in wide


def test_without_unicode_only_ascii_is_drawn() -> None:
    """Bars, arrows and the sign for what is cut off as well."""
    history = history_of(group_of("a" * 80, {"lags": [1]}))
    for state in (State(), State(help=True), State(opened="a" * 80)):
        assert "".join(drawn(history, state, moment=Moment("12:34:56", 0.1, unicode=False))).isascii()


@pytest.mark.parametrize("size", [(39, 8), (40, 7), (1, 1), (5, 2)])
def test_a_screen_that_is_too_small_says_so(size: tuple[int, int]) -> None:
    """In as much as fits."""
    lines = drawn(history_of(*THREE), State(), *size)
    assert len(lines) == 1
    assert lines[0][: size[0] - 1] == f"{LEAST_WIDTH} x {LEAST_HEIGHT} is needed"[: size[0] - 1].rstrip()
    assert len(lines[0]) <= size[0]


NAMES = st.text(st.sampled_from("ab-界ｗ한😀é\u0301\x1b\n\u202e"), min_size=1, max_size=60)
STATES = st.builds(
    State,
    groups=st.builds(View, sort=st.sampled_from(["lag", "group", "status"]), reverse=st.booleans()),
    opened=st.none() | NAMES,
    typing=st.none() | NAMES,
    help=st.booleans(),
    closer=st.booleans(),
    interval=st.floats(0.5, 1e6),
)


@settings(max_examples=300, deadline=None)
@given(
    names=st.lists(NAMES, max_size=30, unique=True),
    state=STATES,
    lag=st.none() | st.integers(0, 2**63),
    width=st.integers(LEAST_WIDTH, 200),
    height=st.integers(LEAST_HEIGHT, 60),
)
def test_every_screen_fits(names: list[str], state: State, lag: int | None, width: int, height: int) -> None:
    """Exactly as many lines as there are, none wider than the terminal, whatever the names are made of."""
    history = history_of(*(group_of(name, {"lags": [lag, None]}) for name in names), problems=("p" * 300,))
    lines = draw(history, state, NOW, width, height)
    assert len(lines) == height
    for line in texts(lines):
        assert 0 <= wcwidth.wcswidth(line) <= width


def test_wide_names_are_aligned() -> None:
    """A column starts at the same place in each row, counted in columns of the terminal."""
    history = history_of(group_of("支払い", {"lags": [1]}), group_of("refunds", {"lags": [1]}))
    lines = drawn(history, State(View("lag", selected="")))[4:6]
    starts = {wcwidth.wcswidth(line[: line.index("Stable")]) for line in lines}
    assert len(starts) == 1


def test_a_snapshot_is_plain_text() -> None:
    """For files and pipes: the same table, without a selection and without lines that are only there for a screen."""
    assert snapshot(history_of(*THREE[:2]), State(cluster="kafka:9092"), NOW, None) == [
        "shareproxy top kafka:9092  every 2 s  12:34:56",
        "2 groups (1 Stable, 1 Empty), lag 15 in 3 of 4 partitions, the others unknown",
        "GROUP     STATE    MEMBERS   PARTITIONS  LAG▼   PRODUCED/S   DONE/S   DRAIN  TREND" + " " * 27 + "STATUS",
        "orders    Stable         2          2/2    12            -        -       -" + " " * 31 + "█",
        "payments  Empty          2          1/2    3+            -        -       -" + " " * 34 + "no_leader (1)",
    ]


def test_a_group_with_an_error_has_no_lag() -> None:
    """A group that has started nothing is not a group without a backlog."""
    history = history_of(group_of("idle", {"error": "nothing was read yet; start a consumer", "state": "Empty"}))
    lines = drawn(history, State())
    assert lines[4].split() == ["idle", "Empty", "2", "0/0", "-", "-", "-", "-", "nothing_initialized"]
    assert lines[1] == "1 group (1 Empty), lag unknown"
    assert lines[-2] == "nothing was read yet; start a consumer"
    assert history.groups()[0].group == GroupId("idle")
