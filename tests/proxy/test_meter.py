"""Counting, and adding up what several processes counted."""

from __future__ import annotations

import json

from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.meter import MAX_APIS, OTHER, Histogram, Meter, merge, retired


def busy_meter() -> Meter:
    """Return a meter that has counted something of each kind."""
    meter = Meter()
    meter.client_came("bootstrap")
    meter.client_came("1")
    meter.client_went("1")
    meter.closed(CloseReason.CLIENT_CLOSED)
    counts = meter.apis[0]
    counts[0] += 2
    counts[1] += 300
    counts[2] += 40
    meter.lost([0, 12345])
    meter.answered(0, 0.5)
    meter.client_bytes, meter.broker_bytes = 300, 40
    meter.connected("connected", 0.002)
    meter.connected("broker_unreachable", 5.0)
    meter.looked_up("partial", 0.02, 1)
    meter.lag_rows = lambda: {"summary": 4}
    meter.latency_to_broker.add(0.00003)
    meter.loop_delay = 0.25
    meter.open_files = lambda: (17, 1024)
    meter.max_connections = lambda: 500
    return meter


def test_everything_is_in_the_dict_under_its_name() -> None:
    """APIs go by their names; the dict is JSON."""
    told = json.loads(json.dumps(busy_meter().to_dict()))

    assert told["counters"] == {
        "connections_opened": {"bootstrap": 1, "1": 1},
        "connections_closed": {"client_closed": 1},
        "requests": {"other": 0, "Produce": 2},
        "request_bytes": {"other": 0, "Produce": 300},
        "answer_bytes": {"other": 0, "Produce": 40},
        "lost_requests": {"other": 1, "Produce": 1},
        "timed_answers": {"Produce": 1},
        "timed_answer_seconds": {"Produce": 0.5},
        "received_bytes": {"client": 300, "broker": 40},
        "broker_connects": {"connected": 1, "broker_unreachable": 1},
        "lag_lookups": {"partial": 1},
        "lag_rows": {"summary": 4, "unknown": 1},
    }
    assert told["gauges"] == {"connections": {"bootstrap": 1, "1": 0}, "max_connections": {"": 500}}
    assert told["highest"] == {"loop_delay_seconds": 0.25, "open_fds": 17}
    assert told["lowest"] == {"max_fds": 1024}
    assert told["histograms"]["added_latency_seconds"]["to_broker"]["counts"][2] == 1
    assert told["histograms"]["broker_connect_seconds"][""]["sum"] == 0.002
    assert sum(told["histograms"]["lag_lookup_seconds"][""]["counts"]) == 1


def test_unknown_apis_go_by_their_number() -> None:
    """A newer Kafka's API is told from others."""
    meter = Meter()
    meter.apis[345][0] += 1

    assert meter.to_dict()["counters"]["requests"] == {"345": 1}


def test_number_of_apis_is_bounded() -> None:
    """Whatever the other side sends."""
    meter = Meter()
    for api_key in range(1000, 1000 + 2 * MAX_APIS):
        meter.apis[api_key][0] += 1

    assert len(meter.apis) <= MAX_APIS + 2
    assert meter.apis[OTHER][0] == 1000 + 2 * MAX_APIS - 1000 - (len(meter.apis) - 1)


def test_histogram_bounds_are_upper_bounds() -> None:
    """A value on a bound is below it; the last bucket takes the rest."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.add(value)

    assert histogram.to_dict() == {"bounds": [1.0, 2.0], "counts": [2, 2, 1], "sum": 104.0}


def test_parts_add_up() -> None:
    """Counters, gauges and histograms are sums; of delays the longest counts, of limits the lowest."""
    first, second = busy_meter(), busy_meter()
    second.loop_delay, second.open_files = 0.5, lambda: (99, 512)
    second.closed(CloseReason.IDLE_TIMEOUT)

    merged = merge([first.to_dict(), second.to_dict()])

    assert merged["counters"]["connections_closed"] == {"client_closed": 2, "idle_timeout": 1}
    assert merged["gauges"] == {"connections": {"bootstrap": 2, "1": 0}, "max_connections": {"": 1000}}
    assert merged["highest"] == {"loop_delay_seconds": 0.5, "open_fds": 99}
    assert merged["lowest"] == {"max_fds": 512}
    assert merged["histograms"]["broker_connect_seconds"][""]["sum"] == 0.004
    assert first.to_dict()["counters"]["connections_closed"] == {"client_closed": 1}


def test_nothing_adds_up_to_nothing() -> None:
    """Before the first worker has reported there is a dict already."""
    assert merge([]) == {"counters": {}, "gauges": {}, "highest": {}, "lowest": {}, "histograms": {}}


def test_process_that_is_gone_leaves_its_counters_only() -> None:
    """What it was doing it does no more."""
    left = retired(busy_meter().to_dict())

    assert left["counters"]["requests"]["Produce"] == 2
    assert (left["gauges"], left["highest"], left["lowest"]) == ({}, {}, {})
    assert merge([left, busy_meter().to_dict()])["gauges"]["connections"]["bootstrap"] == 1
