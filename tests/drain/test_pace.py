"""How many records are fetched before a caller asks for them."""

from __future__ import annotations

import pytest

from shareproxy.drain.pace import Pace, asked_ahead


@pytest.mark.parametrize(
    ("took", "done", "ahead"),
    [
        (0.005, True, 1_000),  # 100 records in 5 ms are 1,000 in 50
        (0.025, True, 200),
        (0.0, True, 2_000),  # no more than may be held
        (0.05, True, 0),
        (3.0, True, 0),
        (0.005, False, 0),
    ],
)
def test_what_the_caller_works_off_in_a_moment(took: float, done: bool, ahead: int) -> None:
    """Nothing for the slow, and nothing for who still holds records."""
    pace = Pace(2_000)
    pace.handed(100, 10.0)

    pace.asked(10.0 + took, done=done)

    assert pace.ahead == ahead
    assert pace.asked_at == 10.0 + took


def test_at_first_nothing_is_known() -> None:
    """Who was never given anything is not quick."""
    pace = Pace(2_000)

    pace.asked(10.0, done=True)

    assert pace.ahead == 0


@pytest.mark.parametrize(
    ("ahead", "ready", "free", "asked"),
    [
        (2_000, 0, 2_000, 2_000),
        (2_000, 1_000, 2_000, 1_000),
        (2_000, 1_001, 2_000, 0),  # each request takes a broker its time
        (2_000, 0, 999, 0),
        (1, 0, 1, 1),
        (1, 1, 5, 0),
        (0, 0, 5, 0),
    ],
)
def test_how_many_are_asked_for(ahead: int, ready: int, free: int, asked: int) -> None:
    """A good part of what may be here, or none."""
    assert asked_ahead(ahead, ready, free) == asked
