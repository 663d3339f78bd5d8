"""Edit what a broker says it can do into what it can do through this proxy.

In: the broker's ApiVersions answer. Out: the same bytes with some maximum versions changed, and which version of
DescribeShareGroupOffsets the broker has. Must never: raise a minimum, hide an API that is only forwarded, or
raise a maximum except that one from 0 to 1.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple

from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    DescribeClusterResponse,
    DescribeShareGroupOffsetsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from shareproxy.proxy.requests import PRODUCE, PRODUCE_MAX_VERSION
from shareproxy.proxy.varints import read_varint, skip_tags

API_VERSIONS: Final = ApiVersionsResponse.api_key
LAG_API: Final = DescribeShareGroupOffsetsResponse.api_key
LAG_VERSION: Final = 1  # the version that has Lag (KIP-1226)

# What is parsed cannot be newer than what is known: a newer answer could hold addresses that are missed.
MAX_VERSIONS: Final = {
    PRODUCE: PRODUCE_MAX_VERSION,
    **{
        answer.api_key: answer.max_version
        for answer in (
            FetchResponse,
            ShareFetchResponse,
            ShareAcknowledgeResponse,
            MetadataResponse,
            FindCoordinatorResponse,
            ApiVersionsResponse,
            DescribeClusterResponse,
            DescribeShareGroupOffsetsResponse,
        )
    },
}

_ENTRY: Final = struct.Struct(">hhh")  # api_key, min_version, max_version
_COUNT: Final = struct.Struct(">i")
# Answers whose edited form is kept: a few versions of each of a few dozen brokers that are being upgraded. They are a
# kilobyte long.
REMEMBERED: Final = 64
_CORRELATION_BYTES: Final = 4  # the answer's header is version 0 even where the body is flexible


class EditedApiVersions(NamedTuple):
    """The frame for the client, and the broker's newest DescribeShareGroupOffsets, None if it has none."""

    frame: bytes
    lag_version: int | None


def edit_api_versions(version: int, frame: bytes, *, fills_lag: bool) -> EditedApiVersions:
    """Cap what is parsed, and offer DescribeShareGroupOffsets v1 where the broker has v0.

    Args:
        version: of the client's request. If it is newer than what is known here and the broker understood it, the
            answer becomes error 35 with the versions of ApiVersions alone, as a broker that does not know it answers.
        frame: the broker's answer without its size.
        fills_lag: whether Lag can be worked out here; if not, nothing is raised.

    Raises:
        DecodeError: the frame is not such an answer.

    Source: KIP-511 (error 35), KIP-1226 (Lag).
    """
    head, body = frame[:_CORRELATION_BYTES], frame[_CORRELATION_BYTES:]
    edited, lag_version = _edit_body(version, body, fills_lag)
    return EditedApiVersions(head + edited, lag_version)


# every connection begins with the same answer of one of a few brokers
@functools.lru_cache(REMEMBERED)
def _edit_body(version: int, body: bytes, fills_lag: bool) -> tuple[bytes, int | None]:
    frame = bytes(_CORRELATION_BYTES) + body
    try:
        (error_code,) = struct.unpack_from(">h", frame, _CORRELATION_BYTES)
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0  # whatever was asked
        elif not 0 <= version <= ApiVersionsResponse.max_version:
            return _unsupported(frame)[_CORRELATION_BYTES:], None
        edited, lag_version = _edit_entries(version >= ApiVersionsResponse.first_flexible_version, frame, fills_lag)
        return edited[_CORRELATION_BYTES:], lag_version
    except (IndexError, struct.error):
        raise DecodeError(f"ends within its {len(frame)} bytes", (ApiVersionsResponse.schema_name,)) from None


def _edit_entries(flexible: bool, frame: bytes, fills_lag: bool) -> EditedApiVersions:
    start = _CORRELATION_BYTES + 2
    if flexible:
        count, position = read_varint(frame, start)
        count -= 1
    else:
        (count,), position = _COUNT.unpack_from(frame, start), start + _COUNT.size
    if count > len(frame):
        raise DecodeError(f"{count} elements cannot be in {len(frame)} bytes", (ApiVersionsResponse.schema_name,))
    entries: list[bytes] = []
    lag_version = None
    for _ in range(count):
        api_key, low, high = _ENTRY.unpack_from(frame, position)
        behind = position + _ENTRY.size
        if flexible:
            behind = skip_tags(frame, behind)
            if behind > len(frame):
                raise IndexError
        entry, position = frame[position:behind], behind
        if api_key in MAX_VERSIONS:
            known = MAX_VERSIONS[api_key]
            if low > known:
                continue  # nothing that both sides know: as if the broker did not have it
            allowed = min(high, known)
            if api_key == LAG_API:
                lag_version = allowed
                if fills_lag:
                    allowed = LAG_VERSION
            if allowed != high:
                entry = _ENTRY.pack(api_key, low, allowed) + entry[_ENTRY.size :]
        entries.append(entry)
    written = _write_varint(len(entries) + 1) if flexible else _COUNT.pack(len(entries))
    return EditedApiVersions(b"".join((frame[:start], written, *entries, frame[position:])), lag_version)


def _unsupported(frame: bytes) -> bytes:
    only = _ENTRY.pack(API_VERSIONS, 0, ApiVersionsResponse.max_version)
    error = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
    return frame[:_CORRELATION_BYTES] + error + _COUNT.pack(1) + only


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
