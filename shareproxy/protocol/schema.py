"""Read Kafka's JSON message language into frozen classes.

In: the text of one schema file. Out: a `MessageSchema`, or a `SchemaError` that names file, field and attribute.
Must never: guess. What is unknown or contradictory is refused; the few sloppy scalar forms that Kafka's own
reader takes (and some released files hold) are accepted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from shareproxy.protocol.errors import SchemaError
from shareproxy.protocol.json_text import JsonTextError, JsonValue, parse_json_with_comments
from shareproxy.protocol.versions import NONE, VersionRange

INTEGERS: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
PRIMITIVES: Final = frozenset([*INTEGERS, "bool", "float64", "uuid", "string", "bytes", "records"])
NULLABLE: Final = frozenset(["string", "bytes", "records"])
ENTITY_TYPES: Final = {
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
LISTENERS: Final = frozenset(["broker", "controller"])
MESSAGE_TYPES: Final = frozenset(
    ["request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value"]
)
ZERO_UUID: Final = bytes(16)

Default: TypeAlias = bool | int | float | str | bytes | None


class FieldSchema(msgspec.Struct, frozen=True):
    """One field as the schema declares it.

    Args:
        name: Kafka's name, e.g. `PartitionIndex`.
        element: primitive type name, or name of the struct; of the elements if `is_array`.
        is_array: whether the field is a list of `element`.
        fields: fields of the struct, `()` for primitives.
        versions: versions that have the field, already cut to those of its parents.
        default: value outside `versions`; `None` is null; `()`-like empties are `b""`/`""`, and for arrays
            and structs without null default see `default_null`.
        default_null: whether the default is null.
    """

    name: str
    element: str
    is_array: bool
    fields: tuple[FieldSchema, ...]
    versions: VersionRange
    nullable_versions: VersionRange
    tagged_versions: VersionRange
    tag: int | None
    flexible_versions: VersionRange | None
    default: Default
    default_null: bool
    ignorable: bool
    map_key: bool
    entity_type: str | None
    zero_copy: bool
    about: str

    @property
    def is_struct(self) -> bool:
        """Tell whether the element type is a struct."""
        return self.element not in PRIMITIVES


class MessageSchema(msgspec.Struct, frozen=True):
    """One message: its number, its versions and its fields in wire order."""

    name: str
    kind: str
    api_key: int | None
    valid_versions: VersionRange
    deprecated_versions: VersionRange
    flexible_versions: VersionRange
    latest_version_unstable: bool
    listeners: tuple[str, ...]
    fields: tuple[FieldSchema, ...]
    file: str

    def structs(self) -> Iterator[tuple[str, tuple[FieldSchema, ...]]]:
        """Yield each struct's name and fields once, inner ones first, the message itself last."""
        seen: set[str] = set()

        def walk(fields: Sequence[FieldSchema]) -> Iterator[tuple[str, tuple[FieldSchema, ...]]]:
            for field in fields:
                if field.is_struct and field.element not in seen:
                    yield from walk(field.fields)
                    seen.add(field.element)
                    yield field.element, field.fields

        yield from walk(self.fields)
        yield self.name, self.fields


def parse_schema(text: str, file: str) -> MessageSchema:
    """Read one schema file's text.

    Args:
        text: JSON with `//` and `/* */` comments, one object.
        file: name for errors.

    Raises:
        SchemaError: anything unknown, malformed or contradictory.
    """
    return _Reader(file).message(text)


class _Attributes:
    """Typed access to one JSON object; what is not asked for by the end is an unknown attribute."""

    def __init__(self, reader: _Reader, value: JsonValue, path: str) -> None:
        if not isinstance(value, dict):
            raise SchemaError(reader.file, path, "", f"expected an object, found {value!r}")
        # JSON null means that the attribute is absent
        self._values = {key: item for key, item in value.items() if item is not None}
        self.file, self.path = reader.file, path

    def error(self, attribute: str, problem: str) -> SchemaError:
        return SchemaError(self.file, self.path, attribute, problem)

    def __contains__(self, attribute: str) -> bool:
        return attribute in self._values

    def take(self, attribute: str) -> JsonValue:
        return self._values.pop(attribute, None)

    def text(self, attribute: str) -> str | None:
        value = self.take(attribute)
        if value is None or isinstance(value, str):
            return value
        raise self.error(attribute, f"expected a string, found {value!r}")

    def required_text(self, attribute: str) -> str:
        value = self.text(attribute)
        if value is None:
            raise self.error(attribute, "is missing")
        return value

    def integer(self, attribute: str, lowest: int, highest: int) -> int | None:
        value = self.take(attribute)
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(attribute, f"expected an integer, found {value!r}")
        if not lowest <= value <= highest:
            raise self.error(attribute, f"{value} is outside {lowest}..{highest}")
        return value

    def boolean(self, attribute: str) -> bool:
        value = self.take(attribute)
        if isinstance(value, str):  # "true": KIP-1226 and the files of Kafka 4.2 write it so
            if value in ("true", "True", "TRUE"):
                return True
            if value in ("false", "False", "FALSE"):
                return False
        elif value is None or isinstance(value, bool | int):
            return bool(value)
        raise self.error(attribute, f"expected true or false, found {value!r}")

    def versions(self, attribute: str) -> VersionRange | None:
        value = self.take(attribute)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(attribute, f"expected a version range, found {value!r}")
        try:
            return VersionRange.parse(value)
        except ValueError as error:
            raise self.error(attribute, str(error)) from None

    def items(self, attribute: str) -> list[JsonValue]:
        value = self.take(attribute)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def finish(self) -> None:
        for attribute in self._values:
            raise self.error(attribute, "is not an attribute of Kafka's schema language")


class _CommonStruct(msgspec.Struct, frozen=True):
    versions: VersionRange
    fields: list[JsonValue]


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.flexible = NONE
        self.common: dict[str, _CommonStruct] = {}
        self.inline: dict[str, str] = {}
        self.open: list[str] = []

    def message(self, text: str) -> MessageSchema:
        try:
            value = parse_json_with_comments(text)
        except JsonTextError as error:
            raise SchemaError(self.file, "", "", str(error)) from None
        top = _Attributes(self, value, "")
        name = _name(top, top.required_text("name"))
        kind = top.required_text("type")
        if kind not in MESSAGE_TYPES:
            raise top.error("type", f"{kind!r} is not one of {', '.join(sorted(MESSAGE_TYPES))}")
        valid = top.versions("validVersions")
        if valid is None:
            raise top.error("validVersions", "is missing")
        if valid.open_ended:
            raise top.error("validVersions", "may not be open; name the newest version")
        flexible = top.versions("flexibleVersions")
        if flexible is None and valid:
            raise top.error("flexibleVersions", 'is missing; write "none" if no version is flexible')
        self.flexible = flexible or NONE
        if self.flexible and not self.flexible.open_ended:
            raise top.error("flexibleVersions", 'is "none" or open-ended, such as "3+"')
        deprecated = top.versions("deprecatedVersions") or NONE
        if not deprecated <= valid and not deprecated.open_ended:
            raise top.error("deprecatedVersions", f"{deprecated} is not within {valid}")
        api_key = top.integer("apiKey", 0, 32767)
        unstable_given = "latestVersionUnstable" in top
        unstable = top.boolean("latestVersionUnstable")
        listeners = self._listeners(top)
        self._check_kind(top, name, kind, api_key, valid, unstable_given, listeners)
        self._read_common(top)
        fields = self._fields(
            top.items("fields"), VersionRange(0, valid.highest) if valid else NONE, "", top_level=True
        )
        if not valid and fields:
            raise top.error("fields", "a message without valid versions has no fields")
        top.finish()
        return MessageSchema(
            name, kind, api_key, valid, deprecated, self.flexible, unstable, listeners, fields, self.file
        )

    def _listeners(self, top: _Attributes) -> tuple[str, ...]:
        listeners = top.items("listeners")
        for listener in listeners:
            if listener not in LISTENERS:
                raise top.error("listeners", f"{listener!r} is not one of {', '.join(sorted(LISTENERS))}")
        return tuple(str(listener) for listener in listeners)

    def _check_kind(
        self,
        top: _Attributes,
        name: str,
        kind: str,
        api_key: int | None,
        valid: VersionRange,
        unstable_given: bool,
        listeners: tuple[str, ...],
    ) -> None:
        if kind in ("request", "response"):
            if not name.endswith(kind.capitalize()):
                raise top.error("name", f"the name of a {kind} ends in {kind.capitalize()}, not as in {name!r}")
            if api_key is None:
                raise top.error("apiKey", f"is missing; a {kind} has one")
        if kind == "coordinator-value" and api_key is None:
            raise top.error("apiKey", "is missing; a coordinator-value has one")
        if kind == "coordinator-key" and (valid != VersionRange(0, 0) or self.flexible):
            raise top.error("validVersions", "a coordinator-key has version 0 only and is not flexible")
        if kind != "request" and listeners:
            raise top.error("listeners", f"only requests have listeners, not a {kind}")
        if kind != "request" and unstable_given:
            raise top.error("latestVersionUnstable", f"only requests have it, not a {kind}")

    def _read_common(self, top: _Attributes) -> None:
        for value in top.items("commonStructs"):
            common = _Attributes(self, value, "commonStructs")
            name = _name(common, common.required_text("name"))
            if not name[0].isupper():
                raise common.error("name", f"struct {name!r} starts with a small letter")
            if name in self.common:
                raise common.error("name", f"struct {name!r} is defined twice")
            versions = common.versions("versions")
            if versions is None:
                raise common.error("versions", f"is missing in struct {name!r}")
            self.common[name] = _CommonStruct(versions, common.items("fields"))
            common.text("about")
            common.finish()

    def _fields(
        self, values: list[JsonValue], parent: VersionRange, path: str, *, top_level: bool = False
    ) -> tuple[FieldSchema, ...]:
        fields: list[FieldSchema] = []
        tags: list[tuple[int, FieldSchema]] = []
        for value in values:
            field = self._field(value, parent, path, top_level)
            if any(field.name == other.name for other in fields):
                raise SchemaError(self.file, _join(path, field.name), "name", "is used twice in the same struct")
            fields.append(field)
            if field.tag is not None:
                tags.append((field.tag, field))
        for expected, (tag, field) in enumerate(sorted(tags, key=lambda pair: pair[0])):
            if tag != expected:
                raise SchemaError(
                    self.file,
                    _join(path, field.name),
                    "tag",
                    f"tags of a struct count 0, 1, 2 …; {tag} stands where {expected} should",
                )
        return tuple(fields)

    def _field(self, value: JsonValue, parent: VersionRange, path: str, top_level: bool) -> FieldSchema:
        attributes = _Attributes(self, value, path)
        name = _name(attributes, attributes.required_text("name"))
        attributes.path = path = _join(path, name)
        element, is_array = self._type(attributes)
        is_struct = element not in PRIMITIVES
        tagged = attributes.versions("taggedVersions") or NONE
        declared = attributes.versions("versions")
        if declared is None:
            if not tagged:
                raise attributes.error("versions", "is missing")
            declared = tagged
        nullable = attributes.versions("nullableVersions") or NONE
        tag = self._tag(attributes, tagged, declared)
        flexible = attributes.versions("flexibleVersions")
        if flexible is not None and (element not in ("string", "bytes") or is_array):
            raise attributes.error("flexibleVersions", "only string and bytes fields override it")
        if nullable:
            self._check_nullable(attributes, nullable, element, is_array or is_struct, tagged)
        versions = declared & parent
        fields = self._struct_fields(attributes, element, versions, path) if is_struct else ()
        if not is_struct and "fields" in attributes:
            raise attributes.error("fields", f"{element} is not a struct")
        default, default_null = self._default(attributes, element, is_array, is_struct, nullable, declared)
        entity = attributes.text("entityType")
        if entity is not None and ENTITY_TYPES.get(entity) != element:
            wanted = ENTITY_TYPES.get(entity)
            problem = f"{entity!r} belongs to {wanted}, not to {element}" if wanted else f"{entity!r} is not known"
            raise attributes.error("entityType", problem)
        map_key = attributes.boolean("mapKey")
        if map_key and (top_level or tag is not None):
            raise attributes.error("mapKey", "neither a top-level nor a tagged field can be a key")
        zero_copy = attributes.boolean("zeroCopy")
        if zero_copy and (element != "bytes" or is_array):
            raise attributes.error("zeroCopy", "only bytes fields have it")
        ignorable = attributes.boolean("ignorable")
        about = attributes.text("about") or ""
        attributes.finish()
        return FieldSchema(
            name,
            element,
            is_array,
            fields,
            versions,
            nullable,
            tagged,
            tag,
            flexible,
            default,
            default_null,
            ignorable,
            map_key,
            entity,
            zero_copy,
            about,
        )

    def _type(self, attributes: _Attributes) -> tuple[str, bool]:
        text = attributes.required_text("type")
        is_array = text.startswith("[]")
        element = text[2:] if is_array else text
        if element.startswith("[]"):
            raise attributes.error("type", "arrays of arrays do not exist")
        if element not in PRIMITIVES and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", element):
            raise attributes.error("type", f"{text!r} is neither a primitive type nor the name of a struct")
        if is_array and element == "records":
            raise attributes.error("type", "records do not come in arrays")
        return element, is_array

    def _tag(self, attributes: _Attributes, tagged: VersionRange, declared: VersionRange) -> int | None:
        tag = attributes.integer("tag", 0, 2**31 - 1)
        if tag is None:
            if tagged:
                raise attributes.error("tag", "is missing although taggedVersions is given")
            return None
        if not tagged:
            raise attributes.error("taggedVersions", "is missing although tag is given")
        if not tagged.open_ended:
            raise attributes.error("taggedVersions", f"must be open-ended, not {tagged}")
        if not tagged <= declared:
            raise attributes.error("taggedVersions", f"{tagged} is not within versions {declared}")
        if not tagged <= self.flexible:
            raise attributes.error("taggedVersions", f"{tagged} is not within flexibleVersions {self.flexible}")
        return tag

    def _check_nullable(
        self, attributes: _Attributes, nullable: VersionRange, element: str, composite: bool, tagged: VersionRange
    ) -> None:
        if element not in NULLABLE and not composite:
            raise attributes.error("nullableVersions", f"a {element} is never null")
        if tagged and not tagged <= nullable and tagged & nullable:
            raise attributes.error("nullableVersions", f"covers all tagged versions {tagged} or none, not {nullable}")

    def _struct_fields(
        self, attributes: _Attributes, element: str, versions: VersionRange, path: str
    ) -> tuple[FieldSchema, ...]:
        if element in self.open:
            raise attributes.error("type", f"struct {element!r} contains itself")
        if "fields" in attributes:
            if element in self.common or element in self.inline:
                raise attributes.error("fields", f"struct {element!r} is defined twice")
            self.inline[element] = path
            values = attributes.items("fields")
        elif element in self.common:
            common = self.common[element]
            if not versions <= common.versions:
                versions = versions & common.versions
            values = common.fields
        else:
            raise attributes.error("type", f"struct {element!r} has no fields here and is not among commonStructs")
        self.open.append(element)
        try:
            return self._fields(values, versions, path)
        finally:
            self.open.pop()

    def _default(
        self,
        attributes: _Attributes,
        element: str,
        is_array: bool,
        is_struct: bool,
        nullable: VersionRange,
        declared: VersionRange,
    ) -> tuple[Default, bool]:
        value = attributes.take("default")
        if value == "null" and (is_array or is_struct or element in NULLABLE):
            if not declared <= nullable:
                raise attributes.error("default", f"null needs nullableVersions to cover {declared}, not {nullable}")
            return None, True
        if is_array or is_struct or element in ("bytes", "records"):
            if value is not None and value != "":
                raise attributes.error("default", f"{value!r}: only null or nothing is possible here")
            # Kafka starts `records` at null even where the schema names no default
            return (b"" if element == "bytes" and not is_array else None), element == "records"
        if isinstance(value, dict | list):
            raise attributes.error("default", f"{value!r} is not a scalar")
        try:
            return _DEFAULT_READERS.get(element, _read_integer)(value, element), False
        except ValueError as error:
            raise attributes.error("default", str(error)) from None


def _read_integer(value: JsonValue, element: str) -> int:
    if value is None or value == "":
        return 0
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not an {element}")
    if isinstance(value, str):
        match = re.fullmatch(r"(-?)(?:0x([0-9a-fA-F]+)|(\d+))", value)
        if match is None:
            raise ValueError(f"{value!r} is neither a decimal nor a 0x number")
        number = int(match[2], 16) if match[2] else int(match[3])
        value = -number if match[1] else number
    lowest, highest = INTEGERS[element]
    if not lowest <= value <= highest:
        raise ValueError(f"{value} is outside {lowest}..{highest} of {element}")
    return value


def _read_bool(value: JsonValue, element: str) -> bool:
    if value is None or value == "" or value is False or value == "false":
        return False
    if value is True or value == "true":
        return True
    raise ValueError(f"{value!r} is neither true nor false")


def _read_float(value: JsonValue, element: str) -> float:
    if value is None or value == "":
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _read_string(value: JsonValue, element: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _read_uuid(value: JsonValue, element: str) -> bytes:
    if value is None or value == "":
        return ZERO_UUID
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{22}(==)?", value):
        try:
            return base64.urlsafe_b64decode(value[:22] + "==")
        except binascii.Error:  # pragma: no cover - the pattern leaves nothing that base64 refuses
            pass
    raise ValueError(f"{value!r} is not a uuid in 22 characters of URL-safe base64")


_DEFAULT_READERS: Final[dict[str, Callable[[JsonValue, str], Default]]] = {
    "bool": _read_bool,
    "float64": _read_float,
    "string": _read_string,
    "uuid": _read_uuid,
}


def _name(attributes: _Attributes, name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name):
        raise attributes.error("name", f"{name!r} is not made of letters and digits")
    return name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
