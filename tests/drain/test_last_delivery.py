"""Records that are held on their last delivery."""

from __future__ import annotations

from typing import Any

from shareproxy.drain.last_delivery import LastDeliveries, ours
from tests.drain.fake_consumer import FakeRecord


def record(offset: int, lock_deadline: float | None = 100.0) -> Any:
    """Return a record whose lock ends then."""
    made = FakeRecord(offset, delivery_count=5)
    made.lock_deadline = lock_deadline  # type: ignore[assignment]
    return made


def test_records_are_tried_when_they_are_due() -> None:
    """Not before."""
    held, early, late = LastDeliveries(), record(0), record(1)
    held.add([early], "why", 10.0)
    held.add([late], "why", 20.0)

    assert held.due(5.0) == []
    assert held.due(10.0) == [early]
    assert held.due(20.0) == [early, late]


def test_one_that_failed_again_waits_and_stands_at_the_end() -> None:
    """So that it does not keep the others from their turn."""
    held, bad, good = LastDeliveries(), record(0), record(1)
    held.add([bad, good], "why", 0.0)

    assert held.failed(bad) == 1
    held.postpone(bad, 50.0)

    assert held.due(10.0) == [good]
    assert held.due(50.0) == [good, bad]
    assert held.failed(bad) == 2


def test_one_that_worked_is_gone() -> None:
    """The other stays."""
    held, one, other = LastDeliveries(), record(0), record(1)
    held.add([one, other], "why", 0.0)

    held.settled(one)

    assert (held.records, len(held)) == ([other], 1)


def test_those_whose_lock_has_run_out_are_let_go() -> None:
    """The consumer gives a lost one the deadline 0; in a consumer group there are no locks."""
    held, lost, kept, free = LastDeliveries(), record(0, 0.0), record(1), record(2, None)
    held.add([lost, kept, free], "why", 0.0)

    assert held.drop_lost(10.0) == [lost]
    assert held.records == [kept, free]
    assert held.clear() == [kept, free]
    assert not held


def test_a_record_is_ours_until_its_deadline() -> None:
    """Not at it."""
    assert ours(record(0, 10.0), 9.9)
    assert not ours(record(0, 10.0), 10.0)
    assert ours(record(0, None), 10.0)
