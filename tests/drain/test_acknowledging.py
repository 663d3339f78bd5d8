"""Acknowledgements on their way to the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.drain.acknowledging import AckQueue, AckRange, halves, wire_batches
from shareproxy.drain.acquired import AcquiredRange, Lock
from shareproxy.drain.model import Acknowledgement
from shareproxy.protocol.messages import ShareAcknowledgeRequestAcknowledgementBatch as Batch

ONE, TWO, THREE = (Lock(number, 30.0, 30.0) for number in (1, 2, 3))
GAP, ACCEPT, RELEASE, REJECT, RENEW = Acknowledgement


def wire(*parts: tuple[int, int, Acknowledgement]) -> list[tuple[int, int, list[int]]]:
    """Write ranges as they go out."""
    batches = wire_batches([AckRange(first, last, kind, ONE) for first, last, kind in parts], Batch)
    return [(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches]


def spans(parts: list[AckRange]) -> list[tuple[int, int, Acknowledgement]]:
    """Return ranges without their locks."""
    return [(part.first, part.last, part.kind) for part in parts]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, 499, ACCEPT)], [(0, 499, [1])]),
        ([(0, 4, ACCEPT), (5, 9, ACCEPT)], [(0, 9, [1])]),
        ([(0, 4, ACCEPT), (6, 9, ACCEPT)], [(0, 4, [1]), (6, 9, [1])]),
        ([(0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, GAP)], [(0, 3, [1, 1, 2, 0])]),
        ([(0, 499, ACCEPT), (500, 500, REJECT)], [(0, 499, [1]), (500, 500, [3])]),
    ],
)
def test_wire_batches(
    parts: list[tuple[int, int, Acknowledgement]], expected: list[tuple[int, int, list[int]]]
) -> None:
    """A batch has one type, or one per offset where that is shorter."""
    assert wire(*parts) == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40), st.sampled_from([GAP, ACCEPT, RELEASE, REJECT]))))
def test_wire_batches_say_what_was_noted(parts: list[tuple[bool, int, Acknowledgement]]) -> None:
    """§3.3, 42: ascending, not overlapping, as many types as offsets or one; and each offset has its kind, once."""
    noted: list[tuple[int, int, Acknowledgement]] = []
    at = 0
    for hole, length, kind in parts:
        at += hole
        noted.append((at, at + length - 1, kind))
        at += length

    batches = wire(*noted)

    said: dict[int, int] = {}
    before = -1
    for first, last, kinds in batches:
        assert before < first <= last
        assert len(kinds) in (1, last - first + 1)
        before = last
        for offset in range(first, last + 1):
            said[offset] = kinds[0] if len(kinds) == 1 else kinds[offset - first]
    assert said == {offset: int(kind) for first, last, kind in noted for offset in range(first, last + 1)}


def test_take_sorts_and_joins() -> None:
    """Whatever the order in which offsets are done, few ranges go out."""
    queue = AckQueue()
    for offset in (3, 1, 2, 0, 7):
        queue.note(offset, offset, ACCEPT, ONE)

    assert spans(queue.take()) == [(0, 3, ACCEPT), (7, 7, ACCEPT)]
    assert not queue.pending


@pytest.mark.parametrize("order", [(0, 5), (5, 0)])
def test_neighbours_under_different_locks_stay_apart(order: tuple[int, int]) -> None:
    """One lock may be lost and the other not, so that they can be sent again apart; on the wire they are one."""
    queue = AckQueue()
    for first in order:
        queue.note(first, first + 4, ACCEPT, ONE if first == 0 else TWO)

    parts = queue.take()

    assert spans(parts) == [(0, 4, ACCEPT), (5, 9, ACCEPT)]
    assert len(wire_batches(parts, Batch)) == 1
    assert queue.split()
    assert spans(queue.take()) == [(0, 4, ACCEPT)]


def test_renewals_go_before_and_apart() -> None:
    """A refused renewal must not void acknowledgements, so that they never share a request of a partition."""
    queue = AckQueue()
    queue.note(0, 4, ACCEPT, ONE)
    queue.note_renewal(5, 9, ONE)

    assert queue.urgent
    assert spans(queue.take()) == [(5, 9, RENEW)]
    queue.settle()
    assert spans(queue.take()) == [(0, 4, ACCEPT)]


def test_a_renewal_is_noted_once_for_each_offset() -> None:
    """Two wishes for one offset would overlap on the wire, which is 42."""
    queue = AckQueue()
    queue.note_renewal(0, 5, ONE)
    queue.note_renewal(3, 9, ONE)
    queue.note_renewal(2, 4, ONE)

    assert spans(queue.take()) == [(0, 9, RENEW)]


def test_count_is_what_has_no_answer() -> None:
    """Offsets count from the note to the answer, renewals do not."""
    queue = AckQueue()
    queue.note(0, 4, ACCEPT, ONE)
    queue.note_renewal(5, 9, ONE)
    assert queue.count == 5

    queue.take()
    queue.settle()
    queue.take()
    assert queue.count == 5
    queue.settle()

    assert queue.count == 0
    assert not queue


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, 9, ONE)], None),
        ([(0, 4, ONE), (6, 9, ONE)], [[(0, 4)], [(6, 9)]]),
        ([(0, 0, ONE), (1, 1, TWO), (2, 2, ONE)], [[(0, 0), (2, 2)], [(1, 1)]]),
        ([(0, 0, ONE), (1, 1, TWO), (2, 2, THREE)], [[(0, 0), (1, 1)], [(2, 2)]]),
        ([(0, 0, ONE), (2, 2, ONE), (4, 4, ONE)], [[(0, 0), (2, 2)], [(4, 4)]]),
    ],
)
def test_halves(parts: list[tuple[int, int, Lock]], expected: list[list[tuple[int, int]]] | None) -> None:
    """What is under one lock stays together first; a single range cannot be cut."""
    cut = halves([AckRange(first, last, ACCEPT, lock) for first, last, lock in parts])

    found = None if cut is None else [[(part.first, part.last) for part in half] for half in cut]
    assert found == expected


def test_unseen_leaves_out_what_the_caller_is_done_with() -> None:
    """C8: a record handed over again before its acknowledgement was sent is not shown again."""
    queue = AckQueue()
    queue.note(3, 5, ACCEPT, ONE)

    assert queue.unseen([AcquiredRange(0, 9, 2)]) == [(0, 2, 2), (6, 9, 2)]
    assert AckQueue().unseen([AcquiredRange(0, 9, 2)]) == [(0, 9, 2)]


def test_unseen_shows_what_is_only_being_renewed() -> None:
    """A renewal sent again in parts says nothing about whether the caller is done."""
    queue = AckQueue()
    queue.note_renewal(0, 1, ONE)
    queue.note_renewal(3, 4, TWO)
    queue.take()
    assert queue.split()

    assert queue.unseen([AcquiredRange(0, 9, 2)]) == [(0, 9, 2)]


def test_give_up_returns_everything_once() -> None:
    """Sent, sent again in parts, noted, to be renewed: nothing is forgotten."""
    queue = AckQueue()
    queue.note(0, 0, ACCEPT, ONE)
    queue.note(2, 2, ACCEPT, TWO)
    queue.take()
    queue.split()
    queue.take()
    queue.note(4, 4, REJECT, ONE)
    queue.note_renewal(6, 6, ONE)

    sent, waiting = queue.give_up()

    assert spans(sent) == [(0, 0, ACCEPT)]
    assert spans(waiting) == [(2, 2, ACCEPT), (4, 4, REJECT), (6, 6, RENEW)]
    assert not queue
    assert queue.count == 0


def test_take_everything_leaves_renewals() -> None:
    """The last request of a session carries what is left, in order; a lock is not worth prolonging then."""
    queue = AckQueue()
    queue.note(0, 0, ACCEPT, ONE)
    queue.note(2, 2, ACCEPT, TWO)
    queue.take()
    queue.split()
    queue.note(1, 1, RELEASE, ONE)
    queue.note_renewal(6, 6, ONE)

    assert spans(queue.take_everything()) == [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, ACCEPT)]
    assert spans(queue.give_up()[1]) == [(6, 6, RENEW)]
