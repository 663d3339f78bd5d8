"""Make record batches for tests of what reads them.

In: records and attributes. Out: bytes as a broker sends them. Must never: be read by what wrote them only: aiokafka
writes, so that a mistake of our parsers shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
HEADER = 61
CRC_AT, ATTRIBUTES_AT, DELTA_AT, NEWEST_TIMESTAMP_AT, COUNT_AT = 17, 21, 23, 35, 57
TIME = 1_764_500_000_000


class Content(NamedTuple):
    """What is in one record."""

    value: bytes | None = b"value"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = TIME


def batch(
    base: int,
    contents: int | Sequence[Content],
    *,
    codec: int = NONE,
    attributes: int = 0,
    deltas: Sequence[int] | None = None,
    last: int | None = None,
) -> bytes:
    """Return the bytes of one batch.

    Args:
        base: offset of the first record.
        contents: records, or how many.
        codec: how they are compressed.
        attributes: bits besides the codec.
        deltas: offsets of the records behind `base`, where some are missing.
        last: last offset of the batch, where it is not that of the last record.
    """
    made = [Content(b"value %d" % number) for number in range(contents)] if isinstance(contents, int) else contents
    offsets = range(len(made)) if deltas is None else deltas
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for delta, content in zip(offsets, made, strict=True):
        builder.append(delta, content.timestamp, content.key, content.value, list(content.headers))
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    (written,) = struct.unpack_from(">h", data, ATTRIBUTES_AT)
    struct.pack_into(">h", data, ATTRIBUTES_AT, written | attributes)
    if last is not None:
        struct.pack_into(">i", data, DELTA_AT, last - base)
    return with_crc(data)


def marker(base: int, *, commit: bool = True) -> bytes:
    """Return the control batch that ends a transaction."""
    content = Content(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, int(commit)))
    return batch(base, [content], attributes=TRANSACTIONAL | CONTROL)


def with_crc(data: bytes | bytearray) -> bytes:
    """Return a batch with the checksum and length that its bytes have."""
    changed = bytearray(data)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, CRC_AT, calc_crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)
