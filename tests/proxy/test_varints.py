"""Stepping over varints and tags."""

import pytest

from shareproxy.protocol.errors import DecodeError
from shareproxy.proxy.varints import read_varint, skip_tags


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"\x00", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\x81\x00", 1), (b"\xff\xff\xff\xff\x0f", 2**32 - 1)],
)
def test_varint_is_read(data: bytes, value: int) -> None:
    """Value and position behind it, over-long forms included, as brokers accept them."""
    assert read_varint(b"#" + data + b"#", 1) == (value, 1 + len(data))


def test_varint_of_six_bytes_is_refused() -> None:
    """Five bytes are the most."""
    with pytest.raises(DecodeError):
        read_varint(b"\xff\xff\xff\xff\xff\x01", 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_cut_varint_is_missing_bytes(data: bytes) -> None:
    """IndexError says that more bytes are needed."""
    with pytest.raises(IndexError):
        read_varint(data, 0)


def test_tags_are_skipped() -> None:
    """The position behind the last tag's bytes."""
    assert skip_tags(b"#\x02\x00\x01a\x05\x02bc#", 1) == 9
