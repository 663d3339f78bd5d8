"""Lag arithmetic, held against a model that counts records one by one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.lag.arithmetic import UNKNOWN, complete_count, judge, judge_wire, known, wire_lag
from shareproxy.lag.model import Status


@dataclass
class Batch:
    """A state batch as the share coordinator stores it."""

    first_offset: int
    last_offset: int
    delivery_state: int


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED, FUTURE = 0, 1, 2, 3, 4, 9


@st.composite
def partitions(draw: st.DrawFn) -> tuple[int, list[int], int]:
    """Draw a start offset, the state of every offset from there on, and how many offsets have none yet."""
    start = draw(st.integers(0, 2**40))
    states = draw(st.lists(st.sampled_from([AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED, FUTURE])))
    return start, states, draw(st.integers(0, 50))


def batches_of(start: int, states: list[int]) -> list[Batch]:
    """Join neighbours of equal state."""
    batches: list[Batch] = []
    for offset, state in enumerate(states, start):
        if batches and batches[-1].delivery_state == state:
            batches[-1].last_offset = offset
        else:
            batches.append(Batch(offset, offset, state))
    return batches


@given(partitions())
def test_lag_is_the_number_of_offsets_still_to_be_delivered(drawn: tuple[int, list[int], int]) -> None:
    """From batches and end, lag is what counting the records one by one gives."""
    start, states, untouched = drawn
    counted = sum(state not in (ACKNOWLEDGED, ARCHIVED) for state in states) + untouched

    lag = wire_lag(start + len(states) + untouched, start, complete_count(batches_of(start, states), start))

    assert lag == counted


@given(partitions(), st.integers(0, 60))
def test_batches_below_the_start_offset_do_not_count(drawn: tuple[int, list[int], int], moved: int) -> None:
    """Batches that the start offset has passed, wholly or in part, are clipped."""
    first, states, _ = drawn
    start = first + moved

    assert complete_count(batches_of(first, states), start) == sum(
        state in (ACKNOWLEDGED, ARCHIVED) for state in states[moved:]
    )


def test_kip_1226_picture() -> None:
    """0, 1 and 5 accepted, 6 rejected of 11 offsets: 4 complete, lag 7."""
    batches = [Batch(0, 1, ARCHIVED), Batch(3, 3, AVAILABLE), Batch(5, 5, ACKNOWLEDGED), Batch(6, 6, ARCHIVED)]

    assert complete_count(batches, 0) == 4
    assert wire_lag(11, 0, 4) == 7


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_wire_lag_is_unknown_if_any_part_is(missing: int) -> None:
    """No number is made up for a missing one."""
    parts: list[int | None] = [10, 2, 3]
    parts[missing] = None

    assert wire_lag(*parts) == UNKNOWN


def test_wire_lag_keeps_its_sign() -> None:
    """A start offset set beyond the end is a real negative number on the wire."""
    assert wire_lag(11, 50, 0) == -39


@pytest.mark.parametrize(
    ("end", "start", "count", "expected"),
    [
        (11, 0, 4, (7, Status.OK)),
        (13, 0, 13, (0, Status.OK)),
        (11, None, None, (None, Status.NO_START_OFFSET)),
        (None, 3, 0, (None, Status.LAG_UNSET)),
        (11, 3, None, (None, Status.LAG_UNSET)),
        (11, 50, 0, (0, Status.START_BEYOND_END)),
        (11, 12, None, (0, Status.START_BEYOND_END)),
        (11, 11, 0, (0, Status.OK)),
        (9, 0, 10, (None, Status.ERROR)),
    ],
)
def test_judge_gives_lag_and_reason(
    end: int | None, start: int | None, count: int | None, expected: tuple[int | None, Status]
) -> None:
    """Every combination has one lag, or none, and one status."""
    assert judge(end, start, count) == expected


@pytest.mark.parametrize(
    ("lag", "start", "end", "expected"),
    [
        (7, 0, None, (7, Status.OK)),
        (0, 0, 13, (0, Status.OK)),
        (-1, None, None, (None, Status.NO_START_OFFSET)),
        (-1, 3, 11, (None, Status.LAG_UNSET)),
        (-1, 3, None, (None, Status.LAG_UNSET)),
        (-1, 12, 11, (0, Status.START_BEYOND_END)),
        (-39, 50, 11, (0, Status.START_BEYOND_END)),
        (-39, 50, None, (None, Status.ERROR)),
        (-39, 5, 11, (None, Status.ERROR)),
    ],
)
def test_judge_wire_tells_a_real_minus_one_from_unknown(
    lag: int, start: int | None, end: int | None, expected: tuple[int | None, Status]
) -> None:
    """Only the end offset can tell whether −1 is a number."""
    assert judge_wire(lag, start, end) == expected


def test_known_turns_the_wire_sentinel_into_none() -> None:
    """−1 is `None`, 0 is a number."""
    assert (known(-1), known(0), known(5)) == (None, 0, 5)
