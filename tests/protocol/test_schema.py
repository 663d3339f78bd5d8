"""Reading Kafka's schema language: what its own reader takes, and what is refused with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shareproxy.protocol.errors import SchemaError
from shareproxy.protocol.schema import FieldSchema, MessageSchema, parse_schema
from shareproxy.protocol.versions import NONE, VersionRange
from tests.protocol.synthetic import SCHEMA

Json = dict[str, Any]


def message(*fields: Json, **changes: Any) -> Json:
    """Return a request schema; an attribute set to `...` is left out."""
    values = {
        "name": "TryRequest",
        "type": "request",
        "apiKey": 1,
        "validVersions": "0-4",
        "flexibleVersions": "2+",
        "fields": list(fields),
        **changes,
    }
    return {key: value for key, value in values.items() if value is not ...}


def field(kind: str = "int32", **changes: Any) -> Json:
    """Return a field schema; an attribute set to `...` is left out."""
    values = {"name": "Item", "type": kind, "versions": "0+", **changes}
    return {key: value for key, value in values.items() if value is not ...}


def read(schema: Json) -> MessageSchema:
    """Read a schema through its text."""
    return parse_schema(json.dumps(schema), "Try.json")


def read_field(kind: str = "int32", **changes: Any) -> FieldSchema:
    """Read a schema with one field."""
    return read(message(field(kind, **changes))).fields[0]


def refusal(schema: Json) -> SchemaError:
    """Read a schema that is wrong."""
    with pytest.raises(SchemaError) as caught:
        read(schema)
    return caught.value


def sub(**changes: Any) -> Json:
    """Return a field whose type is a struct with one field."""
    return field("[]Part", fields=[field(name="Inner")], **changes)


# -- what is accepted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, "true", "True", "TRUE", 1])
def test_ignorable_in_any_form_of_true(value: object) -> None:
    """Kafka 4.2's files and the text of KIP-1226 write it as a string."""
    assert read_field(ignorable=value).ignorable is True


@pytest.mark.parametrize("value", [False, "false", "False", "FALSE", 0, None, ...])
def test_ignorable_in_any_form_of_false(value: object) -> None:
    """Absent and null mean false."""
    assert read_field(ignorable=value).ignorable is False


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("int8", -1, -1),
        ("int16", "16", 16),
        ("int32", "-2147483648", -(2**31)),
        ("int32", "0x7fffffff", 2**31 - 1),
        ("int64", "-0x1", -1),
        ("uint16", "0xFFFF", 65535),
        ("uint32", 2**32 - 1, 2**32 - 1),
        ("int32", "", 0),
        ("int32", ..., 0),
        ("bool", False, False),
        ("bool", "true", True),
        ("bool", True, True),
        ("bool", "", False),
        ("bool", ..., False),
        ("float64", "1.5", 1.5),
        ("float64", 2, 2.0),
        ("float64", ..., 0.0),
        ("string", "word", "word"),
        ("string", False, "false"),
        ("string", 7, "7"),
        ("string", "", ""),
        ("string", ..., ""),
        ("uuid", ..., bytes(16)),
        ("uuid", "", bytes(16)),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAQ", bytes(15) + b"\1"),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAQ==", bytes(15) + b"\1"),
        ("bytes", ..., b""),
    ],
)
def test_defaults_in_every_form(kind: str, written: object, value: object) -> None:
    """Numbers may be strings, in decimal or hexadecimal; nothing means zero, false, empty."""
    found = read_field(kind, default=written)
    assert (found.default, type(found.default), found.default_null) == (value, type(value), False)


@pytest.mark.parametrize("kind", ["string", "bytes", "records", "[]int32"])
def test_null_default_of_a_nullable_field(kind: str) -> None:
    """The word null stands for null where every version allows it."""
    assert read_field(kind, nullableVersions="0+", default="null").default_null


def test_null_default_of_a_struct() -> None:
    """A struct can be absent by default."""
    found = read(message(field("Part", fields=[field(name="Inner")], nullableVersions="0+", default="null")))
    assert found.fields[0].default_null


def test_string_named_null_is_not_null_for_numbers() -> None:
    """Only fields that can be null have such a default."""
    assert refusal(message(field("int32", default="null"))).attribute == "default"


def test_records_default_to_null() -> None:
    """Kafka starts this type at null even where nothing is said."""
    assert read_field("records", nullableVersions="0+").default_null


@pytest.mark.parametrize("tag", [0, "0"])
def test_tag_as_number_or_string(tag: object) -> None:
    """Kafka's own reader takes both."""
    assert read_field(tag=tag, taggedVersions="2+").tag == 0


def test_single_value_stands_for_a_list() -> None:
    """Kafka's generator reads lists so."""
    found = read(message(fields=field(), listeners="broker"))
    assert [item.name for item in found.fields] == ["Item"]
    assert found.listeners == ("broker",)


def test_null_attribute_is_absent() -> None:
    """JSON null says nothing about a field."""
    assert read_field(nullableVersions=None, default=None, about=None) == read_field()


def test_versions_as_a_bare_number() -> None:
    """A range of one version needs no quotes."""
    assert read_field(versions=3).versions == VersionRange(3, 3)


def test_sub_fields_exist_only_where_their_parents_do() -> None:
    """A version range is cut to those of all parents, and to the message's."""
    outer = field("Part", versions="1-3", fields=[field(name="Inner", versions="2+")])
    found = read(message(outer)).fields[0]
    assert found.versions == VersionRange(1, 3)
    assert found.fields[0].versions == VersionRange(2, 3)


def test_versions_follow_tagged_versions() -> None:
    """A tagged field without `versions` exists where it is tagged."""
    assert read_field(versions=..., tag=0, taggedVersions="3+").versions == VersionRange(3, 4)


def test_common_struct_is_used_by_name() -> None:
    """Two fields can share a struct."""
    common = [{"name": "Part", "versions": "1+", "fields": [field(name="Inner")], "about": "shared by both"}]
    found = read(message(field("Part"), field("[]Part", name="Other"), commonStructs=common))
    assert [item.fields[0].versions for item in found.fields] == [VersionRange(1, 4)] * 2
    assert [name for name, _ in found.structs()] == ["Part", "TryRequest"]


def test_removed_api_has_a_key_and_nothing_else() -> None:
    """No valid versions, no fields, no flexible versions."""
    found = read(message(validVersions="none", flexibleVersions=...))
    assert (found.valid_versions, found.flexible_versions, found.fields) == (NONE, NONE, ())


@pytest.mark.parametrize("kind", ["header", "metadata", "data"])
def test_messages_without_a_key(kind: str) -> None:
    """Headers and stored data have no API key."""
    assert read(message(field(), type=kind, apiKey=..., name="TryData")).api_key is None


def test_coordinator_records() -> None:
    """Keys have version 0 only, values have a record type."""
    key = message(field(), type="coordinator-key", name="TryKey", validVersions="0", flexibleVersions="none")
    value = message(field(), type="coordinator-value", name="TryValue")
    assert (read(key).kind, read(value).kind) == ("coordinator-key", "coordinator-value")


def test_message_attributes_are_kept() -> None:
    """Listeners, deprecation and an unstable newest version are read."""
    found = read(message(listeners=["broker", "controller"], deprecatedVersions="0-1", latestVersionUnstable=True))
    assert found.listeners == ("broker", "controller")
    assert found.deprecated_versions == VersionRange(0, 1)
    assert found.latest_version_unstable


@pytest.mark.parametrize(
    ("entity", "kind"),
    [
        ("transactionalId", "string"),
        ("producerId", "int64"),
        ("groupId", "string"),
        ("topicName", "string"),
        ("brokerId", "int32"),
    ],
)
def test_entity_types(entity: str, kind: str) -> None:
    """Each entity belongs to one type, alone or in an array."""
    assert read_field(kind, entityType=entity).entity_type == entity
    assert read_field(f"[]{kind}", entityType=entity).entity_type == entity


def test_every_feature_in_one_schema() -> None:
    """Map keys, zero copy and field-level flexible versions are read as well."""
    fields = {item.name: item for item in SCHEMA.fields}
    assert fields["Where"].fields[0].map_key
    assert fields["Raw"].zero_copy
    assert fields["Plain"].flexible_versions == NONE
    assert fields["Id"].ignorable
    assert fields["Sixth"].default == bytes(15) + b"\1"


# -- what is refused -------------------------------------------------------------------------------------------


def test_kip_1226_text_is_refused_with_its_place() -> None:
    """The KIP's line for Lag has a comma where the colon belongs, which is not JSON."""
    lag = '{ "name", "Lag", "type": "int64", "versions": "1+", "ignorable": "true", "default": -1 }'
    text = json.dumps(message()).replace('"fields": []', f'"fields": [\n{lag}\n]')
    with pytest.raises(SchemaError, match=r"^Try\.json: not JSON at line 2, column 9.*\"name\", \"Lag\""):
        parse_schema(text, "Try.json")


def test_kip_1226_text_with_a_colon_is_read() -> None:
    """The rest of that line is fine."""
    lag = {"name": "Lag", "type": "int64", "versions": "1+", "ignorable": "true", "default": -1}
    found = read(message(lag)).fields[0]
    assert (found.ignorable, found.default) == (True, -1)


@pytest.mark.parametrize("text", ["[]", "1", '"text"'])
def test_schema_is_an_object(text: str) -> None:
    """Anything else is refused as a whole."""
    with pytest.raises(SchemaError, match=r"^Try\.json: expected an object"):
        parse_schema(text, "Try.json")


@pytest.mark.parametrize(
    ("schema", "attribute"),
    [
        (message(name=...), "name"),
        (message(name="Try Request"), "name"),
        (message(name="TryAnswer"), "name"),
        (message(type="response"), "name"),
        (message(type=...), "type"),
        (message(type="telegram"), "type"),
        (message(type=3), "type"),
        (message(apiKey=...), "apiKey"),
        (message(apiKey=-1), "apiKey"),
        (message(apiKey=40000), "apiKey"),
        (message(apiKey=True), "apiKey"),
        (message(apiKey="one"), "apiKey"),
        (message(validVersions=...), "validVersions"),
        (message(validVersions="0+"), "validVersions"),
        (message(validVersions="3-1"), "validVersions"),
        (message(validVersions=[0]), "validVersions"),
        (message(flexibleVersions=...), "flexibleVersions"),
        (message(flexibleVersions="1-2"), "flexibleVersions"),
        (message(deprecatedVersions="3-7"), "deprecatedVersions"),
        (message(listeners=["zkBroker"]), "listeners"),
        (message(type="response", name="TryResponse", listeners=["broker"]), "listeners"),
        (message(type="response", name="TryResponse", latestVersionUnstable=False), "latestVersionUnstable"),
        (message(latestVersionUnstable="yes"), "latestVersionUnstable"),
        (message(field(), validVersions="none"), "fields"),
        (message(type="coordinator-key", name="TryKey", flexibleVersions="none"), "validVersions"),
        (message(type="coordinator-key", name="TryKey", validVersions="0", flexibleVersions="0+"), "validVersions"),
        (message(type="coordinator-value", name="TryValue", apiKey=...), "apiKey"),
        (message(versions="0+"), "versions"),
        (message(Name="x"), "Name"),
    ],
)
def test_message_level_mistakes(schema: Json, attribute: str) -> None:
    """The error names the file and the attribute."""
    error = refusal(schema)
    assert (error.file, error.field, error.attribute) == ("Try.json", "", attribute)


@pytest.mark.parametrize(
    ("wrong", "attribute"),
    [
        (field(versions=...), "versions"),
        (field(versions="1-"), "versions"),
        (field(versions=True), "versions"),
        (field(type=...), "type"),
        (field("int"), "type"),
        (field("part"), "type"),
        (field("[][]int32"), "type"),
        (field("[]records"), "type"),
        (field("Part"), "type"),
        (field("int32", fields=[field()]), "fields"),
        (field(ignorable="yes"), "ignorable"),
        (field(ignorable="tRUE"), "ignorable"),
        (field(ignorable=[]), "ignorable"),
        (field(nullableVersions="0+"), "nullableVersions"),
        (field("uuid", nullableVersions="0+"), "nullableVersions"),
        (field("string", nullableVersions="3-4", tag=0, taggedVersions="2+"), "nullableVersions"),
        (field("string", nullableVersions="1+", default="null"), "default"),
        (field("[]int32", default="null"), "default"),
        (field("[]int32", default="1"), "default"),
        (field("bytes", default="00"), "default"),
        (field("int8", default=128), "default"),
        (field("uint16", default=-1), "default"),
        (field("uint32", default=2**32), "default"),
        (field("int32", default="1e3"), "default"),
        (field("int32", default="12 "), "default"),
        (field("int32", default=1.5), "default"),
        (field("int32", default=True), "default"),
        (field("int32", default=[1]), "default"),
        (field("bool", default="yes"), "default"),
        (field("bool", default=1), "default"),
        (field("float64", default="much"), "default"),
        (field("float64", default=True), "default"),
        (field("uuid", default="short"), "default"),
        (field("uuid", default=7), "default"),
        (field(tag=0), "taggedVersions"),
        (field(taggedVersions="2+"), "tag"),
        (field(tag=0, taggedVersions="2-3"), "taggedVersions"),
        (field(tag=0, taggedVersions="1+"), "taggedVersions"),
        (field(versions="3+", tag=0, taggedVersions="2+"), "taggedVersions"),
        (field(tag=1, taggedVersions="2+"), "tag"),
        (field(tag=-1, taggedVersions="2+"), "tag"),
        (field(tag="a", taggedVersions="2+"), "tag"),
        (field(flexibleVersions="none"), "flexibleVersions"),
        (field("[]string", flexibleVersions="none"), "flexibleVersions"),
        (field(mapKey=True), "mapKey"),
        (field(entityType="rackId"), "entityType"),
        (field("int64", entityType="brokerId"), "entityType"),
        (field("string", zeroCopy=True), "zeroCopy"),
        (field("[]bytes", zeroCopy=True), "zeroCopy"),
        (field(about=["long"]), "about"),
        (field(nullable=True), "nullable"),
        (field("Part", fields=[field(name="In")], entityType="groupId"), "entityType"),
    ],
)
def test_field_level_mistakes(wrong: Json, attribute: str) -> None:
    """The error names the file, the field and the attribute."""
    error = refusal(message(wrong))
    assert (error.file, error.field, error.attribute) == ("Try.json", "Item", attribute)


@pytest.mark.parametrize("name", ["", "It em", "Größe", "1st"])
def test_field_names_are_letters_and_digits(name: str) -> None:
    """A name that no program could use is refused."""
    assert refusal(message(field(name=name))).attribute == "name"


def test_mistake_inside_a_struct_has_a_dotted_path() -> None:
    """The path leads from the message down to the field."""
    outer = field("[]Part", name="Outer", fields=[field(name="Inner", mapKey="maybe")])
    error = refusal(message(outer))
    assert (error.field, error.attribute) == ("Outer.Inner", "mapKey")
    assert str(error).startswith("Try.json, field Outer.Inner, attribute 'mapKey': ")


def test_tagged_field_cannot_be_a_key() -> None:
    """Kafka's collections look elements up by ordinary fields."""
    inner = field(name="Inner", mapKey=True, tag=0, taggedVersions="2+")
    assert refusal(message(field("[]Part", fields=[inner]))).attribute == "mapKey"


def test_names_are_unique_in_their_struct() -> None:
    """Two fields of one struct cannot share a name; fields of different structs can."""
    assert refusal(message(field(), field())).attribute == "name"
    assert read(message(field("Part", fields=[field()]))).fields[0].fields[0].name == "Item"


def test_struct_is_defined_once() -> None:
    """The second definition is refused, whether the first is inline or common."""
    again = field("Part", name="Other", fields=[field(name="Inner")])
    assert refusal(message(sub(), again)).attribute == "fields"
    common = [{"name": "Part", "versions": "0+", "fields": []}]
    assert refusal(message(sub(), commonStructs=common)).attribute == "fields"
    assert refusal(message(commonStructs=common * 2)).attribute == "name"


def test_struct_that_contains_itself_is_refused() -> None:
    """Such a message would never end."""
    common = [{"name": "Part", "versions": "0+", "fields": [field("Part")]}]
    assert "contains itself" in refusal(message(field("Part"), commonStructs=common)).problem


@pytest.mark.parametrize(
    ("common", "attribute"),
    [
        ({"versions": "0+", "fields": []}, "name"),
        ({"name": "part", "versions": "0+", "fields": []}, "name"),
        ({"name": "Part", "fields": []}, "versions"),
        ({"name": "Part", "versions": "0+", "fields": [], "mapKey": True}, "mapKey"),
    ],
)
def test_common_struct_mistakes(common: Json, attribute: str) -> None:
    """The error says that it is about the shared structs."""
    error = refusal(message(commonStructs=[common]))
    assert (error.field, error.attribute) == ("commonStructs", attribute)


def test_tags_count_from_zero_without_gaps() -> None:
    """Neither a gap nor a tag used twice is possible."""
    first = field(name="A", tag=0, taggedVersions="2+")
    assert refusal(message(first, field(name="B", tag=2, taggedVersions="2+"))).field == "B"
    assert refusal(message(first, field(name="B", tag=0, taggedVersions="2+"))).attribute == "tag"
