"""Put the advertised addresses where brokers wrote their own.

In: an answer that carries broker addresses and a mapping. Out: the same answer with other hosts and ports.
Must never: change anything else, or touch addresses that stand for nobody or for a controller.
"""

from __future__ import annotations

from typing import Final

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import DescribeClusterResponse, FindCoordinatorResponse, MetadataResponse
from shareproxy.protocol.splice import AddressMapping, edit_addresses
from shareproxy.proxy.varints import read_varint, skip_tags

# Produce, Fetch, ShareFetch and ShareAcknowledge carry addresses too: see `hints`
REWRITTEN: Final[dict[int, type[Response]]] = {
    answer.api_key: answer for answer in (MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
}
_CONTROLLERS: Final = 2  # DescribeCluster's endpoint type


def rewrite_answer(api_key: int, version: int, frame: bytes, mapping: AddressMapping) -> tuple[bytes, ...]:
    """Rewrite the addresses in one answer.

    Args:
        api_key: one of `REWRITTEN`.
        version: of the request.
        frame: the answer without its size.
        mapping: called once per broker.

    Returns:
        The new frame in parts, without its size.

    Raises:
        DecodeError: the frame is not such an answer.
    """
    answer = REWRITTEN[api_key]
    offset = 4  # the correlation id
    try:
        if version >= answer.first_flexible_version:
            offset = skip_tags(frame, offset)
        if answer is DescribeClusterResponse and version >= 1 and _endpoint_type(frame, offset) == _CONTROLLERS:
            return (frame,)
    except IndexError:
        raise DecodeError(f"ends within its {len(frame)} bytes", (answer.schema_name,)) from None
    return frame[:offset], edit_addresses(answer, version, frame, offset, mapping)


def _endpoint_type(frame: bytes, offset: int) -> int:
    length, position = read_varint(frame, offset + 6)  # behind throttle time and error code: the error message
    return frame[position + max(length - 1, 0)]
