"""Hold a figure against its bound.

In: values of rounds. Out: lines of a table. Must never: call met what was not measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

HEADING = "| what | measured | lowest … highest | bound | |\n|---|---|---|---|---|"


class Figure(NamedTuple):
    """One line of a table.

    Attributes:
        what: is measured.
        values: of the rounds; the median is judged.
        bound: a limit.
        at_least: whether the limit is below; else it is above.
    """

    what: str
    values: Sequence[float]
    bound: float
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether it keeps to its bound; `None` where nothing was measured."""
        if not self.values:
            return None
        median = statistics.median(self.values)
        return median >= self.bound if self.at_least else median <= self.bound

    def line(self) -> str:
        """Return it as a line of a table."""
        bound = f"{'≥' if self.at_least else '≤'} {self.bound:g}"
        if not self.values:
            return f"| {self.what} | – | – | {bound} | – |"
        median, low, high = statistics.median(self.values), min(self.values), max(self.values)
        verdict = "met" if self.met else "**not met**"
        return f"| {self.what} | {median:.2f} | {low:.2f} … {high:.2f} | {bound} | {verdict} |"


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Divide what two contestants had in each round: a busy moment then weighs on both."""
    return [value / other for value, other in zip(values, others, strict=True)]


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print a table."""
    print(f"\n{title}\n\n{HEADING}")
    for figure in figures:
        print(figure.line(), flush=True)
