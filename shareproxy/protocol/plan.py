"""Lower (message, version) to a short list of steps that both back ends follow.

In: a schema and a version. Out: a `StructPlan`; everything that depends on the version is decided in it.
Must never: touch bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from shareproxy.protocol import messages
from shareproxy.protocol.message import Message, ProtocolStruct
from shareproxy.protocol.naming import class_name, snake_case
from shareproxy.protocol.schema import FieldSchema, MessageSchema
from shareproxy.protocol.schema_files import load_schema
from shareproxy.protocol.versions import VersionRange

# Kafka 4.4's own readers stop here; what they refuse, nobody sends
MAX_ARRAY_COUNT: Final = 1_000_000
MAX_TAG_COUNT: Final = 10_000
MAX_STRING_BYTES: Final = 32_767  # also in flexible versions: Java refuses longer ones both ways

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""`struct` codes of the types with a fixed size, the same in flexible versions."""


class Step(msgspec.Struct, frozen=True):
    """What to do about one field in one version.

    Args:
        name: Kafka's name, for errors.
        attribute: name in the Python class.
        element: primitive type name, or the struct's name; of the elements if `is_array`.
        present: whether the field lies in place on the wire in this version.
        tag: its tag if it is a tagged field in this version.
        nullable: whether null is legal in this version.
        compact: whether lengths and counts are unsigned varints.
        struct: plan of the (element) struct.
        default: value outside the version; for arrays an empty list stands for itself, for structs `None`
            together with `default_null` false means "a struct of defaults".
        ignorable: whether a value that the version cannot carry is dropped silently.
    """

    name: str
    attribute: str
    element: str
    is_array: bool
    present: bool
    tag: int | None
    nullable: bool
    compact: bool
    struct: StructPlan | None
    default: object
    default_null: bool
    ignorable: bool

    def is_default(self, value: object) -> bool:
        """Tell whether a value equals the schema default, so that it need not be written."""
        if self.default_null or value is None:
            return self.default_null and value is None
        if self.is_array:
            return not value
        if self.struct is not None:
            return value == self.make_default()
        return value == self.default

    def make_default(self) -> object:
        """Return the schema default, fresh where it is mutable."""
        if self.default_null:
            return None
        if self.is_array:
            return []
        return self.struct.struct_class() if self.struct is not None else self.default


class StructPlan(msgspec.Struct, frozen=True):
    """Steps of one struct in one version, in the order of the class's fields.

    Args:
        struct_class: class to build.
        steps: one per field, also for those that this version lacks.
        flexible: whether a tag section ends the struct.
        closed_tags: tags that the schema defines, but not for this version.
    """

    struct_class: type[ProtocolStruct]
    steps: tuple[Step, ...]
    flexible: bool
    closed_tags: frozenset[int]

    @property
    def tagged(self) -> dict[int, Step]:
        """Map each tag of this version to its step."""
        return {step.tag: step for step in self.steps if step.tag is not None}


@cache
def plan_for(message: type[Message], version: int) -> StructPlan:
    """Return the plan of a message class in a version.

    Raises:
        ValueError: the message has no such version.
    """
    if not message.min_version <= version <= message.max_version:
        raise ValueError(
            f"{message.schema_name} has versions {message.min_version} to {message.max_version}, not {version}"
        )
    return plan_schema(load_schema(message.schema_name), version)


def plan_schema(
    schema: MessageSchema, version: int, classes: dict[str, type[ProtocolStruct]] | None = None
) -> StructPlan:
    """Lower a schema.

    Args:
        classes: Python class of each struct by its schema name; default: the generated ones.
    """
    flexible = version in schema.flexible_versions

    def lower(struct: str, fields: tuple[FieldSchema, ...]) -> StructPlan:
        steps = tuple(lower_field(field) for field in fields)
        if classes is not None:
            struct_class = classes[struct]
        else:
            struct_class = getattr(messages, class_name(schema.name, struct))
        closed = frozenset(f.tag for f in fields if f.tag is not None and version not in f.tagged_versions & f.versions)
        return StructPlan(struct_class, steps, flexible, closed)

    def lower_field(field: FieldSchema) -> Step:
        tagged = field.tag is not None and version in field.tagged_versions & field.versions
        own: VersionRange = schema.flexible_versions if field.flexible_versions is None else field.flexible_versions
        return Step(
            name=field.name,
            attribute=snake_case(field.name),
            element=field.element,
            is_array=field.is_array,
            present=version in field.versions and not tagged,
            tag=field.tag if tagged else None,
            nullable=version in field.nullable_versions,
            compact=version in own,
            struct=lower(field.element, field.fields) if field.is_struct else None,
            default=field.default,
            default_null=field.default_null,
            ignorable=field.ignorable,
        )

    return lower(schema.name, schema.fields)
