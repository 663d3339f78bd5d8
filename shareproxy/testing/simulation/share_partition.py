"""What the leader of a share partition does: hand records out, take acknowledgements, write state.

In: a log, acquisitions and acknowledgements. Out: acquired ranges, and writes to the stored state, at the moments at
which a broker writes. Must never: move the stored start before the next write; Kafka does not either (KAFKA-19922).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from shareproxy.testing.simulation.chunks import Chunk, Chunks
from shareproxy.testing.simulation.locks import Lock, Locks
from shareproxy.testing.simulation.record_log import Batch, RecordLog
from shareproxy.testing.simulation.share_state import (
    COMPLETE,
    UNKNOWN,
    RecordState,
    StateBatch,
    StoredState,
    laid_over,
    offsets_in,
)

EARLIEST: Final = "earliest"
READ_COMMITTED: Final = "read_committed"
WHOLE: Final = 2**31 - 1
INVALID_REQUEST: Final = 42
INVALID_RECORD_STATE: Final = 121
PAST_THE_END: Final = "Batch record not found. The first offset in request is past acquired records."
NOT_THE_OWNER: Final = "Member is not the owner of offset"
NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."


class GroupRules(msgspec.Struct, frozen=True):
    """What a group's configuration says about its share partitions.

    Attributes:
        max_record_locks: span of offsets between the start and the last one that was handed out.
        keeps_dead_letters: rejected and exhausted records wait in the state archiving (KIP-1191).
        lock_seconds: how long a member holds what it got.
        renews: locks can be renewed (KIP-1222).
    """

    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    delivery_count_limit: int = 5
    max_record_locks: int = 2000
    keeps_dead_letters: bool = False
    lock_seconds: float = 30.0
    renews: bool = True


class Writer(msgspec.Struct, frozen=True):
    """With which leader epoch a leader writes, and whether it and the share coordinator know KIP-1226's count."""

    leader_epoch: int
    counts_deliveries: bool


class WriteRefused(Exception):  # noqa: N818 - what the broker did
    """The share coordinator has seen a higher leader epoch."""


class AckRefused(Exception):  # noqa: N818 - what the broker did
    """Acknowledgements that do not fit what their member holds; none of them counts."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A range of offsets that a member got."""

    first_offset: int
    last_offset: int
    delivery_count: int


class ShareLeader:
    """The states that a leader holds in memory; made from the stored ones when it is first needed.

    Attributes:
        start_offset: in memory; may be ahead of the stored one.
        states: sorted, not overlapping; offsets after the last one were not handed out yet.
        locks: who holds what is acquired.
    """

    __slots__ = ("_chunks", "_end", "locks", "start_offset", "states", "stored")

    def __init__(self, stored: StoredState, log: RecordLog, rules: GroupRules) -> None:
        self.stored = stored
        start = stored.start_offset
        if start == UNKNOWN:
            start = log.log_start_offset if rules.auto_offset_reset == EARLIEST else log.high_watermark
        self.start_offset = start
        self.states: list[StateBatch] = list(stored.batches)
        self._end = self.states[-1].last_offset + 1 if self.states else start
        if self.states:  # what was handed out and never written is to be handed out again
            self._put(*self._free_parts(start, self._end - 1))
        self.locks = Locks()
        self._chunks = Chunks()
        self._settle()

    @property
    def next_offset(self) -> int:
        """The first offset that can be handed out."""
        for batch in self.states:
            if batch.state == RecordState.AVAILABLE:
                return batch.first_offset
        return max(self._end, self.start_offset)

    # -- handing out --------------------------------------------------------------------------------------------------

    def acquire(
        self,
        log: RecordLog,
        rules: GroupRules,
        member: str,
        most: int,
        *,
        isolates_poison: bool = True,
        exact: bool = False,
        chunk_size: int = WHOLE,
        fits: Callable[[Batch], bool] | None = None,
        deadline: float | None = None,
    ) -> list[Delivery]:
        """Hand out what one fetch brings: whole batches until `most` offsets are reached.

        Args:
            log: the partition's.
            rules: the group's.
            member: who gets it.
            most: offsets that are enough.
            isolates_poison: offsets that were delivered often are handed out in smaller numbers (Kafka 4.2).
            exact: never more than `most`, in the middle of a batch if need be (KIP-1206).
            chunk_size: offsets that are new are counted as one chunk up to this size, in whole batches.
            fits: tells whether the answer has room for a batch, and is asked once for each.
            deadline: when the locks end; None for when the script says so.
        """
        self._follow(log.log_start_offset)
        committed = rules.isolation_level == READ_COMMITTED
        end = log.last_stable_offset if committed else log.high_watermark
        care = _Care(rules.delivery_count_limit if isolates_poison else None)
        got: list[Delivery] = []
        left, fresh = most, 0
        for batch in log.batches_from(self.next_offset, end):
            aborted = committed and log.is_aborted(batch)
            parts = self._free_parts(max(batch.base_offset, self.start_offset), batch.last_offset)
            if parts and left > 0 and fits is not None and not fits(batch):
                break
            for part in parts:
                is_new = part.first_offset >= self.end_offset
                if left <= 0 or (is_new and self.span >= rules.max_record_locks):
                    self._settle()
                    return got
                chunk = self._chunks.at(part.first_offset) or Chunk(batch.base_offset, batch.last_offset)
                if aborted and not care.ends_before(chunk):
                    self._put(StateBatch(part.first_offset, part.last_offset, RecordState.ARCHIVED, 1))
                    continue
                most_of_it = 0 if aborted else care.most(part, chunk, got)
                if most_of_it <= 0:
                    return got
                taken = self._take(_cut(part, min(most_of_it, left) if exact else most_of_it), member, deadline)
                count = taken.last_offset - taken.first_offset + 1
                if is_new:
                    self._chunks.add(taken.first_offset, taken.last_offset, joins=0 < fresh < chunk_size)
                    fresh = count + (fresh if fresh < chunk_size else 0)
                got.append(taken)
                left -= count
        self._settle()
        return got

    def _take(self, part: StateBatch, member: str, deadline: float | None) -> Delivery:
        taken = StateBatch(part.first_offset, part.last_offset, RecordState.ACQUIRED, part.delivery_count + 1)
        self._put(taken)
        self.locks.take(Lock(taken.first_offset, taken.last_offset, member, deadline))
        return Delivery(taken.first_offset, taken.last_offset, taken.delivery_count)

    @property
    def end_offset(self) -> int:
        """The offset after the last one that was ever handed out."""
        return max(self._end, self.start_offset)

    @property
    def span(self) -> int:
        """How many offsets lie between the start and the last one that was handed out, whatever their states."""
        return self.end_offset - self.start_offset

    def can_hand_out(self, log: RecordLog, rules: GroupRules) -> bool:
        """Tell whether a fetch would bring something."""
        at = max(self.next_offset, log.log_start_offset)
        end = log.last_stable_offset if rules.isolation_level == READ_COMMITTED else log.high_watermark
        return at < end and (at < self.end_offset or self.span < rules.max_record_locks)

    @property
    def in_flight(self) -> int:
        """How many offsets are handed out and not acknowledged."""
        return offsets_in(self.states, (RecordState.ACQUIRED,))

    def held_by(self, member: str | None) -> list[StateBatch]:
        """Return the acquired ranges of a member; None for those of all members."""
        acquired = [batch for batch in self.states if batch.state == RecordState.ACQUIRED]
        if member is None:
            return acquired
        return [row for lock in self.locks if lock.member == member for row in self.held_in(lock.first, lock.last)]

    def held_in(self, first: int, last: int) -> list[StateBatch]:
        """Return the acquired parts of a range."""
        return [
            msgspec.structs.replace(
                batch, first_offset=max(first, batch.first_offset), last_offset=min(last, batch.last_offset)
            )
            for batch in self._touched(first, last)
            if batch.state == RecordState.ACQUIRED
        ]

    def _touched(self, first: int, last: int) -> list[StateBatch]:
        low = bisect_left(self.states, first, key=_last_offset)
        return self.states[low : bisect_right(self.states, last, low, key=_first_offset)]

    def _free_parts(self, first: int, last: int) -> list[StateBatch]:
        """Return which parts of a range may be handed out, with their delivery counts so far."""
        parts, at = [], first
        for batch in self._touched(first, last):
            if batch.first_offset > at:
                parts.append(StateBatch(at, batch.first_offset - 1, RecordState.AVAILABLE))
            if batch.state == RecordState.AVAILABLE:
                parts.append(
                    StateBatch(
                        max(batch.first_offset, first), min(batch.last_offset, last), batch.state, batch.delivery_count
                    )
                )
            at = batch.last_offset + 1
        if at <= last:
            parts.append(StateBatch(at, last, RecordState.AVAILABLE))
        return parts

    # -- taking back --------------------------------------------------------------------------------------------------

    def acknowledge(self, changes: Iterable[tuple[int, int, RecordState]], rules: GroupRules, writer: Writer) -> None:
        """Change the state of acquired ranges, and write.

        Args:
            changes: first offset, last offset, new state: AVAILABLE to release, ARCHIVED to reject.
            rules: the group's.
            writer: how the leader writes.

        Raises:
            WriteRefused: the states are as before.
        """
        before = list(self.states)
        changed: list[StateBatch] = []
        for first, last, state in changes:
            for held in self._touched(first, last):
                if held.state != RecordState.ACQUIRED:
                    continue
                low, high = max(held.first_offset, first), min(held.last_offset, last)
                changed.append(self._changed(low, high, state, held.delivery_count, rules))
        if not changed:
            return
        self._put(*changed)
        try:
            self._write(changed, writer)
        except WriteRefused:
            self.states = before
            raise
        for batch in changed:
            self.locks.drop(batch.first_offset, batch.last_offset)
        self._settle()

    def check(self, member: str, first: int, last: int) -> tuple[int, int] | None:
        """Return what of a range a member may acknowledge: None for what lies below the start, which is done.

        Raises:
            AckRefused: not all of it is in the member's hands.
        """
        if last < self.start_offset:
            return None
        if last >= self.end_offset:
            raise AckRefused(INVALID_REQUEST, PAST_THE_END)
        low = max(first, self.start_offset)
        if not self.locks.held(member, low, last):
            others = any(lock.member != member for lock in self.locks.within(low, last))
            raise AckRefused(INVALID_RECORD_STATE, NOT_THE_OWNER if others else NOT_ACQUIRED)
        return low, last

    def give_back(self, ranges: Sequence[StateBatch], rules: GroupRules, writer: Writer, *, undo: bool = False) -> None:
        """Release what a member that left held, or whose locks ran out; the leader writes that as well.

        Args:
            ranges: acquired ones.
            rules: the group's.
            writer: how the leader writes.
            undo: the delivery does not count (members that leave, Kafka 4.1).
        """
        if undo:
            self._put(*(msgspec.structs.replace(b, delivery_count=b.delivery_count - 1) for b in ranges))
        self.acknowledge([(b.first_offset, b.last_offset, RecordState.AVAILABLE) for b in ranges], rules, writer)

    def finish_dead_letters(self, rules: GroupRules, writer: Writer) -> None:
        """End the state archiving: the records are in the dead-letter topic."""
        changed = [
            msgspec.structs.replace(batch, state=RecordState.ARCHIVED)
            for batch in self.states
            if batch.state == RecordState.ARCHIVING
        ]
        if changed:
            self._put(*changed)
            self._write(changed, writer)
            self._settle()

    def _changed(self, first: int, last: int, state: RecordState, count: int, rules: GroupRules) -> StateBatch:
        if state == RecordState.AVAILABLE and count >= rules.delivery_count_limit:
            state = RecordState.ARCHIVED
        if state == RecordState.ARCHIVED and rules.keeps_dead_letters:
            state = RecordState.ARCHIVING
        return StateBatch(first, last, state, count)

    def _write(self, changed: Iterable[StateBatch], writer: Writer) -> None:
        if writer.leader_epoch < self.stored.fence:
            raise WriteRefused
        count = offsets_in(self.states, COMPLETE, self.start_offset) if writer.counts_deliveries else UNKNOWN
        self.stored.write(writer.leader_epoch, self.start_offset, changed, count)

    def _put(self, *new: StateBatch) -> None:
        self.states = laid_over(self.states, new)
        self._end = max(self._end, self.states[-1].last_offset + 1)

    def _follow(self, log_start_offset: int) -> None:
        """Drop what was deleted from the log; the stored state learns of it with the next write."""
        if log_start_offset > self.start_offset:
            self.start_offset = log_start_offset
            self.states = laid_over(self.states, (), log_start_offset)
            self._settle()

    def _settle(self) -> None:
        """Move the start over what is complete, and over offsets that are not in the log before the first state."""
        while self.states:
            first = self.states[0]
            if first.state not in COMPLETE:
                self.start_offset = max(self.start_offset, first.first_offset)
                self._chunks.drop_before(self.start_offset)
                return
            self.start_offset = first.last_offset + 1
            del self.states[0]
        self.start_offset = max(self.start_offset, self._end)
        self._chunks.drop_before(self.start_offset)


def _cut(part: StateBatch, most: int) -> StateBatch:
    """Return the first offsets of a part."""
    return msgspec.structs.replace(part, last_offset=min(part.last_offset, part.first_offset + most - 1))


class _Care:
    """How few offsets of a chunk are handed out because some of them were delivered often; then they come alone.

    From half of the limit on each time half as many of the chunk as the time before, the last time one.

    Args:
        limit: of deliveries; None for no such care.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._chunk: Chunk | None = None
        self._left = 0

    def ends_before(self, chunk: Chunk) -> bool:
        """Tell whether nothing of a chunk is handed out after what was already."""
        return self._chunk is not None and (chunk != self._chunk or self._left <= 0)

    def most(self, part: StateBatch, chunk: Chunk, got: Sequence[Delivery]) -> int:
        """Return how many offsets of a part may be handed out after those that were already."""
        if self._limit is None:
            return part.last_offset - part.first_offset + 1
        threshold = max(2, (self._limit + 1) // 2)
        count = part.delivery_count
        if count >= max(threshold, self._limit - 1):
            self._chunk, self._left = chunk, 0
            return 0 if got else 1
        if self._chunk is None and count >= threshold:
            if got and got[0].first_offset < chunk.first:
                return 0
            self._chunk, self._left = chunk, max(1, chunk.size >> (count - threshold + 1))
            self._left -= sum(row.last_offset - row.first_offset + 1 for row in got)
        if self._chunk is None:
            return part.last_offset - part.first_offset + 1
        if chunk != self._chunk:
            return 0
        most = max(0, min(self._left, part.last_offset - part.first_offset + 1))
        self._left -= most
        return most


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset
