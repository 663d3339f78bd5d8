"""Turn bodies into messages and back: the one door to the codec back ends.

In: a message class, a version and bytes, or a message and a version. Out: a message, or bytes.
Must never: raise anything but `DecodeError` and `EncodeError` for bad bytes and bad messages.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final, TypeVar, cast

from shareproxy.protocol import interpreter
from shareproxy.protocol.compiler import Decoder, Encoder, compile_decoder, compile_encoder
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.message import Message
from shareproxy.protocol.plan import plan_for

M = TypeVar("M", bound=Message)

# up to here the interpreter is done before a decoder would be compiled; a command that reads each kind of answer once
# need not pay for that
INTERPRETED_BYTES: Final = 1_024

_DECODERS: Final[dict[tuple[type[Message], int], Decoder]] = {}
_INTERPRETED: Final[set[tuple[type[Message], int]]] = set()


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
    decoder = _DECODERS.get((message, version))
    if decoder is None:
        try:
            decoder = _decoder(message, version, len(data) - offset)
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


def _decoder(message: type[Message], version: int, size: int) -> Decoder:
    """Return the compiled decoder, or for a first small message the interpreter."""
    plan, key = plan_for(message, version), (message, version)
    if size <= INTERPRETED_BYTES and key not in _INTERPRETED:
        _INTERPRETED.add(key)
        return partial(interpreter.decode, plan)
    decoder = _DECODERS[key] = compile_decoder(plan, f"{message.schema_name} version {version}")
    return decoder


@cache
def _encoder(message: type[Message], version: int) -> Encoder:
    return compile_encoder(plan_for(message, version), f"{message.schema_name} version {version}")
