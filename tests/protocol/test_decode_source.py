"""The generated readers, without the interpreter behind them."""

from __future__ import annotations

import linecache
import struct
import tracemalloc
from typing import Any

import pytest

from shareproxy.protocol.decode_source import decode_function
from shareproxy.protocol.message import Message
from shareproxy.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeResponse,
)
from shareproxy.protocol.plan import plan_for


def read(message: type[Message], version: int, text: str) -> Any:
    """Decode hex that may have blanks, up to its last byte."""
    data = bytes.fromhex(text)
    value, position = decode_function(plan_for(message, version), "test")(data, 0)
    assert position == len(data)
    return value


def lines(message: type[Message], version: int) -> list[str]:
    """Return the source of a reader."""
    decode_function(plan_for(message, version), "shown")
    return linecache.getlines("<shown>")


def test_neighbours_of_fixed_size_are_read_with_one_unpack() -> None:
    """Node id, and the length of the host behind it; port and the length of the error message."""
    source = lines(FindCoordinatorResponse, 0)
    assert [line.count("= unpack") for line in source if "= unpack" in line] == [1, 1]
    assert sum("data[p]" in line for line in source) == 0


def test_odd_but_legal_forms_need_no_interpreter() -> None:
    """Lengths and nulls that are longer than necessary."""
    assert read(SaslAuthenticateRequest, 2, "8200 ab 8000").auth_bytes == b"\xab"
    assert read(MetadataRequest, 9, "8000 01 00 00 00").topics is None
    assert read(MetadataRequest, 9, "8100 01 00 00 00").topics == []
    assert read(MetadataResponse, 9, "00000000 01 8000 00000001 01 00000000 00").cluster_id is None


def test_tagged_fields_are_kept() -> None:
    """A tag section that is not empty goes to the rare path."""
    found = read(FindCoordinatorRequest, 3, "02 6b 00 01 07 02 abcd")
    assert (found.key, found.unknown_tags) == ("k", ((7, b"\xab\xcd"),))


@pytest.mark.parametrize(
    ("message", "version", "text"),
    [
        (FindCoordinatorRequest, 3, "05 6b6b"),  # a slice shorter than its length
        (FindCoordinatorRequest, 0, "0005 6b6b"),
        (FindCoordinatorRequest, 3, "00 00 00"),  # null
        (FindCoordinatorRequest, 0, "ffff"),
        (FindCoordinatorRequest, 3, "03 c328 00 00"),  # not UTF-8
        (FindCoordinatorRequest, 3, "818002" + "61" * 32_768 + "00 00"),  # over the limit of strings
        (SaslHandshakeResponse, 0, "0000 ffffffff"),
        (SaslHandshakeResponse, 0, "0000 7fffffff"),
        (MetadataRequest, 9, "ffffffff0f"),
        (ListOffsetsResponse, 7, "00000000 ffffff7f"),
    ],
)
def test_damage_raises_something(message: type[Message], version: int, text: str) -> None:
    """What it is does not matter: the interpreter is asked for the words."""
    with pytest.raises((ValueError, IndexError, struct.error)):
        read(message, version, text)


@pytest.mark.parametrize(
    ("message", "version", "text"),
    [
        (SaslHandshakeResponse, 0, "0000 7fffffff"),
        (MetadataRequest, 9, "ffffffff0f"),
        (MetadataResponse, 8, "00000000 7fffffff"),
        (ListOffsetsResponse, 4, "00000000 00000001 0001 61 7fffffff"),
        (ListOffsetsResponse, 7, "00000000 02 02 61 ffffffff07"),
        (MetadataResponse, 5, "00000000 00000000 ffff 00000001 00000001 0000 0001 61 00 7fffffff"),
    ],
)  # fmt: skip
def test_hostile_counts_take_no_memory(message: type[Message], version: int, text: str) -> None:
    """Two billion elements are refused before anything is made for them."""
    decode, data = decode_function(plan_for(message, version), "test"), bytes.fromhex(text)
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode(data, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
