"""Draw `top`: what was seen and what the person chose become lines.

In: a history, a state, a size. Out: at most as many lines as the screen has, none wider than it.
Must never: depend on a terminal, a clock or a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.cli.sparkline import BARS, PLAIN_BARS, sparkline
from shareproxy.cli.tables import display_width, printable, shorten
from shareproxy.cli.terminal import Line, Span
from shareproxy.cli.top_columns import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    STATUS,
    TREND,
    Heading,
    Table,
    duration,
    table,
)
from shareproxy.cli.top_history import History
from shareproxy.cli.top_state import State, selected_index

LEAST_WIDTH: Final = 40
LEAST_HEIGHT: Final = 8
GAP: Final = 2
TREND_WIDTH: Final = 30
COMFORTABLE: Final = 24  # a name or a status that long is seldom cut
AFTER_NAMES: Final = 5  # columns from this rank on are worth less than names in full
PATIENCE_SECONDS: Final = 3.0  # a look that takes longer than that is worth a word
AROUND_THE_TABLE: Final = 6  # title, summary, trouble, heading; below: detail, keys

HELP: Final = (
    ("up down, j k", "select a row; also Page Up, Page Down, Home, End"),
    ("Enter", "partitions of the selected group"),
    ("q, Esc", "back; q in the table of groups ends"),
    ("/", "show only names that contain what you type; Esc drops it"),
    ("s, < >, 1-9", "sort by the next column, its neighbours, the nth one"),
    ("r", "reverse the order"),
    ("p, space", "pause and go on"),
    ("+ -", "look less often, more often"),
    ("", ""),
    ("LAG", "offsets that are not done; 5+ means at least 5: some are unknown"),
    ("PRODUCED/S", "offsets per second that came in between two looks"),
    ("DONE/S", "offsets per second that were accepted, rejected or archived"),
    ("DRAIN", "time until nothing is left at these rates"),
    ("-", "not known; STATUS and the line at the bottom say why"),
)


class Moment(msgspec.Struct, frozen=True):
    """What is true while a screen is drawn.

    Attributes:
        clock: the time of day, as text.
        age: seconds since the last good look; `None` before the first.
        unicode: whether the terminal shows more than ASCII.
    """

    clock: str
    age: float | None
    unicode: bool = True


def table_of(history: History, state: State) -> Table:
    """Return the table in front."""
    view, containing = state.view, state.containing
    if state.opened is None:
        groups = history.groups()
        return table(groups, GROUP_COLUMNS, view.sort, reverse=view.reverse, containing=containing, closer=state.closer)
    rows = history.partitions(state.opened) or []
    return table(rows, PARTITION_COLUMNS, view.sort, reverse=view.reverse, containing=containing, closer=state.closer)


def page_of(height: int) -> int:
    """Return how many rows of a table fit."""
    return max(1, height - AROUND_THE_TABLE)


def draw(history: History, state: State, moment: Moment, width: int, height: int) -> list[Line]:
    """Return the whole screen.

    Args:
        history: what was seen.
        state: what the person chose.
        moment: what is true now.
        width: columns of the terminal.
        height: lines of the terminal.
    """
    ellipsis = "…" if moment.unicode else "~"
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        text = f"{LEAST_WIDTH} x {LEAST_HEIGHT} is needed"
        return [_one(text, width, ellipsis)][:height]
    lines = [_title(state, moment, width, ellipsis)]
    if state.help:
        lines += _help(width, height - 2, ellipsis)
    else:
        lines.append(_summary(history, state, width, ellipsis))
        lines.append(_trouble(history, state, moment, width, ellipsis))
        lines += _body(history, state, moment, width, page_of(height), ellipsis)
    lines += [()] * (height - 1 - len(lines))
    lines.append(_keys(state, width, ellipsis))
    return lines


def snapshot(history: History, state: State, moment: Moment, width: int | None) -> list[str]:
    """Return the table of groups as plain text, for `--batch`.

    Args:
        history: what was seen.
        state: how to sort and what to show.
        moment: what is true now.
        width: columns to fit into; `None` for no limit.
    """
    rows = table_of(history, state)
    wide = width or 10_000
    ellipsis = "…" if moment.unicode else "~"
    title = "  ".join(_title_words(state, moment))
    lines: list[Line] = [_one(title, wide, ellipsis), _summary(history, state, wide, ellipsis)]
    lines += _drawn(rows, state, moment, wide, ellipsis, range(len(rows.rows)))
    return ["".join(span.text for span in line).rstrip() for line in lines]


def _title_words(state: State, moment: Moment) -> tuple[str, str, str]:
    where = state.cluster if state.opened is None else state.opened
    return (
        f"shareproxy top {printable(where)}",
        "paused" if state.paused else f"every {state.interval:g} s",
        moment.clock,
    )


def _title(state: State, moment: Moment, width: int, ellipsis: str) -> Line:
    left, *others = _title_words(state, moment)
    right = "  ".join(others)
    left = shorten(left, max(0, width - len(right) - GAP), ellipsis, tail=0)
    blanks = " " * (width - display_width(left) - len(right))
    return (Span(left, "bold"), Span(blanks), Span(right, "bold yellow" if state.paused else ""))


def _summary(history: History, state: State, width: int, ellipsis: str) -> Line:
    if history.report is None:
        return ()
    groups = history.groups()
    if state.opened is not None:
        group = next((row for row in groups if row.group == state.opened), None)
        if group is None:
            return _one(f"group {state.opened} is not there any more; q goes back", width, ellipsis, "yellow")
        members = "members unknown" if group.members is None else _counted(group.members, "member")
        parts = [group.state or "state unknown", members, _lag_words(group.lag, group.known, group.total)]
        return _one(", ".join(parts), width, ellipsis)
    states = Counter(row.state or "state unknown" for row in groups)
    told = ", ".join(f"{count} {name}" for name, count in sorted(states.items(), key=lambda item: -item[1]))
    known, total = sum(row.known for row in groups), sum(row.total for row in groups)
    lags = [row.lag for row in groups if row.lag is not None]
    text = _counted(len(groups), "group") + (f" ({told})" if told else "")
    return _one(f"{text}, {_lag_words(sum(lags) if lags else None, known, total)}", width, ellipsis)


def _lag_words(lag: int | None, known: int, total: int) -> str:
    if lag is None:
        return "lag unknown"
    return f"lag {lag}" if known == total else f"lag {lag} in {known} of {total} partitions, the others unknown"


def _trouble(history: History, state: State, moment: Moment, width: int, ellipsis: str) -> Line:
    if history.failure is not None:
        # how old the numbers are comes first: it has to be read even where the reason is cut off
        old = "nothing seen yet" if moment.age is None else f"{duration(moment.age)} old"
        return _one(f"trying again, {old}: {history.failure}", width, ellipsis, "red")
    if history.report is None:
        return _one("looking for groups" + (ellipsis if moment.unicode else "..."), width, ellipsis, "dim")
    if moment.age is not None and not state.paused and moment.age > state.interval + PATIENCE_SECONDS:
        return _one(f"waiting for an answer, {duration(moment.age)} old", width, ellipsis, "yellow")
    if history.report.problems:
        return _one("; ".join(history.report.problems), width, ellipsis, "yellow")
    return ()


def _body(history: History, state: State, moment: Moment, width: int, page: int, ellipsis: str) -> list[Line]:
    found = table_of(history, state)
    chosen, count = selected_index(state, found.names), len(found.rows)
    # the selected row stays in the middle once there are more rows than fit
    first = max(0, min(chosen - page // 2, count - page))
    numbers = range(first, min(first + page, count))
    lines = _drawn(found, state, moment, width, ellipsis, numbers, chosen, dim=history.failure is not None)
    if not count and history.report is not None:
        lines.append(_one(_why_empty(state), width, ellipsis, "dim"))
    lines += [()] * (page + 1 - len(lines))
    detail = found.rows[chosen].message if count else None
    return [*lines, _one(detail or "", width, ellipsis, "yellow")]


def _why_empty(state: State) -> str:
    if state.containing:
        return f"no name contains {state.containing!r}"
    return "no share group that you may see" if state.opened is None else "no partition is known of this group"


def _drawn(
    found: Table,
    state: State,
    moment: Moment,
    width: int,
    ellipsis: str,
    numbers: range,
    chosen: int | None = None,
    *,
    dim: bool = False,
) -> list[Line]:
    """Draw the heading and some rows."""
    contents = {
        heading.name: max((display_width(row.cells[heading.name]) for row in found.rows), default=0)
        for heading in found.headings
    }
    widths = fit(found.headings, contents, width)
    headings = [heading for heading in found.headings if heading.name in widths]
    names = [
        _aligned(_heading(heading, state, moment), widths[heading.name], heading.right, ellipsis)
        for heading in headings
    ]
    lines: list[Line] = [(Span((" " * GAP).join(names).ljust(width if chosen is not None else 0), "reverse"),)]
    bars = BARS if moment.unicode else PLAIN_BARS
    for index in numbers:
        row, spans = found.rows[index], list[Span]()
        for heading in headings:
            size = widths[heading.name]
            if heading.name == TREND:
                text = sparkline(row.trend, size, bars)
            else:
                text = _aligned(row.cells[heading.name], size, heading.right, ellipsis)
            style = "dim" if dim else row.styles.get(heading.name, "")
            spans += [Span(text, style), Span(" " * GAP)]
        spans.pop()
        if index == chosen:
            used = sum(widths.values()) + GAP * (len(headings) - 1)
            spans = [Span("".join(span.text for span in spans) + " " * (width - used), "reverse")]
        lines.append(tuple(spans))
    return lines


def _heading(heading: Heading, state: State, moment: Moment) -> str:
    if heading.name != state.view.sort:
        return heading.heading
    down = heading.right != state.view.reverse
    return heading.heading + (("▼" if down else "▲") if moment.unicode else ("v" if down else "^"))


def fit(headings: Sequence[Heading], contents: Mapping[str, int], width: int) -> dict[str, int]:
    """Choose the columns that fit, the important ones first, and say how wide each is.

    Args:
        headings: from left to right.
        contents: widest cell by column.
        width: columns of the terminal.
    """
    # the heading has room for the arrow; a status that nobody has needs no column
    natural = {
        heading.name: TREND_WIDTH if heading.name == TREND else max(len(heading.heading) + 1, contents[heading.name])
        for heading in headings
        if heading.name != STATUS or contents[STATUS]
    }
    by_rank = sorted((heading for heading in headings if heading.name in natural), key=lambda heading: heading.rank)
    chosen, left = dict[str, int](), width + GAP

    def grow(most: int) -> None:
        nonlocal left
        for heading in by_rank:
            if heading.name in chosen:
                more = max(0, min(left, min(natural[heading.name], most) - chosen[heading.name]))
                chosen[heading.name] += more
                left -= more

    for heading in by_rank:
        if heading.rank >= AFTER_NAMES:
            grow(COMFORTABLE)
        size = min(heading.least, natural[heading.name]) if heading.least else natural[heading.name]
        if heading.rank and size + GAP > left:
            continue
        chosen[heading.name] = size
        left -= size + GAP
    grow(width)
    return chosen


def _help(width: int, height: int, ellipsis: str) -> list[Line]:
    size = max(len(keys) for keys, _ in HELP) + GAP
    lines: list[Line] = [()]
    for keys, text in HELP:
        lines.append((Span(keys.ljust(size), "bold"), Span(shorten(text, width - size, ellipsis, tail=0))))
    return lines[:height]


def _keys(state: State, width: int, ellipsis: str) -> Line:
    if state.typing is not None:
        room = width - len("filter: ") - 1
        typed = printable(state.typing)
        while display_width(typed) > room:  # what was typed last is what one looks at
            typed = typed[1:]
        return (Span("filter: ", "bold"), Span(typed), Span(" ", "reverse"))
    if state.help:
        return _one("any key goes back", width, ellipsis, "dim")
    filtered = [f"Esc drops filter {state.view.containing!r}"] if state.view.containing else []
    if state.opened is None:
        words = [*filtered, "q quit", "h help", "/ filter", "Enter partitions", "s sort", "r reverse", "p pause"]
    else:
        words = [*filtered, "q back", "h help", "/ filter", "s sort", "r reverse", "p pause"]
    return _one("  ".join(words), width, ellipsis, "dim")


def _one(text: str, width: int, ellipsis: str, style: str = "") -> Line:
    return (Span(shorten(printable(text), width, ellipsis, tail=0), style),) if text else ()


def _aligned(text: str, width: int, right: bool, ellipsis: str) -> str:
    text = shorten(text, width, ellipsis)
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
