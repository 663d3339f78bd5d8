"""Cutting a byte stream into frames."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.protocol.errors import FrameError
from shareproxy.protocol.framing import FrameReader, check_size
from shareproxy.protocol.headers import sized

FRAMES = [b"a", b"two", bytes(300), b"\0\0\0\1", b"last"]
STREAM = b"".join(sized(frame) for frame in FRAMES)


def test_stream_fed_whole() -> None:
    """All frames come out at once, in order."""
    reader = FrameReader(1000)
    assert reader.feed(STREAM) == FRAMES
    assert reader.held == 0


def test_stream_fed_byte_by_byte() -> None:
    """Each frame comes out with its last byte."""
    reader = FrameReader(1000)
    found = [frame for byte in STREAM for frame in reader.feed(bytes([byte]))]
    assert found == FRAMES
    assert reader.held == 0


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_stream_cut_at_each_point(cut: int) -> None:
    """Two chunks give the same frames as one; what is not whole yet is held."""
    reader = FrameReader(1000)
    first = reader.feed(STREAM[:cut])
    whole = b"".join(sized(frame) for frame in first)
    assert reader.held == cut - len(whole)
    assert first + reader.feed(STREAM[cut:]) == FRAMES


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(0, 200), max_size=8))
def test_stream_cut_anywhere(frames: list[bytes], cuts: list[int]) -> None:
    """The cuts of the network do not matter."""
    stream, reader, start = b"".join(map(sized, frames)), FrameReader(40), 0
    found: list[bytes] = []
    for cut in [*sorted(cuts), len(stream)]:
        found += reader.feed(stream[start:cut])
        start = max(start, min(cut, len(stream)))
    assert found == frames


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (b"\0\0\0\0", "frame size 0 is not positive"),
        (b"\xff\xff\xff\xff", "frame size -1 is not positive"),
        (b"\x80\0\0\0", "frame size -2147483648 is not positive"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes is over the limit of 1000"),
        (b"\0\0\x03\xe9", "frame of 1001 bytes is over the limit of 1000"),
        (b"\x16\x03\x01\x02", "start a TLS handshake"),
        (b"GET / HTTP/1.1", "start an HTTP request"),
        (b"POST /", "start an HTTP request"),
    ],
)
def test_sizes_out_of_range(start: bytes, problem: str) -> None:
    """The error says what the sender may have spoken; it comes before anything is held for the frame."""
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match=problem):
            FrameReader(1000).feed(start)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_frames_before_a_bad_size_are_lost_with_the_connection() -> None:
    """A size out of range ends the stream, wherever it stands."""
    with pytest.raises(FrameError):
        FrameReader(1000).feed(sized(b"fine") + b"\0\0\0\0")


def test_largest_size_is_accepted() -> None:
    """The limit itself is within the limit."""
    check_size(1000, 1000)
    assert FrameReader(4).feed(sized(b"four")) == [b"four"]
