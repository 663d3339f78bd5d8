"""A message that no broker knows, with every feature of the schema language, and Python classes for it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from shareproxy.protocol.message import ProtocolStruct
from shareproxy.protocol.naming import snake_case
from shareproxy.protocol.plan import StructPlan, plan_schema
from shareproxy.protocol.schema import MessageSchema, parse_schema

TEXT: Final = """
// comments stand anywhere
{
  "apiKey": 999, "type": "response", "name": "EverythingResponse", /* even here */
  "validVersions": "0-5", "flexibleVersions": "2+",
  "commonStructs": [
    { "name": "Place", "versions": "0+", "fields": [
      { "name": "Row", "type": "uint16", "versions": "0+", "mapKey": true },
      { "name": "Column", "type": "uint32", "versions": "1+", "default": "0x10", "ignorable": true }
    ]}
  ],
  "fields": [
    { "name": "Flag", "type": "bool", "versions": "0+", "default": "true" },
    { "name": "Tiny", "type": "int8", "versions": "0+", "default": -1 },
    { "name": "Empties", "type": "[]Empty", "versions": "0+", "fields": [
      { "name": "Later", "type": "int32", "versions": "5+", "ignorable": true }
    ]},
    { "name": "Port", "type": "uint16", "versions": "0+" },
    { "name": "Wide", "type": "uint32", "versions": "0+", "default": "0xffffffff" },
    { "name": "Ratio", "type": "float64", "versions": "0+", "default": "0.5" },
    { "name": "Id", "type": "uuid", "versions": "1+", "ignorable": "true" },
    { "name": "Gone", "type": "int32", "versions": "0-1", "default": "7" },
    { "name": "Come", "type": "int64", "versions": "3+", "default": "-9223372036854775808" },
    { "name": "Plain", "type": "string", "versions": "0+", "flexibleVersions": "none", "nullableVersions": "0+" },
    { "name": "Label", "type": "string", "versions": "0+", "nullableVersions": "1+" },
    { "name": "Raw", "type": "bytes", "versions": "0+", "zeroCopy": true },
    { "name": "Blob", "type": "bytes", "versions": "0+", "nullableVersions": "0+", "default": "null" },
    { "name": "Batch", "type": "records", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Where", "type": "Place", "versions": "0+" },
    { "name": "Perhaps", "type": "Place", "versions": "1+",
      "nullableVersions": "1+", "default": "null", "ignorable": true },
    { "name": "Numbers", "type": "[]int16", "versions": "0+", "nullableVersions": "3+" },
    { "name": "Floats", "type": "[]float64", "versions": "0+" },
    { "name": "Switches", "type": "[]bool", "versions": "0+" },
    { "name": "Ids", "type": "[]uuid", "versions": "0+" },
    { "name": "Words", "type": "[]string", "versions": "0+", "nullableVersions": "1+" },
    { "name": "Blobs", "type": "[]bytes", "versions": "0+" },
    { "name": "Places", "type": "[]Place", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Shards", "type": "[]Shard", "versions": "0+", "fields": [
      { "name": "Key", "type": "int32", "versions": "0+", "mapKey": true, "entityType": "brokerId" },
      { "name": "Open", "type": "bool", "versions": "0+" },
      { "name": "Note", "type": "string", "versions": "0+", "nullableVersions": "0+", "default": "null" },
      { "name": "Extra", "type": "bytes", "versions": "4+",
        "nullableVersions": "4+", "default": "null", "ignorable": true },
      { "name": "Replicas", "type": "[]int64", "versions": "0+" },
      { "name": "Bits", "type": "[]bool", "versions": "1+", "ignorable": true },
      { "name": "Mark", "type": "uuid", "versions": "3+" },
      { "name": "Hint", "type": "int32", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "-1" },
      { "name": "Score", "type": "float64", "versions": "0+" }
    ]},
    { "name": "First", "type": "string", "versions": "1+", "taggedVersions": "2+", "tag": 0, "ignorable": true },
    { "name": "Second", "type": "[]int32", "taggedVersions": "3+", "tag": 1 },
    { "name": "Third", "type": "[]Place", "taggedVersions": "2+", "tag": 2,
      "nullableVersions": "2+", "default": "null" },
    { "name": "Fourth", "type": "Place", "taggedVersions": "2+", "tag": 3 },
    { "name": "Fifth", "type": "Place", "taggedVersions": "2+", "tag": 4, "nullableVersions": "2+" },
    { "name": "Sixth", "type": "uuid", "taggedVersions": "4+", "tag": 5, "default": "AAAAAAAAAAAAAAAAAAAAAQ" },
    { "name": "Seventh", "type": "bytes", "taggedVersions": "2+", "tag": 6, "nullableVersions": "2+" },
    { "name": "Eighth", "type": "bool", "taggedVersions": "2+", "tag": 7, "default": true }
  ]
}
"""
SCHEMA: Final[MessageSchema] = parse_schema(TEXT, "EverythingResponse.json")
VERSIONS: Final = SCHEMA.valid_versions.span()


def make_classes(schema: MessageSchema) -> dict[str, type[ProtocolStruct]]:
    """Return a class for each struct of a schema, with the schema's defaults, as the generator would write it."""
    classes: dict[str, type[ProtocolStruct]] = {}
    for struct, fields in schema.structs():
        parts: list[tuple[str, Any, Any]] = []
        for item in fields:
            default: Any = item.default
            if item.default_null:
                default = None
            elif item.is_array:
                default = msgspec.field(default_factory=list)
            elif item.is_struct:
                default = msgspec.field(default_factory=classes[item.element])
            parts.append((snake_case(item.name), Any, default))
        parts.append(("unknown_tags", Any, ()))
        made: type[Any] = msgspec.defstruct(struct, parts, bases=(ProtocolStruct,), gc=False)
        classes[struct] = made
    return classes


CLASSES: Final = make_classes(SCHEMA)


def plan(version: int) -> StructPlan:
    """Return the plan of the message in a version."""
    return plan_schema(SCHEMA, version, CLASSES)


def everything(**fields: object) -> Any:
    """Return the message with some fields set, the rest at their defaults."""
    return CLASSES["EverythingResponse"](**fields)
