"""Read the headers of record batches, as Fetch answers hold them.

In: the bytes of one partition. Out: one `RecordBatch` per whole batch; the last one may be cut off and is left out.
Must never: look at keys, values or headers of records, trust a length, or raise anything but `DecodeError`.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from shareproxy.protocol.errors import DecodeError

MAGIC: Final = 2
# base offset, length, leader epoch, magic, crc, attributes, last offset delta, two timestamps, producer id, epoch,
# base sequence, count of records
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_FRONT: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_OLD_TIMESTAMP: Final = struct.Struct(">q")
_KEY: Final = struct.Struct(">hh")

COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

ABORT: Final = 0
COMMIT: Final = 1
# a fetch of some MiB holds that many batches only if each has a few bytes
MOST_BATCHES: Final = 1_000_000
# Kafka refuses to read larger varints inside a batch, too
_MOST_VARINT_BYTES: Final = 5


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """Header of one batch.

    Attributes:
        last_offset: inclusive; compaction keeps it, so that the span may hold fewer records than offsets.
        records: how many records are left in it; `None` in message formats before version 2.
        producer_id: −1 without one.
        timestamp: of the first record in ms since 1970, as far as the header tells; `None` if it has none.
        marker: `ABORT` or `COMMIT` in the control batch that ends a transaction.
    """

    base_offset: int
    last_offset: int
    records: int | None
    producer_id: int
    timestamp: int | None
    transactional: bool = False
    control: bool = False
    marker: int | None = None

    @property
    def dense(self) -> bool:
        """Whether each offset of the span has a record."""
        return self.records == self.last_offset - self.base_offset + 1


def record_batches(data: bytes | None) -> list[RecordBatch]:
    """Return the whole batches in the records of one partition.

    Args:
        data: from a Fetch answer; `None` is empty.

    Raises:
        DecodeError: damaged.

    Source: KIP-98 (batch format), KIP-360.
    """
    batches: list[RecordBatch] = []
    position, end = 0, len(data or b"")
    previous = -1
    while data is not None and end - position > _MAGIC_AT:
        base, length = _FRONT.unpack_from(data, position)
        stop = position + _FRONT.size + length
        if length < _MAGIC_AT - _FRONT.size + 1 or base < 0:
            raise _damaged(position, f"length {length}, base offset {base}")
        magic = data[position + _MAGIC_AT]
        if magic > MAGIC:
            raise _damaged(position, f"message format {magic}, newest known is {MAGIC}")
        if stop > end:
            break
        batch = _batch(data, position, stop) if magic == MAGIC else _old_message(data, position, stop, base)
        if batch.base_offset <= previous:
            raise _damaged(position, f"offset {batch.base_offset} comes after {previous}")
        previous = batch.last_offset
        batches.append(batch)
        if len(batches) > MOST_BATCHES:
            raise _damaged(position, f"more than {MOST_BATCHES} batches")
        position = stop
    return batches


def _batch(data: bytes, position: int, stop: int) -> RecordBatch:
    if stop - position < _HEADER.size:
        raise _damaged(position, "shorter than its header")
    (base, _, _, _, _, attributes, delta, first, newest, producer_id, _, _, count) = _HEADER.unpack_from(data, position)
    if delta < 0 or count < 0 or count > delta + 1 or base > 2**63 - 1 - delta:
        raise _damaged(position, f"{count} records in {delta + 1} offsets from {base}")
    if attributes & LOG_APPEND_TIME or attributes & DELETE_HORIZON:
        # a delete horizon stands where the first timestamp was (KIP-534); the newest is what is left to tell
        first = newest
    control = bool(attributes & CONTROL)
    marker = _marker(data, position + _HEADER.size, stop) if control and count else None
    return RecordBatch(
        base_offset=base,
        last_offset=base + delta,
        records=count,
        producer_id=producer_id,
        timestamp=first if first >= 0 else None,
        transactional=bool(attributes & TRANSACTIONAL),
        control=control,
        marker=marker,
    )


def _old_message(data: bytes, position: int, stop: int, offset: int) -> RecordBatch:
    """Read a message of format 0 or 1, which clusters that are old enough may still keep."""
    if stop - position < _MAGIC_AT + 2:
        raise _damaged(position, "shorter than its header")
    magic, attributes = data[position + _MAGIC_AT], data[position + _MAGIC_AT + 1]
    timestamp = None
    if magic == 1 and stop - position >= _MAGIC_AT + 2 + _OLD_TIMESTAMP.size:
        [found] = _OLD_TIMESTAMP.unpack_from(data, position + _MAGIC_AT + 2)
        timestamp = found if found >= 0 else None
    plain = not attributes & COMPRESSION
    # a compressed one stands for several messages, of which only the last offset is known
    return RecordBatch(offset, offset, 1 if plain else None, -1, timestamp)


def _marker(data: bytes, position: int, stop: int) -> int | None:
    """Return the type of the first control record; its key is version and type, two int16."""
    _, position = _varint(data, position, stop)  # size of the record
    position += 1  # attributes
    _, position = _varlong(data, position, stop)  # timestamp
    _, position = _varint(data, position, stop)  # offset
    size, position = _varint(data, position, stop)
    if size < _KEY.size or position + _KEY.size > stop:
        raise _damaged(position, "control record without a key")
    _, kind = _KEY.unpack_from(data, position)
    return int(kind) if kind in (ABORT, COMMIT) else None


def _varint(data: bytes, position: int, stop: int) -> tuple[int, int]:
    return _zigzag(data, position, stop, _MOST_VARINT_BYTES)


def _varlong(data: bytes, position: int, stop: int) -> tuple[int, int]:
    return _zigzag(data, position, stop, 10)


def _zigzag(data: bytes, position: int, stop: int, most: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * most, 7):
        if position >= stop:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise _damaged(position, "control record cut off")


def _damaged(position: int, what: str) -> DecodeError:
    return DecodeError(f"record batch at byte {position}: {what}", ("records",))
