"""The generated writers, without the interpreter behind them."""

from __future__ import annotations

import linecache
import struct

import pytest

from shareproxy.protocol.encode_source import encode_function
from shareproxy.protocol.interpreter import encode
from shareproxy.protocol.message import Message
from shareproxy.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    SaslAuthenticateRequest,
    SaslHandshakeResponse,
)
from shareproxy.protocol.plan import plan_for
from tests.protocol.samples import EACH_VERSION, TITLES, Samples


def write(message: Message, version: int) -> bytes:
    """Encode with the generated code alone."""
    return encode_function(plan_for(type(message), version), "test")(message)


@pytest.mark.parametrize("version", [0, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 32_767])
def test_texts_of_every_length(version: int, size: int) -> None:
    """Short ones are packed with their neighbours, long ones are not."""
    message = FindCoordinatorRequest(key="k" * size)
    assert write(message, version) == encode(plan_for(FindCoordinatorRequest, version), message)


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 1000])
@pytest.mark.parametrize("version", [8, 9, 12])
def test_arrays_of_every_length(version: int, count: int) -> None:
    """Counts of one byte and of more."""
    message = MetadataResponse(topics=[MetadataResponseTopic(name=str(number)) for number in range(count)])
    assert write(message, version) == encode(plan_for(MetadataResponse, version), message)


def test_several_texts_in_a_row() -> None:
    """Host, rack and cluster id, each of them null, short or long."""
    for text in ("", "x" * 200, "größe"):
        message = MetadataResponse(
            brokers=[MetadataResponseBroker(1, text, 9092, rack) for rack in (None, text, "r")], cluster_id=text
        )
        assert write(message, 9) == encode(plan_for(MetadataResponse, 9), message)


def test_neighbours_of_fixed_size_are_written_with_one_pack() -> None:
    """Error code, node id, host and port of version 0 are one call where the host is short."""
    encode_function(plan_for(FindCoordinatorResponse, 0), "shown")
    calls = [line for line in linecache.getlines("<shown>") if "pack" in line]
    assert len([line for line in calls if "packs[" in line]) == 1


@pytest.mark.parametrize(("message", "version"), EACH_VERSION, ids=TITLES)
def test_defaults_are_written_in_every_version(message: type[Message], version: int) -> None:
    """A fresh message can be written in each version that allows its nulls."""
    plan = plan_for(message, version)
    fresh = Samples(0, 0).struct(plan)
    assert encode_function(plan, "test")(fresh) == encode(plan, fresh)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (FindCoordinatorRequest(key="k", key_type=2), 0),  # not ignorable
        (FindCoordinatorRequest(key=None), 3),  # type: ignore[arg-type]
        (FindCoordinatorRequest(key="k" * 32_768), 0),
        (FindCoordinatorRequest(key="k" * 32_768), 3),
        (FindCoordinatorRequest(key="\ud800"), 3),
        (FindCoordinatorRequest(key="k", key_type=500), 3),
        (SaslAuthenticateRequest(auth_bytes="text"), 2),  # type: ignore[arg-type]
        (SaslHandshakeResponse(mechanisms="PLAIN"), 0),  # type: ignore[arg-type]
        (SaslHandshakeResponse(mechanisms=[None]), 0),  # type: ignore[list-item]
        (SaslHandshakeResponse(mechanisms=[""] * 1_000_001), 0),
        (MetadataResponse(topics=[MetadataResponseTopic(topic_id=bytes(15))]), 12),
        (MetadataResponse(topics=[None]), 12),  # type: ignore[list-item]
        (ListGroupsRequest(unknown_tags=((0, b""),)), 0),
        (ListGroupsRequest(states_filter=["Stable"]), 0),
    ],
)
def test_wrong_values_raise_something(message: Message, version: int) -> None:
    """What it is does not matter: the interpreter is asked for the words."""
    with pytest.raises((ValueError, TypeError, AttributeError, struct.error)):
        write(message, version)
