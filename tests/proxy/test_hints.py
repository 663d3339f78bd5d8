"""Addresses of new leaders at the end of Produce, Fetch and share answers."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import decode_response, encode_response
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    FetchResponse,
    ProduceResponse,
    ProduceResponseNodeEndpoint,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from shareproxy.protocol.plan import plan_for
from shareproxy.proxy.hints import (
    HINTED,
    MAX_HELD_ANSWER_BYTES,
    TAIL_BYTES,
    UNUSED_TAG,
    HintHider,
    may_hold_hint,
    rewrite_hint,
)
from tests.protocol.samples import SEEDS, SIZES, Samples

CASES = [
    (message, version)
    for message, first in (
        (ProduceResponse, 10),
        (FetchResponse, 16),
        (ShareFetchResponse, 1),
        (ShareAcknowledgeResponse, 1),
    )
    for version in range(first, message.max_version + 1)
]
each_case = pytest.mark.parametrize(
    ("message", "version"), CASES, ids=[f"{message.schema_name}-v{version}" for message, version in CASES]
)
HOSTS = ("kafka-1", "10.0.0.1", "x" * 200)
RACKS = (None, "", "rack-1")


def advertised(node_id: int, host: str, port: int) -> tuple[str, int] | None:
    """Move even nodes to an address of another length, leave odd ones."""
    return None if node_id % 2 else ("proxy.example", 19100)


def sample(message: type[Response], version: int, seed: int, size: int, *, hint: bool = True) -> Any:
    """Return a random answer as a broker writes it, with or without a hint."""
    samples = Samples(seed, size)
    answer = samples.struct(plan_for(message, version))
    answer.unknown_tags = ()
    endpoint = type(answer)().node_endpoints
    assert endpoint == []
    kind = plan_for(message, version)
    step = next(step for step in kind.steps if step.attribute == "node_endpoints")
    assert step.struct is not None
    make = step.struct.struct_class
    random = samples.random
    answer.node_endpoints = [
        make(
            node_id=random.randrange(100),
            host=random.choice(HOSTS),
            port=random.choice((random.randrange(1, 65_536), 256 * random.randrange(1, 256))),
            rack=random.choice(RACKS),
        )
        for _ in range(random.randint(1, 3) if hint else 0)
    ]
    return answer


@each_case
@given(seed=SEEDS, size=SIZES)
@settings(max_examples=40)
def test_addresses_are_replaced_and_nothing_else(message: type[Response], version: int, seed: int, size: int) -> None:
    """The client gets the advertised addresses and every other field as it was."""
    answer = sample(message, version, seed, size)
    frame = encode_response(answer, version, 7)

    edited = b"".join(rewrite_hint(message.api_key, version, frame, advertised))

    for row in answer.node_endpoints:
        if row.node_id % 2 == 0:
            row.host, row.port = "proxy.example", 19100
    assert edited == encode_response(answer, version, 7)


@each_case
@given(seed=SEEDS, size=SIZES)
@settings(max_examples=40)
def test_tail_never_denies_a_hint(message: type[Response], version: int, seed: int, size: int) -> None:
    """Whatever the port and the rack."""
    frame = encode_response(sample(message, version, seed, size), version, 7)

    assert may_hold_hint(message.api_key, frame[-TAIL_BYTES:])


@each_case
def test_tail_of_an_ordinary_answer_is_enough(message: type[Response], version: int) -> None:
    """Nothing more is looked at in nearly all answers."""
    answer = message()
    assert isinstance(answer, ProduceResponse | FetchResponse | ShareFetchResponse | ShareAcknowledgeResponse)
    samples = Samples(1)
    step = next(step for step in plan_for(message, version).steps if step.attribute == "responses")
    assert step.struct is not None
    topic: Any = step.struct.struct_class(topic_id=b"t" * 16)
    inner = next(step for step in step.struct.steps if step.is_array)
    assert inner.struct is not None
    partition: Any = inner.struct.struct_class()
    if hasattr(partition, "records"):
        partition.records = samples.random.randbytes(100) + b"end"
    setattr(topic, inner.attribute, [partition])
    answer.responses = [topic]

    frame = encode_response(answer, version, 7)

    assert not may_hold_hint(message.api_key, frame[-TAIL_BYTES:])


@pytest.mark.parametrize("row", [(-1, "kafka", 9092), (2, "", 9092), (2, "kafka", -1)])
def test_sentinels_stay(row: tuple[int, str, int]) -> None:
    """An address of nobody is nobody's."""
    frame = encode_response(ProduceResponse(node_endpoints=[ProduceResponseNodeEndpoint(*row)]), 10, 7)

    assert b"".join(rewrite_hint(0, 10, frame, advertised)) == frame


def hidden(message: type[Response], version: int, frame: bytes, *cuts: int) -> bytes:
    """Pass an answer in pieces."""
    hider = HintHider(message.api_key, version, len(frame))
    edges = [0, *cuts, len(frame)]
    return b"".join(hider.feed(frame[start:stop]) for start, stop in itertools.pairwise(edges))


@each_case
@given(seed=SEEDS, size=SIZES, hint=st.booleans(), data=st.data())
@settings(max_examples=40)
def test_large_answer_loses_its_hint_but_no_byte(
    message: type[Response], version: int, seed: int, size: int, hint: bool, data: st.DataObject
) -> None:
    """It passes as it comes, in any pieces, with the same length; without a hint nothing changes."""
    answer = sample(message, version, seed, size, hint=hint)
    frame = encode_response(answer, version, 7)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frame) - 1), max_size=5)))

    passed = hidden(message, version, frame, *cuts)

    assert len(passed) == len(frame)
    assert hint or passed == frame
    seen: Any = decode_response(message, version, passed)[1]
    assert not any(tag != UNUSED_TAG for tag, _ in seen.unknown_tags)
    seen.unknown_tags, answer.node_endpoints = (), []
    assert seen == answer
    for host in HOSTS if hint and not HINTED[message.api_key].tagged else ():
        assert passed.count(host.encode()) < frame.count(host.encode()) or host.encode() not in frame


def test_large_answer_byte_by_byte() -> None:
    """The slowest broker works."""
    frame = encode_response(sample(FetchResponse, 17, 3, 4), 17, 7)

    assert hidden(FetchResponse, 17, frame, *range(1, len(frame))) == hidden(FetchResponse, 17, frame)


def test_inside_of_records_passes_as_it_came() -> None:
    """A large fetch is not copied."""
    samples = FetchResponse()
    plan = plan_for(FetchResponse, 17)
    topic = next(step for step in plan.steps if step.attribute == "responses").struct
    assert topic is not None
    partition = next(step for step in topic.steps if step.is_array).struct
    assert partition is not None
    row: Any = partition.struct_class(records=bytes(500_000))
    rows: Any = [topic.struct_class(partitions=[row])]
    samples.responses = rows
    frame = encode_response(samples, 17, 7)
    hider = HintHider(1, 17, len(frame))
    hider.feed(frame[:1_000])
    inside = frame[1_000:300_000]

    assert hider.feed(inside) is inside


@each_case
@given(seed=SEEDS, size=SIZES, data=st.data())
@settings(max_examples=30)
def test_damaged_answers_raise_nothing_else(
    message: type[Response], version: int, seed: int, size: int, data: st.DataObject
) -> None:
    """Only the protocol's own error comes out of damaged bytes, and as many bytes as went in."""
    frame = bytearray(encode_response(sample(message, version, seed, size), version, 7))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.sampled_from((0, 1, 9, 0x7F, 0x80, 0xFF)))
    damaged = bytes(frame[: data.draw(st.integers(4, len(frame)))])

    for work in (
        lambda: rewrite_hint(message.api_key, version, damaged, advertised),
        lambda: hidden(message, version, damaged),
    ):
        try:
            out = work()
        except DecodeError:
            continue
        if isinstance(out, bytes):
            assert len(out) == len(damaged)


@pytest.mark.parametrize("addresses", range(1, 12))
@pytest.mark.parametrize("length", [1, 100, 109, 110, 111, 112, 113, 114, 115, 116, 117, 127])
def test_share_answers_keep_their_length_at_every_size(addresses: int, length: int) -> None:
    """The room of the hint is filled by one unknown tag, whatever number of bytes its size takes."""
    answer = ShareAcknowledgeResponse()
    step = next(step for step in plan_for(ShareAcknowledgeResponse, 2).steps if step.attribute == "node_endpoints")
    assert step.struct is not None
    make: Any = step.struct.struct_class
    answer.node_endpoints = [make(1, "h" * length, 9092) for _ in range(addresses)]
    frame = encode_response(answer, 2, 7)

    passed = hidden(ShareAcknowledgeResponse, 2, frame)

    assert len(passed) == len(frame)
    _, seen = decode_response(ShareAcknowledgeResponse, 2, passed)
    assert seen.node_endpoints == []
    assert struct.unpack_from(">i", passed) == (7,)


def streamed_fetch(last_fields: bytes, size: int = 0) -> tuple[HintHider, bytes]:
    """Return what hides hints, and an answer without topics."""
    frame = struct.pack(">i", 7) + b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\1" + last_fields
    return HintHider(FetchResponse.api_key, 17, size or len(frame)), frame


def test_tag_that_is_written_longer_than_needed_keeps_its_length() -> None:
    """The number of the hint is legal in two bytes, too."""
    hider, frame = streamed_fetch(b"\1\x80\0\2ab")

    passed = hider.feed(frame)

    assert len(passed) == len(frame)
    assert decode_response(FetchResponse, 17, passed)[1].unknown_tags == ((UNUSED_TAG, b"ab"),)


def test_last_fields_are_not_held_without_end() -> None:
    """A large answer that is nothing but tags is refused before it fills the memory."""
    hider, frame = streamed_fetch(b"\1\0", size=100_000_000)
    hider.feed(frame + bytes(MAX_HELD_ANSWER_BYTES // 2))

    with pytest.raises(DecodeError, match="last fields"):
        hider.feed(bytes(MAX_HELD_ANSWER_BYTES // 2))


def test_last_fields_without_end_are_not_held() -> None:
    """What calls itself tags and never ends is refused before it is large."""
    start = encode_response(FetchResponse(), 17, 7)[:-1] + b"\1\x3c" + b"\xff\xff\xff\x7f"
    hider = HintHider(1, 17, 100_000_000)
    hider.feed(start)

    hider.feed(bytes(60_000))

    with pytest.raises(DecodeError, match="last fields"):
        hider.feed(bytes(10_000))


def test_tag_number_that_is_longer_than_it_needs_to_be_keeps_its_length() -> None:
    """Two bytes for the number 0: no byte may be lost."""
    endpoints = b"\2" + (1).to_bytes(4) + b"\6kafka" + (9092).to_bytes(4) + b"\0\0"
    tags = b"\1" + b"\x80\0" + bytes([len(endpoints)]) + endpoints
    frame = encode_response(FetchResponse(), 17, 7)[:-1] + tags

    passed = hidden(FetchResponse, 17, frame)

    assert len(passed) == len(frame)
    assert passed[-len(tags) :] == b"\1" + b"\x89\0" + tags[3:]
