"""Say what each key does in `top`.

In: the state of the screen and a key. Out: the next state.
Must never: ask the cluster, or touch the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from shareproxy.cli.top_columns import GROUP_COLUMNS, PARTITION_COLUMNS, TREND

# Steps for + and -, in seconds; below half a second a look would ask the brokers more than it tells a person.
INTERVALS: Final = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0)


class View(msgspec.Struct, frozen=True):
    """How one table is shown.

    Attributes:
        sort: name of a column.
        selected: identity of a row; `None` for the first.
    """

    sort: str
    reverse: bool = False
    containing: str = ""
    selected: str | None = None


class State(msgspec.Struct, frozen=True):
    """What the person chose.

    Attributes:
        cluster: how the person named the cluster.
        opened: the group whose partitions are shown; `None` for the table of groups.
        typing: the filter while it is being typed; `None` otherwise.
        interval: seconds between looks.
        closer: whether columns of a closer look are there.
    """

    groups: View = View("lag")
    partitions: View = View("topic")
    cluster: str = ""
    opened: str | None = None
    typing: str | None = None
    help: bool = False
    paused: bool = False
    interval: float = 2.0
    closer: bool = False
    quit: bool = False

    @property
    def view(self) -> View:
        """The table in front."""
        return self.groups if self.opened is None else self.partitions

    @property
    def containing(self) -> str:
        """The filter in force, the one being typed included."""
        return self.view.containing if self.typing is None else self.typing

    def with_view(self, **changes: object) -> State:
        """Return the state with changes to the table in front."""
        view = msgspec.structs.replace(self.view, **changes)
        return self.with_changes(groups=view) if self.opened is None else self.with_changes(partitions=view)

    def with_changes(self, **changes: object) -> State:
        """Return the state with changes."""
        return msgspec.structs.replace(self, **changes)


def sortable(state: State) -> list[str]:
    """Return the names of the columns that the table in front can be sorted by, left to right."""
    headings = [column.heading for column in (GROUP_COLUMNS if state.opened is None else PARTITION_COLUMNS)]
    return [heading.name for heading in headings if heading.name != TREND and (state.closer or not heading.closer)]


def press(state: State, key: str, shown: Sequence[str], page: int) -> State:
    """Return what a key makes of the state.

    Args:
        state: before.
        key: a name of `terminal.Keys`, or the character.
        shown: identities of the rows in front, in order, whether they fit the screen or not.
        page: rows that fit the screen.
    """
    if state.typing is not None:
        return _type(state, key)
    if state.help:
        # any key ends the help, so that nobody is caught in it
        return state.with_changes(help=False)
    moved = _move(state, key, shown, page)
    if moved is not None:
        return moved
    match key:
        case "q":
            return state.with_changes(quit=True) if state.opened is None else _close(state)
        case "escape" if state.view.containing:
            return state.with_view(containing="")
        case "escape" | "backspace" | "left" if state.opened is not None:
            return _close(state)
        case "enter" | "right" if state.opened is None and shown:
            return state.with_changes(opened=_selected(state, shown), partitions=View(state.partitions.sort))
        case "/":
            return state.with_changes(typing=state.view.containing)
        case "h" | "?":
            return state.with_changes(help=True)
        case "p" | " ":
            return state.with_changes(paused=not state.paused)
        case "r":
            return state.with_view(reverse=not state.view.reverse)
        case "s" | ">":
            return _sort_beside(state, 1)
        case "<":
            return _sort_beside(state, -1)
        case "+":
            return state.with_changes(
                interval=next((step for step in INTERVALS if step > state.interval), state.interval)
            )
        case "-":
            shorter = [step for step in INTERVALS if step < state.interval]
            return state.with_changes(interval=shorter[-1] if shorter else state.interval)
        case _ if len(key) == 1 and key in "123456789" and int(key) <= len(sortable(state)):
            return state.with_view(sort=sortable(state)[int(key) - 1], reverse=False)
    return state


def _type(state: State, key: str) -> State:
    assert state.typing is not None
    match key:
        case "enter":
            return state.with_view(containing=state.typing, selected=None).with_changes(typing=None)
        case "escape":
            return state.with_changes(typing=None)
        case "backspace":
            return state.with_changes(typing=state.typing[:-1])
        case "ctrl-u":
            return state.with_changes(typing="")
        case _ if len(key) == 1 and key.isprintable():
            return state.with_changes(typing=state.typing + key)
    return state


def _move(state: State, key: str, shown: Sequence[str], page: int) -> State | None:
    steps = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page-up": -max(1, page),
        "page-down": max(1, page),
        "home": -len(shown),
        "g": -len(shown),
        "end": len(shown),
        "G": len(shown),
    }
    if key not in steps:
        return None
    if not shown:
        return state
    target = selected_index(state, shown) + steps[key]
    return state.with_view(selected=shown[min(max(target, 0), len(shown) - 1)])


def selected_index(state: State, shown: Sequence[str]) -> int:
    """Return the place of the selected row; the first where the selected one is gone."""
    selected = state.view.selected
    return 0 if selected is None or selected not in shown else shown.index(selected)


def _selected(state: State, shown: Sequence[str]) -> str:
    return shown[selected_index(state, shown)]


def _close(state: State) -> State:
    return state.with_changes(opened=None)


def _sort_beside(state: State, step: int) -> State:
    names = sortable(state)
    return state.with_view(sort=names[(names.index(state.view.sort) + step) % len(names)], reverse=False)
