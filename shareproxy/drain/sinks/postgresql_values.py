"""Make values for columns of what a record holds.

In: records, a column's source and type. Out: values that asyncpg can send. Must never: guess what a value means: what
does not fit its column raises, and the record is rejected.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from shareproxy.drain.sink import SinkRecord
from shareproxy.drain.sinks.postgresql_table import Column
from shareproxy.drain.sinks.record_json import CannotEncode, headers_of, json_bytes, readable

Value = Callable[[SinkRecord], Any]
Convert = Callable[[Any], Any]

PLAIN_SOURCES: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "delivery_count")
_INNER: Final = ("key.", "value.", "header.")


class DoesNotFit(ValueError):  # noqa: N818 - it says what happened
    """A value cannot go into its column."""


def is_source(source: str) -> bool:
    """Return whether that is something of a record."""
    return source in PLAIN_SOURCES or any(source.startswith(prefix) and source != prefix for prefix in _INNER)


def value_of(column: Column, *, key: bool = False) -> Value:
    """Return what makes a column's value of a record.

    Args:
        column: it.
        key: whether it makes a row unique; null is equal to nothing, so that such a row would be there twice.

    The function returned raises DoesNotFit or CannotEncode.
    """
    take, convert = _take(column.source), _CONVERT.get(column.base)
    if column.is_array:
        return take
    if convert is None:
        convert = _other
    if column.source in ("partition", "offset", "delivery_count") and column.base in ("int2", "int4", "int8"):
        return take
    if column.source == "topic" and column.base in _TEXTS:
        return take

    def made(record: SinkRecord) -> Any:
        value = take(record)
        if value is None:
            if key:
                raise DoesNotFit(f"column {column.name!r} is part of the key, and {column.source} is null")
            return None
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, OSError) as error:  # OSError: a time that no clock has
            raise DoesNotFit(f"column {column.name!r} of type {column.type}: {error}") from None

    return made


def _take(source: str) -> Value:
    if source == "headers":
        return headers_of
    if source == "timestamp":
        return lambda record: None if record.timestamp < 0 else record.timestamp
    if source.startswith("header."):
        return _header(source.removeprefix("header."))
    part, _, path = source.partition(".")
    if not path:
        return operator.attrgetter(source)
    return _field(operator.attrgetter(part), path.split("."), source)


def _header(name: str) -> Value:
    def take(record: SinkRecord) -> Any:
        for found, value in reversed(record.headers):
            if found == name:
                return value
        return None

    return take


def _field(whole: Value, path: list[str], source: str) -> Value:
    def take(record: SinkRecord) -> Any:
        value = whole(record)
        for name in path:
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise DoesNotFit(f"{source}: there is {type(value).__name__}, not an object; is the converter json?")
            value = value.get(name)
        return value

    return take


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.decode() if isinstance(value, bytes) else json_bytes(value).decode()


def _json(value: Any) -> str:
    # bytes are taken for JSON as it came; the server looks whether it is
    return value.decode() if isinstance(value, bytes) else json_bytes(value).decode()


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json_bytes(value)


def _int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is not whole")
    return int(value)


def _moment(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    moment = datetime.fromisoformat(_text(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(_text(value))
    except InvalidOperation:
        raise ValueError("it is no number") from None


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "false": False}
    if (word := _text(value).lower()) in words:
        return words[word]
    raise ValueError("it is neither true nor false")


def _other(value: Any) -> Any:
    value = readable(value)
    return json_bytes(value).decode() if isinstance(value, dict | list) else value


_TEXTS: Final = ("text", "varchar", "bpchar", "name", "citext")
_CONVERT: Final[Mapping[str, Convert]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(("json", "jsonb"), _json),
    **dict.fromkeys(("int2", "int4", "int8"), _int),
    **dict.fromkeys(("float4", "float8"), float),
    "bytea": _bytes,
    "timestamptz": _moment,
    "timestamp": lambda value: _moment(value).astimezone(UTC).replace(tzinfo=None),
    "date": lambda value: date.fromisoformat(_text(value)),
    "time": lambda value: time.fromisoformat(_text(value)),
    "numeric": _decimal,
    "bool": _bool,
}

__all__ = ["CannotEncode", "DoesNotFit", "PLAIN_SOURCES", "is_source", "value_of"]
