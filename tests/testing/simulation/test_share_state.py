"""State batches laid over one another."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shareproxy.testing.simulation.share_state import StateBatch, StoredState, laid_over, offsets_in

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 20),
        st.integers(0, 6),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 2),
    ),
    max_size=8,
)


@given(BATCHES, st.integers(0, 15))
def test_the_newest_state_of_each_offset_wins(batches: list[StateBatch], start: int) -> None:
    """Counted offset by offset; the result is sorted, without overlaps, and has no neighbours to join."""
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            expected[offset] = (batch.state, batch.delivery_count)

    found = laid_over((), batches, start)

    assert {
        offset: (batch.state, batch.delivery_count)
        for batch in found
        for offset in range(batch.first_offset, batch.last_offset + 1)
    } == {offset: state for offset, state in expected.items() if offset >= start}
    for before, after in itertools.pairwise(found):
        assert before.last_offset < after.first_offset
        assert before.last_offset + 1 < after.first_offset or (before.state, before.delivery_count) != (
            after.state,
            after.delivery_count,
        )
    assert offsets_in(found, (2, 4), start) == sum(
        state in (2, 4) for offset, (state, _) in expected.items() if offset >= start
    )


def test_a_reset_keeps_the_fence() -> None:
    """The stored epoch is 0 again, the highest one seen stays."""
    stored = StoredState()
    stored.write(7, 3, [StateBatch(3, 4, 2, 1)], 2)
    stored.set_by_hand(9, 0, 2)
    assert (stored.leader_epoch, stored.fence, stored.start_offset, stored.batches) == (0, 7, 9, ())
