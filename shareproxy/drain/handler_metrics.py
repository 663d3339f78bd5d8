"""Count what becomes of records that handlers work on, and show it to Prometheus.

In: what a worker notes. Out: metric families `shareproxy_worker_…`, each with the label `group`.
Must never: cost more than a few additions for each record, or use one name for two things.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PREFIX: Final = "shareproxy_worker_"
# from a handler that only counts to one that renders a film
HANDLER_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
# from "just produced" to a backlog of a week
AGE_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)


class Histogram:
    """Counts of values up to each of some bounds.

    Args:
        bounds: ascending.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return bound and number of values up to it, as Prometheus wants them."""
        below, found = 0, []
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            below += count
            found.append(("+Inf" if bound == float("inf") else str(bound), float(below)))
        return found


class HandlerCounts:
    """What one worker has counted since its start.

    Attributes:
        records: records handed to this worker.
        redelivered: of these, those that had been handed to somebody before.
        outcomes: records whose acknowledgement a broker confirmed, by `accept`, `release`, `reject`.
        refused: records whose acknowledgement did not count, by Kafka's error code; `None`: no answer came.
        failures: calls of the handler that raised, by the exception's name.
        retries: failed records by where they are tried again: `in_place` or `released`.
        timed_out: calls that reached the time limit.
        lock_lost: records whose lock ran out during their handling, so that others may have them too.
        dropped: records whose lock had run out before anybody began with them.
        not_rejected: records that will never work and were released, for want of a dead-letter queue that works.
        given_up: records released in their last delivery: the brokers drop them, or move them to a dead-letter queue.
        undecodable: records whose key or value could not be read.
        queued: records in hand that wait for a free slot.
        running: records that a handler works on now.
        waiting: records in hand that wait for their next try.
        handler_seconds: how long the calls took.
        age_seconds: how old records were when they were handed to this worker.
        events: what else happened to the consumer, by name.
    """

    def __init__(self) -> None:
        self.records = self.redelivered = 0
        self.outcomes: Counter[str] = Counter(accept=0, release=0, reject=0)
        self.refused: Counter[int | None] = Counter()
        self.failures: Counter[str] = Counter()
        self.retries: Counter[str] = Counter(in_place=0, released=0)
        self.timed_out = self.lock_lost = self.dropped = self.not_rejected = 0
        self.given_up = self.undecodable = 0
        self.queued = self.running = self.waiting = 0
        self.handler_seconds, self.age_seconds = Histogram(HANDLER_BUCKETS), Histogram(AGE_BUCKETS)
        self.events: Counter[str] = Counter()

    @property
    def in_hand(self) -> int:
        """Records that are neither done nor given back."""
        return self.queued + self.running + self.waiting


class HandlerCollector:
    """Shows counts to prometheus_client; register it with a registry.

    Args:
        counts: of one worker.
        group: its share group.
    """

    def __init__(self, counts: HandlerCounts, group: str) -> None:
        self._counts, self._group = counts, group

    def describe(self) -> Iterator[Metric]:
        """Return the families without asking for values."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Return each family with its values of now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        counts, group = self._counts, self._group
        for name, text, value in (
            ("records", "Records handed to this worker.", counts.records),
            ("redelivered", "Records that had been handed out before.", counts.redelivered),
            ("timed_out", "Calls of the handler that reached the time limit.", counts.timed_out),
            ("lock_lost", "Records whose lock ran out during their handling.", counts.lock_lost),
            ("dropped", "Records whose lock had run out before their handling began.", counts.dropped),
            ("not_rejected", "Records released instead of rejected, without a dead-letter queue.", counts.not_rejected),
            ("given_up", "Records released in their last delivery.", counts.given_up),
            ("undecodable", "Records whose key or value could not be read.", counts.undecodable),
        ):
            family = CounterMetricFamily(PREFIX + name, text, labels=("group",))
            family.add_metric((group,), value)
            yield family
        for name, text, label, values in (
            ("outcomes", "Records whose acknowledgement a broker confirmed.", "outcome", counts.outcomes),
            ("refused", "Records whose acknowledgement did not count.", "code", _codes(counts.refused)),
            ("failures", "Calls of the handler that raised.", "error", counts.failures),
            ("retries", "Records to be tried again.", "where", counts.retries),
            ("events", "What else happened to the consumer.", "event", counts.events),
        ):
            family = CounterMetricFamily(PREFIX + name, text, labels=("group", label))
            for value_of_label, number in sorted(values.items()):
                family.add_metric((group, value_of_label), number)
            yield family
        in_hand = GaugeMetricFamily(PREFIX + "in_hand", "Records in hand.", labels=("group", "state"))
        for state in ("queued", "running", "waiting"):
            in_hand.add_metric((group, state), getattr(counts, state))
        yield in_hand
        for name, text, histogram in (
            ("handler_seconds", "How long calls of the handler took.", counts.handler_seconds),
            ("record_age_seconds", "How old records were when they came to this worker.", counts.age_seconds),
        ):
            shown = HistogramMetricFamily(PREFIX + name, text, labels=("group",))
            shown.add_metric((group,), histogram.buckets(), histogram.total)
            yield shown


def _codes(refused: Counter[int | None]) -> dict[str, int]:
    return {"no_answer" if code is None else str(code): number for code, number in refused.items()}
