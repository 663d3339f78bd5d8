"""The books of the chaos run: nothing is forgiven that no fault explains."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.drain_chaos.ledger import Finished, Place, read, read_told, settle

LOCK = 15.0


def finished(offset: int, time: float, *, count: int = 1, partition: int = 0) -> Finished:
    """Return a line of a worker."""
    return Finished((partition, offset), count, time)


def places(*offsets: int) -> set[Place]:
    """Return offsets of partition 0."""
    return {(0, offset) for offset in offsets}


def test_all_finished_once_is_a_clean_account() -> None:
    """Nothing is missing, again or unknown."""
    account = settle(places(0, 1), [finished(0, 1.0), finished(1, 2.0)], [], LOCK)

    assert (account.produced, account.finished, list(account.missing)) == (2, 2, [])
    assert (account.unknown, account.again, account.unexplained) == (0, 0, 0)


def test_an_acknowledged_offset_that_nobody_finished_is_missing() -> None:
    """It is named, whatever faults there were."""
    produced = {*places(0, 1, 2), (1, 1)}

    account = settle(produced, [finished(0, 1.0), finished(1, 1.0)], [1.0, 2.0], LOCK)

    assert list(account.missing) == [(0, 2), (1, 1)]
    assert account.finished == 2


def test_a_partition_s_offset_does_not_stand_for_another_s() -> None:
    """Offset 5 of partition 1 is another record than offset 5 of partition 0."""
    account = settle({(0, 5)}, [finished(5, 1.0, partition=1)], [], LOCK)

    assert list(account.missing) == [(0, 5)]
    assert account.unknown == 1


def test_a_finished_record_of_an_acknowledgement_that_got_lost_is_told_apart() -> None:
    """The broker has it, the producer was not told: that is no loss, and not counted as finished."""
    account = settle(places(0), [finished(0, 1.0), finished(1, 1.0)], [], LOCK)

    assert (account.finished, account.unknown, list(account.missing)) == (1, 1, [])
    assert account.deliveries == {1: 1}


@pytest.mark.parametrize(
    ("fault", "unexplained"),
    [
        pytest.param(25.0, 0, id="between the two times"),
        pytest.param(20.0, 0, id="in the moment of the first"),
        pytest.param(30.0, 0, id="in the moment of the second"),
        pytest.param(5.0, 0, id="one lock before the first"),
        pytest.param(4.9, 1, id="longer ago than a lock"),
        pytest.param(30.1, 1, id="after the second"),
    ],
)
def test_what_came_again_needs_a_fault_that_explains_it(fault: float, unexplained: int) -> None:
    """Finished at 20 and again at 30, with a lock of 15 seconds."""
    account = settle(places(0), [finished(0, 30.0, count=2), finished(0, 20.0)], [fault], LOCK)

    assert (account.again, account.unexplained) == (1, unexplained)
    assert not account.missing


def test_each_repetition_is_explained_by_itself() -> None:
    """Three times finished is two repetitions; one fault explains the first only."""
    rows = [finished(0, 10.0), finished(0, 20.0, count=2), finished(0, 100.0, count=3)]

    account = settle(places(0), rows, [4.0], LOCK)

    assert (account.again, account.unexplained) == (2, 1)


def test_without_any_fault_nothing_may_come_again() -> None:
    """Not even a moment later."""
    account = settle(places(0), [finished(0, 10.0), finished(0, 10.0)], [], LOCK)

    assert (account.again, account.unexplained) == (1, 1)


def test_records_are_counted_by_their_highest_delivery_count() -> None:
    """One that came once and then a third time is one of three deliveries, whatever the order of the lines."""
    rows = [finished(0, 2.0, count=3), finished(0, 1.0, count=1), finished(1, 1.0), finished(2, 1.0)]

    account = settle(places(0, 1, 2), rows, [1.5], LOCK)

    assert account.deliveries == {1: 2, 3: 1}
    assert list(account.deliveries) == [1, 3]


def test_a_line_that_a_kill_cut_off_was_not_finished(tmp_path: Path) -> None:
    """What could be read of it looks like a whole line: the end is what tells."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("0 0 1 10.500\n0 1 1 11.0")
    second.write_text("3 7 2 12.250\n")

    rows = read([first, second])

    assert rows == [finished(0, 10.5), finished(7, 12.25, count=2, partition=3)]
    assert list(settle({(0, 0), (0, 1), (3, 7)}, rows, [], LOCK).missing) == [(0, 1)]


def test_a_worker_that_finished_nothing_leaves_an_empty_file(tmp_path: Path) -> None:
    """It was killed while it started."""
    (tmp_path / "empty").touch()

    assert read([tmp_path / "empty"]) == []


def test_a_record_again_that_a_worker_told_of_is_explained() -> None:
    """One that nobody told of is not, and counts apart."""
    twice = [finished(offset, time) for offset in (0, 1) for time in (1.0, 2.0)]

    account = settle(places(0, 1), twice, [], LOCK, told=places(0))

    assert (account.again, account.told, account.unexplained) == (2, 1, 1)


def test_losses_are_read_from_what_workers_wrote(tmp_path: Path) -> None:
    """Single offsets, ranges and several of them; other lines and cut ones are passed over."""
    log = tmp_path / "worker-0001.log"
    events = [
        "orders-3: acknowledgements of 7 are lost: This server does not host this topic-partition.",
        "orders-0: the locks of 1–3, 9 are lost; they are still being worked on",
        "orders-5: acknowledgements of 40 and 2 more are lost: no answer came",
        "node 1: connection refused",
    ]
    log.write_text("".join(f'{{"event":"{event}"}}\n' for event in events) + '{"event":"orders-1: the lo')

    assert read_told([log]) == {(3, 7), (0, 1), (0, 2), (0, 3), (0, 9), (5, 40)}
