"""What a served proxy says of itself after real clients have used it."""

from __future__ import annotations

import json
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.integration.test_prometheus import get
from tests.support.command import Served, serving
from tests.support.prometheus import require_prometheus
from tests.support.scenarios import kip_1226_layout
from tests.support.waiting import wait_until

RECORDS = 40


def samples(served: Served) -> dict[tuple[str, ...], float]:
    """Scrape; return the values by name and label values."""
    page = get(served.http_port, "/metrics")[1].decode()
    return {
        (sample.name.removeprefix("shareproxy_proxy_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("shareproxy_proxy_")
    }


def test_metrics_after_real_clients(
    kafka: LocalKafka, kafka_version: str, driver: ShareDriver, topic: str, group: str
) -> None:
    """Connections, requests, bytes, lag by its source; one line of the log for each client; the linter is silent."""
    if not kafka_version.startswith("4.4."):
        pytest.skip("what is counted does not depend on the version")
    layout = kip_1226_layout(driver, topic, group)

    with serving(kafka.bootstrap_servers, "--log-level", "debug", "--lag-source", "summary") as served:
        served.wait_until_ready()
        with ShareDriver(kafka, bootstrap_servers=served.bootstrap_servers) as client:  # its clients end with it
            client.produce(topic, 0, count=RECORDS)
            (row,) = client.list_share_group_offsets(layout.group, {topic: [0]})
            assert row.lag is not None
        wait_until(lambda: not samples(served)["connections", "bootstrap"], "all clients are gone")
        shown = samples(served)
        page = get(served.http_port, "/metrics")[1]
        assert served.terminate() == 0
        lines = [json.loads(line) for line in served.log().splitlines() if line.startswith("{")]

    lint = subprocess.run(
        [require_prometheus().promtool, "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")
    assert shown["requests_total", "Produce"] >= 1
    assert shown["request_bytes_total", "Produce"] > RECORDS
    assert shown["requests_total", "ApiVersions"] >= 2
    assert shown["received_bytes_total", "client"] > shown["request_bytes_total", "Produce"]
    assert shown["broker_connects_total", "connected"] == shown["broker_connect_seconds_count",] >= 2
    assert shown["connections_opened_total", "1"] >= 1
    assert shown["lag_lookups_total", "found"] == shown["lag_rows_total", "summary"] == 1
    assert shown["open_fds",] < shown["max_fds",]
    closed = [line["reason"] for line in lines if line["event"] == "connection closed"]
    counted = {key[1]: count for key, count in shown.items() if key[0] == "connections_closed_total"}
    assert {reason: closed.count(reason) for reason in counted} == counted
    assert set(counted) <= {"client_closed", "no_request"}
