"""Make keys and values of bytes: by name, or with a function of the caller's.

In: names or functions. Out: functions from bytes. Must never: be called for null, or let one record's bytes stop
others: what they raise is kept with the record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from shareproxy.admin.errors import WrongArgument

Deserializer: TypeAlias = Callable[[bytes], Any]

MOST_SHOWN: Final = 40  # bytes that an error repeats of what it could not read


class CannotDeserialize(ValueError):  # noqa: N818 - the name says what happened
    """The bytes are not what the deserialiser reads.

    Args:
        what: it is not, such as "JSON".
        data: the bytes.
        problem: the reader's own words.
    """

    def __init__(self, what: str, data: bytes, problem: str = "") -> None:
        shown = repr(data[:MOST_SHOWN])[1:] + ("…" if len(data) > MOST_SHOWN else "")
        super().__init__(f"{shown} is not {what}" + (f": {problem}" if problem else ""))


class RecordAtFault(ValueError):  # noqa: N818 - the name says what happened
    """A record cannot be read; the text says why, and holds nothing of what the record holds."""


def as_string(data: bytes) -> str:
    """Return text in UTF-8.

    Raises:
        CannotDeserialize: it is not.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CannotDeserialize("text in UTF-8", data, f"byte {error.start} is {data[error.start]:#04x}") from None


def as_json(data: bytes) -> Any:
    """Return what a JSON document says.

    Raises:
        CannotDeserialize: it is none.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CannotDeserialize("JSON", data, str(error)) from None


def _number(name: str, code: str) -> Deserializer:
    """Return what reads one number as Java's serialisers write it: big-endian, and nothing besides."""
    form = struct.Struct(f">{code}")

    def read(data: bytes) -> Any:
        if len(data) != form.size:
            raise CannotDeserialize(f"a number of type {name}", data, f"{len(data)} bytes, not {form.size}")
        return form.unpack(data)[0]

    return read


# `None` leaves bytes as they are; the numbers are those of Java's serialisers
DESERIALIZERS: Final[Mapping[str, Deserializer | None]] = {
    "raw": None,
    "string": as_string,
    "json": as_json,
    "short": _number("short", "h"),
    "int": _number("int", "i"),
    "long": _number("long", "q"),
    "float": _number("float", "f"),
    "double": _number("double", "d"),
}


def deserializer(name: str, given: str | Deserializer | None) -> Deserializer | None:
    """Return what makes values of bytes; `None` leaves them as they are.

    Args:
        name: of the argument, for the error.
        given: a name of `DESERIALIZERS`, or a function that is called with the bytes.

    Raises:
        WrongArgument: it is neither.
    """
    if given is None or callable(given):
        return given
    if given not in DESERIALIZERS:
        known = ", ".join(DESERIALIZERS)
        raise WrongArgument(f"{name}: {given!r} is none of {known}, nor a function that takes bytes")
    return DESERIALIZERS[given]
