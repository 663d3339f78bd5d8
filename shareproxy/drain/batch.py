"""Hand several records to a caller at once, and let it acknowledge all of them as cheaply as one.

In: records with their lots. Out: the same as a sequence; acknowledgements as ranges.
Must never: acknowledge a record that its caller has acknowledged already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from shareproxy.drain.acquired import joined
from shareproxy.drain.lot import LOST, OPEN, HeldLot
from shareproxy.drain.model import Acknowledgement, OffsetRange, TopicPartition
from shareproxy.drain.record import ShareRecord
from shareproxy.drain.tickets import BatchTicket, PendingAcks


class _Stretch(NamedTuple):
    """Offsets of one lot that are in a batch."""

    lot: HeldLot
    first: int
    last: int


class RecordBatch(Sequence[ShareRecord]):
    """Records of one `get_batch`, in order within each partition."""

    __slots__ = ("_records", "_stretches")

    def __init__(self, records: Sequence[ShareRecord] = (), stretches: Sequence[_Stretch] = ()) -> None:
        self._records, self._stretches = records, stretches

    def __repr__(self) -> str:
        return f"<RecordBatch of {len(self._records)} records of {len(self.partitions)} partitions>"

    @overload
    def __getitem__(self, index: int) -> ShareRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ShareRecord]: ...
    def __getitem__(self, index: int | slice) -> ShareRecord | Sequence[ShareRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ShareRecord]:
        return iter(self._records)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Return where the records come from."""
        return frozenset(stretch.lot.acks.name for stretch in self._stretches)

    def accept(self) -> BatchTicket:
        """Say that all not yet acknowledged are done and shall not come again."""
        return self._acknowledge(Acknowledgement.ACCEPT)

    def release(self, delay: float = 0.0) -> BatchTicket:
        """Give all not yet acknowledged back, so that they come again, here or elsewhere.

        Args:
            delay: seconds during which they stay locked before they are given back.
        """
        return self._acknowledge(Acknowledgement.RELEASE, delay)

    def reject(self) -> BatchTicket:
        """Say that none of those not yet acknowledged will ever work."""
        return self._acknowledge(Acknowledgement.REJECT)

    def renew(self) -> BatchTicket:
        """Prolong the locks of all not yet acknowledged (Kafka 4.2)."""
        return self._acknowledge(Acknowledgement.RENEW)

    def _acknowledge(self, kind: Acknowledgement, delay: float = 0.0) -> BatchTicket:
        waiting: dict[PendingAcks, None] = {}
        for lot, first, last in self._stretches:
            pending = lot.acknowledge_all(first, last, kind, delay)
            if pending is not None:
                waiting[pending] = None
        return BatchTicket(tuple(waiting))


class _Portion:
    """What one answer brought of one partition, and how much of it was handed out."""

    __slots__ = ("at", "lot", "number", "records")

    def __init__(self, lot: HeldLot, records: list[ShareRecord], number: int) -> None:
        self.lot, self.records, self.number, self.at = lot, records, number, 0


class RecordBuffer:
    """Records that came and were not handed out yet, in the order in which they came."""

    def __init__(self) -> None:
        self._portions: deque[_Portion] = deque()
        self._added = 0
        self.count = 0

    def add(self, lot: HeldLot, records: list[ShareRecord]) -> None:
        """Take records of one lot."""
        if records:
            self._added += 1
            self._portions.append(_Portion(lot, records, self._added))
            self.count += len(records)

    def clear(self) -> None:
        """Drop everything."""
        self._portions.clear()
        self.count = 0

    @property
    def place(self) -> tuple[int, int]:
        """Return something that changes whenever records are handed out, or the first of them come."""
        return (self._portions[0].number, self._portions[0].at) if self._portions else (0, 0)

    def release_fresh(self) -> list[tuple[TopicPartition, tuple[OffsetRange, ...]]]:
        """Give what was delivered for the first time back to the group, and return what that was.

        The rest stays: each release spends an attempt, and brokers give up what was released too often, seen or not.
        """
        released = []
        kept: deque[_Portion] = deque()
        for portion in self._portions:
            lot = portion.lot
            rest = [record for record in portion.records[portion.at :] if lot.is_open(record.offset)]
            fresh = (record.offset for record in rest if record.delivery_count == 1)
            ranges = tuple(joined((offset, offset) for offset in fresh))
            for first, last in ranges:
                lot.acknowledge_all(first, last, Acknowledgement.RELEASE)
            if ranges:
                released.append((lot.acks.name, ranges))
            portion.records, portion.at = [record for record in rest if record.delivery_count > 1], 0
            if portion.records:
                kept.append(portion)
        self._portions, self.count = kept, sum(len(portion.records) for portion in kept)
        return released

    def drop_lost(self, now: float) -> list[tuple[TopicPartition, OffsetRange]]:
        """Drop records at the front whose lock is lost or has run out; return which.

        They would be worked on in vain: somebody else has them, or gets them at any moment.
        """
        dropped: list[tuple[TopicPartition, OffsetRange]] = []
        while self._portions:
            portion = self._portions[0]
            lot = portion.lot
            rest = portion.records[portion.at :] if portion.at else portion.records
            if LOST in lot.marks:
                kept = [record for record in rest if lot.is_open(record.offset)]
                gone = [record.offset for record in rest if not lot.is_open(record.offset)]
            elif lot.lock_deadline(rest[0].offset) <= now:
                # ours still, as far as the session knows; nobody shall begin with them now
                kept, gone = [], [record.offset for record in rest]
                # and they shall not be renewed for nobody
                lot.acknowledge_all(gone[0], gone[-1], Acknowledgement.RELEASE)
            else:
                break
            if not gone:
                break
            dropped += ((lot.acks.name, each) for each in joined((offset, offset) for offset in gone))
            self.count -= len(gone)
            if kept:
                portion.records, portion.at = kept, 0
                break
            self._portions.popleft()
        return dropped

    def take(self, most: int) -> RecordBatch:
        """Hand out up to so many records."""
        if not self._portions:
            return RecordBatch()
        records: list[ShareRecord] | None = None
        stretches = []
        while self._portions and most > 0:
            portion = self._portions[0]
            if records is not None and LOST in portion.lot.marks:
                break  # the next call looks at what is left of it
            left = len(portion.records) - portion.at
            if left <= most:
                part = portion.records[portion.at :] if portion.at else portion.records
                self._portions.popleft()
            else:
                part = portion.records[portion.at : portion.at + most]
                portion.at += most
            stretches.append(_Stretch(portion.lot, part[0].offset, part[-1].offset))
            most -= len(part)
            self.count -= len(part)
            if records is None:
                records = part
            else:
                records = records + part
        return RecordBatch(records or (), stretches)

    @property
    def front(self) -> int:
        """Return how many records of the first portion are left."""
        return len(self._portions[0].records) - self._portions[0].at if self._portions else 0

    def take_one(self) -> ShareRecord | None:
        """Hand out the next record that is still ours without a look at the clock; `None` where that is needed.

        The clock is looked at before the first record of each portion; a lock that runs out while one is handed out
        is told by the session.
        """
        if not self._portions:
            return None
        portion = self._portions[0]
        at = portion.at
        if not at:
            return None
        record = portion.records[at]
        if portion.lot.marks[record.offset - portion.lot.first] != OPEN:
            return None
        self._step(portion)
        return record

    def take_first(self) -> ShareRecord:
        """Hand out the next record, after `drop_lost`; there has to be one."""
        portion = self._portions[0]
        record = portion.records[portion.at]
        self._step(portion)
        return record

    def _step(self, portion: _Portion) -> None:
        self.count -= 1
        portion.at += 1
        if portion.at == len(portion.records):
            self._portions.popleft()
