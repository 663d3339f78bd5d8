"""Delivery states, run by run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shareproxy.lag.deliveries import DONE, Span, SpanIndex, StoredRuns, delivery_counts, runs_of, spans
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.state import StoredState
from shareproxy.lag.visible_model import DeliveryCount, StateRun
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import ReadShareGroupStateResponseStateBatch as Batch
from tests.lag.simulated_brokers import N1, T1, SimulatedBrokers, Stored, Topic, soon


def test_neighbours_of_one_kind_are_one_run() -> None:
    """State and count have to be the same, and no offset may lie between."""
    batches = [Batch(5, 5, 2, 1), Batch(0, 1, 2, 1), Batch(2, 4, 2, 1), Batch(8, 9, 2, 1), Batch(10, 10, 2, 2)]

    assert runs_of(batches, 0) == (
        StateRun(0, 5, "acknowledged", 1),
        StateRun(8, 9, "acknowledged", 1),
        StateRun(10, 10, "acknowledged", 2),
    )


def test_runs_begin_at_the_start_offset() -> None:
    """What lies before it is left out."""
    batches = [Batch(0, 2, 4, 1), Batch(3, 6, 0, 2)]

    assert runs_of(batches, 5) == (StateRun(5, 6, "available", 2),)


def test_overlap_is_counted_once() -> None:
    """Batches should not overlap; if they do, no offset is in two runs."""
    assert runs_of([Batch(0, 5, 2, 1), Batch(3, 7, 0, 1)], 0) == (
        StateRun(0, 5, "acknowledged", 1),
        StateRun(6, 7, "available", 1),
    )


def test_names_of_states() -> None:
    """Kafka's words; a state of the future is unknown."""
    batches = [Batch(state, state, state, 1) for state in range(6)]

    assert [run.state for run in runs_of(batches, 0)] == [
        "available",
        "acquired",
        "acknowledged",
        "archiving",
        "archived",
        "unknown",
    ]


def test_delivery_counts_leave_out_what_is_done() -> None:
    """Poison shows as offsets with a high count."""
    runs = runs_of([Batch(0, 1, 2, 5), Batch(2, 4, 0, 1), Batch(5, 5, 0, 4), Batch(7, 8, 0, 1)], 0)

    assert delivery_counts(runs) == (DeliveryCount(1, 5), DeliveryCount(4, 1))


def test_spans_of_done_offsets() -> None:
    """Acknowledged and archived ones that touch are one span."""
    runs = runs_of([Batch(0, 1, 2, 1), Batch(2, 3, 4, 1), Batch(4, 4, 0, 1), Batch(5, 6, 2, 1)], 0)

    assert spans(runs, DONE) == (Span(0, 4), Span(5, 7))


@given(st.sets(st.integers(0, 30)), st.integers(-2, 33), st.integers(-2, 33))
def test_index_of_spans_counts_as_one_would_by_hand(members: set[int], first: int, end: int) -> None:
    """Spans that touch or not, any range."""
    found = SpanIndex([Span(offset, offset + 1) for offset in sorted(members)])

    assert found.within(first, end) == len([offset for offset in members if first <= offset < end])
    assert found.next_outside(first) == next(offset for offset in range(first, 40) if offset not in members)


async def test_stored_runs_are_read_with_the_epoch_of_the_summary() -> None:
    """Summary first, then exactly its epoch."""
    brokers = SimulatedBrokers()
    brokers.topics["orders"] = Topic(T1, [N1], [11])
    brokers.states["g", T1, 0] = Stored(2, epoch=5, count=1, batches=[(3, 3, 2)])
    item = Wanted("orders", T1, 0)

    found = (await StoredRuns(brokers).stored(GroupId("g"), [item], deadline=soon()))[item]

    assert isinstance(found, StoredState)
    assert (found.start_offset, found.delivery_complete_count, found.leader_epoch) == (2, 1, 5)
    assert runs_of(found.batches or (), 2) == (StateRun(3, 3, "acknowledged", 1),)
    assert brokers.epochs_sent() == [5]
