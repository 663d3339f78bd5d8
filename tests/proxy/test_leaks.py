"""No broker's address comes through: every answer that holds one, in every version, as random messages."""

from __future__ import annotations

import copy
import itertools
import re
import zipfile
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from shareproxy.protocol.headers import decode_response, encode_response, sized
from shareproxy.protocol.json_text import parse_json_with_comments
from shareproxy.protocol.message import Response
from shareproxy.protocol.messages import (
    DescribeClusterResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ProduceResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from shareproxy.protocol.plan import plan_for
from shareproxy.proxy.hints import HINTED, MAX_HELD_ANSWER_BYTES
from shareproxy.proxy.rewrite import REWRITTEN
from shareproxy.proxy.session import Session
from shareproxy.testing.kafka import SUPPORTED_VERSIONS
from shareproxy.testing.kafka_jars import jars
from tests.protocol.samples import Samples
from tests.proxy.frames import opaque_request, produce
from tests.support.real_kafka import require_kafka

HOLDING: list[type[Response]] = [
    MetadataResponse,
    FindCoordinatorResponse,
    DescribeClusterResponse,
    ProduceResponse,
    FetchResponse,
    ShareFetchResponse,
    ShareAcknowledgeResponse,
]
CASES = [(answer, version) for answer in HOLDING for version in range(answer.min_version, answer.max_version + 1)]
each_case = pytest.mark.parametrize(
    ("answer", "version"), CASES, ids=[f"{answer.schema_name}-v{version}" for answer, version in CASES]
)
FIRST_WITH_HINT: dict[type[Response], int] = {ProduceResponse: 10, FetchResponse: 16}

SECRET = "inside"
HOSTS = (f"{SECRET}-1.kafka", f"{SECRET}." + "x" * 240, f"fd00::{SECRET}", SECRET, f"{SECRET}ß.example")
PORTS = (9092, 1, 65_535, 256, 19_092, 0)
NOBODY = (-1, "", -1)
CONTROLLERS = 2

PASSED_BY = {
    # between brokers and controllers only
    "BeginQuorumEpochResponse.NodeEndpoints",
    "EndQuorumEpochResponse.NodeEndpoints",
    "FetchSnapshotResponse.NodeEndpoints",
    "UpdateRaftVoterResponse.CurrentLeader",
    "VoteResponse.NodeEndpoints",
    # shown to administrators; no client connects there
    "DescribeQuorumResponse.Nodes",
    "DescribeQuorumResponse.Nodes.Listeners",
    # where applications say that they are
    "StreamsGroupDescribeResponse.Groups.Members.UserEndpoint",
    "StreamsGroupHeartbeatResponse.PartitionsByUserEndpoint.UserEndpoint",
    # where clients come from
    "ConsumerGroupDescribeResponse.Groups.Members",
    "DescribeGroupsResponse.Groups.Members",
    "ShareGroupDescribeResponse.Groups.Members",
    "StreamsGroupDescribeResponse.Groups.Members",
    # where clients may come from
    "DescribeAclsResponse.Resources.Acls",
    "DeleteAclsResponse.FilterResults.MatchingAcls",
}
"""Structs with a host or a port in answers of Kafka that pass as they are, with the reason."""


def advertised(node_id: int, host: str, port: int) -> tuple[str, int]:
    """Return an address of another length than the broker's."""
    assert node_id >= 0
    assert host
    assert port >= 0
    return "proxy.example", 19_000 + node_id % 1000


def holders(answer: Any, version: int) -> list[Any]:
    """Return the structs of an answer that hold addresses in this version."""
    if isinstance(answer, FindCoordinatorResponse):
        return [answer] if version < 4 else list(answer.coordinators)
    if isinstance(answer, MetadataResponse | DescribeClusterResponse):
        return list(answer.brokers)
    return list(answer.node_endpoints) if version >= FIRST_WITH_HINT.get(type(answer), 0) else []


def put(holder: Any, node_id: int, host: str, port: int) -> None:
    """Give a struct an address."""
    setattr(holder, "broker_id" if hasattr(holder, "broker_id") else "node_id", node_id)
    holder.host, holder.port = host, port


def node_of(holder: Any) -> int:
    """Return the node id beside an address."""
    return int(holder.broker_id if hasattr(holder, "broker_id") else holder.node_id)


def sample(answer: type[Response], version: int, seed: int) -> Any:
    """Return a random answer with addresses of brokers, some of nobody."""
    random = Random(seed)
    samples = Samples(seed, size=3)
    plan = plan_for(answer, version)
    message: Any = samples.struct(plan)
    count = random.choice((0, 1, 1, 2, 3, 200))
    if hasattr(message, "node_endpoints") and version >= FIRST_WITH_HINT.get(answer, 0):
        step = next(step for step in plan.steps if step.attribute == "node_endpoints")
        assert step.struct is not None
        message.node_endpoints = [samples.struct(step.struct) for _ in range(count)]
        for row in message.node_endpoints:
            row.unknown_tags = tuple((tag, b"more") for tag, _ in row.unknown_tags)
        message.unknown_tags = tuple((tag, b"more") for tag, _ in message.unknown_tags)
    for number, holder in enumerate(holders(message, version)):
        put(holder, number * 7 + random.choice((0, 2**31 - 2_000)), random.choice(HOSTS), random.choice(PORTS[:5]))
        if random.random() < 0.2:
            put(holder, *NOBODY)
    return message


def expected(message: Any, version: int) -> Any:
    """Return the answer with advertised addresses."""
    moved = copy.deepcopy(message)
    if isinstance(moved, DescribeClusterResponse) and moved.endpoint_type == CONTROLLERS and version:
        return moved
    for holder in holders(moved, version):
        if node_of(holder) >= 0:
            put(holder, node_of(holder), *advertised(node_of(holder), holder.host, holder.port))
    return moved


def through(answer: type[Response], version: int, frame: bytes, chunk: int) -> bytes:
    """Send an answer through a session, some bytes at a time, and return it without its size."""
    session = Session(advertised)
    asked = (
        produce(1, version=version)
        if answer is ProduceResponse
        else opaque_request(api_key=answer.api_key, version=version)
    )
    session.receive_from_client(asked)
    data = sized(frame)
    for start in range(0, len(data), chunk):
        session.receive_from_broker(data[start : start + chunk])
    assert session.close_reason is None, session.close_detail
    assert session.idle
    passed = b"".join(session.to_client)
    assert int.from_bytes(passed[:4]) == len(passed) - 4
    return passed[4:]


def test_everything_that_holds_addresses_is_edited() -> None:
    """What this file tries is what the proxy knows."""
    assert {answer.api_key for answer in HOLDING} == {*REWRITTEN, *HINTED}


@each_case
def test_addresses_are_changed_and_nothing_else(answer: type[Response], version: int) -> None:
    """Nodes of any number, names, IPv6, racks, nobody, unknown tags; in one piece and in pieces."""
    for seed in range(24):
        message = sample(answer, version, seed)
        frame = encode_response(message, version, 1)
        if len(frame) > MAX_HELD_ANSWER_BYTES and answer.api_key in HINTED:
            continue
        passed = through(answer, version, frame, chunk=(len(frame) + 4, 1, 7, 100)[seed % 4])

        correlation_id, found = decode_response(answer, version, passed)

        assert (correlation_id, found) == (1, expected(message, version))
        if answer is not DescribeClusterResponse or message.endpoint_type != CONTROLLERS:
            assert SECRET.encode() not in passed


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (answer, version)
        for answer, version in CASES
        if version >= FIRST_WITH_HINT.get(answer, 0) and answer.api_key in HINTED
    ],
)
def test_large_answers_lose_their_hint(answer: type[Response], version: int) -> None:
    """They pass as they come and keep their length; only the addresses cannot be found in them any more."""
    for seed in range(4):
        message = large_sample(answer, version, seed)
        frame = encode_response(message, version, 1)
        assert len(frame) > MAX_HELD_ANSWER_BYTES

        passed = through(answer, version, frame, chunk=(len(frame) + 4, 1000)[seed % 2])

        _, found = decode_response(answer, version, passed)
        assert len(passed) == len(frame)
        assert found.node_endpoints == []  # type: ignore[attr-defined]
        found.node_endpoints, found.unknown_tags = message.node_endpoints, ()  # type: ignore[attr-defined]
        assert found == message


def large_sample(answer: type[Response], version: int, seed: int) -> Any:
    """Return an answer that is larger than what is held, by its many partitions."""
    message = sample(answer, version, seed)
    message.unknown_tags = ()
    seeds = itertools.count(seed + 1)
    while not message.responses:
        message.responses = sample(answer, version, next(seeds)).responses
    while len(encode_response(message, version, 1)) <= MAX_HELD_ANSWER_BYTES:
        message.responses *= 2
    return message


def test_every_host_and_port_of_kafka_is_known() -> None:
    """A new field with a host or a port in the newest Kafka has to be edited, or be named here with the reason."""
    require_kafka()
    newest = SUPPORTED_VERSIONS[-1]
    with zipfile.ZipFile(jars(newest) / f"kafka-clients-{newest}.jar") as jar:
        names = [
            name for name in jar.namelist() if name.startswith("common/message/") and name.endswith("Response.json")
        ]
        schemas: list[Any] = [parse_json_with_comments(jar.read(name).decode()) for name in names]
    assert len(schemas) > 90

    found = {place for schema in schemas for place in places(schema)}

    edited = {place for place in found if place.partition(".")[0] in {answer.schema_name for answer in HOLDING}}
    assert found - edited == PASSED_BY
    assert {place.partition(".")[0] for place in edited} == {answer.schema_name for answer in HOLDING}


def places(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the path of each struct in a schema that has a field named after a host, a port or the like."""
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}

    def walk(path: str, fields: list[dict[str, Any]]) -> Iterator[str]:
        for field in fields:
            name, kind = field["name"], field["type"].removeprefix("[]")
            if re.search("(?:Host|Port|Address|Url|Listener)(?![a-z]{2})", name):
                yield path
            inner = field.get("fields") or shared.get(kind)
            if inner:
                yield from walk(f"{path}.{name}", inner)

    yield from walk(schema["name"], schema.get("fields", []))  # an API that is gone has none
