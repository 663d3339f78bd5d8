"""Headers and sizes in front of bodies."""

from __future__ import annotations

import pytest

from shareproxy.protocol.codec import encode
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.headers import (
    RequestHead,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_correlation_id,
    read_request_head,
    request_header_version,
    response_header_version,
    sized,
)
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeShareGroupOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

FLEXIBLE_FROM = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 15: 5, 16: 3, 18: 3, 32: 4, 36: 2, 42: 2, 44: 1, 60: 0, 61: 0, 65: 0,
    66: 0, 69: 0, 76: 0, 77: 0, 78: 0, 79: 0, 84: 0, 87: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip
"""First flexible version by API key, as Kafka's own classes say."""


@pytest.mark.parametrize("message", [m for m in MESSAGES if issubclass(m, Request)], ids=lambda m: m.__name__)
def test_header_versions_follow_from_the_body(message: type[Request[Response]]) -> None:
    """Flexible bodies have flexible headers, except for answers to ApiVersions."""
    for version in range(message.min_version, message.max_version + 1):
        flexible = version >= FLEXIBLE_FROM.get(message.api_key, 32767)
        assert request_header_version(message, version) == (2 if flexible else 1)
        expected = 1 if flexible and message.api_key != 18 else 0
        assert response_header_version(message.response_class, version) == expected


def test_handshake_is_never_flexible_and_authenticate_is() -> None:
    """SASL's two APIs differ."""
    assert request_header_version(SaslHandshakeRequest, 1) == 1
    assert response_header_version(SaslHandshakeResponse, 1) == 0
    assert request_header_version(SaslAuthenticateRequest, 2) == 2
    assert response_header_version(SaslAuthenticateResponse, 2) == 1


@pytest.mark.parametrize("client_id", [None, "", "adm", "größe"])
def test_request_round_trip(client_id: str | None) -> None:
    """Client ids keep the old form, also before flexible bodies."""
    for version in (0, 8, 9, 12):
        topics = MetadataRequest(allow_auto_topic_creation=True, topics=[])
        frame = encode_request(topics, version, 77, client_id)
        header, message = decode_request(MetadataRequest, frame)
        assert (header.request_api_key, header.request_api_version) == (3, version)
        assert (header.correlation_id, header.client_id, message) == (77, client_id, topics)
        assert read_request_head(frame) == RequestHead(3, version, 77)


def test_client_id_has_a_length_of_two_bytes() -> None:
    """Before a tag section, too."""
    frame = encode_request(DescribeShareGroupOffsetsRequest(groups=[]), 1, 7, "adm")
    assert frame.hex() == "005a" + "0001" + "00000007" + "0003" + b"adm".hex() + "00" + "01" + "00"


def test_negative_client_id_length_is_null() -> None:
    """Brokers take −2 for null as well."""
    header, _ = decode_request(SaslHandshakeRequest, bytes.fromhex("0011 0001 00000001 fffe 0001 41"))
    assert header.client_id is None


def test_response_round_trip() -> None:
    """The correlation id comes first; a tag section follows where the body is flexible."""
    answer = MetadataResponse(cluster_id="c")
    for version in (2, 9, 12):
        frame = encode_response(answer, version, 5)
        assert decode_response(MetadataResponse, version, frame) == (5, answer)
        assert read_correlation_id(frame) == 5
        assert frame[4 : 4 + (version >= 9)] == b"\0" * (version >= 9)


def test_unknown_tagged_fields_in_headers_are_stepped_over() -> None:
    """A newer broker may put some there."""
    frame = bytes.fromhex("00000005 01 09 02 abcd") + encode(MetadataResponse(), 12)
    assert decode_response(MetadataResponse, 12, frame) == (5, MetadataResponse())


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_answer_with_error_35_has_the_body_of_version_0(version: int) -> None:
    """Whatever was asked: the broker may not know that version."""
    refused = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponseApiVersion(18, 0, 4)])
    frame = encode_response(refused, 0, 1)
    assert len(frame) == 16
    assert decode_response(ApiVersionsResponse, version, frame) == (1, refused)


def test_other_errors_keep_the_version() -> None:
    """Error 42 comes in the form that was asked for."""
    refused = ApiVersionsResponse(error_code=42)
    assert decode_response(ApiVersionsResponse, 3, encode_response(refused, 3, 1)) == (1, refused)


def test_api_versions_answer_has_no_tags_in_its_header() -> None:
    """Though its body is flexible."""
    assert encode_response(ApiVersionsResponse(), 3, 1).hex() == "00000001" + "0000" + "01" + "00000000" + "00"


@pytest.mark.parametrize("size", range(8))
def test_frames_too_short_for_a_header(size: int) -> None:
    """Routing needs eight bytes of a request and four of an answer."""
    frame = bytes(size)
    with pytest.raises(DecodeError, match=f"a request of {size} bytes has no room for a header"):
        read_request_head(frame)
    if size < 4:
        with pytest.raises(DecodeError, match=f"a response of {size} bytes has no room for a header"):
            read_correlation_id(frame)
    with pytest.raises(DecodeError):
        decode_request(ApiVersionsRequest, frame)


def test_request_of_an_unknown_version_is_refused() -> None:
    """The body cannot be read, whatever it is."""
    with pytest.raises(DecodeError, match=r"has versions 0 to 13, not 99"):
        decode_request(MetadataRequest, bytes.fromhex("0003 0063 00000001 ffff 00 00"))


def test_message_that_does_not_fit_is_refused() -> None:
    """Errors of the body pass."""
    with pytest.raises(EncodeError, match="has versions 0 to 13, not 99"):
        encode_request(MetadataRequest(), 99, 1, None)


def test_size_stands_before_the_frame() -> None:
    """Four bytes that do not count themselves."""
    assert sized(b"abc") == b"\0\0\0\3abc"
