"""Step over varints and tag sections by hand, where a whole message is not decoded.

In: bytes and a position. Out: the position behind. Must never: hide that bytes are missing: IndexError says so.
"""

from __future__ import annotations

from typing import Final

from shareproxy.protocol.errors import DecodeError

# what Kafka's own readers accept since 4.4
MOST_TAGS: Final = 10_000


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position behind it.

    Raises:
        IndexError: `data` ends within it.
        DecodeError: it is longer than five bytes.
    """
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise DecodeError("unsigned varint is longer than 5 bytes")


def skip_tags(data: bytes, position: int) -> int:
    """Return the position behind a tag section, which may lie behind the end of `data`.

    Raises:
        IndexError: `data` ends within it.
        DecodeError: a varint is longer than five bytes, or there are more tags than Kafka accepts.
    """
    count, position = read_varint(data, position)
    if count > MOST_TAGS:
        raise DecodeError(f"{count} tagged fields")
    for _ in range(count):
        _, position = read_varint(data, position)
        length, position = read_varint(data, position)
        position += length
    return position
