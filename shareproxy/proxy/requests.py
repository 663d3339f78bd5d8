"""Read the few request fields behind the first eight bytes that decide how a connection goes on.

In: bytes of a request, perhaps not all of it yet. Out: the field, or None while bytes are missing.
Must never: read past the request, or guess at a layout it does not know.
"""

from __future__ import annotations

import struct
from typing import Final

from shareproxy.protocol.errors import DecodeError
from shareproxy.proxy.varints import read_varint, skip_tags

PRODUCE: Final = 0
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36

# the newest Produce whose first fields are known; a newer one may put something before `acks`
PRODUCE_MAX_VERSION: Final = 13
_PRODUCE_FIRST_FLEXIBLE: Final = 9
_PRODUCE_FIRST_TRANSACTIONAL: Final = 3
# size, api_key, api_version, correlation_id
_HEAD_BYTES: Final = 12
_int16: Final = struct.Struct(">h").unpack_from


def produce_is_answered(data: bytes, start: int, size: int, version: int) -> bool | None:
    """Tell whether a Produce request gets an answer: with acks 0 it gets none.

    Args:
        data: bytes from the client.
        start: where the request's size prefix stands.
        size: what that prefix says.
        version: 0 to `PRODUCE_MAX_VERSION`.

    Returns:
        None if `data` ends before the field.

    Raises:
        DecodeError: the request ends before the field.
    """
    end = start + 4 + size
    flexible = version >= _PRODUCE_FIRST_FLEXIBLE
    try:
        position = start + _HEAD_BYTES
        position += 2 + max(_int16(data, position)[0], 0)  # client id; any negative length is null
        if flexible:
            position = skip_tags(data, position)
        if version >= _PRODUCE_FIRST_TRANSACTIONAL:
            if not flexible:
                position += 2 + max(_int16(data, position)[0], 0)
            else:
                length, position = read_varint(data, position)
                position += max(length - 1, 0)
        if position + 2 <= end:
            return bool(_int16(data, position)[0] != 0)
    except (IndexError, struct.error):
        if len(data) >= end:
            raise DecodeError("ends before acks", ("ProduceRequest",)) from None
        return None
    raise DecodeError("ends before acks", ("ProduceRequest",))


def sasl_mechanism(data: bytes, start: int, size: int) -> str | None:
    """Return the mechanism that a SaslHandshake v0 or v1 names; None if `data` does not hold all of it yet.

    Raises:
        DecodeError: the request is not a handshake.
    """
    end = start + 4 + size
    if len(data) < end:
        return None
    try:
        position = start + _HEAD_BYTES
        position += 2 + max(_int16(data, position)[0], 0)
        length = _int16(data, position)[0]
        text = data[position + 2 : position + 2 + length]
        if length < 0 or position + 2 + length > end:
            raise DecodeError("mechanism is not in the request", ("SaslHandshakeRequest",))
        return text.decode("ascii", "replace")
    except struct.error:
        raise DecodeError("ends before the mechanism", ("SaslHandshakeRequest",)) from None


def header_end(frame: bytes) -> int:
    """Return where the body of a whole flexible request begins.

    Args:
        frame: the request without its size.

    Raises:
        DecodeError: it ends within its header.
    """
    position = _HEAD_BYTES - 4
    try:
        position = skip_tags(frame, position + 2 + max(_int16(frame, position)[0], 0))
    except (IndexError, struct.error):
        position = len(frame) + 1
    if position > len(frame):
        raise DecodeError("ends within its header", ("RequestHeader",))
    return position
