"""Offsets that are held, as ranges with their locks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.drain.acquired import AcquiredRange, HeldOffsets, Lock, tidy, without
from shareproxy.drain.model import OffsetRange

EARLY = Lock(1, 30.0, 31.0, 15.0)
LATE = Lock(2, 60.0, 61.0, 45.0)


def holding(*ranges: tuple[int, int], lock: Lock = EARLY) -> HeldOffsets:
    """Hold some ranges under one lock."""
    held = HeldOffsets()
    for first, last in ranges:
        held.acquire(first, last, lock)
    return held


def spans(held: HeldOffsets) -> list[tuple[int, int, int]]:
    """Return what is held, with the numbers of the locks."""
    return [(run.first, run.last, run.lock.number) for run in held]


@pytest.mark.parametrize(
    ("first", "last", "taken", "left"),
    [
        (0, 9, [(0, 9)], [(20, 29)]),
        (0, 0, [(0, 0)], [(1, 9), (20, 29)]),
        (9, 9, [(9, 9)], [(0, 8), (20, 29)]),
        (4, 6, [(4, 6)], [(0, 3), (7, 9), (20, 29)]),
        (5, 24, [(5, 9), (20, 24)], [(0, 4), (25, 29)]),
        (0, 99, [(0, 9), (20, 29)], []),
        (10, 19, [], [(0, 9), (20, 29)]),
        (30, 40, [], [(0, 9), (20, 29)]),
        (8, 12, [(8, 9)], [(0, 7), (20, 29)]),
        (15, 20, [(20, 20)], [(0, 9), (21, 29)]),
    ],
)
def test_take_out(first: int, last: int, taken: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    """Exactly the offsets asked for leave, as far as they are held."""
    held = holding((0, 9), (20, 29))

    out = held.take_out(first, last)

    assert [(run.first, run.last) for run in out] == taken
    assert [(a, b) for a, b, _ in spans(held)] == left
    assert held.count == sum(b - a + 1 for a, b in left)


def test_pieces_leaves_everything_where_it_is() -> None:
    """Looking at a part of what is held takes nothing out."""
    held = holding((0, 9), (20, 29))

    assert [(run.first, run.last) for run in held.pieces(5, 22)] == [(5, 9), (20, 22)]
    assert held.count == 20


def test_acquiring_again_replaces_the_old_lock() -> None:
    """A range that a broker hands over once more was lost before."""
    held = holding((0, 9))

    replaced = held.acquire(5, 14, LATE)

    assert [(run.first, run.last) for run in replaced] == [(5, 9)]
    assert spans(held) == [(0, 4, 1), (5, 14, 2)]
    assert held.count == 15


def test_expire_takes_only_locks_that_are_certainly_over() -> None:
    """Between its deadline and its certain end an offset stays held: an acknowledgement may still count."""
    held = holding((0, 9))
    held.acquire(10, 19, LATE)

    assert held.expire(30.5) == []
    assert held.expire(31.0) == [(0, 9)]
    assert spans(held) == [(10, 19, 2)]
    assert held.count == 10


def test_relock_moves_only_what_is_still_held() -> None:
    """A renewal does not bring back what was acknowledged meanwhile."""
    held = holding((0, 9))
    held.take_out(3, 4)

    held.relock(2, 6, LATE)

    assert spans(held) == [(0, 1, 1), (2, 2, 2), (5, 6, 2), (7, 9, 1)]


def test_lock_of() -> None:
    """An offset knows its lock; one that is not held has none."""
    held = holding((5, 9))

    assert held.lock_of(5) is EARLY
    assert held.lock_of(9) is EARLY
    assert held.lock_of(4) is None
    assert held.lock_of(10) is None
    assert HeldOffsets().lock_of(0) is None


def test_ranges_joins_neighbours_under_different_locks() -> None:
    """Locks do not matter to who asks what is held."""
    held = holding((0, 4))
    held.acquire(5, 9, LATE)

    assert held.ranges() == [OffsetRange(0, 9)]
    assert held.clear() == [OffsetRange(0, 9)]
    assert not held
    assert held.count == 0


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 9, 1)], [(0, 9, 1)]),
        ([(3, 3, 2), (1, 1, 2), (2, 2, 2)], [(1, 3, 2)]),  # §3.4: Kafka 4.1 gives one range per offset
        ([(0, 4, 1), (5, 9, 2)], [(0, 4, 1), (5, 9, 2)]),
        ([(0, -1, 0)], []),  # §3.5: a batch size of 0 gives it
        ([(0, 5, 1), (3, 9, 1)], [(0, 9, 1)]),
        ([(0, 9, 1), (3, 5, 2)], [(0, 9, 1)]),
        ([(0, 5, 1), (3, 9, 2)], [(0, 5, 1), (6, 9, 2)]),
    ],
)
def test_tidy(ranges: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]) -> None:
    """Acquired ranges come ascending and disjoint, whatever a broker sent."""
    assert tidy(AcquiredRange(*each) for each in ranges) == expected


Spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=20).map(
    lambda pairs: [(first, first + length) for first, length in pairs]
)


@given(Spans, Spans)
def test_held_offsets_are_a_set(acquired: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    """Whatever is acquired and taken out, what is held is what a set would hold, and each offset leaves once."""
    held, model = HeldOffsets(), set[int]()
    left: list[int] = []
    for number, (first, last) in enumerate(acquired):
        held.acquire(first, last, Lock(number, 1.0, 1.0))
        model |= set(range(first, last + 1))
        for low, high in taken[number : number + 1]:
            for run in held.take_out(low, high):
                left.extend(range(run.first, run.last + 1))
                assert set(range(run.first, run.last + 1)) <= model
                model -= set(range(run.first, run.last + 1))
            assert not model & set(range(low, high + 1))
        assert {offset for run in held for offset in range(run.first, run.last + 1)} == model
        assert held.count == len(model)
        assert [run.first for run in held] == sorted(run.first for run in held)
    assert {offset for offset in range(75) if held.lock_of(offset) is not None} == model


@given(st.integers(0, 30), st.integers(0, 30), Spans)
def test_without_leaves_the_rest(first: int, length: int, spans_: list[tuple[int, int]]) -> None:
    """A range without some others is what a set would leave."""
    gone = {offset for low, high in spans_ for offset in range(low, high + 1)}
    disjoint: list[tuple[int, int]] = []
    for low, high in sorted(spans_):
        if not disjoint or low > disjoint[-1][1]:
            disjoint.append((low, high))
        else:
            disjoint[-1] = (disjoint[-1][0], max(high, disjoint[-1][1]))

    left = without(first, first + length, disjoint)

    assert {o for low, high in left for o in range(low, high + 1)} == set(range(first, first + length + 1)) - gone
