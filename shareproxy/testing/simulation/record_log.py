"""One partition's log, as batches of offsets: what was written, committed, compacted and deleted.

In: writes. Out: end offsets, batches to fetch, aborted transactions. Must never: keep more than one object per batch,
so that a cluster of a hundred thousand partitions stays small.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

NO_PRODUCER: Final = -1
NOT_FOUND: Final = (-1, -1)


class Batch(msgspec.Struct, gc=False):
    """Some records that were written together.

    Attributes:
        base_offset: the first offset, also after compaction.
        last_offset: the last one.
        timestamp: of all its records, milliseconds.
        producer_id: −1 for none.
        control: "commit" or "abort" for a transaction marker.
        kept: offsets of the records that compaction left; None for all.
        values: one per offset; None for made-up ones.
        encoded: its bytes once somebody has fetched it, as that takes long.
    """

    base_offset: int
    last_offset: int
    timestamp: int
    leader_epoch: int = 0
    producer_id: int = NO_PRODUCER
    transactional: bool = False
    control: str | None = None
    kept: tuple[int, ...] | None = None
    values: tuple[bytes, ...] | None = None
    encoded: bytes | None = None

    def offsets(self) -> Sequence[int]:
        """Return the offsets of the records that are there."""
        return range(self.base_offset, self.last_offset + 1) if self.kept is None else self.kept

    def value(self, offset: int) -> bytes:
        """Return a record's value."""
        index = offset - self.base_offset
        return b"value-%d" % index if self.values is None else self.values[index]


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A producer's records from `first_offset` up to its marker at `last_offset` are not to be read."""

    producer_id: int
    first_offset: int
    last_offset: int


class RecordLog:
    """The log of one partition; its end is its high watermark, as all replicas always have everything."""

    __slots__ = ("_aborted", "_batches", "_open", "high_watermark", "log_start_offset")

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.high_watermark = 0
        self._batches: list[Batch] = []
        self._open: dict[int, int] | None = None
        self._aborted: list[AbortedTransaction] | None = None

    @property
    def last_stable_offset(self) -> int:
        """The offset before which no transaction is open; it stays there when its records are deleted."""
        return min(self._open.values()) if self._open else self.high_watermark

    @property
    def open_transactions(self) -> dict[int, int]:
        """Producer id → first offset of its open transaction."""
        return dict(self._open or {})

    def append(
        self,
        count: int,
        timestamp: int,
        *,
        leader_epoch: int = 0,
        producer_id: int = NO_PRODUCER,
        transactional: bool = False,
        values: Sequence[bytes] | None = None,
    ) -> range:
        """Write one batch and return its offsets."""
        base = self.high_watermark
        if count <= 0:
            return range(base, base)
        if transactional:
            self._open = self._open or {}
            self._open.setdefault(producer_id, base)
        self._write(
            Batch(
                base,
                base + count - 1,
                timestamp,
                leader_epoch,
                producer_id,
                transactional,
                values=None if values is None else tuple(values),
            )
        )
        return range(base, base + count)

    def end_transaction(self, producer_id: int, *, commit: bool, timestamp: int, leader_epoch: int = 0) -> int | None:
        """Write the marker of a transaction and return its offset; None where the producer has none open here."""
        if not self._open or producer_id not in self._open:
            return None
        first, marker = self._open.pop(producer_id), self.high_watermark
        self._write(
            Batch(marker, marker, timestamp, leader_epoch, producer_id, True, control="commit" if commit else "abort")
        )
        if not commit:
            self._aborted = self._aborted or []
            self._aborted.append(AbortedTransaction(producer_id, first, marker))
        return marker

    def _write(self, batch: Batch) -> None:
        self._batches.append(batch)
        self.high_watermark = batch.last_offset + 1

    def delete_before(self, offset: int) -> int:
        """Raise the log start offset and return it.

        Raises:
            ValueError: the log is not that long.
        """
        if not 0 <= offset <= self.high_watermark:
            raise ValueError(f"offset {offset} is not in the log, which ends at {self.high_watermark}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._batches = [batch for batch in self._batches if batch.last_offset >= offset]
            self._aborted = [gone for gone in self._aborted or () if gone.last_offset >= offset] or None
        return self.log_start_offset

    def compact(self, keep: Iterable[int]) -> None:
        """Take away all records but these; a batch left without any is gone, the others keep their first offset.

        Markers of transactions stay.
        """
        kept = frozenset(keep)
        left = []
        for batch in self._batches:
            if batch.control is None:
                offsets = tuple(offset for offset in batch.offsets() if offset in kept)
                if not offsets:
                    continue
                batch.kept = None if len(offsets) == batch.last_offset - batch.base_offset + 1 else offsets
                batch.encoded = None
            left.append(batch)
        self._batches = left

    def batches_from(self, offset: int, before: int) -> Iterator[Batch]:
        """Yield the batches that hold an offset at or after the given one, up to those that begin before `before`."""
        for position in range(bisect_left(self._batches, offset, key=_last_offset), len(self._batches)):
            batch = self._batches[position]
            if batch.base_offset >= before:
                return
            yield batch

    def aborted(self, first: int, last: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap offsets `first` to `last`."""
        return [gone for gone in self._aborted or () if gone.first_offset <= last and gone.last_offset >= first]

    def is_aborted(self, batch: Batch) -> bool:
        """Tell whether a batch belongs to an aborted transaction; its marker does not."""
        return (
            batch.transactional
            and batch.control is None
            and any(
                gone.producer_id == batch.producer_id and gone.first_offset <= batch.base_offset < gone.last_offset
                for gone in self._aborted or ()
            )
        )

    def offset_at(self, timestamp: int) -> tuple[int, int]:
        """Return timestamp and offset of the first record at least that young, (−1, −1) if there is none."""
        for batch in self._batches:
            if batch.timestamp >= timestamp and batch.last_offset >= self.log_start_offset:
                first = next((o for o in batch.offsets() if o >= self.log_start_offset), None)
                if first is not None:
                    return batch.timestamp, first
        return NOT_FOUND

    def max_timestamp(self) -> tuple[int, int]:
        """Return the youngest timestamp and an offset that has it, as ListOffsets −3 does: also a marker's offset."""
        if not self._batches:
            return NOT_FOUND
        youngest = max(batch.timestamp for batch in self._batches)
        batch = next(batch for batch in self._batches if batch.timestamp == youngest)
        return youngest, batch.last_offset if batch.kept is None else batch.kept[-1]

    def batch_at(self, offset: int) -> Batch | None:
        """Return the batch whose span holds an offset."""
        position = bisect_right(self._batches, offset, key=_base_offset) - 1
        if position < 0 or self._batches[position].last_offset < offset:
            return None
        return self._batches[position]


def _last_offset(batch: Batch) -> int:
    return batch.last_offset


def _base_offset(batch: Batch) -> int:
    return batch.base_offset
