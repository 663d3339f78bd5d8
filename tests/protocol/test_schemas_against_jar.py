"""Our schema files beside those in the jar of Kafka's own client."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from shareproxy.protocol.json_text import parse_json_with_comments
from shareproxy.protocol.schema import MessageSchema, parse_schema
from shareproxy.protocol.schema_files import schema_directory, schema_names
from shareproxy.testing.kafka_jars import jars
from tests.support.real_kafka import require_kafka

pytestmark = pytest.mark.kafka

CLIENT_ADDRESSES = {
    "ProduceResponse",
    "FetchResponse",
    "MetadataResponse",
    "FindCoordinatorResponse",
    "DescribeClusterResponse",
    "ShareFetchResponse",
    "ShareAcknowledgeResponse",
}
"""Answers that tell a client where to connect."""

OTHER_ADDRESSES = {
    "BeginQuorumEpochResponse",  # what only brokers and controllers say to each other
    "DescribeQuorumResponse",  # shown to administrators; nobody connects
    "EndQuorumEpochResponse",
    "FetchSnapshotResponse",
    "StreamsGroupDescribeResponse",  # addresses of applications
    "StreamsGroupHeartbeatResponse",
    "UpdateRaftVoterResponse",
    "VoteResponse",
}


@pytest.fixture(scope="module")
def kafkas() -> dict[str, str]:
    """Return the text of each schema in the jar by the message's name."""
    require_kafka()
    with zipfile.ZipFile(jars("4.4.0") / "kafka-clients-4.4.0.jar") as jar:
        names = [name for name in jar.namelist() if name.startswith("common/message/") and name.endswith(".json")]
        return {name.split("/")[-1].removesuffix(".json"): jar.read(name).decode() for name in names}


def without_texts(value: Any) -> Any:
    """Return JSON without `about`, which is in our own words."""
    if isinstance(value, dict):
        return {key: without_texts(item) for key, item in value.items() if key != "about"}
    return [without_texts(item) for item in value] if isinstance(value, list) else value


def texts(value: Any) -> Iterator[str]:
    """Yield each `about` of a schema."""
    if isinstance(value, dict):
        if "about" in value:
            yield value["about"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from texts(item)


@pytest.mark.parametrize("name", schema_names())
def test_schema_is_kafkas(kafkas: dict[str, str], name: str) -> None:
    """Field by field and attribute by attribute."""
    ours = parse_json_with_comments((schema_directory() / f"{name}.json").read_text(encoding="utf-8"))
    assert without_texts(ours) == without_texts(parse_json_with_comments(kafkas[name]))


def test_no_sentence_is_kafkas(kafkas: dict[str, str]) -> None:
    """Every `about` is in our own words."""
    theirs = {plain(text) for schema in kafkas.values() for text in texts(parse_json_with_comments(schema))}
    assert len(theirs) > 500
    for name in schema_names():
        ours = parse_json_with_comments((schema_directory() / f"{name}.json").read_text(encoding="utf-8"))
        for text in texts(ours):
            assert plain(text) not in theirs, f"{name}: {text}"


def plain(text: str) -> str:
    """Return a sentence without what does not make it another one."""
    return " ".join(text.lower().split()).rstrip(".")


def test_every_schema_of_kafka_can_be_read(kafkas: dict[str, str]) -> None:
    """The reader knows the whole language, not the part that our files use."""
    assert len(kafkas) == 203
    schemas = [parse_schema(text, f"{name}.json") for name, text in kafkas.items()]
    assert {schema.name for schema in schemas} == set(kafkas)
    assert {schema.kind for schema in schemas} == {"request", "response", "header", "data"}


def test_answers_that_hold_addresses(kafkas: dict[str, str]) -> None:
    """A new one in Kafka would have to be rewritten, or be listed here with the reason why not."""
    holding = {
        name
        for name, text in kafkas.items()
        if name.endswith("Response") and _holds_address(parse_schema(text, f"{name}.json"))
    }
    assert holding == CLIENT_ADDRESSES | OTHER_ADDRESSES


def _holds_address(schema: MessageSchema) -> bool:
    return any({"Host", "Port"} <= {field.name for field in fields} for _, fields in schema.structs())
