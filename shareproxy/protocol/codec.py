"""Turn bodies into messages and back: the one door to the codec back ends.

In: a message class, a version and bytes, or a message and a version. Out: a message, or bytes.
Must never: raise anything but `DecodeError` and `EncodeError` for bad bytes and bad messages.
"""

from __future__ import annotations

from typing import TypeVar, cast

from shareproxy.protocol import interpreter
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.message import Message
from shareproxy.protocol.plan import plan_for

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, data: bytes, offset: int = 0) -> M:
    """Read a whole message body; the last byte of `data` is the last byte of the body.

    Args:
        message: class to read.
        version: API version, within `message.min_version` and `message.max_version`.
        data: frame or body.
        offset: first byte of the body in `data`.

    Raises:
        DecodeError: the bytes are not such a message; names the field.
    """
    value, position = decode_prefix(message, version, data, offset)
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes after the end", (message.schema_name,))
    return value


def decode_prefix(message: type[M], version: int, data: bytes, offset: int = 0) -> tuple[M, int]:
    """Read a message that other bytes may follow; also returns the position behind it.

    Raises:
        DecodeError: the bytes do not start with such a message.
    """
    try:
        plan = plan_for(message, version)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    value, position = interpreter.decode(plan, data, offset)
    return cast(M, value), position


def encode(message: Message, version: int) -> bytes:
    """Write a message body.

    Raises:
        EncodeError: a value does not fit, or the version cannot carry it; names the field.
    """
    try:
        plan = plan_for(type(message), version)
    except ValueError as error:
        raise EncodeError(str(error)) from None
    return interpreter.encode(plan, message)
