"""Delays grow, stay below their maximum and within a lock that cannot be renewed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.drain.retry_delay import LEAST_SECONDS, Place, Retry, Wait, growing_delay, next_try

PLAIN = Retry(first_s=1, factor=2, max_s=60, in_place=2, jitter=0)


def test_delays_grow_with_each_failure_over_all_deliveries() -> None:
    """A new delivery goes on where the last one was."""
    delays = [growing_delay(PLAIN, delivery, failure, 0.5) for delivery in (1, 2, 3) for failure in (1, 2, 3)]

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_without_an_end_in_place_each_delivery_counts_once() -> None:
    """There is no number of tries to multiply with."""
    retry = Retry(first_s=1, factor=2, max_s=60, in_place=None, jitter=0)

    assert [growing_delay(retry, delivery, 1, 0) for delivery in (1, 2, 3)] == [1, 2, 4]


def test_a_share_of_each_delay_is_left_to_chance() -> None:
    """From nothing to the whole share."""
    retry = Retry(first_s=10, jitter=0.5)

    assert growing_delay(retry, 1, 1, 0.0) == 10
    assert growing_delay(retry, 1, 1, 1.0) == 5


def test_after_its_tries_here_a_record_goes_back() -> None:
    """Two retries, then anywhere."""
    places = [next_try(PLAIN, delivery_count=1, failures=failures, chance=0).place for failures in (1, 2, 3)]

    assert places == [Place.HERE, Place.HERE, Place.ANYWHERE]


def test_what_must_not_stay_goes_back_the_first_time() -> None:
    """It waits all the same."""
    wait = next_try(PLAIN, delivery_count=1, failures=1, may_stay=False, chance=0)

    assert wait == Wait(1, Place.ANYWHERE)


@pytest.mark.parametrize(("asked", "waits"), [(30.0, 30.0), (0.0, 1.0), (-5.0, 1.0)])
def test_the_handler_may_ask_for_more_and_not_for_less(asked: float, waits: float) -> None:
    """Without any delay five deliveries would be gone in no time."""
    assert next_try(PLAIN, delivery_count=1, failures=1, after_s=asked, chance=0).seconds == waits


def test_jitter_makes_a_wait_that_was_asked_for_longer() -> None:
    """It was meant as the least."""
    retry = Retry(jitter=0.5)

    assert next_try(retry, delivery_count=1, failures=1, after_s=10, chance=1).seconds == 15


def test_a_lock_that_cannot_be_renewed_has_room_for_short_waits_only() -> None:
    """Kafka 4.1: half of what is left is kept for the handler."""
    assert next_try(PLAIN, delivery_count=1, failures=1, lock_left=10, chance=0) == Wait(1, Place.HERE)
    assert next_try(PLAIN, delivery_count=2, failures=1, lock_left=10, chance=0) == Wait(8, Place.ANYWHERE)
    assert next_try(PLAIN, delivery_count=1, failures=1, lock_left=-1, chance=0) == Wait(0, Place.ANYWHERE)


@given(
    delivery_count=st.integers(1, 200),
    failures=st.integers(1, 10_000),
    after_s=st.none() | st.floats(0, 1e6),
    lock_left=st.none() | st.floats(-10, 60),
    chance=st.floats(0, 1),
    in_place=st.none() | st.integers(0, 100),
    may_stay=st.booleans(),
)
def test_r21_no_wait_is_too_short_or_outlives_the_lock(
    delivery_count: int,
    failures: int,
    after_s: float | None,
    lock_left: float | None,
    chance: float,
    in_place: int | None,
    may_stay: bool,
) -> None:
    """Whatever the numbers are."""
    retry = Retry(in_place=in_place)

    wait = next_try(
        retry,
        delivery_count=delivery_count,
        failures=failures,
        after_s=after_s,
        may_stay=may_stay,
        lock_left=lock_left,
        chance=chance,
    )

    if lock_left is None:
        assert wait.seconds >= retry.first_s * (1 - retry.jitter)
    else:
        assert wait.seconds <= max(lock_left, 0)
    if not may_stay:
        assert wait.place is Place.ANYWHERE


@pytest.mark.parametrize(
    ("retry", "word"),
    [
        (Retry(first_s=0), "first_s"),
        (Retry(first_s=5, max_s=1), "max_s"),
        (Retry(factor=0.5), "factor"),
        (Retry(in_place=-1), "in_place"),
        (Retry(jitter=2), "jitter"),
    ],
)
def test_what_cannot_be_meant_is_said(retry: Retry, word: str) -> None:
    """By its name."""
    assert word in str(retry.wrong())


def test_the_defaults_are_right() -> None:
    """And so is the least delay."""
    assert Retry().wrong() is None
    assert Retry(first_s=LEAST_SECONDS).wrong() is None
