"""What of a lag can still be given to a member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.lag.consumable import Bounds, Layout, split
from shareproxy.lag.deliveries import Span


def layout(**more: object) -> Layout:
    """Return a layout from 0 to 10 of which nothing is done."""
    return Layout(**{"start": 0, "log_start": 0, "end": 10, "visible_end": 10, "lag": 10, **more})  # type: ignore[arg-type]


def test_exact_where_nothing_is_done() -> None:
    """Seven records in ten offsets: three phantoms."""
    assert split(layout(done=()), 7, 7) == (Bounds(7, 7), Bounds(3, 3))


def test_done_below_the_log_start_does_not_count_against_what_is_left() -> None:
    """Start 0, log start 6, four done below: all four records that are left can be delivered."""
    consumable, phantom = split(layout(log_start=6, lag=6, done=(Span(1, 5),)), 4, 4)

    assert (consumable, phantom) == (Bounds(4, 4), Bounds(2, 2))


def test_count_alone_gives_a_range() -> None:
    """The same without knowing which four are done: zero to four."""
    consumable, phantom = split(layout(log_start=6, lag=6), 4, 4)

    assert (consumable, phantom) == (Bounds(0, 4), Bounds(2, 6))


def test_count_alone_is_enough_where_every_offset_is_a_record() -> None:
    """Seven of eleven are left, whichever."""
    assert split(layout(end=11, visible_end=11, lag=7), 11, 11) == (Bounds(7, 7), Bounds(0, 0))


def test_open_transaction_is_neither() -> None:
    """Its tail counts as lag only."""
    assert split(layout(visible_end=6, done=()), 6, 6) == (Bounds(6, 6), Bounds(0, 0))


def test_archiving_is_neither() -> None:
    """Records on their way to a dead-letter topic are given to nobody."""
    assert split(layout(done=(), archiving=(Span(2, 5),)), 7, 7) == (Bounds(7, 7), Bounds(0, 0))


def test_no_lag_no_phantoms() -> None:
    """Bounds of records are worth something by themselves."""
    assert split(layout(lag=None), 3, 9) == (Bounds(0, 9), Bounds())


@pytest.mark.parametrize(("least", "most", "exact"), [(2, 2, 2), (2, 3, None), (None, None, None)])
def test_exact_bounds(least: int | None, most: int | None, exact: int | None) -> None:
    """One number only if both agree."""
    assert Bounds(least, most).exact == exact


@given(st.data())
def test_bounds_hold_for_every_log(data: st.DataObject) -> None:
    """Whatever a log holds and whichever offsets are done: the truth lies within, and is met where spans are known."""
    records = data.draw(st.lists(st.booleans(), min_size=1, max_size=12))  # by offset: a record, or not
    end = len(records)
    start = data.draw(st.integers(0, end))
    log_start = data.draw(st.integers(0, end))
    visible_end = data.draw(st.integers(0, end))
    # nobody is ever given what lies behind the visible end
    able = [offset for offset in range(start, end) if offset < visible_end or visible_end <= max(start, log_start)]
    done = set(data.draw(st.lists(st.sampled_from(able), unique=True))) if able else set()
    done = {offset for offset in done if offset < visible_end}
    lag = end - start - len(done)
    first = max(start, log_start)
    there = [offset for offset in range(first, visible_end) if records[offset]]
    truth = len([offset for offset in there if offset not in done])
    tail = max(0, end - max(first, visible_end))
    phantom = lag - tail - truth
    spans = tuple(Span(offset, offset + 1) for offset in sorted(done))
    common = {"start": start, "log_start": log_start, "end": end, "visible_end": visible_end, "lag": lag}

    exact, rest = split(layout(**common, done=spans), truth, truth)
    assert (exact.exact, rest.exact) == (truth, phantom)

    counted, left = split(layout(**common), len(there), len(there))
    unseen, others = split(layout(**common), 0, max(0, visible_end - first))
    for bounds, number in ((counted, truth), (left, phantom), (unseen, truth), (others, phantom)):
        assert bounds.least is not None
        assert bounds.most is not None
        assert 0 <= bounds.least <= number <= bounds.most
