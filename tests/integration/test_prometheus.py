"""A real Prometheus scrapes the exporter in front of real brokers."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support.command import Served, exporting, run_shareproxy, serving
from tests.support.prometheus import Prometheus, Tools, require_prometheus, scraping
from tests.support.scenarios import Layout, kip_1226_layout, never_consumed
from tests.support.waiting import wait_until

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@pytest.fixture(scope="module")
def tools() -> Tools:
    """Prometheus and its tool."""
    return require_prometheus()


@pytest.fixture
def live(kafka_version: str, driver: ShareDriver, topic: str, group: str) -> Layout:
    """A group of which 7 offsets wait, with a name that has to be escaped; on the oldest and the newest version."""
    if not kafka_version.startswith(("4.1.", "4.4.")):
        pytest.skip("the exporter's own work does not depend on the versions between")
    return kip_1226_layout(driver, topic, f'{group}/"live" grün')


@pytest.fixture
def unknown(live: Layout, driver: ShareDriver) -> Layout:
    """A group of which the brokers know no start offset."""
    return never_consumed(driver, f"{live.topic}-unknown", f"{live.topic}-unknown-group")


def get(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    """Ask the exporter."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def one_group(port: int, group: str) -> Any:
    """Return the JSON of one group."""
    status, body = get(port, f"/api/v1/groups/{urllib.parse.quote(group, safe='')}")
    assert status == 200, body
    return json.loads(body)


def test_prometheus_shows_known_lag_and_only_a_status_for_unknown(
    kafka: LocalKafka, live: Layout, unknown: Layout, tools: Tools, tmp_path: Path
) -> None:
    """Its own query API has one sample of the live group, none of the unknown one; the linter has nothing to say."""
    with exporting(kafka.bootstrap_servers, "--interval", "1", "--visible", "offsets") as exporter:
        exporter.wait_until_ready()
        with scraping(tools, exporter.http_port, tmp_path) as prometheus:
            wait_until(lambda: bool(prometheus.query("kafka_sharegroup_lag")), "Prometheus has scraped")
            assert prometheus.target()["lastError"] == ""
            _assert_shown(prometheus, live, unknown)
        page = get(exporter.http_port, "/metrics")[1]
        lint = subprocess.run([tools.promtool, "check", "metrics"], input=page, capture_output=True, check=False)
        assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")
        _assert_says_what_the_command_says(kafka, exporter, live, unknown)
        assert exporter.terminate() == 0
        assert "Traceback" not in exporter.log()


def _assert_shown(prometheus: Prometheus, live: Layout, unknown: Layout) -> None:
    of_live = (("group", live.group), ("partition", "0"), ("topic", live.topic))
    of_unknown = (("group", unknown.group), ("partition", "0"), ("topic", unknown.topic))
    lags = prometheus.query("kafka_sharegroup_lag")
    assert lags[of_live] == 7
    assert of_unknown not in lags
    assert (("group", live.group), ("topic", live.topic)) in prometheus.query("kafka_sharegroup_lag_sum")
    assert (("group", unknown.group), ("topic", unknown.topic)) not in prometheus.query("kafka_sharegroup_lag_sum")
    status = prometheus.query("kafka_sharegroup_partition_status")
    assert status[tuple(sorted((*of_unknown, ("status", "no_start_offset"))))] == 1
    known = prometheus.query('kafka_sharegroup_partitions{known="false"}')
    assert known[("group", unknown.group), ("known", "false"), ("topic", unknown.topic)] == 1
    ends = prometheus.query("kafka_topic_partition_current_offset")
    assert ends[("partition", "0"), ("topic", live.topic)] == 11
    assert prometheus.query("kafka_sharegroup_open_transaction_offsets")[of_live] == 0
    assert prometheus.query("kafka_sharegroup_members")[(("group", live.group),)] == 0
    assert prometheus.query("shareproxy_up") == {(): 1}


def _assert_says_what_the_command_says(kafka: LocalKafka, exporter: Served, live: Layout, unknown: Layout) -> None:
    done = run_shareproxy(
        "lag", live.group, unknown.group, "--bootstrap-server", kafka.bootstrap_servers, "--output", "json"
    )
    told = {row["group"]: row for row in json.loads(done.stdout)["groups"]}
    for layout in (live, unknown):
        served = one_group(exporter.http_port, layout.group)
        said = told[layout.group]
        for key in ("group", "state", "error", "complete", "partitions_known", "partitions_total"):
            assert served[key] == said[key], key
        assert served["lag"] == (said["lag"] if said["partitions_known"] else None)
        for served_row, said_row in zip(served["partitions"], said["partitions"], strict=True):
            # this one only a second look can be sure of
            del said_row["delivery_complete_count"]
            assert {key: served_row[key] for key in said_row} == said_row


def test_serve_has_the_same_beside_the_proxy(kafka: LocalKafka, live: Layout) -> None:
    """One process, one port: probes, metrics and JSON; it is ready when both halves are."""
    with serving(kafka.bootstrap_servers) as proxy:
        proxy.wait_until_ready()
        assert one_group(proxy.http_port, live.group)["lag"] == 7
        status, page = get(proxy.http_port, "/metrics", Accept=OPENMETRICS)
        assert status == 200
        assert b'topic="%s",partition="0"} 7\n' % live.topic.encode() in page
        assert page.endswith(b"# EOF\n")
        assert proxy.terminate() == 0
