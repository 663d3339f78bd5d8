"""Compile a plan into Python functions: the fast back end.

In: a plan. Out: a reader and a writer of whole messages, compiled on first use. Anything that goes wrong in the
compiled code is given to the interpreter, which raises the exact error, or does the job where the compiled code
has given up on something odd but legal.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from shareproxy.protocol import interpreter
from shareproxy.protocol.decode_source import decode_function
from shareproxy.protocol.encode_source import encode_function
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.message import ProtocolStruct
from shareproxy.protocol.plan import StructPlan

Decoder: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any], bytes]

# the interpreter takes about a second per MiB: nobody may hold the process up by sending large damaged frames
EXPLAINED_BYTES: Final = 2**20


# from here on a message holds so many lists that the collector would come by several times while it is being read
LARGE_BYTES: Final = 2**14


def compile_decoder(plan: StructPlan, title: str) -> Decoder:
    """Return a reader: (data, offset) → message and the position behind it.

    Args:
        plan: of the message.
        title: message and version, for tracebacks.
    """
    decode = decode_function(plan, f"decode {title}")

    def decoder(data: bytes, offset: int) -> tuple[ProtocolStruct, int]:
        size = len(data) - offset
        try:
            if size < LARGE_BYTES:
                return decode(data, offset)
            with _collector_held():
                return decode(data, offset)
        except Exception as error:
            if size > EXPLAINED_BYTES:
                raise DecodeError(f"damaged; {size} bytes are too many to look for the place", (title,)) from error
        return interpreter.decode(plan, data, offset)

    return decoder


def compile_encoder(plan: StructPlan, title: str) -> Encoder:
    """Return a writer: message → bytes.

    Args:
        plan: of the message.
        title: message and version, for tracebacks.
    """
    encode = encode_function(plan, f"encode {title}")

    def encoder(message: ProtocolStruct) -> bytes:
        with suppress(Exception):
            return encode(message)
        return interpreter.encode(plan, message)

    return encoder


@contextmanager
def _collector_held() -> Iterator[None]:
    """Keep the garbage collector from running: in a message that is being read it finds everything alive."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
