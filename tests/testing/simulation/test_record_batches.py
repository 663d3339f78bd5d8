"""Modelled batches as bytes; aiokafka's reader is the judge."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords

from shareproxy.testing.simulation.record_batches import crc32c, encode_batch, varint
from shareproxy.testing.simulation.record_log import Batch


def read(data: bytes) -> list[tuple[int, bytes | None, int]]:
    """Return offset, value and timestamp of each record; checksums are checked."""
    batches, found = MemoryRecords(data), []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.value, record.timestamp) for record in batch]
    return found


def test_a_batch_can_be_read() -> None:
    """Offsets, values and timestamps are those of the model."""
    batch = Batch(5, 7, 1_700_000_000_000, values=(b"a", b"bb", b""))
    assert read(encode_batch(batch)) == [
        (5, b"a", 1_700_000_000_000),
        (6, b"bb", 1_700_000_000_000),
        (7, b"", 1_700_000_000_000),
    ]


def test_a_compacted_batch_keeps_its_span() -> None:
    """Records that are gone leave their offsets: the batch still ends where it did."""
    data = encode_batch(Batch(30, 39, 1, kept=(38, 39)))
    assert [offset for offset, _, _ in read(data)] == [38, 39]
    assert int.from_bytes(data[23:27]) == 9


@pytest.mark.parametrize(("word", "kind"), [("abort", 0), ("commit", 1)])
def test_a_marker_says_how_it_ended(word: str, kind: int) -> None:
    """It is a control batch with the type in the key of its only record."""
    [batch] = [MemoryRecords(encode_batch(Batch(9, 9, 1, 0, 7, True, control=word))).next_batch()]
    assert (batch.is_control_batch, batch.is_transactional, batch.producer_id) == (True, True, 7)
    [record] = batch
    assert record.key == bytes([0, 0, 0, kind])


def test_checksum_and_varint() -> None:
    """The values that the checksum's and the protocol's descriptions give."""
    assert crc32c(b"123456789") == 0xE3069283
    assert [varint(value) for value in (0, -1, 1, 63, -65, 300)] == [
        b"\x00",
        b"\x01",
        b"\x02",
        b"\x7e",
        b"\x81\x01",
        b"\xd8\x04",
    ]
