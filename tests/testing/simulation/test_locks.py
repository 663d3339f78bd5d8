"""Who holds which offsets, and until when."""

from __future__ import annotations

from shareproxy.testing.simulation.locks import Lock, Locks


def locks_of(*rows: Lock) -> Locks:
    """Return locks that were taken in this order."""
    locks = Locks()
    for row in rows:
        locks.take(row)
    return locks


def test_a_lock_takes_the_place_of_others() -> None:
    """What stands out on both sides stays."""
    locks = locks_of(Lock(0, 9, "a"), Lock(3, 5, "b"))
    assert list(locks) == [Lock(0, 2, "a"), Lock(3, 5, "b"), Lock(6, 9, "a")]


def test_a_range_is_held_by_one_member_without_holes() -> None:
    """Neither another's offset nor a hole may be in it."""
    locks = locks_of(Lock(0, 4, "a"), Lock(5, 9, "a"), Lock(10, 12, "b"), Lock(14, 15, "b"))
    assert locks.held("a", 2, 8)
    assert not locks.held("a", 8, 10)
    assert not locks.held("b", 11, 14)
    assert not locks.held("a", 20, 21)


def test_dropped_offsets_are_nobodys() -> None:
    """Out of the middle of a lock."""
    locks = locks_of(Lock(0, 9, "a"))
    locks.drop(4, 5)
    assert [(lock.first, lock.last) for lock in locks] == [(0, 3), (6, 9)]
    assert locks.within(3, 6) == [Lock(3, 3, "a"), Lock(6, 6, "a")]


def test_locks_run_out_unless_they_are_renewed() -> None:
    """Those without a deadline never do."""
    locks = locks_of(Lock(0, 9, "a", 5.0), Lock(20, 29, "b"))
    locks.renew(0, 3, 8.0)
    assert locks.next_deadline == 5.0
    assert locks.due(5.0) == [Lock(4, 9, "a", 5.0)]
    locks.drop(4, 9)
    assert (locks.next_deadline, locks.due(7.9)) == (8.0, [])
    locks.drop(0, 3)
    assert locks.next_deadline is None
