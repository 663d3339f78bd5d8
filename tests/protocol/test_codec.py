"""The door to the codec: frames of real brokers, and an independent codec's opinion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from shareproxy.protocol import codec, interpreter
from shareproxy.protocol import messages as m
from shareproxy.protocol.codec import decode, decode_prefix, encode
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.headers import decode_request, decode_response, encode_request, encode_response
from shareproxy.protocol.message import Message, Request, Response
from shareproxy.protocol.plan import StructPlan, plan_for
from tests.protocol.kio_oracle import KNOWN_TO_BOTH, KioSamples, fields_of, kio_class, kio_decode, kio_encode
from tests.protocol.samples import SEEDS

VECTORS = Path(__file__).parent.parent / "vectors"


def exchanges() -> Iterator[Any]:
    """Yield each exchange of each vector file."""
    for path in sorted(VECTORS.glob("*.json")):
        for step in json.loads(path.read_text(encoding="utf-8"))["steps"]:
            found = list(step["exchanges"])
            for derivation in step.get("derivation", []):
                found += derivation["exchanges"]
            for exchange in found:
                name = f"{path.stem}: {step['step']}: {exchange['api']} v{exchange['version']}"
                yield pytest.param(exchange, id=name)


EXCHANGES = list(exchanges())


def classes(exchange: dict[str, Any]) -> tuple[type[Request[Response]], type[Response]]:
    """Return request and response class of an exchange."""
    return getattr(m, exchange["api"] + "Request"), getattr(m, exchange["api"] + "Response")


def kafka_fields(plan: StructPlan, message: Any) -> Any:
    """Return a message's fields by Kafka's names, bytes as hex, tagged fields only where they are written."""

    def plain(value: Any, inner: StructPlan | None) -> Any:
        if isinstance(value, list):
            return [plain(element, inner) for element in value]
        if inner is not None and value is not None:
            return kafka_fields(inner, value)
        return value.hex() if isinstance(value, bytes) else value

    return {step.name: plain(getattr(message, step.attribute), step.struct) for step in plan.steps if step.present}


def test_there_are_vectors() -> None:
    """An empty folder would pass every test below."""
    assert len(list(VECTORS.glob("*.json"))) == 14
    assert len(EXCHANGES) > 100


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_request_of_a_real_client(exchange: dict[str, Any]) -> None:
    """Its fields are those that were written, and it is encoded to the same bytes; by both back ends."""
    request_class, frame, version = classes(exchange)[0], bytes.fromhex(exchange["request"]), exchange["version"]
    header, request = decode_request(request_class, frame)
    plan = plan_for(request_class, version)
    assert kafka_fields(plan, request) == exchange["request_decoded"]
    assert encode_request(request, version, header.correlation_id, header.client_id) == frame
    assert frame.endswith(interpreter.encode(plan, request))
    body = frame[len(frame) - len(encode(request, version)) :]
    assert interpreter.decode(plan, body) == (request, len(body))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_answer_of_a_real_broker(exchange: dict[str, Any]) -> None:
    """Its fields are those that were read, and it is encoded to the same bytes; by both back ends."""
    response_class, frame, version = classes(exchange)[1], bytes.fromhex(exchange["response"]), exchange["version"]
    correlation_id, response = decode_response(response_class, version, frame)
    plan = plan_for(response_class, version)
    assert kafka_fields(plan, response) == exchange["response_decoded"]
    assert encode_response(response, version, correlation_id) == frame
    assert frame.endswith(interpreter.encode(plan, response))
    body = frame[len(frame) - len(encode(response, version)) :]
    assert interpreter.decode(plan, body) == (response, len(body))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_frames_cut_at_each_length(exchange: dict[str, Any]) -> None:
    """A beginning of a frame is never taken for a frame."""
    request_class, response_class = classes(exchange)
    request, response = bytes.fromhex(exchange["request"]), bytes.fromhex(exchange["response"])
    for end in range(len(request)):
        with pytest.raises(DecodeError):
            decode_request(request_class, request[:end])
    for end in range(len(response)):
        with pytest.raises(DecodeError):
            decode_response(response_class, exchange["version"], response[:end])


GROUPS = m.DescribeShareGroupOffsetsRequestGroup
ROW = m.DescribeShareGroupOffsetsResponsePartition
TOPIC_ID = bytes(range(1, 17))


@pytest.mark.parametrize(
    ("request_", "correlation_id", "text"),
    [
        (m.DescribeShareGroupOffsetsRequest([GROUPS("g1", None)]), 7, "005a000100000007000361646d0002036731000000"),
        (m.DescribeShareGroupOffsetsRequest([GROUPS("g1", [])]), 9, "005a000100000009000361646d0002036731010000"),
        (
            m.DescribeShareGroupOffsetsRequest([GROUPS("g1", [m.DescribeShareGroupOffsetsRequestTopic("t", [0, 1])])]),
            8,
            "005a000100000008000361646d0002036731020274030000000000000001000000",
        ),
        (
            m.ReadShareGroupStateSummaryRequest(
                "g1",
                [
                    m.ReadShareGroupStateSummaryRequestReadStateSummaryData(
                        TOPIC_ID, [m.ReadShareGroupStateSummaryRequestPartitionData(0, 0)]
                    )
                ],
            ),
            3,
            "0057000100000003000361646d00036731020102030405060708090a0b0c0d0e0f10020000000000000000000000",
        ),
    ],
    ids=["null topics", "no topics", "two partitions", "state summary"],
)
def test_requests_that_two_encoders_agreed_on(request_: Request[Response], correlation_id: int, text: str) -> None:
    """Null and empty topics differ by one byte."""
    assert encode_request(request_, 1, correlation_id, "adm").hex() == text
    header, found = decode_request(type(request_), bytes.fromhex(text))
    assert (header.correlation_id, header.client_id, found) == (correlation_id, "adm", request_)


@pytest.mark.parametrize(
    ("response", "correlation_id", "text"),
    [
        (
            m.DescribeShareGroupOffsetsResponse(
                groups=[
                    m.DescribeShareGroupOffsetsResponseGroup(
                        "g1",
                        [m.DescribeShareGroupOffsetsResponseTopic("t", TOPIC_ID, [ROW(0, 2, 5, 5), ROW(1, -1, 0, -1)])],
                    )
                ]
            ),
            7,
            "000000070000000000020367310202740102030405060708090a0b0c0d0e0f1003"
            "0000000000000000000000020000000500000000000000050000000000000001ffffffffffffffff00000000ffffffffffffffff"
            "00000000000000000000",
        ),
        (
            m.DescribeShareGroupOffsetsResponse(groups=[m.DescribeShareGroupOffsetsResponseGroup("g1", [], 30, None)]),
            7,
            "0000000700000000000203673101001e000000",
        ),
        (
            m.ReadShareGroupStateSummaryResponse(
                [
                    m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(
                        TOPIC_ID,
                        [
                            m.ReadShareGroupStateSummaryResponsePartitionResult(
                                0, state_epoch=1, leader_epoch=5, start_offset=2, delivery_complete_count=4
                            )
                        ],
                    )
                ]
            ),
            3,
            "0000000300020102030405060708090a0b0c0d0e0f100200000000000000000000010000000500000000000000020000000400"
            "0000",
        ),
    ],
    ids=["rows", "group error", "state summary"],
)
def test_answers_that_two_encoders_agreed_on(response: Response, correlation_id: int, text: str) -> None:
    """A row without state has −1 for offset and lag."""
    assert encode_response(response, 1, correlation_id).hex() == text
    assert decode_response(type(response), 1, bytes.fromhex(text)) == (correlation_id, response)


@pytest.mark.parametrize(
    ("message", "version"),
    KNOWN_TO_BOTH,
    ids=[f"{message.schema_name}-v{version}" for message, version in KNOWN_TO_BOTH],
)
@given(seed=SEEDS)
@settings(max_examples=8, deadline=None)
def test_kio_agrees(message: type[Message], version: int, seed: int) -> None:
    """It reads our bytes as the same fields, and writes the same bytes."""
    kind, plan = kio_class(message, version), plan_for(message, version)
    assert kind is not None
    ours = KioSamples(seed).struct(plan)
    data = encode(ours, version)
    theirs = kio_decode(kind, data)
    assert fields_of(plan, theirs) == fields_of(plan, ours)
    assert kio_encode(kind, theirs) == data
    assert decode(message, version, data) == ours


def test_kio_knows_nearly_all_messages() -> None:
    """Two versions are newer than kio."""
    missing = {
        (message.schema_name, version)
        for message in m.MESSAGES
        for version in range(message.min_version, message.max_version + 1)
    } - {(message.schema_name, version) for message, version in KNOWN_TO_BOTH}
    assert missing <= {
        ("ApiVersionsRequest", 5),
        ("ApiVersionsResponse", 5),
        ("DeleteGroupsRequest", 3),
        ("DeleteGroupsResponse", 3),
    }


def test_bytes_behind_the_message_are_refused() -> None:
    """Unless they are asked for."""
    data = encode(m.SaslHandshakeRequest("PLAIN"), 1)
    with pytest.raises(DecodeError, match="SaslHandshakeRequest: 2 bytes after the end"):
        decode(m.SaslHandshakeRequest, 1, data + b"\0\0")
    assert decode_prefix(m.SaslHandshakeRequest, 1, b"\0" + data + b"\0\0", 1) == (
        m.SaslHandshakeRequest("PLAIN"),
        len(data) + 1,
    )


@pytest.mark.parametrize("version", [-1, 2, 32767])
def test_versions_that_do_not_exist(version: int) -> None:
    """Neither direction takes them."""
    with pytest.raises(DecodeError, match="has versions 0 to 1"):
        decode(m.SaslHandshakeRequest, version, b"")
    with pytest.raises(EncodeError, match="has versions 0 to 1"):
        encode(m.SaslHandshakeRequest("PLAIN"), version)


def test_a_first_small_message_is_not_worth_a_compiled_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A one-shot command reads most kinds of answer once; the second one compiles, and reads the same."""
    monkeypatch.setattr(codec, "_DECODERS", {})
    monkeypatch.setattr(codec, "_INTERPRETED", set())
    data = encode(m.SaslHandshakeResponse(33, ["PLAIN"]), 1)

    first = decode(m.SaslHandshakeResponse, 1, data)
    compiled_after_first = dict(codec._DECODERS)
    second = decode(m.SaslHandshakeResponse, 1, data)

    assert compiled_after_first == {}
    assert list(codec._DECODERS) == [(m.SaslHandshakeResponse, 1)]
    assert first == second == m.SaslHandshakeResponse(33, ["PLAIN"])


def test_a_first_large_message_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter would take longer than compiling does."""
    monkeypatch.setattr(codec, "_DECODERS", {})
    monkeypatch.setattr(codec, "_INTERPRETED", set())
    data = encode(m.SaslHandshakeResponse(0, ["PLAIN"] * 1_000), 1)

    decode(m.SaslHandshakeResponse, 1, data)

    assert list(codec._DECODERS) == [(m.SaslHandshakeResponse, 1)]
