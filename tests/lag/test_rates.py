"""Rates between two looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Source
from shareproxy.lag.rates import PartitionRates, rates
from shareproxy.protocol.ids import GroupId, TopicId
from tests.lag.simulated_brokers import T1, T2

G = GroupId("g")


def row(
    start: int | None, end: int | None, count: int | None, *, partition: int = 0, topic_id: TopicId = T1
) -> PartitionLag:
    """Return a row whose lag follows from the numbers."""
    known = start is not None and end is not None and count is not None
    lag = end - start - count if known else None  # type: ignore[operator]
    return PartitionLag("orders", topic_id, partition, start, end, 1, count, lag, Source.SUMMARY, True)


def report(second: float, *rows: PartitionLag, cluster: str = "c", error: GroupError | None = None) -> LagReport:
    """Return a report on one group."""
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return LagReport(cluster, time, (GroupLag(G, "Stable", error, rows),))


def test_rates_are_in_offsets_per_second() -> None:
    """Produced is the move of the end, completed that of start offset + count."""
    found = rates(report(0, row(0, 100, 10)), report(10, row(50, 120, 20)))[G]

    assert (found.seconds, found.produced_per_second, found.completed_per_second) == (10.0, 2.0, 6.0)
    assert found.seconds_to_drain == pytest.approx(50 / 4)
    assert found.partitions["orders", 0] == PartitionRates(2.0, 6.0)


def test_time_to_drain() -> None:
    """None unless the lag shrinks; 0 without one."""
    growing = rates(report(0, row(0, 100, 0)), report(1, row(1, 200, 0)))[G]
    still = rates(report(0, row(0, 100, 0)), report(1, row(0, 100, 0)))[G]
    done = rates(report(0, row(0, 100, 0)), report(1, row(100, 100, 0)))[G]

    assert [found.seconds_to_drain for found in (growing, still, done)] == [None, None, 0.0]


def test_partition_without_progress_does_not_count_as_unknown() -> None:
    """A drained partition takes no part in the time to drain of the other."""
    earlier = report(0, row(0, 100, 0), row(None, None, None, partition=1))
    later = report(10, row(50, 100, 0), row(0, 0, 0, partition=1))

    found = rates(earlier, later)[G]

    assert found.seconds_to_drain == 10.0
    assert found.partitions["orders", 1] == PartitionRates()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (row(50, 100, 0), row(10, 100, 0)),  # set back
        (row(10, 100, 20), row(10, 100, 0)),  # set to the same offset: the count is gone
        (row(10, 100, 0), row(0, 20, 0)),  # the log is another one
    ],
)
def test_resets_are_flagged(before: PartitionLag, after: PartitionLag) -> None:
    """Nothing was completed by that."""
    found = rates(report(0, before), report(1, after))[G]

    assert found.partitions["orders", 0].reset
    assert found.completed_per_second is None
    assert found.seconds_to_drain is None


def test_recreated_topic_is_another_one() -> None:
    """The same name with another id has no rates yet."""
    found = rates(report(0, row(0, 100, 0)), report(1, row(0, 5, 0, topic_id=T2)))[G]

    assert found.partitions["orders", 0] == PartitionRates(reset=True)


def test_brokers_lag_without_a_count() -> None:
    """End − lag is how far the group is; a step back of a moment is none."""

    def broker(start: int, end: int, lag: int) -> PartitionLag:
        return PartitionLag("orders", T1, 0, start, end, 1, None, lag, Source.BROKER, True)

    forward = rates(report(0, broker(0, 100, 90)), report(10, broker(0, 110, 80)))[G]
    jitter = rates(report(0, broker(0, 100, 90)), report(10, broker(0, 101, 92)))[G]

    assert forward.completed_per_second == 2.0
    assert (jitter.completed_per_second, jitter.partitions["orders", 0].reset) == (0.0, False)


def test_what_is_unknown_has_no_rate() -> None:
    """Neither a number nor a time to drain."""
    found = rates(report(0, row(None, None, None)), report(1, row(0, None, None)))[G]

    assert (found.produced_per_second, found.completed_per_second, found.seconds_to_drain) == (None, None, None)


def test_only_later_looks_at_the_same_cluster() -> None:
    """Anything else gives nothing."""
    first, later = report(0, row(0, 10, 0)), report(1, row(0, 10, 0))

    assert rates(later, first) == {}
    assert rates(first, first) == {}
    assert rates(report(0, row(0, 10, 0), cluster="other"), later) == {}
    assert rates(LagReport("c", first.time), later) == {}


def test_document() -> None:
    """Numbers, strings, lists and None only."""
    found = rates(report(0, row(0, 100, 0)), report(10, row(50, 100, 0)))[G].to_dict()

    assert found == {
        "seconds": 10.0,
        "produced_per_second": 0.0,
        "completed_per_second": 5.0,
        "seconds_to_drain": 10.0,
        "partitions": [
            {
                "topic": "orders",
                "partition": 0,
                "produced_per_second": 0.0,
                "completed_per_second": 5.0,
                "reset": False,
            }
        ],
    }
