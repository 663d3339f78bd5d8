"""Headers of record batches.

In: where to cut, and the records of a partition. Out: nothing, or a finding: another error than `DecodeError`, batches
out of order, more records than offsets, or a cut that changes the batches before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Final

from fuzz.finding import expect
from fuzz.target import Target
from shareproxy.lag.records import RecordBatch, record_batches
from shareproxy.protocol.errors import DecodeError

_BATCH: Final = struct.Struct(">iBIhiqqqhii")  # from the leader epoch on
_FRONT: Final = struct.Struct(">qi")


def run(data: bytes) -> None:
    """Take a place for a cut in two bytes, then records."""
    cut, records = int.from_bytes(data[:2]), data[2:]
    whole, refused = _read(records)
    previous = -1
    for batch in whole:
        expect(previous < batch.base_offset <= batch.last_offset < 2**63, "offsets rise", batch, previous)
        previous = batch.last_offset
        span = batch.last_offset - batch.base_offset + 1
        expect(batch.records is None or 0 <= batch.records <= span, "records have an offset each", batch)
        expect(batch.timestamp is None or batch.timestamp >= 0, "no sentinel leaves the wire", batch)
        expect(batch.marker is None or batch.control, "only control batches end transactions", batch)
    before, refused_before = _read(records[: cut % (len(records) + 1)])
    expect(refused or not refused_before, "a cut damages nothing", cut, records)
    expect(before == whole[: len(before)] or refused, "a cut leaves the batches before it", before, whole)


def _read(records: bytes) -> tuple[list[RecordBatch], bool]:
    try:
        return record_batches(records), False
    except DecodeError:
        return [], True


def seeds() -> Iterator[bytes]:
    """Yield batches of each kind: plain, transactional, markers, old formats, one that is cut off."""
    random = Random(5)
    yield bytes(2)
    for attributes in (0, 0x10, 0x30, 0x08, 0x40, 0x01):
        yield bytes(2) + _batch(random, 7, attributes, 3) + _batch(random, 30, 0, 1)
    yield bytes(2) + _old(5, 0) + _old(6, 1)
    for _ in range(20):
        yield fresh(random)


def fresh(random: Random) -> bytes:
    """Return a few batches in a row."""
    records, offset = b"", random.randrange(1_000)
    for _ in range(random.randint(0, 5)):
        if random.random() < 0.2:
            records += _old(offset, random.randrange(2))
            offset += 1
            continue
        count = random.randint(0, 5)
        records += _batch(random, offset, random.choice((0, 0, 0x10, 0x30, 0x38, 0x40)), count)
        offset += max(count, 1) + random.randrange(3)
    return random.randbytes(2) + records + records[: random.choice((0, 0, 17, 40))]


def _batch(random: Random, base: int, attributes: int, count: int) -> bytes:
    body = bytes(random.randrange(20))
    if attributes & 0x20:
        key = struct.pack(">hh", 0, random.randrange(3))
        record = b"\0\0\0" + bytes((2 * len(key),)) + key + b"\0\0"
        body = bytes((2 * len(record),)) + record
    times = random.choice(((1, 2), (-1, -1), (5, 9)))
    content = _BATCH.pack(0, 2, 0, attributes, max(count - 1, 0), *times, random.randint(-1, 9), 0, -1, count) + body
    return _FRONT.pack(base, len(content)) + content


def _old(offset: int, magic: int) -> bytes:
    content = bytes(4) + bytes((magic, 0)) + (struct.pack(">q", 5) if magic else b"") + struct.pack(">ii", -1, -1)
    return _FRONT.pack(offset, len(content)) + content


TARGET: Final = Target("records", "headers of record batches", run, seeds, fresh)
