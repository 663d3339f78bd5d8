"""What each key does in `top`."""

from __future__ import annotations

import pytest

from shareproxy.cli.top_state import INTERVALS, State, View, press, selected_index, sortable

SHOWN = [f"group-{number}" for number in range(10)]


def pressed(state: State, *keys: str, shown: list[str] = SHOWN, page: int = 4) -> State:
    """Press keys one after the other."""
    for key in keys:
        state = press(state, key, shown, page)
    return state


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        (["down"], "group-1"),
        (["j", "j", "k"], "group-1"),
        (["up"], "group-0"),
        (["page-down"], "group-4"),
        (["page-down", "page-down", "page-down"], "group-9"),
        (["end"], "group-9"),
        (["G", "page-up"], "group-5"),
        (["end", "home"], "group-0"),
        (["end", "g"], "group-0"),
    ],
)
def test_keys_move_the_selection_and_stop_at_both_ends(keys: list[str], selected: str) -> None:
    """By one, by a page, to the first or the last."""
    assert pressed(State(), *keys).groups.selected == selected


def test_nothing_moves_in_an_empty_table() -> None:
    """There is nothing to select, and nothing to open."""
    assert pressed(State(), "down", "enter", shown=[]) == State()


def test_the_selection_stays_with_its_row_when_the_order_changes() -> None:
    """And falls back to the first row when its row is gone."""
    state = pressed(State(), "down", "down")
    assert selected_index(state, ["group-9", "group-8", "group-7", "group-2"]) == 3
    assert selected_index(state, ["group-9"]) == 0


def test_enter_opens_the_selected_group_and_back_closes_it() -> None:
    """The table of groups is as it was before."""
    opened = pressed(State(), "down", "enter")
    assert opened.opened == "group-1"
    for back in ("q", "escape", "backspace", "left"):
        closed = pressed(opened, back, shown=[])
        assert closed.opened is None
        assert not closed.quit
        assert closed.groups.selected == "group-1"


def test_q_in_the_table_of_groups_ends() -> None:
    """Escape does not: it is pressed too easily."""
    assert pressed(State(), "q").quit
    assert not pressed(State(), "escape").quit


def test_a_filter_is_in_force_while_it_is_typed() -> None:
    """Enter keeps it."""
    typing = pressed(State(), "/", "p", "a", "x", "backspace")
    assert typing.containing == "pa"
    assert typing.groups.containing == ""
    assert pressed(typing, "enter").groups.containing == "pa"
    assert pressed(typing, "enter").typing is None


def test_escape_gives_up_typing_and_then_drops_the_filter() -> None:
    """One step back at a time."""
    state = pressed(State(), "/", "p", "enter", "/", "x", "escape")
    assert state.containing == "p"
    assert pressed(state, "escape").containing == ""


def test_every_character_can_be_typed_into_a_filter() -> None:
    """Those that are keys elsewhere, too; other keys do nothing."""
    assert pressed(State(), "/", *"qhrps /支", "up", "tab").typing == "qhrps /支"
    assert pressed(State(), "/", "a", "b", "ctrl-u").typing == ""


def test_a_filter_belongs_to_its_table() -> None:
    """Partitions of a group are not filtered by a part of the group's name."""
    opened = pressed(State(), "/", "g", "enter", "enter")
    assert opened.containing == ""
    assert pressed(opened, "q").containing == "g"


def test_s_goes_through_the_columns_and_around() -> None:
    """Each column can be reached; a trend cannot be sorted by."""
    state, seen = State(), []
    for _ in sortable(state):
        seen.append(state.view.sort)
        state = pressed(state, "s")
    assert sorted(seen) == sorted(sortable(state))
    assert state.view.sort == "lag"
    assert "trend" not in seen


def test_neighbours_and_numbers_choose_a_column() -> None:
    """< and > go left and right, 1 is the first; a number without a column does nothing."""
    assert pressed(State(), "<").view.sort == "partitions"
    assert pressed(State(), ">").view.sort == "produced"
    assert pressed(State(), "1").view.sort == "group"
    assert pressed(State(), "0").view.sort == "lag"
    few = State(opened="g")
    assert len(sortable(few)) < 9
    assert pressed(few, "9").view.sort == "topic"


def test_columns_of_a_closer_look_are_only_sorted_by_when_they_are_there() -> None:
    """One would not see what the order means."""
    assert "oldest" not in sortable(State())
    assert "oldest" in sortable(State(closer=True))
    assert "phantom" in sortable(State(closer=True, opened="g"))


def test_a_new_column_starts_in_its_own_direction() -> None:
    """The reversed order of another column says nothing about this one."""
    reversed_ = pressed(State(), "r")
    assert reversed_.view.reverse
    assert not pressed(reversed_, "s").view.reverse
    assert not pressed(reversed_, "r").view.reverse


def test_the_table_of_partitions_has_an_order_of_its_own() -> None:
    """Which it keeps from one group to the next."""
    state = pressed(State(), "enter", ">", ">", "q", "down", "enter")
    assert state.partitions == View("start")
    assert state.groups.sort == "lag"


@pytest.mark.parametrize("key", ["p", " "])
def test_pause_and_go_on(key: str) -> None:
    """The same key does both."""
    assert pressed(State(), key).paused
    assert not pressed(State(), key, key).paused


def test_any_key_ends_the_help() -> None:
    """q as well, without ending the program."""
    for key in ("h", "?"):
        assert pressed(State(), key).help
    assert pressed(State(), "h", "q") == State()


def test_the_interval_has_steps_and_ends() -> None:
    """A value between two steps goes to the nearest in that direction."""
    assert pressed(State(interval=2.0), "+").interval == 3.0
    assert pressed(State(interval=2.5), "-").interval == 2.0
    assert pressed(State(interval=INTERVALS[0]), "-").interval == INTERVALS[0]
    assert pressed(State(interval=INTERVALS[-1]), "+").interval == INTERVALS[-1]
    assert pressed(State(interval=1000.0), "+").interval == 1000.0


@pytest.mark.parametrize("key", ["x", "tab", "delete", "ctrl-a", "left", "escape", "backspace"])
def test_other_keys_do_nothing(key: str) -> None:
    """In the table of groups."""
    assert pressed(State(), key) == State()
