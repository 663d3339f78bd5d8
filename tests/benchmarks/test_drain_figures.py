"""The tables of the benchmarks of draining: what is judged, and what is not."""

from __future__ import annotations

from benchmarks.drain.figures import Figure, ratios


def test_the_median_is_held_against_the_bound() -> None:
    """One wild round does not decide."""
    assert Figure("worker", [0.85, 0.81, 0.1], 0.8).line() == "| worker | 0.81 | 0.10 … 0.85 | ≥ 0.8 | met |"
    assert Figure("worker", [0.79], 0.8).line().endswith("| ≥ 0.8 | **not met** |")


def test_a_bound_may_be_above() -> None:
    """Memory."""
    assert Figure("MiB", [3.0], 3.0, at_least=False).met
    assert Figure("MiB", [3.1], 3.0, at_least=False).line().endswith("| ≤ 3 | **not met** |")


def test_what_was_not_measured_is_not_judged() -> None:
    """A machine without PostgreSQL."""
    assert Figure("rows", [], 0.9).line() == "| rows | – | – | ≥ 0.9 | – |"
    assert Figure("rows", [], 0.9).met is None


def test_rounds_are_divided_one_by_one() -> None:
    """A busy moment weighs on both."""
    assert ratios([10.0, 1.0], [5.0, 2.0]) == [2.0, 0.5]
