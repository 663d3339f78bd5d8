r"""Write records as `shareproxy consume` prints them: in kcat's format language, as JSON lines, or as they are.

In: a record. Out: bytes. Must never: change a byte of a value on its way into a file or a pipe, or let one that goes
to a terminal do anything there (`\x1b` is written out).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

DEFAULT_FORMAT: Final = r"%s\n"
NULL: Final = b"NULL"

_TOKEN: Final = re.compile(rb"%(.?)|\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
_LENGTH: Final = struct.Struct(">i")
_LAYOUT: Final = "\n\t"  # control characters that a terminal may have


class ShownRecord(Protocol):
    """What is printed of a record; `drain.record.ShareRecord` has it."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Number within the topic."""

    @property
    def offset(self) -> int:
        """Place in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds; −1 without one."""

    @property
    def timestamp_type(self) -> Any:
        """Who set it."""

    @property
    def key(self) -> Any:
        """What the deserialiser made of it."""

    @property
    def value(self) -> Any:
        """What the deserialiser made of it."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Names and bytes."""

    @property
    def delivery_count(self) -> int:
        """This time included."""

    @property
    def raw_key(self) -> bytes | None:
        """The bytes."""

    @property
    def raw_value(self) -> bytes | None:
        """The bytes."""


Render: TypeAlias = Callable[[ShownRecord], bytes]


class WrongFormat(ValueError):  # noqa: N818 - the name says what happened
    """The format has a sign that means nothing."""


def text_format(form: str, *, for_terminal: bool = False, show_null: bool = False) -> Render:
    r"""Return what writes records in a format.

    Args:
        form: text with `%s` and so on, and with `\n`, `\t`, `\r`, `\0`, `\\`, `\xNN`.
        for_terminal: write control characters of keys, values and headers out.
        show_null: write NULL for a key or value that is null; else nothing.

    Raises:
        WrongFormat: names the sign, and all that there are.
    """
    null = NULL if show_null else b""
    clean = _for_terminal if for_terminal else _as_is
    parts: list[bytes | Render] = []
    data = form.encode(errors="surrogateescape")
    position = 0
    for match in _TOKEN.finditer(data):
        parts.append(data[position : match.start()])
        position = match.end()
        percent, escape = match.groups()
        parts.append(_token(percent, clean, null) if percent is not None else _escaped(escape))
    parts.append(data[position:])
    pieces = _joined(parts)
    match pieces:
        case [render, bytes(end)] if callable(render):  # the default format, and most others

            def one(record: ShownRecord) -> bytes:
                return render(record) + end

            return one

    def whole(record: ShownRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in pieces])

    return whole


def json_line(record: ShownRecord) -> bytes:
    """Return a record as one line of JSON, every key always present.

    Keys and values are as their deserialisers made them. Bytes that nobody deserialised are text if they are UTF-8,
    else they are null and stand in `key_base64` or `value_base64`.
    """
    import msgspec

    key, key_base64 = _json_value(record.key)
    value, value_base64 = _json_value(record.value)
    headers = []
    for name, content in record.headers:
        text, base64 = _json_value(content)
        headers.append({"name": name, "value": text, "value_base64": base64})
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
        "timestamp_type": str(record.timestamp_type),
        "delivery_count": record.delivery_count,
        "key": key,
        "value": value,
        "headers": headers,
        "key_base64": key_base64,
        "value_base64": value_base64,
    }
    return msgspec.json.encode(document) + b"\n"


def raw_value(record: ShownRecord) -> bytes:
    """Return the bytes of the value and nothing besides."""
    return record.raw_value or b""


def _json_value(made: Any) -> tuple[Any, bytes | None]:
    if not isinstance(made, bytes):
        return made, None
    try:
        return made.decode(), None
    except UnicodeDecodeError:
        return None, made  # msgspec writes bytes in base64


def _escaped(escape: bytes) -> bytes:
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    shown = escape.decode(errors="replace")
    raise WrongFormat(rf"'\{shown}' means nothing; there are \n, \r, \t, \0, \\ and \xNN")


Clean: TypeAlias = Callable[[bytes], bytes]


def _token(letter: bytes, clean: Clean, null: bytes) -> bytes | Render:
    if letter == b"%":
        return b"%"

    def content(made: Any) -> bytes:
        return null if made is None else clean(made if isinstance(made, bytes) else _text(made))

    def header(name: str, value: bytes | None) -> bytes:
        return clean(name.encode()) + b"=" + (NULL if value is None else clean(value))

    tokens: Mapping[bytes, Render] = {
        b"s": lambda record: content(record.value),
        b"S": lambda record: b"%d" % _length(record.raw_value),
        b"R": lambda record: _LENGTH.pack(_length(record.raw_value)),
        b"k": lambda record: content(record.key),
        b"K": lambda record: b"%d" % _length(record.raw_key),
        b"h": lambda record: b",".join(header(name, value) for name, value in record.headers),
        b"T": lambda record: b"%d" % record.timestamp,
        b"t": lambda record: record.topic.encode(),
        b"p": lambda record: b"%d" % record.partition,
        b"o": lambda record: b"%d" % record.offset,
        b"d": lambda record: b"%d" % record.delivery_count,
    }
    if letter not in tokens:
        known = ", ".join(f"%{sign.decode()}" for sign in tokens)
        raise WrongFormat(f"'%{letter.decode(errors='replace')}' means nothing; there are {known} and %%")
    return tokens[letter]


def _joined(parts: Sequence[bytes | Render]) -> list[bytes | Render]:
    """Return the parts without empty ones, neighbouring texts as one."""
    found: list[bytes | Render] = []
    for part in parts:
        before = found[-1] if found else None
        if isinstance(part, bytes) and isinstance(before, bytes):
            found[-1] = before + part
        elif part != b"":
            found.append(part)
    return found


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(made: Any) -> bytes:
    """Return what a deserialiser made as text: strings as they are, numbers in digits, the rest as JSON."""
    if isinstance(made, str):
        return made.encode(errors="surrogateescape")
    if isinstance(made, float):
        return repr(made).encode()
    import msgspec

    return msgspec.json.encode(made)


def _as_is(data: bytes) -> bytes:
    return data


def _for_terminal(data: bytes) -> bytes:
    text = data.decode(errors="backslashreplace")
    if text.isprintable():
        return data if b"\\" not in data else text.encode()
    return "".join(
        sign if sign.isprintable() or sign in _LAYOUT else sign.encode("unicode_escape").decode() for sign in text
    ).encode()
