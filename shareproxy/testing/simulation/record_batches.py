"""Write modelled batches as Kafka's record batches, version 2.

In: a batch of the model. Out: the bytes that a Fetch answer carries. Must never: compress.
"""

from __future__ import annotations

import struct
from typing import Final

from shareproxy.testing.simulation.record_log import Batch

_HEAD: Final = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_BODY: Final = struct.Struct(">hiqqqhii")
_CRC: Final = struct.Struct(">I")
MAGIC: Final = 2
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1
NOTHING: Final = -1


def encode_batch(batch: Batch) -> bytes:
    """Return the bytes of a batch; records that compaction took away are not there, their offsets are still counted."""
    if batch.encoded is None:
        batch.encoded = _encode(batch)
    return batch.encoded


def _encode(batch: Batch) -> bytes:
    records = b"".join(_record(batch, offset) for offset in batch.offsets())
    attributes = (TRANSACTIONAL if batch.transactional else 0) | (CONTROL if batch.control else 0)
    has_producer = batch.producer_id >= 0
    body = (
        _BODY.pack(
            attributes,
            batch.last_offset - batch.base_offset,
            batch.timestamp,
            batch.timestamp,
            batch.producer_id,
            0 if has_producer else NOTHING,
            0 if has_producer and not batch.control else NOTHING,
            len(batch.offsets()),
        )
        + records
    )
    rest = _CRC.pack(crc32c(body)) + body
    # the length counts what follows it: leader epoch, magic, checksum and the rest
    return _HEAD.pack(batch.base_offset, 5 + len(rest), batch.leader_epoch, MAGIC) + rest


def _record(batch: Batch, offset: int) -> bytes:
    if batch.control is None:
        key, value = None, batch.value(offset)
    else:
        key = struct.pack(">hh", 0, COMMIT if batch.control == "commit" else ABORT)
        value = struct.pack(">hi", 0, 0)
    key_bytes = varint(NOTHING) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(offset - batch.base_offset) + key_bytes + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    """Write a signed number in as few bytes as it needs, zigzag."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _table() -> tuple[int, ...]:
    rows = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        rows.append(value)
    return tuple(rows)


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """Return the checksum that record batches carry (Castagnoli)."""
    value = 0xFFFF_FFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFF_FFFF
