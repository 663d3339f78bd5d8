"""Turn what was measured into the table of the peers, with bounds.

In: values by row and contestant. Out: text. Must never: leave out a row that was not measured, or a spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

FLOOR, ENVOY, OURS, OURS_ASYNCIO, DIRECT = "floor", "Envoy", "ours (uvloop)", "ours (asyncio)", "direct"
SHOWN: Final = (FLOOR, ENVOY, OURS, OURS_ASYNCIO)

Values = Mapping[str, Sequence[float]]
"""One number per round, by contestant."""


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: with its unit.
        bound: most that ours ÷ Envoy may be.
        aim: what it should be.
    """

    name: str
    bound: float
    aim: float


def spread(values: Sequence[float]) -> str:
    """Return the median, and the lowest and highest value."""
    if not values:
        return "–"
    if len(values) == 1:
        return _short(values[0])
    return f"{_short(statistics.median(values))} ({_short(min(values))}–{_short(max(values))})"


def ratio(values: Values, one: str, other: str) -> float | None:
    """Divide two medians; None if one of them is missing."""
    if not values.get(one) or not values.get(other):
        return None
    base = statistics.median(values[other])
    return statistics.median(values[one]) / base if base else None


def peers_table(rows: Mapping[Row, Values]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"| proxy's own use | {' | '.join(SHOWN)} | ours ÷ Envoy | at most | aim | |",
        "|---" * (len(SHOWN) + 5) + "|",
    ]
    for row, values in rows.items():
        cells = [spread(values.get(name, ())) for name in SHOWN]
        lines.append(
            f"| {row.name} | {' | '.join(cells)} | {_judged(ratio(values, OURS, ENVOY), row.bound, row.aim)} |"
        )
    return "\n".join(lines)


def floor_table(rows: Mapping[str, Values], least: float) -> str:
    """Return throughputs and their ratios to the floor."""
    shown = (DIRECT, *SHOWN)
    lines = [f"| throughput | {' | '.join(shown)} | ours ÷ floor | at least | |", "|---" * (len(shown) + 4) + "|"]
    for name, values in rows.items():
        cells = [spread(values.get(contestant, ())) for contestant in shown]
        found = ratio(values, OURS, FLOOR)
        verdict = "–" if found is None else "met" if found >= least else "**not met**"
        lines.append(f"| {name} | {' | '.join(cells)} | {_short(found)} | {least} | {verdict} |")
    return "\n".join(lines)


def at_most(name: str, value: float, bound: float, aim: float) -> str:
    """Return a line for a figure of ours that has a bound of its own."""
    verdict = "aim met" if value <= aim else "met" if value <= bound else "**not met**"
    return f"{name}: {_short(value)} (at most {_short(bound)}, aim {_short(aim)}): {verdict}"


def _judged(found: float | None, bound: float, aim: float) -> str:
    verdict = "–" if found is None else "aim met" if found <= aim else "met" if found <= bound else "**not met**"
    return f"{_short(found)} | {_short(bound)} | {_short(aim)} | {verdict}"


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
