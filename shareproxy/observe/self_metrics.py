"""Say how the exporter itself is doing; made anew for each scrape, a few kilobytes.

In: the collector's counters and the age of its snapshot. Out: the `shareproxy_*` metrics.
Must never: depend on the number of groups or partitions.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector as Source
from prometheus_client.registry import CollectorRegistry

from shareproxy.observe.collector import Collector
from shareproxy.observe.exposition import EMPTY_PAGE, Format
from shareproxy.observe.labels import Labels
from shareproxy.version import __version__

Requests = Callable[[], Mapping[int, int]]
"""Returns how many requests were sent to brokers, by api_key."""

PREFIX: Final = "shareproxy_"


class OwnPage:
    """The page of what is made anew for each scrape; it ends every answer, or is all of it.

    Args:
        sources: of metrics.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        for source in (*sources, _Build()):
            self._registry.register(source)

    def page(self, form: Format) -> bytes:
        """Return the metrics in one format; in OpenMetrics the mark of the end is there too."""
        if form is Format.OPENMETRICS:
            page: bytes = generate_openmetrics(self._registry)  # type: ignore[no-untyped-call]
            return page
        return generate_latest(self._registry)

    def answer(self, form: Format, *, gzip: bool) -> tuple[Sequence[bytes], int]:
        """Return the pieces of an answer that is this page alone, and its length."""
        return EMPTY_PAGE.with_tail(self.page(form), gzip=gzip)


class _Build(Source):
    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(f"{PREFIX}build_info", "Version; always 1.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build


class SelfMetrics(Source):
    """The metrics about one collector.

    Args:
        collector: whose counters are shown.
        labels: tells how many label values had to be mended.
        requests: tells the requests sent, `None` if nobody counts them.
    """

    def __init__(self, collector: Collector, labels: Labels, requests: Requests | None = None) -> None:
        self._collector, self._labels, self._requests = collector, labels, requests

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        collector = self._collector
        up = collector.failure is None and collector.fresh is not None
        yield _gauge("up", "Whether the last look at the cluster succeeded, at least in part.", int(up))
        if collector.last_duration is not None:
            yield _gauge("collect_duration_seconds", "Time that the last look took.", collector.last_duration)
        if collector.last_success is not None:
            yield _gauge("last_success_timestamp_seconds", "When the last look succeeded.", collector.last_success)
        if collector.age is not None:
            yield _gauge("snapshot_age_seconds", "Age of what the metrics of Kafka show.", collector.age)
        fresh = collector.fresh
        if fresh is not None:
            yield _gauge("snapshot_partial", "Whether something could not be found out.", int(fresh.partial))
            yield _gauge("groups", "Share groups that are shown.", len(fresh.groups))
        errors = CounterMetricFamily(
            f"{PREFIX}collect_errors", "Answers that a look did not get.", labels=["reason", "api"]
        )
        for (reason, api), count in sorted(collector.errors.items()):
            errors.add_metric([reason, api], count)
        yield errors
        yield _counter("looks", "Looks at the cluster that were begun.", collector.looks)
        yield _counter("clamped", "Lags shown as 0 because the start offset lies beyond the end.", collector.clamped)
        yield _counter("replaced_labels", "Names with invalid Unicode that was replaced.", self._labels.replaced)
        if self._requests is not None:
            requests = CounterMetricFamily(f"{PREFIX}requests", "Requests sent to brokers.", labels=["api_key"])
            for api_key, count in sorted(self._requests().items()):
                requests.add_metric([str(api_key)], count)
            yield requests


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, about, value=value)
