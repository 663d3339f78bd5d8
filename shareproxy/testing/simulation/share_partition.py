"""What the leader of a share partition does: hand records out, take acknowledgements, write state.

In: a log, acquisitions and acknowledgements. Out: acquired ranges, and writes to the stored state, at the moments at
which a broker writes. Must never: move the stored start before the next write; Kafka does not either (KAFKA-19922).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from shareproxy.testing.simulation.record_log import RecordLog
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


class GroupRules(msgspec.Struct, frozen=True):
    """What a group's configuration says about its share partitions.

    Attributes:
        keeps_dead_letters: rejected and exhausted records wait in the state archiving (KIP-1191).
    """

    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    delivery_count_limit: int = 5
    max_record_locks: int = 2000
    keeps_dead_letters: bool = False


class Writer(msgspec.Struct, frozen=True):
    """With which leader epoch a leader writes, and whether it and the share coordinator know KIP-1226's count."""

    leader_epoch: int
    counts_deliveries: bool


class WriteRefused(Exception):  # noqa: N818 - what the broker did
    """The share coordinator has seen a higher leader epoch."""


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
    """

    __slots__ = ("_end", "_holders", "start_offset", "states", "stored")

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
        self._holders: list[tuple[int, int, str]] = []  # first offset, last offset, member
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
        self, log: RecordLog, rules: GroupRules, member: str, most: int, *, isolates_poison: bool = True
    ) -> list[Delivery]:
        """Hand out what one fetch brings: whole batches until `most` offsets are reached.

        Args:
            log: the partition's.
            rules: the group's.
            member: who gets it.
            most: offsets that are enough.
            isolates_poison: offsets that were delivered often are handed out in smaller numbers (Kafka 4.2).
        """
        self._follow(log.log_start_offset)
        committed = rules.isolation_level == READ_COMMITTED
        before = log.last_stable_offset if committed else log.high_watermark
        got: list[Delivery] = []
        count, at = 0, self.next_offset
        for batch in log.batches_from(at, before):
            if count >= most or self.in_flight >= rules.max_record_locks:
                break
            first = max(batch.base_offset, self.start_offset)
            aborted = committed and log.is_aborted(batch)
            for part in self._free_parts(first, batch.last_offset):
                suspects = _suspects(part, rules.delivery_count_limit) if isolates_poison else 0
                if suspects:
                    if not got:  # alone, so that a bad record takes few others with it
                        last = min(part.last_offset, part.first_offset + suspects - 1)
                        got.append(self._take(msgspec.structs.replace(part, last_offset=last), member))
                    return got
                if aborted:
                    self._put(StateBatch(part.first_offset, part.last_offset, RecordState.ARCHIVED, 1))
                    continue
                got.append(self._take(part, member))
                count += part.last_offset - part.first_offset + 1
        self._settle()
        return got

    def _take(self, part: StateBatch, member: str) -> Delivery:
        taken = StateBatch(part.first_offset, part.last_offset, RecordState.ACQUIRED, part.delivery_count + 1)
        self._put(taken)
        self._hold(taken.first_offset, taken.last_offset, member)
        return Delivery(taken.first_offset, taken.last_offset, taken.delivery_count)

    @property
    def in_flight(self) -> int:
        """How many offsets are handed out and not acknowledged."""
        return offsets_in(self.states, (RecordState.ACQUIRED,))

    def held_by(self, member: str | None) -> list[StateBatch]:
        """Return the acquired ranges of a member; None for those of all members."""
        acquired = [batch for batch in self.states if batch.state == RecordState.ACQUIRED]
        if member is None:
            return acquired
        return [
            msgspec.structs.replace(
                batch, first_offset=max(first, batch.first_offset), last_offset=min(last, batch.last_offset)
            )
            for first, last, holder in self._holders
            if holder == member
            for batch in acquired
            if first <= batch.last_offset and batch.first_offset <= last
        ]

    def _hold(self, first: int, last: int, member: str) -> None:
        kept = []
        for low, high, holder in self._holders:
            if high < self.start_offset:
                continue
            if low < first:
                kept.append((low, min(high, first - 1), holder))
            if high > last:
                kept.append((max(low, last + 1), high, holder))
        self._holders = [*kept, (first, last, member)]

    def _free_parts(self, first: int, last: int) -> list[StateBatch]:
        """Return which parts of a range may be handed out, with their delivery counts so far."""
        parts, at = [], first
        for batch in self.states:
            if batch.last_offset < first or batch.first_offset > last:
                continue
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
            for held in self.states:
                if held.state != RecordState.ACQUIRED or held.last_offset < first or held.first_offset > last:
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
        self._settle()

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
                return
            self.start_offset = first.last_offset + 1
            del self.states[0]
        self.start_offset = max(self.start_offset, self._end)


def _suspects(part: StateBatch, limit: int) -> int:
    """Return how many offsets of a part are handed out alone because they were delivered often, 0 for no such care.

    From half of the limit on each time half as many, the last time one.
    """
    threshold = max(2, (limit + 1) // 2)
    if part.delivery_count < threshold:
        return 0
    size = part.last_offset - part.first_offset + 1
    return 1 if part.delivery_count >= limit - 1 else max(1, size >> (part.delivery_count - threshold + 1))
