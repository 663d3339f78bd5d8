"""What `top` remembers of its looks."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from shareproxy.cli.top_history import GroupRow, History, Look, PartitionRow
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Status
from shareproxy.lag.rates import rates
from shareproxy.lag.visible_model import PartitionVisible
from shareproxy.protocol.ids import GroupId, TopicId

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC_ID = TopicId(bytes(15) + b"\x01")


def partition(number: int, done: int, end: int, visible: PartitionVisible | None = None) -> PartitionLag:
    """A partition of which so many offsets are done."""
    return PartitionLag(
        "orders", TOPIC_ID, number, done, end, delivery_complete_count=0, lag=end - done, exact=True, visible=visible
    )


def unknown(number: int, status: Status = Status.NO_LEADER, message: str | None = None) -> PartitionLag:
    """A partition whose lag is not known."""
    return PartitionLag("orders", TOPIC_ID, number, status=status, message=message)


def look(*rows: PartitionLag, seconds: int = 0, error: GroupError | None = None, members: int | None = 1) -> Look:
    """A look at the group `g`, some seconds after the start."""
    group = GroupLag(GroupId("g"), "Stable", error, rows)
    return Look(
        LagReport("c", START + timedelta(seconds=seconds), (group,)),
        members={} if members is None else {GroupId("g"): members},
    )


def history_of(*looks: Look) -> History:
    """A history of looks."""
    history, last = History(samples=5), None
    for one in looks:
        history.add(one if last is None else compared(last, one))
        last = one
    return history


def compared(earlier: Look, later: Look) -> Look:
    """The later look with the rates since the earlier one."""
    return msgspec.structs.replace(later, rates=rates(earlier.report, later.report))


def row_of(history: History) -> GroupRow:
    """The only group."""
    [row] = history.groups()
    return row


def partitions_of(history: History) -> list[PartitionRow]:
    """The partitions of the only group."""
    found = history.partitions("g")
    assert found is not None
    return found


def test_nothing_is_known_before_the_first_look() -> None:
    """Neither groups nor partitions."""
    history = history_of()
    assert history.groups() == []
    assert history.partitions("g") is None
    assert history.report is None


def test_one_look_has_lag_but_no_rates() -> None:
    """They need two."""
    row = row_of(history_of(look(partition(0, 3, 10), partition(1, 0, 5))))
    assert (row.lag, row.known, row.total, row.complete, row.members) == (12, 2, 2, True, 1)
    assert (row.produced, row.completed, row.drain) == (None, None, None)


def test_two_looks_have_rates() -> None:
    """In offsets per second, for the group and for each partition."""
    history = history_of(look(partition(0, 0, 10)), look(partition(0, 6, 14), seconds=2))
    row, [only] = row_of(history), partitions_of(history)
    assert (row.produced, row.completed, row.drain) == (2.0, 3.0, 8.0)
    assert (only.produced, only.completed) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("later", "drain"),
    [
        (partition(0, 10, 10), 0.0),
        (partition(0, 5, 20), math.inf),
        (partition(0, 5, 15), math.inf),
        (partition(0, 0, 10), math.inf),
        (unknown(0), None),
    ],
)
def test_time_to_drain(later: PartitionLag, drain: float | None) -> None:
    """Nothing to do takes no time; a lag that does not shrink never drains; unknown stays unknown."""
    assert row_of(history_of(look(partition(0, 0, 10)), look(later, seconds=1))).drain == drain


def test_time_to_drain_is_unknown_while_a_partition_is() -> None:
    """Nobody knows how long that one takes."""
    history = history_of(
        look(partition(0, 0, 10), partition(1, 0, 10)), look(partition(0, 5, 10), unknown(1), seconds=1)
    )
    assert row_of(history).drain is None


def test_a_partition_that_is_new_leaves_the_time_to_drain_open() -> None:
    """It has no rate yet."""
    history = history_of(look(partition(0, 0, 10)), look(partition(0, 5, 10), partition(1, 0, 10), seconds=1))
    assert row_of(history).drain is None


def test_unknown_is_never_zero() -> None:
    """A group of which nothing is known has no lag."""
    row = row_of(history_of(look(unknown(0), unknown(1), members=None)))
    assert (row.lag, row.known, row.total, row.complete, row.members) == (None, 0, 2, False, None)


def test_the_most_frequent_trouble_is_named_with_its_first_partition() -> None:
    """One word for the table, one sentence for the person."""
    rows = (unknown(0, Status.TIMEOUT), unknown(1, message="there is no leader"), unknown(2))
    row = row_of(history_of(look(*rows)))
    assert row.status == "no_leader (2)"
    assert row.message == "orders-1: there is no leader"
    assert row_of(history_of(look(unknown(0)))).message == "orders-0: its status is no_leader"


def test_a_partition_with_a_lag_and_a_status_is_trouble_too() -> None:
    """A start offset beyond the end has the lag 0, and a reason to look at it."""
    beyond = PartitionLag("orders", TOPIC_ID, 0, 12, 10, lag=0, status=Status.START_BEYOND_END)
    assert row_of(history_of(look(beyond))).status == "start_beyond_end (1)"


def test_an_error_of_the_group_is_named() -> None:
    """In place of its partitions'."""
    row = row_of(history_of(look(error=GroupError(0, "NOTHING_INITIALIZED", "nothing was read yet"))))
    assert (row.status, row.message, row.lag) == ("nothing_initialized", "nothing was read yet", None)


def test_a_trend_has_a_gap_where_the_lag_is_not_known() -> None:
    """A part of the lag would look like a drop, and a failed look like none at all."""
    history = history_of(
        look(partition(0, 0, 1)), look(partition(0, 0, 2), unknown(1), seconds=1), look(partition(0, 0, 3), seconds=2)
    )
    history.fail("connection refused")
    assert row_of(history).trend == (1, None, 3, None)


def test_a_trend_has_a_limit() -> None:
    """Older values go."""
    history = history_of(*(look(partition(0, 0, number), seconds=number) for number in range(9)))
    assert row_of(history).trend == (4, 5, 6, 7, 8)


def test_a_group_that_is_gone_is_forgotten() -> None:
    """One that comes back under the same name starts anew."""
    history = history_of(look(partition(0, 0, 1)), Look(LagReport("c", START + timedelta(seconds=1))))
    assert history.groups() == []
    history.add(look(partition(0, 0, 2), seconds=2))
    assert row_of(history).trend == (2,)
    assert row_of(history).produced is None


def test_a_failure_keeps_the_last_report_and_its_reason() -> None:
    """Until the next look that succeeds, whose rates span the gap."""
    history = history_of(look(partition(0, 0, 10)))
    history.fail("connection refused")
    assert (history.failure, history.looks, row_of(history).lag) == ("connection refused", 2, 10)
    history.add(compared(look(partition(0, 0, 10)), look(partition(0, 4, 10), seconds=4)))
    assert (history.failure, history.looks, row_of(history).completed) == (None, 3, 1.0)


def test_a_closer_look_is_summed_up() -> None:
    """What can be consumed is a sum, the oldest record the oldest of all."""
    seen = [PartitionVisible(consumable_lag=lag, oldest_record_age_seconds=age) for lag, age in ((2, 3.0), (4, 60.0))]
    history = history_of(look(partition(0, 0, 5, seen[0]), partition(1, 0, 5, seen[1])))
    assert (row_of(history).consumable, row_of(history).oldest) == (6, 60.0)
    assert [(row.consumable, row.oldest) for row in partitions_of(history)] == [(2, 3.0), (4, 60.0)]


def test_a_closer_look_that_lacks_a_partition_has_no_sum() -> None:
    """What is known is shown with the partition."""
    seen = PartitionVisible(consumable_lag=2, phantom_offsets=3)
    history = history_of(look(partition(0, 0, 5, seen), partition(1, 0, 5, PartitionVisible())))
    assert row_of(history).consumable is None
    assert [(row.consumable, row.phantom) for row in partitions_of(history)] == [(2, 3), (None, None)]


def test_partitions_have_their_status() -> None:
    """None where all is well."""
    history = history_of(look(partition(0, 0, 5), unknown(1, message="there is no leader")))
    assert [(row.name, row.status, row.message) for row in partitions_of(history)] == [
        ("orders-0", "", None),
        ("orders-1", "no_leader", "there is no leader"),
    ]
    assert history.partitions("another") is None
