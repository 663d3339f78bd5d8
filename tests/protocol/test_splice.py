"""Changing addresses in answers without decoding them."""

from __future__ import annotations

import copy
import linecache
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from shareproxy.protocol import interpreter
from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    MESSAGES,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    ListOffsetsResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from shareproxy.protocol.plan import plan_for, plan_schema
from shareproxy.protocol.schema import FieldSchema, parse_schema
from shareproxy.protocol.schema_files import load_schema
from shareproxy.protocol.splice import Address, compile_locator, edit_addresses, locate_addresses
from tests.protocol.samples import SEEDS, SIZES, Samples, outcome
from tests.protocol.synthetic import make_classes

CASES = [
    (message, version)
    for message in (MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
    for version in range(message.min_version, message.max_version + 1)
]
each_case = pytest.mark.parametrize(
    ("message", "version"), CASES, ids=[f"{message.schema_name}-v{version}" for message, version in CASES]
)


def holders(message: type[Response], version: int, answer: Any) -> list[Any]:
    """Return the structs that hold addresses in an answer."""
    if message is FindCoordinatorResponse:
        return [answer] if version < 4 else list(answer.coordinators)
    return list(answer.brokers)


def node_of(holder: Any) -> int:
    """Return the node id beside an address."""
    return int(holder.broker_id if hasattr(holder, "broker_id") else holder.node_id)


def sample(message: type[Response], version: int, seed: int, size: int) -> Any:
    """Return a random answer in which most addresses are real ones."""
    samples = Samples(seed, size)
    answer = samples.struct(plan_for(message, version))
    for holder in holders(message, version, answer):
        if samples.random.random() < 0.7:
            holder.host, holder.port = holder.host or "kafka-1", holder.port & 0x7FFFFFFF
            attribute = "broker_id" if hasattr(holder, "broker_id") else "node_id"
            setattr(holder, attribute, samples.random.randrange(2**31))
    return answer


def elsewhere(node_id: int, host: str, port: int) -> tuple[str, int] | None:
    """Move even nodes to addresses of other lengths, leave odd ones."""
    return None if node_id % 2 else ("proxy" * (node_id % 60), port % 60_000)


@each_case
@given(seed=SEEDS, size=SIZES)
@settings(max_examples=20, deadline=None)
def test_nothing_but_addresses_is_changed(message: type[Response], version: int, seed: int, size: int) -> None:
    """The new body is read as the old answer with other hosts and ports."""
    answer = sample(message, version, seed, size)
    body = encode(answer, version)
    edited = decode(message, version, edit_addresses(message, version, b"header" + body, 6, elsewhere))
    expected = copy.deepcopy(answer)
    for holder in holders(message, version, expected):
        if node_of(holder) >= 0 and holder.host and holder.port >= 0:
            holder.host, holder.port = elsewhere(node_of(holder), holder.host, holder.port) or (
                holder.host,
                holder.port,
            )
    assert edited == expected


@each_case
@given(seed=SEEDS, size=SIZES)
@settings(max_examples=20, deadline=None)
def test_damaged_bytes_raise_nothing_but_decode_error(
    message: type[Response], version: int, seed: int, size: int
) -> None:
    """And whatever can be decoded can be edited."""
    samples = Samples(seed, size)
    data = samples.damaged(encode(sample(message, version, seed, size), version))
    success, edited = outcome(lambda: edit_addresses(message, version, data, 0, elsewhere), DecodeError)
    readable, _ = outcome(lambda: decode(message, version, data), DecodeError)
    assert success or not readable
    if readable:
        decode(message, version, edited)


@each_case
def test_answers_cut_at_each_point(message: type[Response], version: int) -> None:
    """Cut before the end of the last address: refused with the path; behind it: not looked at."""
    answer = next(
        answer for seed in range(100) if len(holders(message, version, answer := sample(message, version, seed, 2))) > 0
    )
    body = encode(answer, version)
    last = locate_addresses(message, version, body, 0)[-1]
    for end in range(last[2]):
        with pytest.raises(DecodeError):
            edit_addresses(message, version, body[:end], 0, elsewhere)


@each_case
def test_addresses_are_found_with_their_nodes(message: type[Response], version: int) -> None:
    """In the order of the answer."""
    for seed in range(20):
        answer = sample(message, version, seed, 3)
        found = locate_addresses(message, version, encode(answer, version), 0)
        assert [address for _, address, _ in found] == [
            Address(node_of(holder), holder.host, holder.port) for holder in holders(message, version, answer)
        ]


def test_nobody_is_not_given_to_the_mapping() -> None:
    """Node −1, an empty host and port −1 stay as they are."""
    nobody = FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator("g", -1, "", -1, 15, None),
            FindCoordinatorResponseCoordinator("g", 1, "", 9092),
            FindCoordinatorResponseCoordinator("g", -1, "kafka", 9092),
            FindCoordinatorResponseCoordinator("g", 1, "kafka", -1),
        ]
    )

    def refuse(*_: object) -> None:
        raise AssertionError

    body = encode(nobody, 4)
    assert edit_addresses(FindCoordinatorResponse, 4, body, 0, refuse) == body


def test_everything_behind_the_brokers_is_left_unread() -> None:
    """Topics may be damaged, or larger than any limit."""
    brokers = [MetadataResponseBroker(1, "kafka", 9092)]
    topics = [MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()])]
    body = encode(MetadataResponse(brokers=brokers, topics=topics), 12)
    head = locate_addresses(MetadataResponse, 12, body, 0)[0][2]
    edited = edit_addresses(MetadataResponse, 12, body[: head + 2] + b"\xff" * 9, 0, lambda *_: ("p", 1))
    assert edited.endswith(body[head : head + 2] + b"\xff" * 9)


def test_the_way_is_compiled_once_and_shows_in_tracebacks() -> None:
    """Brokers are walked in a loop; nothing is made for racks."""
    locate_addresses(MetadataResponse, 12, encode(MetadataResponse(), 12), 0)
    source = "".join(linecache.getlines("<addresses in MetadataResponse version 12>"))
    assert source.count("for _ in range") == 1
    assert "rack" not in source


def test_error_names_the_field() -> None:
    """The interpreter is asked for the place."""
    body = encode(MetadataResponse(brokers=[MetadataResponseBroker(1, "kafka", 9092)]), 9)
    with pytest.raises(DecodeError, match=r"Brokers\.\[0\]\.Host: needs 5 bytes, 3 are left"):
        edit_addresses(MetadataResponse, 9, body[:13], 0, elsewhere)


def test_large_damaged_answer_is_refused_without_looking_for_the_place() -> None:
    """The interpreter would hold the process up."""
    brokers = [MetadataResponseBroker(1, "x" * 32_000, 9092) for _ in range(40)]
    body = encode(MetadataResponse(brokers=brokers), 9)
    with pytest.raises(DecodeError, match="MetadataResponse: damaged before the last address"):
        edit_addresses(MetadataResponse, 9, body[:-40_000], 0, elsewhere)


@pytest.mark.parametrize(("host", "port"), [("x" * 32_768, 1), ("proxy", -1), ("proxy", 2**31)])
def test_address_that_cannot_be_written(host: str, port: int) -> None:
    """The mapping is at fault, not the broker."""
    body = encode(MetadataResponse(brokers=[MetadataResponseBroker(1, "kafka", 9092)]), 9)
    with pytest.raises(EncodeError, match="is not an address that a message can hold"):
        edit_addresses(MetadataResponse, 9, body, 0, lambda *_: (host, port))


def test_messages_and_versions_without_addresses_are_refused() -> None:
    """Asking for them is a mistake."""
    with pytest.raises(DecodeError, match="ListOffsetsResponse version 7 holds no addresses"):
        edit_addresses(ListOffsetsResponse, 7, b"", 0, elsewhere)
    with pytest.raises(DecodeError, match="has versions 0 to 13"):
        edit_addresses(MetadataResponse, 14, b"", 0, elsewhere)


WINDING = """{
  "apiKey": 1, "type": "response", "name": "WindingResponse", "validVersions": "0-1", "flexibleVersions": "1+",
  "commonStructs": [ { "name": "Spot", "versions": "0+", "fields": [
    { "name": "NodeId", "type": "int32", "versions": "0+" },
    { "name": "Host", "type": "string", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Port", "type": "int32", "versions": "0+" },
    { "name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "0+" } ] } ],
  "fields": [
    { "name": "Numbers", "type": "[]int32", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Ids", "type": "[]uuid", "versions": "0+" },
    { "name": "Words", "type": "[]string", "versions": "0+" },
    { "name": "Blobs", "type": "[]bytes", "versions": "0+" },
    { "name": "Batch", "type": "records", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Raw", "type": "bytes", "versions": "0+" },
    { "name": "Always", "type": "Single", "versions": "0+", "fields": [
      { "name": "Only", "type": "int64", "versions": "0+" } ] },
    { "name": "Perhaps", "type": "Pair", "versions": "0+", "nullableVersions": "0+", "fields": [
      { "name": "Left", "type": "int64", "versions": "0+" },
      { "name": "Right", "type": "string", "versions": "0+" } ] },
    { "name": "Racks", "type": "[]Rack", "versions": "0+", "nullableVersions": "0+", "fields": [
      { "name": "Before", "type": "bool", "versions": "0+" },
      { "name": "Spots", "type": "[]Spot", "versions": "0+" },
      { "name": "After", "type": "int16", "versions": "0+" } ] },
    { "name": "Last", "type": "Spot", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Tail", "type": "string", "versions": "0+" }
  ] }"""


@pytest.mark.parametrize("version", [0, 1])
def test_the_way_leads_over_every_kind_of_field(version: int) -> None:
    """Addresses in arrays of arrays and in a struct that may be absent, behind all that can stand before them."""
    schema = parse_schema(WINDING, "WindingResponse.json")
    plan = plan_schema(schema, version, make_classes(schema))
    locate = compile_locator(plan, f"winding {version}")
    for seed in range(200):
        answer = Samples(seed).struct(plan)
        data = interpreter.encode(plan, answer)
        spots = [spot for rack in answer.racks or [] for spot in rack.spots] + [answer.last] * (answer.last is not None)
        found = locate(data, 0)
        assert [address for _, address, _ in found] == [(spot.node_id, spot.host or "", spot.port) for spot in spots]
        for start, address, stop in found:
            assert data[start:stop].endswith(struct.pack(">i", address.port))
            assert address.host.encode() in data[start:stop]


def test_no_other_answer_holds_addresses() -> None:
    """A host or a port in any other schema would have to be rewritten as well."""

    def names(fields: tuple[FieldSchema, ...]) -> Iterator[str]:
        for field in fields:
            yield field.name
            yield from names(field.fields)

    holding = {
        message.schema_name
        for message in MESSAGES
        if issubclass(message, Response)
        and any("Host" in name or "Port" in name for name in names(load_schema(message.schema_name).fields))
    }
    # the hosts in descriptions of groups are the clients' own
    others = {"ShareGroupDescribeResponse", "ConsumerGroupDescribeResponse", "DescribeGroupsResponse"}
    # `shareproxy.proxy.hints` edits these
    hints = {"ProduceResponse", "FetchResponse", "ShareFetchResponse", "ShareAcknowledgeResponse"}
    assert holding - others - hints == {message.schema_name for message, _ in CASES}
