"""Check the checksum of a record batch with the processor's own instruction, ten times as quick as a table.

In: bytes that hold whole batches. Out: whether the checksum of one fits. Must never: call a batch good unseen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

Checksum: TypeAlias = Callable[[bytes], int]

# where they are in a batch of format 2 (KIP-98)
_CHECKSUM: Final = struct.Struct(">17xI")
_CHECKED_FROM: Final = 21


def _crc32c() -> Checksum | None:
    """Return what computes checksums; it is left out where no wheel of it is at hand."""
    try:
        import google_crc32c
    except ImportError:
        return None
    # its own fallback in Python would be a thousand times slower than aiokafka's table
    return google_crc32c.value if google_crc32c.implementation == "c" else None


CHECKSUM: Final = _crc32c()


def checksum_fits(checksum: Checksum, data: bytes, start: int, stop: int) -> bool:
    """Return whether the checksum of a batch of format 2 fits its bytes.

    Args:
        checksum: Castagnoli's.
        data: what the batch is in.
        start: where the batch begins.
        stop: where it ends.

    Source: KIP-98.
    """
    (written,) = _CHECKSUM.unpack_from(data, start)
    # it takes bytes only; the copy costs a twentieth of a microsecond per KiB
    return checksum(data[start + _CHECKED_FROM : stop]) == int(written)
