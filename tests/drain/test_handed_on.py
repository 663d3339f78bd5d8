"""What was handed on and what is finished, over whole logs with markers, aborted records and holes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.drain.handed_on import HandedOn
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.reconcile import Checkpoint

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def commit(state: HandedOn) -> int | None:
    """Commit what is finished now, and return the offset of the one partition."""
    offsets = state.plan(state.checkpoint()).offsets
    state.sent(offsets)
    return offsets.get(ORDERS)


@pytest.fixture
def state() -> HandedOn:
    """One assigned partition."""
    state = HandedOn()
    state.assign([ORDERS])
    return state


def test_f1_an_empty_poll_moves_the_position(state: HandedOn) -> None:
    """A marker that is alone in a poll is stepped over."""
    state.hand_on(ORDERS, [0, 1])
    state.at(ORDERS, 2)
    state.finish(ORDERS, 0)
    state.finish(ORDERS, 1)
    assert commit(state) == 2
    state.at(ORDERS, 3)
    assert commit(state) == 3


def test_f2_the_last_record_handed_on_is_known(state: HandedOn) -> None:
    """It is that of the newest batch."""
    state.hand_on(ORDERS, [0, 1])
    state.hand_on(ORDERS, [4])
    assert state.reading(ORDERS).last == 4


def test_f3_only_a_prefix_without_gaps_counts(state: HandedOn) -> None:
    """A record that is still worked on holds all behind it back."""
    state.hand_on(ORDERS, [0, 1, 2, 5])
    state.at(ORDERS, 7)
    state.finish(ORDERS, 2)
    state.finish(ORDERS, 5)
    assert state.checkpoint().offsets == {ORDERS: 0}
    state.finish(ORDERS, 0)
    assert commit(state) == 1
    state.finish(ORDERS, 1)
    assert commit(state) == 7


def test_f3_offsets_that_were_never_handed_on_are_no_gap(state: HandedOn) -> None:
    """Compaction and markers leave holes in the log that nobody will finish."""
    state.hand_on(ORDERS, [3, 9])
    state.finish(ORDERS, 3)
    state.finish(ORDERS, 9)
    assert state.checkpoint().offsets == {ORDERS: 10}


def test_f6_a_new_partition_has_no_offset_yet(state: HandedOn) -> None:
    """It is kept in the checkpoint's other set."""
    assert state.checkpoint() == Checkpoint({}, frozenset({ORDERS}))


def test_the_first_record_pins_the_start(state: HandedOn) -> None:
    """A new group that begins at the end commits where it began before the first record is finished.

    Without that, dying now would begin at a later end, and the record would be lost.
    """
    state.hand_on(ORDERS, [100, 101])
    state.at(ORDERS, 102)
    assert commit(state) == 100


def test_f10_all_is_dropped_on_revoke(state: HandedOn) -> None:
    """The partition is as new when it comes back; late words on its records change nothing."""
    state.hand_on(ORDERS, [0, 1])
    state.finish(ORDERS, 1)
    state.revoke([ORDERS])
    assert state.waiting == 0
    assert not state.finish(ORDERS, 0)
    state.assign([ORDERS])
    assert state.checkpoint() == Checkpoint({}, frozenset({ORDERS}))


def test_f9_what_was_sent_is_remembered_until_revoked(state: HandedOn) -> None:
    """An older checkpoint does not take the group back (F8)."""
    state.hand_on(ORDERS, [0, 1])
    older = state.checkpoint()
    state.finish(ORDERS, 0)
    assert commit(state) == 1
    assert state.plan(older).offsets == {}


def test_a_record_is_finished_once(state: HandedOn) -> None:
    """A second word on it, or on one that was never handed on, is no."""
    state.hand_on(ORDERS, [0])
    assert state.finish(ORDERS, 0)
    assert not state.finish(ORDERS, 0)
    assert not state.finish(ORDERS, 7)
    assert not state.finish(OTHER, 0)


def test_waiting_records_are_counted_by_partition(state: HandedOn) -> None:
    """The sum is over all, and some can be asked for."""
    state.assign([OTHER])
    state.hand_on(ORDERS, [0, 1])
    state.hand_on(OTHER, [5])
    state.finish(ORDERS, 1)
    assert (state.waiting, state.waiting_in([ORDERS]), state.waiting_in([OTHER])) == (2, 1, 1)


def test_nothing_is_noted_for_partitions_that_are_not_ours(state: HandedOn) -> None:
    """A poll's late words are dropped."""
    state.at(OTHER, 5)
    state.hand_on(OTHER, [1])
    state.sent({OTHER: 9})
    assert state.assignment == {ORDERS}
    assert state.waiting == 0


def test_f11_f12_a_bounded_read_ends_at_its_stop() -> None:
    """While it runs its position does not count; at its end the stop offset does."""
    state = HandedOn({ORDERS: 10})
    state.assign([ORDERS])
    state.hand_on(ORDERS, [0, 7])
    state.at(ORDERS, 9)
    state.finish(ORDERS, 0)
    state.finish(ORDERS, 7)
    assert commit(state) == 8
    assert not state.stopped(ORDERS)
    state.at(ORDERS, 12)
    assert state.stopped(ORDERS)
    assert commit(state) == 10


def test_a_log_made_anew_holds_commits_back_and_loses_nothing(state: HandedOn) -> None:
    """Offsets that begin anew are handed on and finished; none is sent that would go back (F8)."""
    state.hand_on(ORDERS, [5, 6])
    state.finish(ORDERS, 5)
    state.finish(ORDERS, 6)
    state.at(ORDERS, 7)
    assert commit(state) == 7
    state.hand_on(ORDERS, [0, 1])
    state.at(ORDERS, 2)
    assert state.waiting == 2
    state.finish(ORDERS, 0)
    assert commit(state) is None


@given(st.data())
def test_property_over_whole_logs(data: st.DataObject) -> None:
    """Polls, finishing in any order, commits: never beyond what waits, never back, and at the end all is committed."""
    log = data.draw(st.lists(st.booleans(), max_size=25))  # true: a record; false: a marker or an aborted one
    state = HandedOn()
    state.assign([ORDERS])
    position, waiting, committed = 0, set[int](), None
    while True:
        steps = [*(["poll"] if position < len(log) else []), *(["finish"] if waiting else []), "commit"]
        step = data.draw(st.sampled_from(steps))
        if step == "poll":
            end = data.draw(st.integers(position + 1, len(log)))
            records = [offset for offset in range(position, end) if log[offset]]
            state.hand_on(ORDERS, records)
            state.at(ORDERS, end)
            waiting.update(records)
            position = end
        elif step == "finish":
            offset = data.draw(st.sampled_from(sorted(waiting)))
            assert state.finish(ORDERS, offset)
            waiting.discard(offset)
        else:
            offset_sent = commit(state)
            if offset_sent is not None:
                assert all(offset_sent <= record for record in waiting)
                assert committed is None or offset_sent >= committed
                committed = offset_sent
            if position == len(log) and not waiting:
                break
    assert state.waiting == 0
    assert not log or committed == len(log)
