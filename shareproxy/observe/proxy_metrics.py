"""Turn what the proxy counted into metrics.

In: the dict of its meter, of one process or added up over several. Out: the `shareproxy_proxy_*` metrics.
Must never: count anything itself, or give a label a value that clients can choose freely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector as Source

PREFIX: Final = "shareproxy_proxy_"


class _About(NamedTuple):
    """A metric's name in the dict, its label if it has one, and what it is."""

    name: str
    label: str
    about: str


COUNTERS: Final = (
    _About(
        "connections_opened", "node_id", "Client connections accepted, by the node id or `bootstrap` they asked for."
    ),
    _About("connections_closed", "reason", "Client connections that ended, by the reason in the log."),
    _About("requests", "api", "Clients' requests that were answered, or need no answer."),
    _About("lost_requests", "api", "Clients' requests whose connection ended before their answer."),
    _About("request_bytes", "api", "Bytes of the requests counted in shareproxy_proxy_requests_total."),
    _About("answer_bytes", "api", "Bytes of their answers, as the brokers sent them."),
    _About("received_bytes", "side", "Bytes that came from clients and from brokers."),
    _About("broker_connects", "outcome", "Searches for a broker on behalf of a client."),
    _About("lag_lookups", "outcome", "Look-ups of a group's lag for a client."),
    _About("lag_rows", "source", "Partitions of those look-ups, by where their lag was found."),
)
GAUGES: Final = (
    _About("connections", "node_id", "Client connections that are open."),
    _About("max_connections", "", "Client connections that may be open."),
)
# of several processes the one that is worst off is shown
EXTREMES: Final = (
    _About("loop_delay_seconds", "", "How late the event loop last was; 0 without clients."),
    _About("open_fds", "", "Open file descriptors, of the worker that has most."),
    _About("max_fds", "", "Limit of open file descriptors, of the worker that has the lowest."),
)
HISTOGRAMS: Final = (
    _About(
        "added_latency_seconds", "direction", "Time from a chunk's arrival to its being handed to the other socket."
    ),
    _About("broker_connect_seconds", "", "Time that a successful search for a broker took."),
    _About("lag_lookup_seconds", "", "Time that a client waited for a look-up of lag."),
)
ANSWER_SECONDS: Final = _About(
    "broker_answer_seconds", "api", "Time from a request's being handed to the broker to its answer, for some of them."
)

Read = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Returns the meter's dict."""


class ProxyMetrics(Source):
    """The metrics about the proxy.

    Args:
        read: tells what was counted.
    """

    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the families; those of which nothing was counted yet have no sample."""
        counted = self._read()
        for about in COUNTERS:
            counter = CounterMetricFamily(PREFIX + about.name, about.about, labels=[about.label])
            for label, value in sorted(counted["counters"].get(about.name, {}).items()):
                counter.add_metric([label], value)
            yield counter
        for about in GAUGES:
            gauge = GaugeMetricFamily(PREFIX + about.name, about.about, labels=_labels(about.label))
            for label, value in sorted(counted["gauges"].get(about.name, {}).items()):
                gauge.add_metric(_labels(label), value)
            yield gauge
        extremes = {**counted["highest"], **counted["lowest"]}
        for about in EXTREMES:
            if about.name in extremes:
                yield GaugeMetricFamily(PREFIX + about.name, about.about, value=extremes[about.name])
        for about in HISTOGRAMS:
            yield _histogram(about, counted["histograms"].get(about.name, {}))
        yield _answers(counted["counters"])


def _labels(label: str) -> list[str]:
    return [label] if label else []


def _histogram(about: _About, by_label: Mapping[str, Mapping[str, Any]]) -> Metric:
    family = HistogramMetricFamily(PREFIX + about.name, about.about, labels=_labels(about.label))
    for label, histogram in sorted(by_label.items()):
        total, buckets = 0, []
        for bound, count in zip((*map(str, histogram["bounds"]), "+Inf"), histogram["counts"], strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(_labels(label), buckets, histogram["sum"])
    return family


def _answers(counters: Mapping[str, Mapping[str, float]]) -> Metric:
    about, seconds = ANSWER_SECONDS, counters.get("timed_answer_seconds", {})
    family = SummaryMetricFamily(PREFIX + about.name, about.about, labels=[about.label])
    for label, count in sorted(counters.get("timed_answers", {}).items()):
        family.add_metric([label], int(count), seconds.get(label, 0.0))
    return family
