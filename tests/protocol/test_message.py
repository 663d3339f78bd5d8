"""Base classes of the messages, and the classes generated on them."""

import gc

import pytest

from shareproxy.protocol.message import Message, Request, Response
from shareproxy.protocol.messages import MESSAGES, DescribeShareGroupOffsetsRequest, MetadataResponse
from shareproxy.protocol.schema_files import load_schema, schema_names


def test_every_schema_has_a_class_and_every_class_a_schema() -> None:
    """Nothing is missing in the list of messages."""
    assert sorted(message.schema_name for message in MESSAGES) == schema_names()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_class_variables_repeat_the_schema(message: type[Message]) -> None:
    """Key, versions and flexible versions are known without reading the schema."""
    schema = load_schema(message.schema_name)
    assert getattr(message, "api_key", None) == schema.api_key
    assert range(message.min_version, message.max_version + 1) == schema.valid_versions.span()
    flexible = schema.flexible_versions
    assert message.first_flexible_version == (flexible.lowest if flexible else 32767)


def test_request_names_its_response() -> None:
    """Both have the same key."""
    requests = [message for message in MESSAGES if issubclass(message, Request)]
    assert len(requests) == 29
    for request in requests:
        assert issubclass(request.response_class, Response)
        assert request.response_class.api_key == request.api_key


def test_message_starts_at_its_defaults() -> None:
    """Lists are fresh for each message."""
    one, other = MetadataResponse(), MetadataResponse()
    assert (one.controller_id, one.cluster_id, one.topics) == (-1, None, [])
    assert one.topics is not other.topics


def test_collector_does_not_look_at_messages() -> None:
    """Large answers cost nothing in each collection."""
    assert not gc.is_tracked(DescribeShareGroupOffsetsRequest())
    assert all(message.__struct_config__.gc is False for message in MESSAGES)


def test_misspelt_fields_are_errors() -> None:
    """A message takes the fields of its schema only."""
    with pytest.raises(TypeError):
        MetadataResponse(topic=[])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        MetadataResponse().topic = []  # type: ignore[attr-defined]
