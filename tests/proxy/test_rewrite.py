"""Rewriting the addresses of brokers."""

import msgspec
import pytest

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import decode_response, encode_response
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from shareproxy.proxy.rewrite import rewrite_answer
from tests.proxy.frames import metadata


def to_proxy(node_id: int, host: str, port: int) -> tuple[str, int]:
    """Advertise each node at its own port."""
    assert host.startswith("kafka")
    assert port == 9092
    return "proxy.example", 19100 + node_id


def rewritten(message: Response, version: int) -> Response:
    """Send an answer through and decode it."""
    parts = rewrite_answer(type(message).api_key, version, encode_response(message, version, 7), to_proxy)
    correlation_id, result = decode_response(type(message), version, b"".join(parts))
    assert correlation_id == 7
    return result


@pytest.mark.parametrize("version", range(14))
def test_metadata_shows_advertised_addresses(version: int) -> None:
    """Every broker gets its port; topics and ids stay."""
    message = metadata((1, "kafka-1", 9092), (2, "kafka-2.example.org", 9092))
    message.topics = [MetadataResponseTopic(0, "t", partitions=[MetadataResponsePartition(0, 0, 1, replica_nodes=[1])])]

    result = rewritten(message, version)

    assert isinstance(result, MetadataResponse)
    found = [(broker.node_id, broker.host, broker.port) for broker in result.brokers]
    assert found == [(1, "proxy.example", 19101), (2, "proxy.example", 19102)]
    assert msgspec.to_builtins(result.topics)[0]["name"] == "t"


@pytest.mark.parametrize("version", range(4))
def test_coordinator_of_one_key_is_rewritten(version: int) -> None:
    """Versions before 4 hold one coordinator."""
    result = rewritten(FindCoordinatorResponse(node_id=2, host="kafka-2", port=9092), version)

    assert isinstance(result, FindCoordinatorResponse)
    assert (result.node_id, result.host, result.port) == (2, "proxy.example", 19102)


@pytest.mark.parametrize("version", range(4, 7))
def test_coordinators_of_many_keys_are_rewritten(version: int) -> None:
    """Failed keys keep node −1, no host and port −1 between good ones."""
    message = FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator("a", 1, "kafka-1", 9092),
            FindCoordinatorResponseCoordinator("b", -1, "", -1, error_code=15),
            FindCoordinatorResponseCoordinator("c", 3, "kafka-3", 9092, error_message=""),
        ]
    )

    result = rewritten(message, version)

    assert isinstance(result, FindCoordinatorResponse)
    found = [(row.key, row.node_id, row.host, row.port, row.error_code) for row in result.coordinators]
    assert found == [
        ("a", 1, "proxy.example", 19101, 0),
        ("b", -1, "", -1, 15),
        ("c", 3, "proxy.example", 19103, 0),
    ]


@pytest.mark.parametrize("version", range(4))
def test_missing_coordinator_stays(version: int) -> None:
    """Node −1 is nobody."""
    result = rewritten(FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1), version)

    assert isinstance(result, FindCoordinatorResponse)
    assert (result.node_id, result.host, result.port) == (-1, "", -1)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("error_message", [None, "", "x" * 200])
def test_described_brokers_are_rewritten(version: int, error_message: str | None) -> None:
    """DescribeCluster of brokers, fenced ones too, whatever text stands before them."""
    message = DescribeClusterResponse(
        error_message=error_message, cluster_id="c", brokers=[DescribeClusterBroker(1, "kafka-1", 9092, "rack")]
    )

    result = rewritten(message, version)

    assert isinstance(result, DescribeClusterResponse)
    assert [(row.broker_id, row.host, row.port, row.rack) for row in result.brokers] == [
        (1, "proxy.example", 19101, "rack")
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("error_message", [None, "", "x" * 200])
def test_described_controllers_stay(version: int, error_message: str | None) -> None:
    """Endpoint type 2 is controllers: clients of brokers never connect there."""
    message = DescribeClusterResponse(
        error_message=error_message,
        endpoint_type=2,
        cluster_id="c",
        brokers=[DescribeClusterBroker(9, "controller", 9093)],
    )
    frame = encode_response(message, version, 7)

    assert rewrite_answer(60, version, frame, to_proxy) == (frame,)


def test_unknown_header_tags_are_stepped_over() -> None:
    """A flexible answer's header may carry tags."""
    frame = encode_response(metadata((1, "kafka-1", 9092)), 12, 7)
    tagged = frame[:4] + b"\x01\x05\x02ab" + frame[5:]

    head, body = rewrite_answer(3, 12, tagged, to_proxy)

    assert head == tagged[:9]
    assert b"proxy.example" in body


@pytest.mark.parametrize(("api_key", "version"), [(3, 0), (3, 12), (10, 1), (10, 4), (60, 0), (60, 2)])
def test_damaged_answer_is_refused(api_key: int, version: int) -> None:
    """Bytes that end early are not an answer."""
    for size in range(4, 14):
        with pytest.raises(DecodeError):
            rewrite_answer(api_key, version, b"\0\0\0\7" + b"\x7f" * (size - 4), to_proxy)
