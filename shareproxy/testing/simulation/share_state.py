"""What a share coordinator keeps of one share partition, and how a write changes it.

In: writes of a leader, or of an administrator. Out: start offset, count, state batches, epochs.
Must never: know what a leader only holds in memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import msgspec

UNKNOWN: Final = -1


class RecordState(IntEnum):
    """Kafka's numbers of what may be with a record."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


COMPLETE: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class StateBatch(msgspec.Struct, frozen=True, gc=False):
    """Offsets in the same state, both ends included."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int = 0


class StoredState(msgspec.Struct, gc=False):
    """One share partition as its share coordinator has it.

    Attributes:
        start_offset: −1 until somebody wrote.
        delivery_complete_count: −1 where the writer did not know it.
        fence: the highest leader epoch that was seen; lower ones are refused.
    """

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    delivery_complete_count: int = UNKNOWN
    batches: tuple[StateBatch, ...] = ()
    fence: int = 0

    def write(
        self, leader_epoch: int, start_offset: int, changed: Iterable[StateBatch], delivery_complete_count: int
    ) -> None:
        """Take what a leader writes: the states that changed, over those that are there."""
        self.leader_epoch = leader_epoch
        self.fence = max(self.fence, leader_epoch)
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.batches = tuple(laid_over(self.batches, changed, start_offset))

    def set_by_hand(self, start_offset: int, delivery_complete_count: int, state_epoch: int) -> None:
        """Take what an administrator sets: a new start and no states; the fence stays as it was."""
        self.state_epoch, self.leader_epoch = state_epoch, 0
        self.start_offset, self.delivery_complete_count, self.batches = start_offset, delivery_complete_count, ()


def laid_over(under: Sequence[StateBatch], over: Iterable[StateBatch], start_offset: int = 0) -> list[StateBatch]:
    """Return states with newer ones put over them, neighbours joined, nothing below the start.

    Args:
        under: sorted, not overlapping.
        over: the newer ones, in any order, the last one wins.
        start_offset: what lies below is dropped.
    """
    rows = list(under)
    for new in over:
        low = bisect_left(rows, new.first_offset, key=_last)
        high = bisect_right(rows, new.last_offset, low, key=_first)
        rows[low:high] = _over(rows[low:high], new)
    joined: list[StateBatch] = []
    for row in rows:
        if row.last_offset < start_offset:
            continue
        if row.first_offset < start_offset:
            row = msgspec.structs.replace(row, first_offset=start_offset)
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last_offset + 1 == row.first_offset
            and (before.state, before.delivery_count) == (row.state, row.delivery_count)
        ):
            joined[-1] = msgspec.structs.replace(before, last_offset=row.last_offset)
        else:
            joined.append(row)
    return joined


def _over(touched: Sequence[StateBatch], new: StateBatch) -> list[StateBatch]:
    """Return a row with what stands out on its two sides of those that it touches."""
    rows = [new]
    if touched and touched[0].first_offset < new.first_offset:
        rows.insert(0, msgspec.structs.replace(touched[0], last_offset=new.first_offset - 1))
    if touched and touched[-1].last_offset > new.last_offset:
        rows.append(msgspec.structs.replace(touched[-1], first_offset=new.last_offset + 1))
    return rows


def _first(batch: StateBatch) -> int:
    return batch.first_offset


def _last(batch: StateBatch) -> int:
    return batch.last_offset


def offsets_in(batches: Iterable[StateBatch], states: Iterable[int], start_offset: int = 0) -> int:
    """Count the offsets at or after the start that are in one of the states."""
    wanted = frozenset(states)
    return sum(
        max(0, batch.last_offset - max(batch.first_offset, start_offset) + 1)
        for batch in batches
        if batch.state in wanted
    )
