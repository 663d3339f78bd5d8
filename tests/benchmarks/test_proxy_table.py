"""The peers' table: what is judged, and what is said when something was not measured."""

from __future__ import annotations

import os

from benchmarks.proxy.table import ENVOY, FLOOR, OURS, Row, at_most, floor_table, peers_table, ratio
from benchmarks.proxy.usage import family, processor_seconds, resident_bytes

ROW = Row("small request, µs", 1.5, 1.0)


def test_medians_are_divided_and_judged() -> None:
    """One wild round does not decide."""
    values = {FLOOR: [1.0], ENVOY: [2.0, 2.0, 2.0], OURS: [3.1, 3.1, 99.0]}

    assert ratio(values, OURS, ENVOY) == 1.55
    assert peers_table({ROW: values}).splitlines()[-1].endswith("| 1.55 | 1.5 | 1 | **not met** |")
    values[OURS] = [2.5]
    assert peers_table({ROW: values}).splitlines()[-1].endswith("| 1.25 | 1.5 | 1 | met |")
    values[OURS] = [1.9]
    assert peers_table({ROW: values}).splitlines()[-1].endswith("| 0.95 | 1.5 | 1 | aim met |")


def test_what_is_missing_is_not_judged() -> None:
    """Without Envoy there is no ratio."""
    assert peers_table({ROW: {OURS: [1.0]}}).splitlines()[-1].endswith("| – | 1.5 | 1 | – |")
    assert floor_table({"fetch": {OURS: [1.0]}}, 0.9).splitlines()[-1].endswith("| – | 0.9 | – |")


def test_throughput_has_a_lower_bound() -> None:
    """Against the floor."""
    assert floor_table({"fetch": {FLOOR: [10.0], OURS: [8.0]}}, 0.9).endswith("| 0.8 | 0.9 | **not met** |")
    assert floor_table({"fetch": {FLOOR: [10.0], OURS: [9.5]}}, 0.9).endswith("| 0.95 | 0.9 | met |")


def test_figures_of_our_own_have_bounds_too() -> None:
    """Start and memory."""
    assert at_most("start, ms", 500, 700, 400) == "start, ms: 500 (at most 700, aim 400): met"


def test_usage_is_that_of_the_process() -> None:
    """It has used something, and has no children that are not its own."""
    own = family(os.getpid())

    assert own[0] == os.getpid()
    assert processor_seconds(own[:1]) > 0
    assert resident_bytes(own[:1]) > 1_000_000
