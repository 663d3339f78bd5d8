"""Metric families: labels, granularity, and the library's own writing of the same samples."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from shareproxy.lag.model import GroupLag, Status
from shareproxy.lag.visible_model import DeadLetter, GroupVisible
from shareproxy.observe.metrics import Families
from shareproxy.protocol.ids import GroupId
from tests.observe.watching import Watched, an_exporter, member, row, samples, text

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


class _Once:
    def __init__(self, family: GaugeMetricFamily) -> None:
        self._family = family

    def collect(self) -> list[GaugeMetricFamily]:
        return [self._family]


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.integers(0, 2**53)))
def test_the_library_reads_what_we_write_as_it_reads_its_own(lags: dict[str, int]) -> None:
    """Any group name, any lag: the parser finds the same samples in our page and in the library's."""

    async def ours() -> str:
        watched = Watched()
        for name, lag in lags.items():
            watched.put(name, row(lag=lag))
        exporter = an_exporter(watched)
        await exporter.collector.look()
        return text(exporter)

    theirs = GaugeMetricFamily("kafka_sharegroup_lag", "lag", labels=["group", "topic", "partition"])
    for name, lag in lags.items():
        theirs.add_metric([name, "t", "0"], lag)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(theirs))

    def read(page: str) -> dict[frozenset[tuple[str, str]], float]:
        return {
            frozenset(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "kafka_sharegroup_lag"
        }

    assert read(asyncio.run(ours())) == read(generate_latest(registry).decode())


async def test_granularity_topic() -> None:
    """Sums and completed offsets by topic, and no series by partition."""
    watched = Watched()
    watched.put("g", row("a", 0), row("a", 1, lag=None), row("b", 0, lag=2), members=[member("a")])
    exporter = an_exporter(watched, granularity="topic")
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag_sum") == {("g", "a"): 7, ("g", "b"): 2}
    assert samples(exporter, "kafka_sharegroup_completed_offsets_total") == {("g", "a"): 4, ("g", "b"): 9}
    assert samples(exporter, "kafka_sharegroup_topic_subscribed") == {("g", "a"): 1, ("g", "b"): 0}
    assert 'partition="' not in text(exporter)


async def test_granularity_group() -> None:
    """One series of each metric for a group, still saying how complete the sum is."""
    watched = Watched()
    watched.put("g", row("a", 0), row("a", 1, lag=None), row("b", 0, lag=2), members=[member("a")])
    exporter = an_exporter(watched, granularity="group")
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag_sum") == {("g",): 9}
    assert samples(exporter, "kafka_sharegroup_partitions") == {("g", "true"): 2, ("g", "false"): 1}
    assert samples(exporter, "kafka_sharegroup_completed_offsets_total") == {("g",): 13}
    assert ',topic="' not in text(exporter)


async def test_a_cluster_label_is_on_all_series_of_kafka_and_no_other() -> None:
    """For those who scrape several clusters into one place."""
    watched = Watched()
    watched.put("g", row(), row(partition=1, lag=None), members=[member("t")])
    exporter = an_exporter(watched, cluster_label='east "1"')
    await exporter.collector.look()

    lines = [line for line in text(exporter).splitlines() if not line.startswith("#")]
    for line in lines:
        assert (r'{cluster="east \"1\"",' in line) == line.startswith("kafka_"), line


async def test_an_end_offset_is_shown_once_however_many_groups_read_the_topic() -> None:
    """The highest that any of them saw."""
    watched = Watched()
    watched.put("a", row(end_offset=11))
    watched.put("b", row(end_offset=12))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_topic_partition_current_offset") == {("t", "0"): 12}


async def test_the_dead_letter_topic_is_part_of_the_info() -> None:
    """Where a closer look found one."""
    watched = Watched()
    watched.put("g", row())
    lag = watched.lags["g"]
    visible = GroupVisible(dead_letter=DeadLetter("orders-dlq"))
    watched.lags["g"] = GroupLag(GroupId("g"), lag.state, None, lag.partitions, visible=visible)
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_info") == {("g", "Stable", "1", "orders-dlq"): 1}


async def test_start_offsets_are_shown_even_where_the_lag_is_not_known() -> None:
    """They are a signal of their own."""
    watched = Watched()
    watched.put("g", row(lag=None, start_offset=5, status=Status.LAG_UNSET))
    exporter = an_exporter(watched)
    await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_start_offset") == {("g", "t", "0"): 5}
    assert samples(exporter, "kafka_sharegroup_delivery_complete") == {}


async def test_a_metric_without_samples_is_not_named() -> None:
    """A page of nothing but our own metrics where there is no group."""
    exporter = an_exporter(Watched())
    await exporter.collector.look()
    assert "kafka_" not in text(exporter)
    assert samples(exporter, "shareproxy_groups") == {(): 0}


async def test_each_metric_is_documented_with_its_labels() -> None:
    """The reference page has exactly the metrics that there are; proxy, workers and sinks have tests of their own."""
    watched = Watched()
    watched.put("g", row(), row(partition=1, lag=None), members=[member("t")])
    exporter = an_exporter(watched, requests=lambda: {90: 1})
    await exporter.collector.look()
    documented = dict(re.findall(r"^\| `((?:kafka|shareproxy)_[a-z_]+)` \| ?([a-z_, ]*?) ?\|", REFERENCE, re.MULTILINE))
    documented = {
        name: labels
        for name, labels in documented.items()
        if not name.startswith(("shareproxy_proxy_", "shareproxy_worker_", "shareproxy_sink_"))
    }
    shown = {
        sample.name: ", ".join(sample.labels)
        for family in text_string_to_metric_families(text(exporter))
        for sample in family.samples
    }

    names = {family.name for family in Families().all()}
    names |= {name for name in shown if name.startswith("shareproxy_")}
    assert set(documented) == names | {"shareproxy_collect_errors_total"}
    for name, labels in shown.items():
        assert sorted(documented[name].strip().split(", ")) == sorted(labels.split(", ")), name
