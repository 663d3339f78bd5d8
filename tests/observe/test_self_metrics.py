"""The exporter's metrics about itself."""

from __future__ import annotations

import re

from shareproxy.cluster.errors import Unreachable
from shareproxy.observe.exposition import Format
from shareproxy.version import __version__
from tests.observe.watching import Watched, an_exporter, row, samples, text


async def test_before_the_first_look_it_is_not_up_and_has_no_age() -> None:
    """What is not known yet has no sample."""
    exporter = an_exporter(Watched())
    assert samples(exporter, "shareproxy_up") == {(): 0}
    for name in ("snapshot_age_seconds", "last_success_timestamp_seconds", "collect_duration_seconds", "groups"):
        assert samples(exporter, f"shareproxy_{name}") == {}
    assert [version for _, version in samples(exporter, "shareproxy_build_info")] == [__version__]


async def test_after_a_look_it_is_up() -> None:
    """With age, time and duration."""
    watched = Watched()
    watched.put("g", row())
    exporter = an_exporter(watched)
    await exporter.collector.look()
    assert samples(exporter, "shareproxy_up") == {(): 1}
    assert samples(exporter, "shareproxy_groups") == {(): 1}
    assert samples(exporter, "shareproxy_looks_total") == {(): 1}
    assert samples(exporter, "shareproxy_last_success_timestamp_seconds")[()] > 1.7e9
    assert samples(exporter, "shareproxy_collect_duration_seconds")[()] >= 0


async def test_a_failed_look_has_a_duration_too() -> None:
    """And a reason of its own."""
    watched = Watched()
    watched.failure = Unreachable("nobody answers")
    exporter = an_exporter(watched)
    await exporter.collector.look()
    assert list(samples(exporter, "shareproxy_collect_duration_seconds")) == [()]
    assert samples(exporter, "shareproxy_collect_errors_total") == {("ListGroups", "timeout"): 1}


async def test_requests_are_told_by_api_key() -> None:
    """Where somebody counts them."""
    exporter = an_exporter(Watched(), requests=lambda: {90: 3, 2: 1})
    assert samples(exporter, "shareproxy_requests_total") == {("2",): 1, ("90",): 3}


async def test_they_grow_with_neither_groups_nor_partitions() -> None:
    """They are written anew for each scrape."""
    watched = Watched()
    exporter = an_exporter(watched)
    await exporter.collector.look()
    before = len(exporter._own.page(Format.TEXT))
    watched.put("g", *(row(partition=number) for number in range(50)))
    watched.put("h", row())
    await exporter.collector.look()
    assert abs(len(exporter._own.page(Format.TEXT)) - before) < 200
    assert len(re.findall("^kafka_sharegroup_lag{", text(exporter), re.MULTILINE)) == 51
