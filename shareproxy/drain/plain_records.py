"""Read record batches in plain Python: the definition of right in tests, and the fallback where nothing is compiled.

In: the bytes of one partition. Out: batches with their records. Must never: trust a length, read message formats
older than 2, or raise anything but `DecodeError` for damaged bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from shareproxy.drain.model import Headers
from shareproxy.protocol.errors import DecodeError

# base offset, length, leader epoch, format, checksum, attributes, last offset delta, first and newest timestamp,
# producer id and epoch, base sequence, count of records
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_FRONT: Final = struct.Struct(">qi")
_CHECKED_FROM: Final = 21  # the checksum covers the attributes and what is behind them
_FORMAT: Final = 2
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_MOST_VARINT_BYTES: Final = 10
# length, attributes, timestamp, offset, key, value and headers take a byte each at least
_SHORTEST_RECORD: Final = 7

# xerial's frame, which Java writes: a header of 16 bytes, then blocks with their lengths
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")


class PlainRecord(NamedTuple):
    """One record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class PlainBatch:
    """One batch.

    Args:
        data: its bytes, from the base offset to the last record.

    Raises:
        DecodeError: it is shorter than its header, or of another format.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size:
            raise DecodeError(f"a batch of {len(data)} bytes is shorter than its header")
        (
            self.base_offset,
            _,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            delta,
            self._first_timestamp,
            self._newest_timestamp,
            self.producer_id,
            _,
            _,
            self.count,
        ) = _HEADER.unpack_from(data)
        if self.magic != _FORMAT:
            raise DecodeError(f"message format {self.magic} is not read here, only {_FORMAT}")
        self.next_offset = self.base_offset + delta + 1
        self._data = data

    @property
    def is_control_batch(self) -> bool:
        """Whether it holds markers of transactions, no records."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    def validate_crc(self) -> bool:
        """Return whether the checksum fits."""
        return bool(crc32c(memoryview(self._data)[_CHECKED_FROM:]) == self.crc)

    def __iter__(self) -> Iterator[PlainRecord]:
        data = self._payload()
        if not 0 <= self.count <= len(data) // _SHORTEST_RECORD:
            raise DecodeError(f"{self.count} records do not fit into {len(data)} bytes")
        append_time = self._newest_timestamp if self.attributes & _LOG_APPEND_TIME else None
        position = 0
        for number in range(self.count):
            try:
                record, position = _record(data, position, self.base_offset, self._first_timestamp)
            except IndexError:
                raise DecodeError(f"record {number} of {self.count} is cut off") from None
            except UnicodeDecodeError:
                raise DecodeError(f"record {number} of {self.count}: the name of a header is not UTF-8") from None
            yield record if append_time is None else record._replace(timestamp=append_time)
        if position != len(data):
            raise DecodeError(f"{len(data) - position} bytes are left behind the last record")

    def _payload(self) -> bytes:
        codec = self.attributes & _CODEC
        data = self._data[_HEADER.size :]
        if not codec:
            return data
        decompress = _DECOMPRESS.get(codec)
        if decompress is None:
            raise DecodeError(f"there is no compression {codec}")
        try:
            return decompress(data)
        except Exception as error:  # each library has its own kinds
            raise DecodeError(f"cannot be decompressed: {error}") from error


class PlainRecords:
    """Walks over batches.

    Args:
        data: whole batches; the last one may be cut off and is left out.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def has_next(self) -> bool:
        """Return whether another whole batch is there."""
        return self._stop() is not None

    def next_batch(self) -> PlainBatch | None:
        """Return the next batch, `None` behind the last one.

        Raises:
            DecodeError: what is there is no batch.
        """
        stop = self._stop()
        if stop is None:
            return None
        if stop < self._position + _HEADER.size:
            raise DecodeError(f"a batch at byte {self._position} is shorter than its header")
        data, self._position = self._data[self._position : stop], stop
        return PlainBatch(data)

    def _stop(self) -> int | None:
        if len(self._data) - self._position < _FRONT.size:
            return None
        _, length = _FRONT.unpack_from(self._data, self._position)
        stop = int(self._position + _FRONT.size + length)
        return None if stop > len(self._data) else stop


def _record(data: bytes, position: int, base_offset: int, first_timestamp: int) -> tuple[PlainRecord, int]:
    size, position = _varint(data, position)
    stop = position + size
    if size < 0 or stop > len(data):
        raise IndexError
    position += 1  # attributes, of which there are none yet
    timestamp, position = _varint(data, position)
    offset, position = _varint(data, position)
    key, position = _bytes(data, position, stop)
    value, position = _bytes(data, position, stop)
    count, position = _varint(data, position)
    if not 0 <= count <= stop - position:
        raise DecodeError(f"{count} headers do not fit into {stop - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _bytes(data, position, stop)
        if name is None:
            raise DecodeError("a header has no name")
        content, position = _bytes(data, position, stop)
        headers.append((name.decode(), content))
    if position != stop:
        raise DecodeError(f"a record of {size} bytes ends {abs(stop - position)} bytes off")
    return PlainRecord(base_offset + offset, first_timestamp + timestamp, key, value, headers), stop


def _bytes(data: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    if size == -1:
        return None, position
    end = position + size
    if size < 0 or end > stop:
        raise DecodeError(f"{size} bytes do not fit into the {stop - position} left of the record")
    return data[position:end], end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a signed number, zigzag; `IndexError` where the bytes end."""
    value = data[position]
    position += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position
    value &= 0x7F
    for shift in range(7, 7 * _MOST_VARINT_BYTES, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise DecodeError(f"a number is longer than {_MOST_VARINT_BYTES} bytes")


def _gunzip(data: bytes) -> bytes:
    return zlib.decompress(data, wbits=zlib.MAX_WBITS | 16)


def _unsnap(data: bytes) -> bytes:
    raw = _cramjam().snappy.decompress_raw
    if not data.startswith(_XERIAL):
        return bytes(raw(data))
    blocks = []
    position = _XERIAL_HEADER
    while position < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length <= 0 or position + length > len(data):
            raise DecodeError(f"a block of {length} bytes does not fit")
        blocks.append(bytes(raw(data[position : position + length])))
        position += length
    return b"".join(blocks)


def _unlz4(data: bytes) -> bytes:
    return bytes(_cramjam().lz4.decompress(data))


def _unzstd(data: bytes) -> bytes:
    return bytes(_cramjam().zstd.decompress(data))


_DECOMPRESS: Final[dict[int, Callable[[bytes], bytes]]] = {1: _gunzip, 2: _unsnap, 3: _unlz4, 4: _unzstd}


def _cramjam() -> Any:
    import cramjam

    return cramjam


def crc32c(data: bytes | memoryview) -> int:
    """Return the checksum that record batches carry (Castagnoli)."""
    table = _table()
    value = 0xFFFF_FFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFF_FFFF


@cache
def _table() -> tuple[int, ...]:
    rows = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        rows.append(value)
    return tuple(rows)
