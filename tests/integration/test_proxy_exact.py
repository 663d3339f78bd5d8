"""What brokers say through the proxy, byte for byte: the same as without it but for addresses and two versions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from shareproxy.protocol.headers import decode_response, encode_response, sized
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from shareproxy.testing.kafka import SUPPORTED_VERSIONS, LocalKafka
from tests.support.raw_frames import Heard, head, hear, request
from tests.support.running_proxy import RunningProxy, running_proxy
from tests.support.waiting import wait_until

ANSWERS: dict[int, type[Response]] = {
    answer.api_key: answer
    for answer in (ApiVersionsResponse, MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
}
LAG_API = 90
WHO = ApiVersionsRequest("exact", "1.0")
NOBODY = MetadataRequest(topics=[])
GOOD = request(WHO, 0, 7)


class Case(NamedTuple):
    """Bytes to send on a new connection.

    Attributes:
        name: what they are.
        data: the bytes.
        closes: whether a broker closes the connection.
        ends: whether the client says that nothing more comes.
    """

    name: str
    data: bytes
    closes: bool = False
    ends: bool = False


def versions_cases() -> Iterator[Case]:
    """Yield ApiVersions in all versions, also such as nobody knows."""
    for version in range(6):
        yield Case(f"ApiVersions v{version}", request(WHO, version))
        yield Case(f"ApiVersions v{version} of nobody", request(WHO, version, client_id=None))
    for version in (6, 9, 127, 32767, -1, -32768):
        asked = bytearray(request(WHO, 3))
        asked[6:8] = struct.pack(">h", version)
        yield Case(f"ApiVersions v{version}", bytes(asked))
    for name in ("", "a b", "-x", "x-", "ü"):
        for version in (3, 4, 5):
            yield Case(f"software {name!r} v{version}", request(ApiVersionsRequest(name, "1"), version))
    yield Case("software without version", request(ApiVersionsRequest("x", ""), 3))
    yield Case("v3 without its body", head(18, 3), closes=True)
    yield Case("client id of length -2", sized(struct.pack(">hhih", 18, 0, 1, -2)))
    yield Case("tag in the header", head(18, 3, b"\1\5\2ab" + b"\2x\2y\0"))


def address_cases() -> Iterator[Case]:
    """Yield every version of what tells clients where to connect."""
    missing = [MetadataRequestTopic(name="no-such-topic")]
    for version in range(14):
        yield Case(f"Metadata v{version}", request(NOBODY, version))
        asked = MetadataRequest(topics=missing, allow_auto_topic_creation=version < 4)
        yield Case(f"Metadata v{version} of a missing topic", request(asked, version))
    for version in range(7):
        for key_type in (0, 1, 2, 9) if version else (0,):
            one, many = FindCoordinatorRequest("g", key_type), FindCoordinatorRequest("", key_type, ["g", "h:i:0"])
            data = request(many if version > 3 else one, version)
            yield Case(f"FindCoordinator v{version} type {key_type}", data)
    for version in range(3):
        for endpoint_type in (1, 2, 7) if version else (1,):
            describe = DescribeClusterRequest(True, endpoint_type)
            yield Case(f"DescribeCluster v{version} type {endpoint_type}", request(describe, version))


def odd_cases() -> Iterator[Case]:
    """Yield what is not a request, or not one that this broker takes."""
    unknown = ((999, 0), (-1, 0), (32767, 3), (2, 99), (3, 99), (3, -1), (1, 99), (1, 3), (0, 99), (0, 2), (0, -1))
    for api_key, version in (*unknown, (4, 0), (10, 99), (60, 9), (78, 0), (90, 2)):
        yield Case(f"key {api_key} v{version}", head(api_key, version), closes=True)
        yield Case(f"good, key {api_key} v{version}", GOOD + head(api_key, version), closes=True)
    for size in (0, -1, 3, 7, 104_857_601, 0x16030100, int.from_bytes(b"GET ")):
        yield Case(f"size {size}", struct.pack(">i", size) + bytes(8), closes=True)
    yield Case("good, size -1", GOOD + struct.pack(">i", -1), closes=True)
    yield Case("end within a size", b"\0\0", ends=True)
    yield Case("end within a header", b"\0\0\0\x10\0\x12", ends=True)
    yield Case("end within a body", request(NOBODY, 4)[:-3], ends=True)
    plain, flexible = request(NOBODY, 4)[4:], request(NOBODY, 12)[4:]
    yield Case("bytes behind the body", sized(plain + b"xyz"))
    yield Case("tag in the body", sized(flexible[:-1] + b"\1\x21\3abc"))
    yield Case("body cut short", sized(flexible[:-2]), closes=True)
    yield Case("long varint", sized(struct.pack(">hhih", 3, 12, 1, -1) + b"\x80\0" + b"\1\0\0\0"))
    yield Case("login v0 without logins", request(SaslHandshakeRequest("PLAIN"), 0))
    yield Case("login v0 and a request", request(SaslHandshakeRequest("PLAIN"), 0) + request(NOBODY, 4, 2))
    yield Case("login v0 with an unknown mechanism", request(SaslHandshakeRequest("FOO"), 0))
    yield Case("login v1 without logins", request(SaslHandshakeRequest("PLAIN"), 1))
    yield Case("token without logins", request(SaslAuthenticateRequest(b"x"), 2))
    requests = (request(NOBODY, 4, 1), GOOD, request(ListGroupsRequest(), 3, 2), request(NOBODY, 9, 3), GOOD)
    yield Case("many at once", b"".join(requests))


CASES = [*versions_cases(), *address_cases(), *odd_cases()]


@pytest.fixture(scope="module")
def proxy(kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the one-node cluster, whose coordinators are there."""
    for key_type in (0, 1):
        asked = request(FindCoordinatorRequest("", key_type, ["g"]), 4)
        wait_until(partial(has_coordinator, kafka.bootstrap_servers, asked), "the coordinator is there")
    with running_proxy(kafka.bootstrap_servers) as proxy:
        yield proxy


def has_coordinator(address: str, asked: bytes) -> bool:
    """Tell whether a broker knows a coordinator; the first question makes it create the topic."""
    _, answer = decode_response(FindCoordinatorResponse, 4, hear(address, asked).frames[0])
    return answer.coordinators[0].error_code == 0


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_same_as_the_broker(case: Case, kafka: LocalKafka, proxy: RunningProxy) -> None:
    """At the bootstrap port and at the node's own."""
    direct = hear(kafka.bootstrap_servers, case.data, closes=case.closes, end=case.ends)
    assert direct.open is not (case.closes or case.ends)
    expected = translated(direct, case.data, proxy.node_ports[1])

    for address in (proxy.bootstrap_servers, proxy.node_ports[1]):
        assert translated(hear(address, case.data, closes=case.closes, end=case.ends), case.data, None) == expected


@pytest.mark.parametrize("node_id", [1, 2, -1])
@pytest.mark.parametrize("cluster", ["right", "wrong", None])
def test_cluster_and_node_that_a_client_expects(
    cluster: str | None, node_id: int, kafka: LocalKafka, proxy: RunningProxy
) -> None:
    """Brokers compare both (KIP-1242); at the node's own port and at the bootstrap port of a one-node cluster."""
    cluster_id = kafka.cluster_id if cluster == "right" else cluster
    data = request(ApiVersionsRequest("exact", "1", cluster_id, node_id), 5) + GOOD
    direct = hear(kafka.bootstrap_servers, data)
    codes = {("right", 1): 0, (None, -1): 0, ("right", 2): 129, ("wrong", 1): 129, ("wrong", 2): 129}
    if kafka.version == SUPPORTED_VERSIONS[-1]:
        assert int.from_bytes(direct.frames[0][4:6]) == codes.get((cluster, node_id), 42)

    for address in (proxy.bootstrap_servers, proxy.node_ports[1]):
        assert translated(hear(address, data), data, None) == translated(direct, data, proxy.node_ports[1])


def test_the_clients_end_is_the_end_of_both_directions(kafka: LocalKafka, proxy: RunningProxy) -> None:
    """A broker answers what came before the end; here the end counts as that of a client that has gone (operations)."""
    data = GOOD + request(ListGroupsRequest(), 3, 2) + GOOD

    direct, through = (hear(address, data, end=True) for address in (kafka.bootstrap_servers, proxy.node_ports[1]))

    assert len(direct.frames) == 3
    assert not through.open
    passed = [frame[:4] for frame in through.frames]
    assert passed == [frame[:4] for frame in direct.frames][: len(passed)]


def translated(heard: Heard, asked: bytes, advertised: str | None) -> Heard:
    """Return what should come through the proxy; with None: without what changes by itself."""
    frames = []
    for frame, (api_key, version) in zip(heard.frames, keys_of(asked), strict=False):
        answer = ANSWERS.get(api_key)
        if answer is None:
            frames.append(frame)
            continue
        correlation_id, message = decode_response(answer, version, frame)
        if isinstance(message, ApiVersionsResponse):
            version = 0 if message.error_code == 35 else version
            message.finalized_features_epoch = 0  # counts on
            for row in message.api_keys:
                if row.api_key == LAG_API and advertised:
                    row.max_version = 1
        elif advertised:
            _move(message, advertised)
        frames.append(encode_response(message, version, correlation_id))
    return Heard(tuple(frames), heard.open)


def keys_of(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield API key and version of each request."""
    position = 0
    while position + 8 <= len(data):
        size, api_key, version = struct.unpack_from(">ihh", data, position)
        yield api_key, version
        position += 4 + size


def _move(message: Any, advertised: str) -> None:
    host, port = advertised.rsplit(":", 1)
    for holder in (*getattr(message, "brokers", ()), *getattr(message, "coordinators", ()), message):
        if getattr(holder, "port", 0) > 0:
            holder.host, holder.port = host, int(port)
