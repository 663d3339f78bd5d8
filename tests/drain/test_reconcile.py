"""Offsets to commit, after the rules F1–F18 of the Flink work (FLINK-33484); tests are named by their rule."""

from __future__ import annotations

import ast
import copy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.drain import reconcile as module
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.reconcile import (
    EARLIEST,
    LATEST,
    BoundedRead,
    Checkpoint,
    Reading,
    Reconciled,
    offset_to_commit,
    reconcile,
)

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def one(
    reading: Reading, finished: int | None, bounded: BoundedRead | None = None, assigned: bool = True
) -> Reconciled:
    """Reconcile one partition."""
    checkpoint = Checkpoint({ORDERS: finished}) if finished is not None else Checkpoint({}, frozenset({ORDERS}))
    assignment = {ORDERS} if assigned else set()
    readings = {ORDERS: reading} if assigned else {}
    return reconcile(readings, checkpoint, assignment, {} if bounded is None else {ORDERS: bounded})


STEPS = {
    "record at o0, commit marker o1": (Reading(2, 0), 1, 2),
    "records o0-o2 fetched, o0 and o1 finished": (Reading(4, 2), 2, 2),
    "same, o2 finished, marker o3": (Reading(4, 2, 2), 3, 4),
    "poll 3 returned nothing, was only a marker (o2)": (Reading(3, 1, 2), 2, 3),
    "three one-record transactions (o0, o2, o4), idle": (Reading(6, 4), 5, 6),
    "aborted o0-o5, marker o6, start 0": (Reading(7), 0, 7),
    "the same, start earliest": (Reading(7), EARLIEST, 7),
    "the same, start latest": (Reading(7), LATEST, 7),
    "the same, no offset yet": (Reading(7), None, 7),
    "earliest, first record o7 arrives after the snapshot": (Reading(8, 7), None, None),
    "committed 2 last time, checkpoint still 1, o2 fetched before the commit": (Reading(3, 2, 2), 1, None),
    "assigned again, committed offset 4, nothing handed on yet": (Reading(4), None, 4),
}
BOUNDED = {
    "bounded to o10, at o6": (Reading(9, 5), 6, BoundedRead(10), 6),
    "bounded to o10, finished, last record o7 (o8 and o9 are markers)": (Reading(10, 7), 8, BoundedRead(10, True), 10),
    "bounded and finished, but o7 is not finished by the sink": (Reading(10, 7), 7, BoundedRead(10, True), 7),
    "bounded, finished, the stop offset is not concrete": (Reading(10, 7), 8, BoundedRead(LATEST, True), 8),
    "bounded, finished, never left its placeholder": (Reading(), EARLIEST, BoundedRead(10, True), None),
    "bounded, nothing but aborted records, still running": (Reading(6), None, BoundedRead(10), None),
    "bounded, nothing but aborted records, finished": (Reading(10), None, BoundedRead(10, True), 10),
}


@pytest.mark.parametrize("case", STEPS)
def test_steps(case: str) -> None:
    """Each row of the step table commits what it says."""
    reading, finished, expected = STEPS[case]
    assert one(reading, finished).offsets == ({} if expected is None else {ORDERS: expected})


@pytest.mark.parametrize("case", BOUNDED)
def test_f11_f12_steps_of_bounded_reads(case: str) -> None:
    """While a bounded read runs, what is finished is committed (F11); at its end, where it stopped (F12)."""
    reading, finished, bounded, expected = BOUNDED[case]
    assert one(reading, finished, bounded).offsets == ({} if expected is None else {ORDERS: expected})


def test_revoked_before_the_commit_runs() -> None:
    """What was finished is offered apart, exactly as it was, and never the position."""
    found = one(Reading(9, 4), 5, assigned=False)
    assert found.offsets == {}
    assert found.unassigned == {ORDERS: 5}


def test_revoked_and_assigned_again() -> None:
    """A partition that comes back is as at the start: a lower offset than before may be committed."""
    gone = reconcile({ORDERS: Reading(9, 8, 9)}, Checkpoint({ORDERS: 9}), set())
    back = reconcile({**gone.readings, ORDERS: Reading(3)}, Checkpoint({}, frozenset({ORDERS})), {ORDERS})
    assert back.offsets == {ORDERS: 3}


def test_f4_the_position_counts_once_all_that_was_handed_on_is_finished() -> None:
    """Markers behind the last record are stepped over, and only then."""
    assert offset_to_commit(Reading(position=6, last=4), 5) == 6
    assert offset_to_commit(Reading(position=6, last=4), 4) == 4


def test_f5_where_nothing_was_handed_on_the_position_counts() -> None:
    """No record can be waiting, whatever the checkpoint says."""
    assert offset_to_commit(Reading(position=7), 3) == 7


def test_f5_own_state_ahead_of_the_position_counts() -> None:
    """A restart from own state does not take back what was finished."""
    assert offset_to_commit(Reading(position=3), 5) == 5


@pytest.mark.parametrize("placeholder", [EARLIEST, LATEST, -3])
def test_f6_a_placeholder_is_no_offset(placeholder: int) -> None:
    """Any negative start is as if there were none."""
    assert one(Reading(4), placeholder).offsets == one(Reading(4), None).offsets == {ORDERS: 4}
    assert one(Reading(None), placeholder).offsets == {}


def test_f7_a_first_record_after_the_snapshot_waits_for_the_next() -> None:
    """The partition is left out once, and commits at the next checkpoint."""
    assert one(Reading(8, 7), None).offsets == {}
    assert one(Reading(8, 7), 8).offsets == {ORDERS: 8}


def test_f8_only_the_partition_that_would_go_back_is_left_out() -> None:
    """The others are committed all the same."""
    readings = {ORDERS: Reading(3, 2, 2), OTHER: Reading(9, 7, 2)}
    found = reconcile(readings, Checkpoint({ORDERS: 1, OTHER: 8}), {ORDERS, OTHER})
    assert found.offsets == {OTHER: 9}
    assert found.readings[ORDERS].done == 2


def test_f9_done_is_set_by_sending() -> None:
    """What comes back holds the offsets as sent; the readings that went in do not."""
    before = Reading(2, 0)
    found = one(before, 1)
    assert found.readings == {ORDERS: Reading(2, 0, 2)}
    assert before.done is None


def test_f10_tracking_of_unassigned_partitions_is_dropped() -> None:
    """Position, last and done of a partition that went away are gone."""
    found = reconcile({ORDERS: Reading(9, 8, 9), OTHER: Reading(1)}, Checkpoint(), {OTHER})
    assert found.readings == {OTHER: Reading(1)}


def test_f10_a_partition_without_an_offset_that_went_away_has_nothing_to_offer() -> None:
    """Neither its position nor a placeholder is offered."""
    found = one(Reading(9), EARLIEST, assigned=False)
    assert (found.offsets, found.unassigned) == ({}, {})


def test_f13_nothing_finished_is_an_empty_answer() -> None:
    """A checkpoint without partitions asks for no request."""
    assert reconcile({ORDERS: Reading(5, 4)}, Checkpoint(), {ORDERS}).offsets == {}


def test_f18_a_checkpoint_is_not_changed() -> None:
    """It is as before, deep down, and cannot be assigned to."""
    checkpoint = Checkpoint({ORDERS: 1, OTHER: EARLIEST}, frozenset({OTHER}))
    before = copy.deepcopy(checkpoint)
    reconcile({ORDERS: Reading(4, 0, 1), OTHER: Reading(3)}, checkpoint, {ORDERS, OTHER})
    assert checkpoint == before
    with pytest.raises(AttributeError):
        checkpoint.offsets = {}  # type: ignore[misc]


def test_a_checkpoint_survives_being_stored() -> None:
    """Somebody's own state can hold it as JSON, and gets it back."""
    checkpoint = Checkpoint({ORDERS: 5}, frozenset({OTHER}))
    rows = msgspec.json.encode([[*partition, offset] for partition, offset in checkpoint.offsets.items()])
    assert {TopicPartition(*row[:2]): row[2] for row in msgspec.json.decode(rows)} == checkpoint.offsets


def test_f1_f15_the_rules_know_no_clock_and_no_event_loop() -> None:
    """Nothing is imported that could wait or look at the time."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported == {"__future__", "collections.abc", "typing", "msgspec", "shareproxy.drain.model"}


offsets = st.integers(0, 30)
maybe_offsets = st.none() | offsets
readings = st.builds(Reading, maybe_offsets, maybe_offsets, maybe_offsets)
bounds = st.none() | st.builds(BoundedRead, st.integers(-2, 30), st.booleans())


@given(readings, st.none() | st.integers(-2, 30), bounds)
def test_property_never_back_and_never_a_placeholder(
    reading: Reading, finished: int | None, bounded: BoundedRead | None
) -> None:
    """Whatever the numbers: what is sent is an offset, and not lower than the last."""
    found = one(reading, finished, bounded)
    for offset in found.offsets.values():
        assert offset >= (reading.done or 0)
    assert one(found.readings[ORDERS], finished, bounded).offsets.get(ORDERS, 0) >= found.offsets.get(ORDERS, 0)


@given(readings, st.none() | st.integers(-2, 30), bounds)
def test_property_never_beyond_a_record_that_waits(
    reading: Reading, finished: int | None, bounded: BoundedRead | None
) -> None:
    """With the last record unfinished, nothing above what is finished is sent."""
    if reading.last is None or finished == reading.last + 1:
        return
    found = one(reading, finished, bounded).offsets
    assert all(finished is not None and offset <= finished for offset in found.values())


@given(st.dictionaries(st.sampled_from([ORDERS, OTHER]), readings), st.data())
def test_property_pure(given_readings: dict[TopicPartition, Reading], data: st.DataObject) -> None:
    """The same question has the same answer, and nothing that was given is changed."""
    checkpoint = Checkpoint(data.draw(st.dictionaries(st.sampled_from([ORDERS, OTHER]), st.integers(-2, 30))))
    assignment = data.draw(st.sets(st.sampled_from([ORDERS, OTHER])))
    before = copy.deepcopy((given_readings, checkpoint, assignment))
    first = reconcile(given_readings, checkpoint, assignment)
    assert first == reconcile(given_readings, checkpoint, assignment)
    assert (given_readings, checkpoint, assignment) == before
    assert first.readings.keys() == assignment
