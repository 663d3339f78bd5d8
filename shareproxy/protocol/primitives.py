"""Do by hand what generated code meets too rarely to have it inline.

In: bytes and a position, or a value. Out: a value and the new position, or bytes.
Must never: explain. What is wrong raises `ValueError` here, or whatever Python raises; the interpreter finds the words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from shareproxy.protocol.plan import MAX_ARRAY_COUNT, MAX_STRING_BYTES, MAX_TAG_COUNT

TaggedReader: TypeAlias = tuple[str, Callable[[bytes, int], tuple[object, int]]]
"""Attribute of a tagged field, and what reads its value."""

TaggedWriter: TypeAlias = tuple[str, Callable[[Any], bool], Callable[[Any], bytes]]
"""Attribute of a tagged field, whether a value is the default, and what writes a value."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_KEPT_COUNT: Final = 64  # formats for longer arrays are not kept: a peer chooses the lengths


def read_varint(data: bytes, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes and 32 bits."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, p
    raise ValueError


def read_count(data: bytes, p: int) -> tuple[int, int]:
    """Read a compact count as it stands on the wire, one more than it counts, and hold it against the limits."""
    count, p = read_varint(data, p)
    check_count(count - 1, len(data) - p)
    return count, p


def check_count(count: int, left: int) -> None:
    """Refuse a count that the bytes left cannot hold."""
    if count > left or count > MAX_ARRAY_COUNT:
        raise ValueError


def read_bytes(data: bytes, p: int) -> tuple[bytes | None, int]:
    """Read compact bytes of any length, or null."""
    size, p = read_varint(data, p)
    if not size:
        return None, p
    stop = p + size - 1
    if stop > len(data):
        raise ValueError
    return data[p:stop], stop


def read_text(data: bytes, p: int) -> tuple[str | None, int]:
    """Read a compact string of any length, or null."""
    raw, p = read_bytes(data, p)
    if raw is None:
        return None, p
    if len(raw) > MAX_STRING_BYTES:
        raise ValueError
    return raw.decode(), p


def read_present_text(data: bytes, p: int) -> tuple[str, int]:
    """Read a compact string that is not null."""
    text, p = read_text(data, p)
    if text is None:
        raise ValueError
    return text, p


def read_present_bytes(data: bytes, p: int) -> tuple[bytes, int]:
    """Read compact bytes that are not null."""
    raw, p = read_bytes(data, p)
    if raw is None:
        raise ValueError
    return raw, p


def read_old_text(data: bytes, p: int) -> tuple[str, int]:
    """Read a string with a length of two bytes that is not null."""
    (size,) = _I16.unpack_from(data, p)
    p += 2
    stop = p + size
    if size < 0 or stop > len(data):
        raise ValueError
    return data[p:stop].decode(), stop


def read_old_bytes(data: bytes, p: int) -> tuple[bytes, int]:
    """Read bytes with a length of four bytes that are not null."""
    (size,) = _I32.unpack_from(data, p)
    p += 4
    stop = p + size
    if size < 0 or stop > len(data):
        raise ValueError
    return data[p:stop], stop


def read_each(
    read: Callable[[bytes, int], tuple[object, int]], data: bytes, p: int, count: int
) -> tuple[list[object], int]:
    """Read the elements of an array one by one."""
    values = []
    for _ in range(count):
        value, p = read(data, p)
        values.append(value)
    return values, p


def read_uuids(data: bytes, p: int, count: int) -> list[bytes]:
    """Read an array of uuids."""
    stop = p + 16 * count
    if stop > len(data):
        raise ValueError
    return [data[at : at + 16] for at in range(p, stop, 16)]


def read_tags(data: bytes, p: int, value: object, known: Mapping[int, TaggedReader], closed: frozenset[int]) -> int:
    """Read a tag section into a struct.

    Args:
        data: the frame.
        p: where the section starts.
        value: struct whose attributes are set.
        known: by tag.
        closed: tags that this version must not have.

    Returns:
        The position behind the section.
    """
    count, p = read_varint(data, p)
    if count > len(data) - p or count > MAX_TAG_COUNT:
        raise ValueError
    unknown: list[tuple[int, bytes]] = []
    seen = set(closed)
    for _ in range(count):
        tag, p = read_varint(data, p)
        size, p = read_varint(data, p)
        stop = p + size
        if tag in seen or stop > len(data):
            raise ValueError
        seen.add(tag)
        raw = data[p:stop]
        p = stop
        if tag in known:
            attribute, read = known[tag]
            item, end = read(raw, 0)
            if end != size:
                raise ValueError
            setattr(value, attribute, item)
        else:
            unknown.append((tag, raw))
    value.unknown_tags = tuple(unknown)  # type: ignore[attr-defined]
    return p


def skip_tags(data: bytes, p: int) -> int:
    """Return the position behind a tag section."""
    count, p = read_varint(data, p)
    if count > len(data) - p or count > MAX_TAG_COUNT:
        raise ValueError
    for _ in range(count):
        _, p = read_varint(data, p)
        size, p = read_varint(data, p)
        p += size
    return p


def varint(value: int) -> bytes:
    """Write an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text_size(size: int) -> bytes:
    """Write the size of a compact string, one more than its bytes."""
    if size > MAX_STRING_BYTES + 1:
        raise ValueError
    return varint(size)


def array_size(size: int) -> bytes:
    """Write the count of a compact array, one more than its elements."""
    if size > MAX_ARRAY_COUNT + 1:
        raise ValueError
    return varint(size)


def check_array(values: object) -> None:
    """Refuse what looks like a list but is not, such as a string."""
    if not isinstance(values, list | tuple):
        raise ValueError


def raw_bytes(value: object) -> bytes:
    """Let bytes pass, and nothing else."""
    if not isinstance(value, bytes):
        raise ValueError
    return value


def compact_text(value: str) -> bytes:
    """Write a compact string."""
    raw = value.encode()
    return text_size(len(raw) + 1) + raw


def compact_bytes(value: bytes) -> bytes:
    """Write compact bytes."""
    return varint(len(raw_bytes(value)) + 1) + value


def old_text(value: str) -> bytes:
    """Write a string with a length of two bytes."""
    raw = value.encode()
    return _I16.pack(len(raw)) + raw


def old_bytes(value: bytes) -> bytes:
    """Write bytes with a length of four bytes."""
    return _I32.pack(len(raw_bytes(value))) + value


def write_uuids(values: list[bytes]) -> bytes:
    """Write the elements of an array of uuids."""
    if any(len(value) != 16 for value in values):
        raise ValueError
    return b"".join(values)


def write_tags(value: Any, known: Mapping[int, TaggedWriter], closed: frozenset[int]) -> bytes:
    """Write a tag section.

    Args:
        value: struct that the tags belong to.
        known: by tag.
        closed: tags that this version must not have.
    """
    parts: dict[int, bytes] = {}
    for tag, (attribute, is_default, write) in known.items():
        item = getattr(value, attribute)
        if not is_default(item):
            parts[tag] = write(item)
    for tag, raw in value.unknown_tags:
        if not isinstance(tag, int) or not 0 <= tag < 2**32 or tag in known or tag in closed or tag in parts:
            raise ValueError
        parts[tag] = raw_bytes(raw)
    out = [varint(len(parts))]
    for tag in sorted(parts):
        out += (varint(tag), varint(len(parts[tag])), parts[tag])
    return b"".join(out)


class ArrayFormats(dict[int, Callable[..., Any]]):
    """`struct` functions for arrays of one fixed-size type, by count.

    Args:
        code: of the element.
        method: "unpack_from" or "pack".
    """

    def __init__(self, code: str, method: str) -> None:
        self._code, self._method = code, method

    def __missing__(self, count: int) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(struct.Struct(f">{count}{self._code}"), self._method)
        if count <= _KEPT_COUNT:
            self[count] = function
        return function


class TextFormats(dict[int, Callable[..., bytes]]):
    """`struct` functions that pack a text of up to 127 bytes with its neighbours, by size on the wire.

    Args:
        before: codes of what precedes the text, its size last.
        after: codes of what follows.
        compact: whether the size is one more than the bytes, 0 for null; else it is −1 for null.
    """

    def __init__(self, before: str, after: str, *, compact: bool) -> None:
        self._before, self._after, self._less = before, after, 1 if compact else 0

    def __missing__(self, size: int) -> Callable[..., bytes]:
        self[size] = pack = struct.Struct(f">{self._before}{max(size - self._less, 0)}s{self._after}").pack
        return pack
