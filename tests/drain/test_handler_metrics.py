"""What a worker counted, as Prometheus sees it."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from shareproxy.drain.handler_metrics import PREFIX, HandlerCollector, HandlerCounts, Histogram

PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "write-a-worker.md").read_text(encoding="utf-8")


def shown(counts: HandlerCounts) -> str:
    """Return the text that is scraped."""
    registry = CollectorRegistry()
    registry.register(HandlerCollector(counts, "mails"))
    return generate_latest(registry).decode()


def test_counts_carry_the_group() -> None:
    """And what is counted by kind has that as well."""
    counts = HandlerCounts()
    counts.records, counts.waiting = 7, 2
    counts.outcomes["accept"] = 5
    counts.refused[121] += 1
    counts.refused[None] += 2
    counts.failures["ValueError"] += 3

    text = shown(counts)

    for line in (
        'records_total{group="mails"} 7.0',
        'outcomes_total{group="mails",outcome="accept"} 5.0',
        'refused_total{code="121",group="mails"} 1.0',
        'refused_total{code="no_answer",group="mails"} 2.0',
        'failures_total{error="ValueError",group="mails"} 3.0',
        'in_hand{group="mails",state="waiting"} 2.0',
    ):
        assert PREFIX + line in text or PREFIX + _swapped(line) in text


def _swapped(line: str) -> str:
    """Return a line with its two labels the other way round: their order means nothing."""
    return re.sub(r"\{(.*?),(.*?)\}", r"{\2,\1}", line)


def test_outcomes_are_there_before_the_first() -> None:
    """So that a rate can be taken from the start."""
    assert 'outcome="reject"} 0.0' in shown(HandlerCounts())


def test_a_histogram_counts_up_to_each_bound() -> None:
    """A value on a bound belongs to it."""
    histogram = Histogram((1.0, 5.0))
    for value in (0.5, 1.0, 3.0, 100.0):
        histogram.observe(value)

    assert histogram.buckets() == [("1.0", 2), ("5.0", 3), ("+Inf", 4)]
    assert (histogram.count, histogram.total) == (4, 104.5)


def test_the_guide_names_each_metric() -> None:
    """And no other."""
    table = PAGE[PAGE.index("| metric `shareproxy_worker_…`") :]
    documented = set(re.findall(r"`([a-z_]+)(?:\{[a-z]+\})?`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M))))
    families = {family.name for family in HandlerCollector(HandlerCounts(), "g").describe()}

    assert {name.removesuffix("_total") for name in documented} == {name.removeprefix(PREFIX) for name in families}
