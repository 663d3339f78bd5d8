"""The quick checksum says what the plain one says."""

from __future__ import annotations

import struct

import pytest

from shareproxy.drain.checksum import CHECKSUM, checksum_fits
from shareproxy.drain.plain_records import crc32c
from tests.drain.batches import CRC_AT, batch


def test_package_is_there() -> None:
    """What the speed of large records rests on is installed."""
    assert CHECKSUM is not None


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1_000, 40_000])
def test_known_by_the_plain_one(size: int) -> None:
    """For every length around a word of the processor, and above what it does at once."""
    assert CHECKSUM is not None
    data = bytes(number * 7 & 0xFF for number in range(size))

    assert CHECKSUM(data) == crc32c(data)


def test_batch_in_the_middle() -> None:
    """Only the bytes of that batch count, and those before its checksum do not."""
    assert CHECKSUM is not None
    before, one, behind = batch(0, 2), batch(2, 3), batch(5, 1)
    data = bytearray(before + one + behind)
    start, stop = len(before), len(before) + len(one)
    data[start + 12 : start + 16] = struct.pack(">i", 77)  # the leader epoch, which brokers set

    assert checksum_fits(CHECKSUM, bytes(data), start, stop)
    assert not checksum_fits(CHECKSUM, bytes(data), start, stop - 1)
    data[start + CRC_AT] ^= 0x80  # the sign, if it were one
    assert not checksum_fits(CHECKSUM, bytes(data), start, stop)
