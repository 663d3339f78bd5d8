"""Frames for the proxy's tests: requests and answers as clients and brokers write them, with their sizes."""

from __future__ import annotations

import struct
from typing import Any

from shareproxy.protocol.headers import encode_request, encode_response, sized
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    MetadataResponse,
    MetadataResponseBroker,
)

TOPIC_ID = bytes(range(1, 17))
HEARTBEAT = 12  # an API that the proxy only forwards


def request(message: Request[Any], version: int, correlation_id: int = 1, client_id: str | None = "adm") -> bytes:
    """Return a request with its size."""
    return sized(encode_request(message, version, correlation_id, client_id))


def answer(message: Response, version: int, correlation_id: int = 1) -> bytes:
    """Return an answer with its size."""
    return sized(encode_response(message, version, correlation_id))


def opaque_request(correlation_id: int = 1, *, api_key: int = HEARTBEAT, version: int = 4, body: bytes = b"") -> bytes:
    """Return a request of any API, known or not, with its size."""
    return sized(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def opaque_answer(correlation_id: int = 1, body: bytes = b"") -> bytes:
    """Return an answer of any API with its size."""
    return sized(struct.pack(">i", correlation_id) + body)


def produce(
    correlation_id: int = 1,
    *,
    acks: int = 1,
    version: int = 9,
    client_id: str | None = "p",
    transactional_id: str | None = None,
    tags: bytes = b"\0",
    records: bytes = b"records",
) -> bytes:
    """Return a Produce request with its size; only its first fields are real."""
    head = struct.pack(">hhi", 0, version, correlation_id) + _string(client_id)
    body = b""
    if version >= 9:
        head += tags
        body += b"\0" if transactional_id is None else _varint(len(transactional_id) + 1) + transactional_id.encode()
    elif version >= 3:
        body += _string(transactional_id)
    return sized(head + body + struct.pack(">hi", acks, 30_000) + records)


def sasl_handshake(correlation_id: int = 1, mechanism: str = "PLAIN", version: int = 0) -> bytes:
    """Return a SaslHandshake request with its size."""
    return sized(struct.pack(">hhi", 17, version, correlation_id) + _string("c") + _string(mechanism))


def api_versions(*entries: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    """Return an ApiVersions answer with (api_key, min, max) entries."""
    return ApiVersionsResponse(
        error_code=error_code, api_keys=[ApiVersionsResponseApiVersion(*entry) for entry in entries]
    )


def metadata(*brokers: tuple[int, str, int]) -> MetadataResponse:
    """Return a Metadata answer with (node_id, host, port) brokers."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*broker) for broker in brokers], cluster_id="c", controller_id=1
    )


def share_offsets(
    *rows: tuple[int, int, int], group: str = "g", topic: str = "t", leader_epochs: tuple[int, ...] = ()
) -> DescribeShareGroupOffsetsResponse:
    """Return a DescribeShareGroupOffsets answer for one topic, with (partition, start_offset, lag) rows."""
    epochs = leader_epochs or (5,) * len(rows)
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(partition, start, leader_epoch=epoch, lag=lag)
        for (partition, start, lag), epoch in zip(rows, epochs, strict=True)
    ]
    topics = [DescribeShareGroupOffsetsResponseTopic(topic, TOPIC_ID, partitions)]
    return DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup(group, topics)])


def share_offsets_of(*groups: dict[str, list[int]] | None, group: str = "g") -> DescribeShareGroupOffsetsRequest:
    """Return a DescribeShareGroupOffsets request: partitions by topic for each group, None for all of them."""
    return DescribeShareGroupOffsetsRequest(
        [
            DescribeShareGroupOffsetsRequestGroup(
                group,
                None
                if topics is None
                else [DescribeShareGroupOffsetsRequestTopic(name, partitions) for name, partitions in topics.items()],
            )
            for topics in groups
        ]
    )


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
