"""What deserialisers make of bytes, and what they say of bytes that are something else."""

from __future__ import annotations

from typing import Any

import pytest

from shareproxy.admin.errors import WrongArgument
from shareproxy.drain.deserializers import DESERIALIZERS, CannotDeserialize, deserializer


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("string", "größe".encode(), "größe"),
        ("string", b"", ""),
        ("json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("json", b"12345678901234567890123", 12345678901234567890123),
        ("short", b"\xff\xfe", -2),
        ("int", b"\0\0\0\x07", 7),
        ("long", b"\xff" * 8, -1),
        ("float", b"\x3f\x80\0\0", 1.0),
        ("double", b"\x40\0\0\0\0\0\0\0", 2.0),
    ],
)
def test_value_by_name(name: str, data: bytes, value: Any) -> None:
    """Each name reads what Java's serialiser of that name writes."""
    read = deserializer("value_deserializer", name)
    assert read is not None
    assert read(data) == value


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("string", b"a\xff", r"'a\\xff' is not text in UTF-8: byte 1 is 0xff"),
        ("json", b"", r"'' is not JSON: Input data was truncated"),
        ("json", b"{" * 50, r"'\{+'… is not JSON"),
        ("json", b"[" * 100_000, r"is not JSON"),
        ("json", b'"\xff"', r"is not JSON"),
        ("int", b"123", r"'123' is not a number of type int: 3 bytes, not 4"),
    ],
)
def test_what_is_wrong_is_said(name: str, data: bytes, sentence: str) -> None:
    """Bytes that are something else give a sentence, with the beginning of the bytes."""
    read = deserializer("value_deserializer", name)
    assert read is not None
    with pytest.raises(CannotDeserialize, match=sentence):
        read(data)


def test_raw_is_no_work() -> None:
    """Bytes stay as they are without a call for each record."""
    assert deserializer("value_deserializer", "raw") is None
    assert deserializer("value_deserializer", None) is None


def test_own_function() -> None:
    """Any function that takes bytes will do."""
    assert deserializer("key_deserializer", len) is len


def test_unknown_name() -> None:
    """A name that there is not is told with those that there are."""
    with pytest.raises(WrongArgument, match="key_deserializer: 'avro' is none of raw, string, json, short, int"):
        deserializer("key_deserializer", "avro")


def test_names_are_few_and_known() -> None:
    """Docs and completion name these."""
    assert list(DESERIALIZERS) == ["raw", "string", "json", "short", "int", "long", "float", "double"]
