"""The proxy's metrics, from what it counted."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from shareproxy.observe import proxy_metrics
from shareproxy.observe.proxy_metrics import ProxyMetrics, Read
from shareproxy.proxy.meter import Meter, merge
from tests.proxy.test_meter import busy_meter


def page(read: Read) -> str:
    """Return the metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProxyMetrics(read))
    assert generate_openmetrics(registry).endswith(b"# EOF\n")  # type: ignore[no-untyped-call]
    return generate_latest(registry).decode()


def test_each_kind_has_its_form() -> None:
    """Counters end in _total, times are in seconds, histograms are cumulative."""
    lines = page(busy_meter().to_dict).splitlines()

    for line in (
        'shareproxy_proxy_connections_opened_total{node_id="bootstrap"} 1.0',
        'shareproxy_proxy_connections_closed_total{reason="client_closed"} 1.0',
        'shareproxy_proxy_connections{node_id="1"} 0.0',
        'shareproxy_proxy_requests_total{api="Produce"} 2.0',
        'shareproxy_proxy_lost_requests_total{api="other"} 1.0',
        'shareproxy_proxy_received_bytes_total{side="client"} 300.0',
        'shareproxy_proxy_broker_connects_total{outcome="broker_unreachable"} 1.0',
        'shareproxy_proxy_lag_rows_total{source="summary"} 4.0',
        'shareproxy_proxy_added_latency_seconds_bucket{direction="to_broker",le="2.5e-05"} 0.0',
        'shareproxy_proxy_added_latency_seconds_bucket{direction="to_broker",le="5e-05"} 1.0',
        'shareproxy_proxy_added_latency_seconds_bucket{direction="to_broker",le="+Inf"} 1.0',
        'shareproxy_proxy_broker_connect_seconds_bucket{le="0.0025"} 1.0',
        "shareproxy_proxy_broker_connect_seconds_sum 0.002",
        'shareproxy_proxy_broker_answer_seconds_sum{api="Produce"} 0.5',
        "shareproxy_proxy_loop_delay_seconds 0.25",
        "shareproxy_proxy_open_fds 17.0",
        "shareproxy_proxy_max_fds 1024.0",
        "shareproxy_proxy_max_connections 500.0",
    ):
        assert line in lines


def test_everything_that_is_counted_is_shown() -> None:
    """A counter that is added to the meter and forgotten here shows."""
    told = busy_meter().to_dict()
    named = proxy_metrics.COUNTERS + proxy_metrics.GAUGES + proxy_metrics.EXTREMES + proxy_metrics.HISTOGRAMS
    counted = {name for kind in told.values() for name in kind}

    assert {about.name for about in named} == counted - {"timed_answers", "timed_answer_seconds"}


def test_no_two_samples_have_the_same_labels() -> None:
    """Also when several processes are added up."""
    text = page(lambda: merge([busy_meter().to_dict(), busy_meter().to_dict()]))
    keys = [
        (sample.name, *sorted(sample.labels.items()))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]

    assert len(keys) == len(set(keys))
    assert 'shareproxy_proxy_requests_total{api="Produce"} 4.0' in text.splitlines()


def test_nothing_counted_has_no_samples_with_invented_labels() -> None:
    """Before the first client, and before the first worker has reported."""
    assert "{" not in page(lambda: merge([]))
    assert 'reason="' not in page(Meter().to_dict)
