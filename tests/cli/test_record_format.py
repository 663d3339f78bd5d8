"""How `shareproxy consume` prints a record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shareproxy.cli.record_format import WrongFormat, json_line, raw_value, text_format
from tests.drain.fake_consumer import FakeRecord


def record(value: Any = b"value", **more: Any) -> FakeRecord:
    """Return a record of topic orders, partition 3, offset 42."""
    return FakeRecord(42, value, **{"partition": 3, "timestamp": 1_764_500_000_000, **more})


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (r"%s\n", b"value\n"),
        ("%s", b"value"),
        ("", b""),
        (r"%t-%p@%o %k=%s\n", b"orders-3@42 key=value\n"),
        ("%S/%K", b"5/3"),
        ("%R%s", b"\0\0\0\x05value"),
        ("%T %d", b"1764500000000 2"),
        ("%h", b"trace=1,null=NULL"),
        ("100%% %o", b"100% 42"),
        (r"a\tb\rc\0d\\e\x41\x0a", b"a\tb\rc\0d\\eA\n"),
        ("grün %o", "grün 42".encode()),
    ],
)
def test_signs(form: str, text: bytes) -> None:
    """Each sign means what it does in kcat."""
    one = record(key=b"key", delivery_count=2, headers=[("trace", b"1"), ("null", None)])

    assert text_format(form)(one) == text


@pytest.mark.parametrize(
    ("show_null", "text"), [(False, b"[][] -1/-1"), (True, b"[NULL][NULL] -1/-1")], ids=["plain", "-Z"]
)
def test_null(show_null: bool, text: bytes) -> None:
    """Null is nothing, or NULL with -Z; its length is −1, that of an empty value 0."""
    assert text_format("[%k][%s] %K/%S", show_null=show_null)(record(None)) == text
    assert text_format("[%s] %S", show_null=show_null)(record(b"")) == b"[] 0"


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("%x", r"'%x' means nothing; there are %s, %S, %R, %k, %K, %h, %T, %t, %p, %o, %d and %%"),
        ("50%", "'%' means nothing"),
        (r"\q", r"'\\q' means nothing; there are \\n"),
        ("x\\", r"'\\' means nothing"),
        (r"\xZZ", r"'\\x' means nothing"),
    ],
)
def test_unknown_signs(form: str, sentence: str) -> None:
    """A sign that means nothing is told with those that there are."""
    with pytest.raises(WrongFormat, match=sentence):
        text_format(form)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("größe", "größe".encode()),
        (12, b"12"),
        (1.5, b"1.5"),
        (float("nan"), b"nan"),
        ({"a": [1, None]}, b'{"a":[1,null]}'),
    ],
)
def test_deserialised_values(value: Any, text: bytes) -> None:
    """What a deserialiser made is text again: strings as they are, numbers in digits, documents as JSON."""
    assert text_format("%s")(record(value)) == text


def test_bytes_are_not_touched() -> None:
    """Into a file or a pipe go the bytes of the value, whatever they are."""
    data = bytes(range(256))

    assert text_format("%s")(record(data)) == data
    assert raw_value(record(data)) == data
    assert raw_value(record(None)) == b""


def test_a_terminal_is_left_alone() -> None:
    """On a terminal control characters and bytes that are no text are written out: they are somebody else's."""
    shown = text_format("%s|%h", for_terminal=True)(
        record(b"a\tb\n\x1b[2J\xff\xe2\x80\xae", headers=[("\x1b]0;x\x07", b"\x07")])
    )

    assert shown == rb"a" + b"\tb\n" + rb"\x1b[2J\xff\u202e|\x1b]0;x\x07=\x07"


def test_text_on_a_terminal_is_as_it_is() -> None:
    """Text stays readable there."""
    assert text_format("%s", for_terminal=True)(record("größe \\ ok".encode())) == "größe \\ ok".encode()


def test_json_line() -> None:
    """Every key is always there; what is no text is in base64."""
    line = json_line(record(b"\xff\0", key=b"key", headers=[("h", b"1"), ("bin", b"\xff"), ("null", None)]))

    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_764_500_000_000,
        "timestamp_type": "create",
        "delivery_count": 1,
        "key": "key",
        "value": None,
        "headers": [
            {"name": "h", "value": "1", "value_base64": None},
            {"name": "bin", "value": None, "value_base64": "/w=="},
            {"name": "null", "value": None, "value_base64": None},
        ],
        "key_base64": None,
        "value_base64": "/wA=",
    }


def test_json_of_documents_and_missing_times() -> None:
    """A value that was deserialised is part of the document; a missing timestamp is null."""
    found = json.loads(json_line(record({"n": [1]}, timestamp=-1)))

    assert (found["value"], found["value_base64"], found["timestamp"]) == ({"n": [1]}, None, None)
