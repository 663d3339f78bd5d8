"""Put headers before bodies, sizes before both, and take them off again.

In: messages or frames. Out: frames or messages. A *frame* here is what follows the four size bytes, unless a
name says `sized`. Must never: guess the header version: it follows from the body's.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, TypeVar

from shareproxy.protocol.codec import decode, decode_prefix, encode
from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import ApiVersionsResponse, RequestHeader, ResponseHeader

API_VERSIONS: Final = 18
_HEAD: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">i")

Q = TypeVar("Q", bound=Response)
A = TypeVar("A", bound=Request)  # type: ignore[type-arg]


class RequestHead(NamedTuple):
    """The first 8 bytes of a request frame: enough to route it."""

    api_key: int
    api_version: int
    correlation_id: int


def read_request_head(frame: bytes | memoryview) -> RequestHead:
    """Read the first 8 bytes of a request frame.

    Raises:
        DecodeError: the frame is shorter.
    """
    if len(frame) < _HEAD.size:
        raise DecodeError(f"a request of {len(frame)} bytes has no room for a header")
    return RequestHead(*_HEAD.unpack_from(frame))


def read_correlation_id(frame: bytes | memoryview) -> int:
    """Read the first 4 bytes of a response frame.

    Raises:
        DecodeError: the frame is shorter.
    """
    if len(frame) < _SIZE.size:
        raise DecodeError(f"a response of {len(frame)} bytes has no room for a header")
    return int(_SIZE.unpack_from(frame)[0])


def request_header_version(message: type[Request[Any]], version: int) -> int:
    """Return 2 where the body is flexible, else 1."""
    return 2 if version >= message.first_flexible_version else 1


def response_header_version(message: type[Response], version: int) -> int:
    """Return 1 where the body is flexible, else 0; ApiVersions is always 0, as the client may know no better."""
    return 1 if version >= message.first_flexible_version and message.api_key != API_VERSIONS else 0


def sized(frame: bytes) -> bytes:
    """Put the size before a frame."""
    return _SIZE.pack(len(frame)) + frame


def encode_request(message: Request[Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the request frame without its size.

    Raises:
        EncodeError: the message does not fit the version.
    """
    header = RequestHeader(message.api_key, version, correlation_id, client_id)
    return encode(header, request_header_version(type(message), version)) + encode(message, version)


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """Return the response frame without its size.

    Raises:
        EncodeError: the message does not fit the version.
    """
    header = ResponseHeader(correlation_id)
    return encode(header, response_header_version(type(message), version)) + encode(message, version)


def decode_request(message: type[A], frame: bytes) -> tuple[RequestHeader, A]:
    """Read a request frame of a known kind; its version is in the frame.

    Raises:
        DecodeError: the frame is not such a request.
    """
    head = read_request_head(frame)
    header, position = decode_prefix(RequestHeader, request_header_version(message, head.api_version), frame)
    return header, decode(message, head.api_version, frame, position)


def decode_response(message: type[Q], version: int, frame: bytes) -> tuple[int, Q]:
    """Read a response frame of a known kind and version.

    Returns:
        Correlation id and message. An ApiVersions answer with error 35 has the version 0 body, whatever was asked.

    Raises:
        DecodeError: the frame is not such a response.
    """
    header, position = decode_prefix(ResponseHeader, response_header_version(message, version), frame)
    if message is ApiVersionsResponse and frame[position : position + 2] == _UNSUPPORTED_VERSION:
        version = 0
    return header.correlation_id, decode(message, version, frame, position)


_UNSUPPORTED_VERSION: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
