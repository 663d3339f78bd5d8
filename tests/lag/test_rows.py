"""Rows of a report."""

from __future__ import annotations

import pytest

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import Source, Status
from shareproxy.lag.rows import partition_lag
from shareproxy.lag.sources import Reading
from tests.lag.simulated_brokers import T1

ITEM = Wanted("t", T1, 0)


def test_a_state_source_brings_all_numbers() -> None:
    """Start, end, count and lag are of one moment."""
    row = partition_lag(ITEM, Reading(Source.SUMMARY, 0, 11, 3, 4, 7))

    assert (row.start_offset, row.end_offset, row.leader_epoch, row.delivery_complete_count, row.lag) == (
        0,
        11,
        3,
        4,
        7,
    )
    assert (row.source, row.exact, row.status, row.message) == (Source.SUMMARY, True, Status.OK, None)


@pytest.mark.parametrize(
    ("end", "before", "shown"),
    [
        (11, None, (11, None)),  # 4 completed, or fewer and something produced since
        (11, 11, (11, 4)),  # nothing was produced since before the broker answered
        (11, 10, (11, None)),
        (7, None, (7, 0)),  # there is no room for a count
        (6, 6, (None, None)),  # a leader that has not caught up: not the end beside this lag
        (None, None, (None, None)),
    ],
)
def test_the_brokers_lag_is_shown_with_a_count_only_if_it_is_exact(
    end: int | None, before: int | None, shown: tuple[int | None, int | None]
) -> None:
    """API 90 has neither end nor count; a count that may be wrong is not shown."""
    row = partition_lag(ITEM, Reading(Source.BROKER, 0, None, 3, None, 7), end_offset=end, end_before=before)

    assert (row.end_offset, row.delivery_complete_count) == shown
    assert (row.lag, row.source, row.exact) == (7, Source.BROKER, True)


@pytest.mark.parametrize(
    ("reading", "end", "status"),
    [
        (Reading(Source.BROKER, 50, None, 0, None, -39), 11, Status.START_BEYOND_END),
        (Reading(Source.BROKER, 12, None, 0, None, -1), 11, Status.START_BEYOND_END),
        (Reading(Source.SUMMARY, 50, 11, 0, 0, -39), None, Status.START_BEYOND_END),
        (Reading(Source.BATCHES, 12, 11, 0, 0, -1), None, Status.START_BEYOND_END),
    ],
)
def test_a_start_beyond_the_end_is_lag_0(reading: Reading, end: int | None, status: Status) -> None:
    """A negative lag is for the wire only."""
    row = partition_lag(ITEM, reading, end_offset=end)

    assert (row.lag, row.status, row.exact) == (0, status, True)
    assert row.message is not None


@pytest.mark.parametrize(
    ("reading", "end", "status"),
    [
        (Reading(Source.BROKER), None, Status.NO_START_OFFSET),
        (Reading(Source.BROKER, 3, None, 0, None, -1), 11, Status.LAG_UNSET),
        (Reading(Source.SUMMARY, 3, 11, 0, None, -1), None, Status.LAG_UNSET),
    ],
)
def test_unknown_has_a_reason_and_no_source(reading: Reading, end: int | None, status: Status) -> None:
    """Where there is no lag, nothing says where it comes from or how exact it is."""
    row = partition_lag(ITEM, reading, end_offset=end)

    assert (row.lag, row.source, row.exact, row.status) == (None, None, None, status)
    assert row.message


def test_a_trouble_gives_status_code_and_sentence() -> None:
    """The start offset that the broker told stays."""
    trouble = Trouble(Status.NOT_AUTHORIZED, 31, "grant it")

    row = partition_lag(ITEM, Reading(Source.BATCHES, 3, None, 1, None, -1, trouble), end_offset=11)

    assert (row.lag, row.start_offset, row.end_offset) == (None, 3, 11)
    assert (row.status, row.error_code, row.message) == (Status.NOT_AUTHORIZED, 31, "grant it")


def test_beyond_the_end_nothing_more_needs_to_be_known() -> None:
    """Even without a right to the state, a start beyond the end is lag 0."""
    trouble = Trouble(Status.NOT_AUTHORIZED, 31, "grant it")

    row = partition_lag(ITEM, Reading(Source.BATCHES, 30, None, 1, None, -1, trouble), end_offset=11)

    assert (row.lag, row.status, row.error_code) == (0, Status.START_BEYOND_END, None)


@pytest.mark.parametrize(("lag", "uncommitted", "exact"), [(7, True, True), (7, False, False), (0, False, True)])
def test_batches_are_an_upper_bound_for_read_committed(lag: int, uncommitted: bool, exact: bool) -> None:
    """Aborted records that the leader archived in memory only are missing; an upper bound of 0 is exact."""
    reading = Reading(Source.BATCHES, 0, lag + 4, 3, 4, lag)

    assert partition_lag(ITEM, reading, read_uncommitted=uncommitted).exact is exact
