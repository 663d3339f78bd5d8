"""What was read about a partition, put together."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.deliveries import Span
from shareproxy.lag.group_settings import Settings
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import PartitionLag, Source, Status
from shareproxy.lag.scan import Scanned
from shareproxy.lag.state import StoredState
from shareproxy.lag.visible_model import PartitionVisible, Want
from shareproxy.lag.visible_rows import Done, Found, Wishes, partition_visible
from shareproxy.protocol.messages import ReadShareGroupStateResponseStateBatch as Batch
from tests.lag.simulated_brokers import T1

LATE = Trouble(Status.TIMEOUT, None, "no answer in time")
READ_ALL = Settings(isolation_level="read_uncommitted")


def row(start: int | None = 0, end: int | None = 10, lag: int | None = 10) -> PartitionLag:
    """Return a row of a report."""
    return PartitionLag("orders", T1, 0, start, end, 1, None, lag, Source.BROKER, True)


def found(**more: object) -> Found:
    """Return what was found where everything could be read and nothing is done."""
    usual = {
        "wanted": Wanted("orders", T1, 0),
        "row": row(),
        "settings": READ_ALL,
        "group_state": "Empty",
        "end": 10,
        "log_start": 0,
        "stable": 10,
    }
    return Found(**{**usual, **more})  # type: ignore[arg-type]


def shown(item: Found, want: Want = Want.ALL, *, quiet: bool = False) -> PartitionVisible:
    """Put it together at second 10."""
    return partition_visible(item, Wishes.of(want), now_ms=10_000, quiet=quiet)


def test_what_was_not_looked_at_has_a_note_only() -> None:
    """For example without a leader."""
    assert shown(found(skipped="not looked at: no leader")) == PartitionVisible(notes=("not looked at: no leader",))


@pytest.mark.parametrize("missing", [{"log_start": LATE}, {"end": None}, {"settings": Settings(), "stable": LATE}])
def test_positions_that_are_missing(missing: dict[str, object]) -> None:
    """No bounds without them."""
    visible = shown(found(**missing, scanned=None), Want.PHANTOM)

    assert (visible.consumable_lag_min, visible.consumable_lag_max, visible.phantom_offsets_max) == (None, None, None)


@pytest.mark.parametrize(("log_start", "open_"), [(2, 6), (6, 4), (10, 0), (LATE, None)])
def test_open_tail_is_what_is_left_of_it(log_start: int | Trouble, open_: int | None) -> None:
    """Records deleted inside an open transaction do not move the last stable offset; they are phantoms now."""
    layout = found(log_start=log_start, stable=4, settings=Settings(isolation_level="read_committed"))
    layout.scanned = Scanned(2, 2, found=True) if log_start == 2 else Scanned(0, 0)

    visible = shown(layout)

    assert visible.open_transaction_offsets == open_
    if open_ is not None:
        assert visible.consumable_lag is not None
        assert visible.phantom_offsets is not None
        assert visible.consumable_lag + visible.phantom_offsets + open_ == 10


def test_start_beyond_the_end() -> None:
    """Lag 0: nothing waits and nothing is phantom."""
    visible = shown(found(row=row(start=50, lag=0)))

    assert (visible.consumable_lag, visible.phantom_offsets, visible.in_flight) == (0, 0, 0)


def test_records_that_were_not_looked_at() -> None:
    """Bounds, and a note that they are."""
    visible = shown(found(), Want.PHANTOM)

    assert (visible.consumable_lag_min, visible.consumable_lag_max) == (0, 10)
    assert any("bounds" in note for note in visible.notes)


def test_state_that_moved_under_a_committed_reader() -> None:
    """What the leader archived in memory only is not in its batches: the phantoms are a bound."""
    stored = StoredState(4, 1, 2, [Batch(4, 5, 2, 1)])
    visible = shown(
        found(settings=Settings(isolation_level="read_committed"), stored=stored, scanned=Scanned(3, 3)), Want.PHANTOM
    )

    assert (visible.consumable_lag, visible.phantom_offsets_min, visible.phantom_offsets_max) == (3, 0, 1)


def test_lag_unknown_to_the_report_but_not_to_the_batches() -> None:
    """Then theirs is used."""
    item = found(row=row(lag=None), stored=StoredState(0, 1, 4, [Batch(0, 3, 2, 1)]), scanned=Scanned(5, 5))

    assert item.done() == Done(0, (Span(0, 4),), (), 6, False)
    visible = shown(item, Want.PHANTOM)
    assert (visible.consumable_lag, visible.phantom_offsets, visible.in_flight_max) == (5, 1, 10)


def test_offsets_set_by_hand_have_no_batches() -> None:
    """Nothing is done then."""
    item = found(row=row(start=3, lag=7), stored=StoredState(3, 0, 0), scanned=Scanned(7, 7))

    assert shown(item, Want.PHANTOM | Want.STATES).runs == ()
    assert shown(item, Want.PHANTOM).consumable_lag == 7


def test_state_that_was_never_written() -> None:
    """No runs, and no claim about what is done."""
    item = found(row=row(start=None, lag=None), stored=StoredState(None, None, None))

    assert (item.runs, item.done()) == (None, None)


def test_projection_needs_the_end() -> None:
    """Without it there is none, unless the group starts there."""
    item = found(row=row(None, None, None), end=None, settings=Settings(auto_offset_reset="earliest"))

    assert shown(item, Want.PROJECTED).projected_lag is None
    assert shown(replace(item, settings=Settings(auto_offset_reset="latest")), Want.PROJECTED).projected_lag == 0
    assert shown(replace(item, settings=Settings()), Want.PROJECTED).projected_lag is None


def test_in_flight_without_anything_known() -> None:
    """Only the record locks bound it."""
    item = found(row=row(None, None, None), end=None, settings=Settings(max_record_locks=2000))

    assert shown(item, Want.STATES).in_flight_max == 2000
    assert shown(item, Want.STATES, quiet=True).in_flight == 0
    assert shown(item, Want.LOG_START).in_flight_max is None


@pytest.mark.parametrize(
    ("scanned", "age"),
    [
        (Scanned(1, 1, 4_000, True), 6.0),
        (Scanned(1, 1, 99_000, True), 0.0),  # the producer's clock is ahead
        (Scanned(1, 1, None, True), None),
        (Scanned(0, 0), None),
        (Scanned(0, 9, unseen=9, trouble=LATE), None),
    ],
)
def test_age(scanned: Scanned, age: float | None) -> None:
    """By the record's own time, never negative."""
    visible = shown(found(scanned=scanned), Want.AGE)

    assert visible.oldest_record_age_seconds == age
    assert (LATE.message in visible.notes) == (scanned.trouble is LATE)
