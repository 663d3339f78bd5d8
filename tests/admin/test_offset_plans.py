"""A plan says what would be done, and every reason against it."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from shareproxy import (
    AccessDenied,
    AdminError,
    Earliest,
    Latest,
    NotAShareGroup,
    OffsetPlan,
    ShareAdmin,
    Shift,
    TimedOut,
    ToOffset,
    ToTime,
    UnknownTopic,
    WrongArgument,
)
from shareproxy.admin import offset_plans
from shareproxy.admin.results import PlannedOffset
from shareproxy.admin.targets import Target
from shareproxy.lag.model import PartitionLag
from shareproxy.protocol.ids import NO_TOPIC_ID
from shareproxy.testing import SimulatedCluster


def offsets(plan: OffsetPlan) -> list[tuple[int | None, int | None]]:
    """Return start and new offset of each row."""
    return [(row.start_offset, row.new_offset) for row in plan.rows]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Earliest(), [(2, 1), (0, 0)]),
        (Latest(), [(2, 10), (0, 10)]),
        (ToOffset(5), [(2, 5), (0, 5)]),
        (Shift(3), [(2, 5), (0, 3)]),
        (ToTime(datetime(1970, 1, 1, tzinfo=UTC)), [(2, 1), (0, 0)]),
    ],
)
async def test_each_target_has_its_offsets(
    target: Target, expected: list[tuple[int, int]], cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """Of all partitions that the group has state of."""
    cluster.delete_records("t", 0, 1)

    plan = await admin.plan_offsets("g", target)

    assert offsets(plan) == expected
    assert (plan.accepted, plan.creates_group, plan.state) == (True, False, "Empty")
    assert plan.offsets == {("t", index): new for index, (_, new) in enumerate(expected)}


async def test_a_time_after_the_last_record_is_the_end(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """And the row says so."""
    plan = await admin.plan_offsets("g", ToTime(datetime(2999, 1, 1, tzinfo=UTC)), topics={"t": [1]})

    [row] = plan.rows
    assert (row.new_offset, row.refusal) == (10, None)
    assert row.note is not None
    assert "no record is as late as 2999" in row.note


async def test_chosen_partitions_only(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Also those that the group has no state of."""
    cluster.create_topic("new", 1)

    plan = await admin.plan_offsets("g", Latest(), topics={"t": [1], "new": None})

    assert [(row.topic, row.partition, row.start_offset) for row in plan.rows] == [("new", 0, None), ("t", 1, 0)]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (ToOffset(11), "t-0: offset 11 lies beyond the end 10"),
        (ToOffset(0), "t-0: offset 0 lies below the log start 1"),
        (Shift(9), "t-0: offset 11 lies beyond the end 10"),
    ],
)
async def test_offsets_outside_of_the_log_are_refused(
    target: Target, words: str, cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """By row; the others would do."""
    cluster.delete_records("t", 0, 1)

    plan = await admin.plan_offsets("g", target)

    assert not plan.accepted
    assert words in plan.all_refusals[0]
    assert ("t", 0) not in plan.offsets


async def test_an_unknown_start_cannot_be_shifted(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """There is nothing to count from."""
    cluster.create_topic("new", 1)

    plan = await admin.plan_offsets("g", Shift(1), topics="new")

    assert plan.rows[0].new_offset is None
    assert "cannot be shifted" in plan.all_refusals[0]


async def test_a_log_that_cannot_be_read_is_refused(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Where it ends is not known, so nothing can be said."""
    cluster.move_leader("t", 0, None)

    plan = await admin.plan_offsets("g", ToOffset(5), timeout=0.6)

    assert [row.refusal is None for row in plan.rows] == [False, True]
    assert "no leader" in plan.all_refusals[0]


async def test_a_group_with_members_is_refused(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The sentence counts them and names some."""
    for number in range(4):
        cluster.join("g", ["t"], client_id=f"worker-{number}")

    plan = await admin.plan_offsets("g", Latest())

    assert not plan.accepted
    assert "4 members (worker-0, worker-1, worker-2, …)" in plan.refusals[0]


async def test_a_group_that_does_not_exist_would_be_made(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """With the topics that are named; without any, nobody knows which."""
    plan = await admin.plan_offsets("new", Earliest(), topics="t")

    assert (plan.creates_group, plan.accepted, plan.state, len(plan.rows)) == (True, True, None, 2)
    with pytest.raises(WrongArgument, match="name the topics"):
        await admin.plan_offsets("new", Earliest())


async def test_a_group_without_state_needs_topics(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """There is nothing that could be altered."""
    cluster.join("idle", ["nosuch"])

    with pytest.raises(WrongArgument, match="no initialized partition"):
        await admin.plan_offsets("idle", Earliest())


@pytest.mark.parametrize(
    ("topics", "words"), [("nosuch", "'nosuch' does not exist"), ({"t": [2]}, "no partition 2: it has 2")]
)
async def test_what_does_not_exist_cannot_be_planned(
    topics: str | dict[str, list[int]], words: str, admin: ShareAdmin
) -> None:
    """Topic or partition."""
    with pytest.raises(UnknownTopic, match=words):
        await admin.plan_offsets("g", Earliest(), topics=topics)


async def test_a_hidden_topic_names_the_right(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """DESCRIBE on the topic."""
    cluster.fail(3, 29, topic="t")

    with pytest.raises(AccessDenied) as caught:
        await admin.plan_offsets("g", Earliest(), topics="t")

    assert (caught.value.operation, caught.value.resource) == ("DESCRIBE", "topic 't'")


async def test_a_topic_in_trouble_is_not_called_missing(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Any other error of Metadata may pass."""
    cluster.fail(3, 5, topic="t")

    with pytest.raises(AdminError, match="try again"):
        await admin.plan_offsets("new", Earliest(), topics="t", timeout=0.6)


async def test_a_group_of_another_type(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Its offsets are not ours."""
    cluster.commit_offsets("c", {"t": {0: 1}})

    with pytest.raises(NotAShareGroup, match="classic group"):
        await admin.plan_offsets("c", Earliest(), topics="t")


async def test_a_coordinator_that_hangs(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Within the time given."""
    cluster.slow(60, 77)

    with pytest.raises(TimedOut):
        await admin.plan_offsets("g", Earliest(), timeout=0.3)


@pytest.mark.parametrize(
    ("start", "lag", "new", "skips", "again"),
    [
        # the whole log is waiting, or done but for the first offset: what lies where is certain
        (0, 5, 5, (5, 5), (0, 0)),
        (0, 5, 2, (2, 2), (0, 0)),
        (0, 1, 5, (1, 1), (0, 0)),
        (3, 2, 0, (0, 0), (3, 3)),
        # back over offsets that are done, and all that was done behind the start
        (3, 1, 1, (0, 0), (3, 3)),
        (1, 2, 1, (0, 0), (2, 2)),
        # which of those behind the start are done is not known
        (0, 2, 3, (0, 2), (0, 2)),
        (0, 3, 4, (2, 3), (0, 1)),
        (0, 0, 2, (0, 0), (3, 3)),
        # without a lag there are bounds only
        (0, None, 5, (0, 5), (0, 0)),
        (0, None, 3, (0, 3), (0, 2)),
        (3, None, 0, (0, 0), (3, 5)),
    ],
)
def test_rows_say_what_is_skipped_and_what_is_delivered_again(
    start: int, lag: int | None, new: int, skips: tuple[int, int], again: tuple[int, int]
) -> None:
    """Counted in offsets of a log that ends at 5; bounds where it is not known which offsets are done."""
    row = PlannedOffset("t", NO_TOPIC_ID, 0, start_offset=start, new_offset=new, log_start=0, end=5, lag=lag)

    assert (row.skips_min, row.skips_max) == skips
    assert (row.delivers_again_min, row.delivers_again_max) == again
    assert row.skips == (skips[0] if skips[0] == skips[1] else None)
    assert row.delivers_again == (again[0] if again[0] == again[1] else None)


@pytest.mark.parametrize("log_start", range(4))
@pytest.mark.parametrize("start", range(4))
def test_bounds_hold_whatever_is_done(start: int, log_start: int) -> None:
    """Every way in which four offsets can be done, against every new offset."""
    end = 4
    for done in itertools.product([False, True], repeat=end - start):
        waiting = {offset for offset, is_done in enumerate(done, start) if not is_done}
        for new in range(log_start, end + 1):
            row = PlannedOffset("t", NO_TOPIC_ID, 0, start, new, log_start, end, lag=len(waiting))

            skipped = len([offset for offset in waiting if log_start <= offset < new])
            passed = [offset for offset in range(new, end) if offset not in waiting]

            assert row.skips_min is not None
            assert row.skips_max is not None
            assert row.skips_min <= skipped <= row.skips_max
            assert row.delivers_again_min is not None
            assert row.delivers_again_max is not None
            assert row.delivers_again_min <= len(passed) <= row.delivers_again_max


def test_without_a_start_offset_nothing_is_known() -> None:
    """Nor where the new offset is none."""
    for row in (
        PlannedOffset("t", NO_TOPIC_ID, 0, new_offset=8, end=9),
        PlannedOffset("t", NO_TOPIC_ID, 0, start_offset=8, end=9),
        PlannedOffset("t", NO_TOPIC_ID, 0, start_offset=8, new_offset=10, end=9),
    ):
        assert (row.skips, row.skips_min, row.delivers_again, row.delivers_again_max) == (None, None, None, None)


async def test_a_stored_start_that_lags_behind_misleads_nobody(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The start stands at 0 while two of ten offsets are done: to skip all is to skip eight."""
    plan = await admin.plan_offsets("g", Latest(), topics={"t": [1]})

    [row] = plan.rows
    assert (row.lag, row.new_lag, row.skips, row.delivers_again) == (8, 0, 8, 0)


def test_what_was_produced_meanwhile_is_waiting_too() -> None:
    """The end is read after the lag."""
    row = PartitionLag("t", NO_TOPIC_ID, 0, 0, 10, lag=8)

    assert [offset_plans._lag_at(row, end) for end in (None, 10, 13)] == [8, 8, 11]
