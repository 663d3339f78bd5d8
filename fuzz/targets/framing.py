"""Frames, sizes and headers, in chunks of any size.

In: the limit, how to cut, and a byte stream. Out: nothing, or a finding: another error than the protocol's, frames
that depend on the chunks, or more bytes held than one frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from fuzz.finding import expect
from fuzz.recorded import recorded_frames
from fuzz.target import Target
from shareproxy.protocol.errors import DecodeError, FrameError
from shareproxy.protocol.framing import MAX_REQUEST_BYTES, FrameReader, check_size
from shareproxy.protocol.headers import read_correlation_id, read_request_head, sized
from shareproxy.proxy.exchange import ClosingError
from shareproxy.proxy.request_stream import cut_token
from shareproxy.proxy.requests import header_end, produce_is_answered, sasl_mechanism

_LIMITS: Final = (MAX_REQUEST_BYTES, 10, 100, 1_000)


def run(data: bytes) -> None:
    """Take limit and distance of cuts in two bytes, then the stream."""
    if len(data) < 2:
        return
    limit, distance, stream = _LIMITS[data[0] % len(_LIMITS)], data[1] + 1, data[2:]
    expected, refused = _model(stream, limit)
    for step in {1, distance, max(len(stream), 1)}:
        frames, stopped = _read(stream, limit, step)
        expect(stopped == refused, "chunks do not change what is refused", limit, step, stream)
        # a refusal may take the frames of its chunk with it: the reader is of no more use
        expect(frames == expected or (refused and frames == expected[: len(frames)]), "frames are the stream's", frames)
    for frame in [*expected, stream]:
        _heads(frame)


def _model(stream: bytes, limit: int) -> tuple[list[bytes], bool]:
    frames: list[bytes] = []
    while len(stream) >= 4:
        size = int.from_bytes(stream[:4], signed=True)
        try:
            check_size(size, limit)
        except FrameError:
            return frames, True
        expect(0 < size <= limit, "a size out of range is refused", size, limit)
        if len(stream) < 4 + size:
            break
        frames.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return frames, False


def _read(stream: bytes, limit: int, step: int) -> tuple[list[bytes], bool]:
    reader = FrameReader(limit)
    frames: list[bytes] = []
    for start in range(0, len(stream), step):
        try:
            frames += reader.feed(stream[start : start + step])
        except FrameError:
            return frames, True
        expect(reader.held <= limit + 4, "no more than one frame is held", reader.held, limit)
    return frames, False


def _heads(frame: bytes) -> None:
    """Read what stands at the beginning of a frame in every way there is."""
    data = sized(frame)
    for version in (0, 2, 3, 8, 9, 13):
        answers = []
        for stop in {len(data), len(data) - 1, 12, 20}:
            try:
                answers.append(produce_is_answered(data[:stop], 0, len(frame), version))
            except DecodeError:
                answers.append(None)
        known = {answer for answer in answers if answer is not None}
        expect(len(known) <= 1, "a field does not depend on how much of the request is there", version, frame)
    for read in (read_request_head, read_correlation_id, header_end):
        try:
            read(frame)
        except DecodeError:
            continue
    try:
        mechanism = sasl_mechanism(data, 0, len(frame))
        expect(mechanism is not None, "a whole handshake is read or refused", frame)
        expect(sasl_mechanism(data[:-1], 0, len(frame)) is None, "half a handshake is waited for", frame)
    except DecodeError:
        pass
    try:
        token, rest = cut_token(data)
        expect(token + rest == data and not rest, "a token is what its size says", data)
    except ClosingError:
        pass


def seeds() -> Iterator[bytes]:
    """Yield requests of clients one after the other, other protocols, and sizes at the limits."""
    frames = [sized(recorded.request) for recorded in recorded_frames()]
    for start in range(0, len(frames), 8):
        yield bytes((0, 30)) + b"".join(frames[start : start + 8])
    yield bytes((0, 3)) + b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    yield bytes((0, 3)) + bytes.fromhex("16030100c8010000c40303") + bytes(40)
    for size in (-1, 0, 1, 10, 11, 100, 101, 2**31 - 1):
        yield bytes((1, 1)) + size.to_bytes(4, signed=True) + bytes(min(max(size, 0), 200))
    random = Random(4)
    for _ in range(10):
        yield fresh(random)


def fresh(random: Random) -> bytes:
    """Return frames of heads that are looked at."""
    stream = b""
    for _ in range(random.randint(1, 5)):
        key, version = random.choice(((0, 2), (0, 3), (0, 9), (0, 13), (17, 0), (17, 1), (12, 4)))
        body = random.choice((b"\xff\xff", b"\0\0", b"\0\1c"))
        body += b"\0" if version >= 9 else b""
        body += random.choice((b"\xff\xff\0\0", b"\0\0\0", b"\0\5PLAIN", b"\5txn1\xff\xff", random.randbytes(6)))
        stream += sized(key.to_bytes(2) + version.to_bytes(2) + random.randbytes(4) + body)
    return bytes((random.randrange(4), random.randrange(40))) + stream


TARGET: Final = Target("framing", "frames, sizes and headers", run, seeds, fresh)
