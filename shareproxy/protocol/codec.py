"""Turn bodies into messages and back: the one door to the codec back ends.

In: a message class, a version and bytes, or a message and a version. Out: a message, or bytes.
Must never: raise anything but `DecodeError` and `EncodeError` for bad bytes and bad messages.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar, cast

from shareproxy.protocol.compiler import Decoder, Encoder, compile_decoder, compile_encoder
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
        decoder = _decoder(message, version)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    value, position = decoder(data, offset)
    return cast("M", value), position


def encode(message: Message, version: int) -> bytes:
    """Write a message body.

    Raises:
        EncodeError: a value does not fit, or the version cannot carry it; names the field.
    """
    try:
        encoder = _encoder(type(message), version)
    except ValueError as error:
        raise EncodeError(str(error)) from None
    return encoder(message)


@cache
def _decoder(message: type[Message], version: int) -> Decoder:
    return compile_decoder(plan_for(message, version), f"{message.schema_name} version {version}")


@cache
def _encoder(message: type[Message], version: int) -> Encoder:
    return compile_encoder(plan_for(message, version), f"{message.schema_name} version {version}")
