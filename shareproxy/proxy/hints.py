"""Handle the addresses of new leaders that answers to Produce, Fetch, ShareFetch and ShareAcknowledge may end with.

In: an answer, whole or as it comes. Out: the same with advertised addresses, or, where it is too large to be held,
of the same length without the hint (KIP-951). Must never: hold a large answer, or let a broker's address through.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final, NamedTuple

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    FetchResponse,
    ProduceResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from shareproxy.protocol.plan import FIXED, Step, StructPlan, plan_for
from shareproxy.protocol.primitives import varint
from shareproxy.protocol.splice import AddressMapping, address_bytes, edit_addresses, tags_start
from shareproxy.proxy.varints import read_varint, skip_tags

# Larger answers are passed on as they come. A hint comes instead of records, so answers with one are seldom larger.
MAX_HELD_ANSWER_BYTES: Final = 64 * 1024
# What `may_hold_hint` looks at.
TAIL_BYTES: Final = 6

NODE_ENDPOINTS_TAG: Final = 0
UNUSED_TAG: Final = 9
"""A number that no version has given away: clients step over it and ask for metadata."""


class _Hint(NamedTuple):
    """Where an answer has its hint.

    Attributes:
        since: first version with one.
        tagged: whether it is the tagged field 0, or the last ordinary field.
    """

    answer: type[Response]
    since: int
    tagged: bool


HINTED: Final = {
    hint.answer.api_key: hint
    for hint in (
        _Hint(ProduceResponse, 10, tagged=True),
        _Hint(FetchResponse, 16, tagged=True),
        _Hint(ShareFetchResponse, 1, tagged=False),  # version 0 was a preview, and is not offered
        _Hint(ShareAcknowledgeResponse, 1, tagged=False),
    )
}
_PRODUCE: Final = ProduceResponse.api_key
_FETCH: Final = FetchResponse.api_key
_int32: Final = struct.Struct(">i").unpack_from


def may_hold_hint(api_key: int, tail: bytes) -> bool:
    """Tell from the last bytes of an answer whether it may hold a hint; nearly all do not.

    Args:
        api_key: one of `HINTED`, in a version that has hints.
        tail: the last `TAIL_BYTES` bytes, or all if it is shorter.
    """
    # A hint ends with a port below 65536, so two zeros and two other bytes; a rack, null (0) or its name; the tags of
    # the last address (0); and for the share APIs the tags of the answer (0).
    if api_key == _PRODUCE:
        return tail[-5:] != b"\0\0\0\0\0"  # throttle time 0 and no tags; as a hint it would end with port 0
    if api_key == _FETCH:
        # no tags of the last partition, of its topic and of the answer; as a hint it would be a port with a last byte 0
        return tail[-3:] != b"\0\0\0" or tail[-6:-4] == b"\0\0"
    return tail[-2:] != b"\1\0"  # no addresses and no tags; a hint's last address has tags (0) before those


def rewrite_hint(api_key: int, version: int, frame: bytes, mapping: AddressMapping) -> tuple[bytes, ...]:
    """Put advertised addresses into the hint of an answer.

    Args:
        api_key: one of `HINTED`.
        version: of the request.
        frame: the answer without its size.
        mapping: called once per broker.

    Returns:
        The new frame in parts, without its size.

    Raises:
        DecodeError: the frame is not such an answer.
    """
    answer, _, tagged = HINTED[api_key]
    try:
        offset = skip_tags(frame, 4)
        if not tagged:
            return frame[:offset], edit_addresses(answer, version, frame, offset, mapping)
        start = tags_start(answer, version, frame, offset)
        return frame[:start], _edit_tags(frame, start, mapping)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise DecodeError("damaged in its last fields", (answer.schema_name,)) from None


def _edit_tags(frame: bytes, position: int, mapping: AddressMapping) -> bytes:
    count, position = read_varint(frame, position)
    parts = [varint(count)]
    for _ in range(count):
        tag, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        content = frame[position : position + size]
        position += size
        if tag == NODE_ENDPOINTS_TAG:
            content = _edit_endpoints(content, mapping)
        parts += (varint(tag), varint(len(content)), content)
    if position != len(frame):
        raise IndexError
    return b"".join(parts)


def _edit_endpoints(data: bytes, mapping: AddressMapping) -> bytes:
    """Rewrite an array of {node id, host, port, rack}."""
    count, position = read_varint(data, 0)
    parts: list[bytes] = []
    kept = 0  # up to here everything is in `parts`
    for _ in range(count - 1):
        (node_id,) = _int32(data, position)
        start = position + 4
        length, position = read_varint(data, start)
        host = data[position : position + length - 1].decode()
        position += length - 1
        (port,) = _int32(data, position)
        position += 4
        new = mapping(node_id, host, port) if node_id >= 0 and host and port >= 0 else None
        if new is not None:
            parts += (data[kept:start], address_bytes(*new, compact=True))
            kept = position
        length, position = read_varint(data, position)
        position = skip_tags(data, position + max(length - 1, 0))
    if position != len(data):
        raise IndexError
    parts.append(data[kept:])
    return b"".join(parts)


class HintHider:
    """Pass one large answer on as it comes, and hide the hint at its end if there is one.

    Args:
        api_key: one of `HINTED`.
        version: of the request.
        size: bytes of the answer without its size.
    """

    def __init__(self, api_key: int, version: int, size: int) -> None:
        self._hint = HINTED[api_key]
        self._name = self._hint.answer.schema_name
        self.missing = size
        """Bytes that have not come yet."""
        self._walk = _walk_to_hint(plan_for(self._hint.answer, version), tagged=self._hint.tagged)
        self._skip = next(self._walk)
        self._tail: list[bytes] | None = None
        self._tail_bytes = 0

    def feed(self, chunk: bytes, start: int = 0, stop: int | None = None) -> bytes:
        """Take bytes of this answer, at most `missing`; return what may pass: the chunk itself if nothing is hidden.

        Args:
            chunk: bytes from the broker.
            start: where in it this answer goes on; what is before passes as it is.
            stop: where in it this answer stops, None for its end; what is behind is not looked at, nor returned unless
                the chunk itself is.

        Raises:
            DecodeError: it is not such an answer.
        """
        if stop is None:
            stop = len(chunk)
        self.missing -= stop - start
        end: int | None = 0
        try:
            if self._tail is None:
                end = self._step(chunk, start, stop)
                if end is None:
                    if not self.missing:
                        raise IndexError
                    return chunk
                self._tail = [chunk[end:stop]]
            else:
                self._tail.append(chunk[:stop])
            self._tail_bytes += len(self._tail[-1])
            if self._tail_bytes > MAX_HELD_ANSWER_BYTES:
                raise DecodeError(f"more than {MAX_HELD_ANSWER_BYTES} bytes of last fields", (self._name,))
            if self.missing:
                return chunk[:end]
            tail = b"".join(self._tail)
            hidden = _without_tag(tail) if self._hint.tagged else _without_endpoints(tail)
            return chunk if hidden == tail and len(self._tail) == 1 else chunk[:end] + hidden
        except IndexError:
            raise DecodeError("damaged before its last fields", (self._name,)) from None

    def _step(self, chunk: bytes, position: int, end: int) -> int | None:
        """Walk through a part of a chunk; return where in it the last fields begin, None if behind it."""
        skip, walk = self._skip, self._walk
        try:
            while True:
                if skip:
                    if skip > end - position:
                        self._skip = skip - (end - position)
                        return None
                    position += skip
                    skip = next(walk)
                elif position < end:
                    position += 1
                    skip = walk.send(chunk[position - 1])
                else:
                    self._skip = 0
                    return None
        except StopIteration:
            return position


_Walk = Generator[int, int, None]
"""Yields how many bytes to step over, or 0 to be given one."""


def _walk_to_hint(plan: StructPlan, *, tagged: bool) -> _Walk:
    yield 4  # the correlation id
    yield from _walk_tags()
    steps = [step for step in plan.steps if step.present]
    yield from _walk_fields(steps if tagged else steps[:-1])


def _walk_fields(steps: list[Step]) -> _Walk:
    fixed = 0
    for step in steps:
        if step.element in FIXED and not step.is_array:
            fixed += struct.calcsize(">" + FIXED[step.element])
            continue
        if fixed:
            yield fixed
            fixed = 0
        if step.is_array:
            count = (yield from _varint()) - 1
            if step.element in FIXED:
                if count > 0:
                    yield count * struct.calcsize(">" + FIXED[step.element])
            else:
                for _ in range(count):
                    yield from _walk_element(step)
        else:
            yield from _walk_element(step)
    if fixed:
        yield fixed


def _walk_element(step: Step) -> _Walk:
    if step.struct is None:
        length = (yield from _varint()) - 1
        if length > 0:
            yield length
        return
    yield from _walk_fields([inner for inner in step.struct.steps if inner.present])
    yield from _walk_tags()


def _walk_tags() -> _Walk:
    for _ in range((yield from _varint())):
        yield from _varint()
        size = yield from _varint()
        if size:
            yield size


def _varint() -> Generator[int, int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = yield 0
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise DecodeError("unsigned varint is longer than 5 bytes")


def _without_tag(tail: bytes) -> bytes:
    """Return a tag section in which the hint has an unused number."""
    count, position = read_varint(tail, 0)
    hidden = bytearray(tail)
    for _ in range(count):
        start = position
        tag, position = read_varint(tail, start)
        size, position = read_varint(tail, position)
        position += size
        if tag == NODE_ENDPOINTS_TAG:
            # the numbers of tags rise; this answer has defined no other
            hidden[start] = UNUSED_TAG | (hidden[start] & 0x80)  # written longer than it needs to be: it stays so
    if position != len(tail):
        raise IndexError
    return bytes(hidden)


def _without_endpoints(tail: bytes) -> bytes:
    """Return an empty array and tags of the same length as an array of addresses and the tags behind it."""
    count, _ = read_varint(tail, 0)
    if count <= 1:
        return tail
    # one unknown tag takes up the room
    room = len(tail) - 3
    length_bytes = next(width for width in range(1, 6) if room - width < 1 << (7 * width))
    size = room - length_bytes
    if size < 0:
        raise IndexError
    length = bytes((size >> 7 * i) & 0x7F | (0x80 if i < length_bytes - 1 else 0) for i in range(length_bytes))
    return b"\1\1" + bytes((UNUSED_TAG,)) + length + bytes(size)
