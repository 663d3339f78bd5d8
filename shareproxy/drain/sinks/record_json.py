"""Write a record, or one of its parts, as JSON or bytes.

In: records, whatever their converters made of key and value. Out: bytes.
Must never: lose a byte: what is not text in UTF-8 is written as {"base64": …}.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from shareproxy.drain.sink import SinkRecord

_ENCODER = msgspec.json.Encoder()


class CannotEncode(ValueError):  # noqa: N818 - it says what happened
    """A value that a converter made is nothing that JSON can hold."""


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        CannotEncode: it cannot be written as JSON.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise CannotEncode(f"{type(value).__name__} cannot be written as JSON: {error}") from None


def plain_bytes(value: Any) -> bytes | None:
    """Return bytes as they are, text in UTF-8, and everything else as JSON; `None` stays.

    Raises:
        CannotEncode: it cannot be written.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise CannotEncode(f"a text is not Unicode: {error}") from None
    return json_bytes(value)


def readable(value: Any) -> Any:
    """Return bytes as text where they are UTF-8, and otherwise as {"base64": …}; all else stays."""
    if type(value) is not bytes:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def headers_of(record: SinkRecord) -> list[list[Any]]:
    """Return a record's headers as pairs, in order: a name may come twice."""
    return [[name, readable(value)] for name, value in record.headers]


def record_bytes(record: SinkRecord) -> bytes:
    """Return a record with all that it says, as one JSON object without a line end.

    Raises:
        CannotEncode: its key or value cannot be written as JSON.
    """
    return json_bytes(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": readable(record.key),
            "value": readable(record.value),
            "headers": headers_of(record),
        }
    )
