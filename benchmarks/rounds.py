"""Time contestants in interleaved rounds and compare their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    contestants: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3
) -> dict[str, list[float]]:
    """Run each contestant once per round, in turn.

    Args:
        contestants: what to call, by name.
        rounds: how often.
        warm_up: rounds that are run first and not counted.

    Returns:
        Seconds of each round, by name.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warm_up + rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            call()
            if number >= warm_up:
                times[name].append(time.perf_counter() - start)
    return times


def median_ratio(times: Mapping[str, list[float]], name: str, base: str) -> float:
    """Divide the medians of two contestants."""
    return statistics.median(times[name]) / statistics.median(times[base])


def print_times(times: Mapping[str, list[float]]) -> None:
    """Print median and spread of each contestant in milliseconds."""
    for name, values in times.items():
        ordered = sorted(values)
        print(
            f"  {name:32} median {statistics.median(values) * 1e3:8.2f} ms"
            f"   ({ordered[0] * 1e3:.2f} … {ordered[-1] * 1e3:.2f}, {len(values)} rounds)"
        )
