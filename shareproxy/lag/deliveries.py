"""Read the delivery states of share partitions, run by run.

In: partitions of one group. Out: runs of states, delivery counts, spans of offsets that nobody will be given again.
Must never: read with an epoch that was not just read as the stored one (see `state`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from shareproxy.lag.arithmetic import ACKNOWLEDGED, ARCHIVED
from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.sources import NO_EPOCHS, StateBatches
from shareproxy.lag.state import StoredState
from shareproxy.lag.visible_model import DeliveryCount, StateRun
from shareproxy.protocol.ids import GroupId

ARCHIVING: Final = 3
STATES: Final[Mapping[int, str]] = {
    0: "available",
    1: "acquired",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "archiving",
    ARCHIVED: "archived",
}
DONE: Final = frozenset({"acknowledged", "archived"})


class Span(NamedTuple):
    """Offsets from `first` to `end`, which is not part of them."""

    first: int
    end: int


class SpanIndex:
    """Spans that can be asked about in a few steps, however many there are.

    Args:
        found: in order, without overlap.
    """

    __slots__ = ("_before", "_firsts", "_spans")

    def __init__(self, found: Sequence[Span] = ()) -> None:
        self._spans = tuple(found)
        self._firsts = [span.first for span in found]
        self._before = list(accumulate((span.end - span.first for span in found), initial=0))

    def within(self, first: int, end: int) -> int:
        """Count the offsets of the spans between `first` and `end` (exclusive)."""
        return self._below(end) - self._below(first) if end > first else 0

    def next_outside(self, offset: int) -> int:
        """Return the first offset from `offset` on that is in no span."""
        at = bisect_right(self._firsts, offset)
        while at and self._spans[at - 1].first <= offset < self._spans[at - 1].end:
            offset = self._spans[at - 1].end
            at = bisect_right(self._firsts, offset)
        return offset

    def _below(self, offset: int) -> int:
        at = bisect_right(self._firsts, offset)
        if not at:
            return 0
        last = self._spans[at - 1]
        return self._before[at - 1] + min(offset, last.end) - last.first


class StateBatch(Protocol):
    """A batch of API 84; both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class StoredRuns(StateBatches):
    """Stored states with their batches."""

    async def stored(
        self, group: GroupId, partitions: Sequence[Wanted], *, deadline: float
    ) -> Mapping[Wanted, StoredState | Trouble]:
        """Read the summary, then the batches with exactly the epoch that the summary told."""
        return await self._states(group, partitions, deadline, None, NO_EPOCHS)


def runs_of(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateRun, ...]:
    """Return the runs at or after the start offset, in order, neighbours with the same state and count as one.

    Args:
        batches: as stored, in any order; where two overlap the later start wins nothing: its rest counts.
        start_offset: what lies before is left out.
    """
    runs: list[StateRun] = []
    for batch in sorted(batches, key=lambda batch: (batch.first_offset, batch.last_offset)):
        first = max(batch.first_offset, start_offset, runs[-1].last_offset + 1 if runs else start_offset)
        if batch.last_offset < first:
            continue
        state = STATES.get(batch.delivery_state, "unknown")
        last = runs[-1] if runs else None
        if (
            last is not None
            and (last.state, last.delivery_count) == (state, batch.delivery_count)
            and last.last_offset + 1 == first
        ):
            runs.pop()
            first = last.first_offset
        runs.append(StateRun(first, batch.last_offset, state, batch.delivery_count))
    return tuple(runs)


def delivery_counts(runs: Iterable[StateRun]) -> tuple[DeliveryCount, ...]:
    """Count the offsets that are not done by how often they were delivered; what has no run was not delivered yet."""
    found: dict[int, int] = {}
    for run in runs:
        if run.state not in DONE:
            offsets = run.last_offset - run.first_offset + 1
            found[run.delivery_count] = found.get(run.delivery_count, 0) + offsets
    return tuple(DeliveryCount(count, found[count]) for count in sorted(found))


def spans(runs: Iterable[StateRun], states: frozenset[str]) -> tuple[Span, ...]:
    """Return where the runs have one of the states, neighbours as one."""
    found: list[Span] = []
    for run in runs:
        if run.state not in states:
            continue
        first, end = run.first_offset, run.last_offset + 1
        if found and found[-1].end >= first:
            first = found.pop().first
        found.append(Span(first, end))
    return tuple(found)
