"""Run a plan field by field: slow, obvious, the definition of right.

In: a plan and bytes, or a plan and a struct. Out: a struct, or bytes. The compiled back end is tested against
this one and asks it for the exact error when anything goes wrong. Must never: be on a path that has to be fast.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Any, cast

from shareproxy.protocol.errors import DecodeError, EncodeError, inside
from shareproxy.protocol.message import ProtocolStruct, UnknownTags
from shareproxy.protocol.plan import FIXED, MAX_ARRAY_COUNT, MAX_STRING_BYTES, MAX_TAG_COUNT, Step, StructPlan


def decode(plan: StructPlan, data: bytes, offset: int = 0) -> tuple[ProtocolStruct, int]:
    """Read one struct.

    Args:
        plan: from `plan_for`.
        data: the frame or any bytes.
        offset: where the struct starts.

    Returns:
        The struct and the position behind it.

    Raises:
        DecodeError: with the path of the field.
    """
    reader = Reader(data, offset)
    return reader.struct(plan), reader.position


def encode(plan: StructPlan, value: ProtocolStruct) -> bytes:
    """Write one struct.

    Raises:
        EncodeError: with the path of the field.
    """
    out = bytearray()
    _write_struct(plan, value, out)
    return bytes(out)


class Reader:
    """A position in bytes that never runs past the end."""

    def __init__(self, data: bytes, position: int, end: int | None = None) -> None:
        self.data, self.position = data, position
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Count the bytes not read yet."""
        return self.end - self.position

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > self.left:
            raise DecodeError(f"needs {size} bytes, {self.left} are left")
        start, self.position = self.position, self.position + size
        return self.data[start : self.position]

    def fixed(self, code: str) -> Any:
        """Return one fixed-size value by its `struct` code."""
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def varint(self) -> int:
        """Return an unsigned varint of at most five bytes and 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    raise DecodeError("unsigned varint is over 32 bits")
                return value
        raise DecodeError("unsigned varint is longer than 5 bytes")

    def struct(self, plan: StructPlan) -> ProtocolStruct:
        """Return the next struct."""
        values: dict[str, object] = {}
        for step in plan.steps:
            with inside(step.name):
                values[step.attribute] = self.value(step) if step.present else step.make_default()
        if plan.flexible:
            values["unknown_tags"] = self.tags(plan, values)
        return plan.struct_class(**values)

    def tags(self, plan: StructPlan, values: dict[str, object]) -> UnknownTags:
        """Read a tag section; known fields go to `values`, the rest is returned."""
        count = self.varint()
        if count > min(self.left, MAX_TAG_COUNT):
            raise DecodeError(f"{count} tagged fields cannot be in {self.left} bytes (limit {MAX_TAG_COUNT})")
        known, unknown, seen = plan.tagged, [], set()
        for _ in range(count):
            tag, size = self.varint(), self.varint()
            if tag in seen:
                raise DecodeError(f"tag {tag} stands twice")
            seen.add(tag)
            if tag in plan.closed_tags:
                raise DecodeError(f"tag {tag} does not exist in this version")
            if size > self.left:
                raise DecodeError(f"tag {tag} claims {size} bytes, {self.left} are left")
            if tag not in known:
                unknown.append((tag, self.take(size)))
                continue
            step, inner = known[tag], Reader(self.data, self.position, self.position + size)
            with inside(step.name):
                values[step.attribute] = inner.tagged_value(step)
                if inner.left:
                    raise DecodeError(f"{inner.left} bytes too many")
            self.position = inner.end
        return tuple(unknown)

    def tagged_value(self, step: Step) -> object:
        """Return the value inside a tagged field."""
        if step.struct is not None and not step.is_array and step.nullable:
            marker = self.varint()
            if marker > 1:
                raise DecodeError(f"marker {marker} of a nullable struct is neither 0 nor 1")
            return self.struct(step.struct) if marker else None
        return self.value(step)

    def value(self, step: Step) -> object:
        """Return the value of a field."""
        if step.is_array:
            return self.array(step)
        if step.struct is not None:
            if step.nullable and self.fixed("b") < 0:
                return None
            return self.struct(step.struct)
        return self.primitive(step, step.nullable)

    def array(self, step: Step) -> list[object] | None:
        """Return the elements of an array, or null."""
        count = self.varint() - 1 if step.compact else self.fixed("i")
        if count < 0:
            check_null(step.nullable)
            return None
        if count > min(self.left, MAX_ARRAY_COUNT):
            raise DecodeError(f"{count} elements cannot be in {self.left} bytes (limit {MAX_ARRAY_COUNT})")
        elements: list[object] = []
        for index in range(count):
            with inside(f"[{index}]"):
                plan = step.struct
                elements.append(self.primitive(step, False) if plan is None else self.struct(plan))
        return elements

    def primitive(self, step: Step, nullable: bool) -> object:
        """Return a scalar, a text or bytes."""
        if step.element in FIXED:
            return self.fixed(FIXED[step.element])
        if step.compact:
            size = self.varint() - 1
        else:
            size = self.fixed("h" if step.element == "string" else "i")
        if size < 0:
            check_null(nullable)
            return None
        if step.element != "string":
            return self.take(size)
        if size > MAX_STRING_BYTES:
            raise DecodeError(f"string of {size} bytes is over the limit of {MAX_STRING_BYTES}")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"not UTF-8 at byte {error.start} of the string") from None


def _write_struct(plan: StructPlan, value: ProtocolStruct, out: bytearray) -> None:
    # what has the right attributes will do: to check every class would cost the compiled code too much
    if not all(hasattr(value, name) for name in plan.struct_class.__struct_fields__):
        raise EncodeError(f"expected {plan.struct_class.__name__}, found {type(value).__name__}")
    tagged: dict[int, bytes] = {}
    for step in plan.steps:
        item = getattr(value, step.attribute)
        with inside(step.name):
            if step.present:
                _write_value(step, item, out)
            elif step.is_default(item):
                pass
            elif step.tag is not None:
                part = bytearray()
                _write_tagged_value(step, item, part)
                tagged[step.tag] = bytes(part)
            elif not step.ignorable:
                raise EncodeError("has a value that this version cannot carry")
    with inside("unknown_tags"):
        unknown: UnknownTags = value.unknown_tags  # type: ignore[attr-defined]
        if plan.flexible:
            _write_tags(plan, unknown, tagged, out)
        elif unknown:
            raise EncodeError("this version cannot carry tagged fields")


def _write_tags(
    plan: StructPlan, unknown: Iterable[tuple[object, object]], tagged: dict[int, bytes], out: bytearray
) -> None:
    for tag, raw in unknown:
        if not isinstance(tag, int) or not 0 <= tag < 2**32 or not isinstance(raw, bytes):
            raise EncodeError(f"{(tag, raw)!r} is not a tag and its bytes")
        if tag in tagged or tag in plan.tagged or tag in plan.closed_tags:
            raise EncodeError(f"tag {tag} is a defined one, or stands twice")
        tagged[tag] = raw
    _write_varint(len(tagged), out)
    for tag in sorted(tagged):
        _write_varint(tag, out)
        _write_varint(len(tagged[tag]), out)
        out += tagged[tag]


def _write_tagged_value(step: Step, value: object, out: bytearray) -> None:
    if step.struct is not None and not step.is_array and step.nullable:
        out.append(0 if value is None else 1)
        if value is not None:
            _write_struct(step.struct, cast("ProtocolStruct", value), out)
    else:
        _write_value(step, value, out)


def _write_value(step: Step, value: object, out: bytearray) -> None:
    if step.is_array:
        _write_array(step, value, out)
    elif step.struct is not None:
        if step.nullable:
            out += b"\xff" if value is None else b"\x01"
            if value is None:
                return
        _write_struct(step.struct, cast("ProtocolStruct", value), out)
    else:
        _write_primitive(step, value, step.nullable, out)


def _write_array(step: Step, value: object, out: bytearray) -> None:
    if value is None:
        _write_length(step.compact, "i", _null_length(step.nullable), out)
        return
    if not isinstance(value, list | tuple) and (step.element not in FIXED or not isinstance(value, Collection)):
        raise EncodeError(f"expected a list, found {type(value).__name__}")
    if len(value) > MAX_ARRAY_COUNT:
        raise EncodeError(f"{len(value)} elements are over the limit of {MAX_ARRAY_COUNT}")
    _write_length(step.compact, "i", len(value), out)
    for index, element in enumerate(value):
        with inside(f"[{index}]"):
            if step.struct is not None:
                _write_struct(step.struct, element, out)
            else:
                _write_primitive(step, element, False, out)


def _write_primitive(step: Step, value: object, nullable: bool, out: bytearray) -> None:
    code = FIXED.get(step.element)
    if code is not None:
        # struct pads and cuts byte strings without a word
        if code == "16s" and (not isinstance(value, bytes | bytearray) or len(value) != 16):
            raise EncodeError(f"{value!r} is not a uuid of 16 bytes")
        try:
            out += struct.pack(">" + code, value)
        except (struct.error, OverflowError):
            raise EncodeError(f"{value!r} does not fit {step.element}") from None
        return
    length_code = "h" if step.element == "string" else "i"
    if value is None:
        _write_length(step.compact, length_code, _null_length(nullable), out)
        return
    if step.element == "string":
        if not isinstance(value, str):
            raise EncodeError(f"expected a string, found {type(value).__name__}")
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raise EncodeError("the string holds half a surrogate pair") from None
        if len(raw) > MAX_STRING_BYTES:
            raise EncodeError(f"string of {len(raw)} bytes is over the limit of {MAX_STRING_BYTES}")
    elif isinstance(value, bytes):
        raw = value
    else:
        raise EncodeError(f"expected bytes, found {type(value).__name__}")
    _write_length(step.compact, length_code, len(raw), out)
    out += raw


def _null_length(nullable: bool) -> int:
    if not nullable:
        raise EncodeError("is null, which this version does not allow")
    return -1


def _write_length(compact: bool, code: str, length: int, out: bytearray) -> None:
    if compact:
        _write_varint(length + 1, out)
    else:
        out += struct.pack(">" + code, length)


def _write_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def check_null(nullable: bool) -> None:
    """Refuse null where the version does not allow it."""
    if not nullable:
        raise DecodeError("is null, which this version does not allow")
