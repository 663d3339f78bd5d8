"""kio, an independent codec, as a second opinion on our bytes.

It has a class per message and version, knows the error codes it was made with, keeps no unknown tags, and turns uuids
and durations into Python objects. What it cannot hold is not given to it.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import io
import uuid
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from shareproxy.protocol.message import Message
from shareproxy.protocol.naming import snake_case
from shareproxy.protocol.plan import Step, StructPlan
from tests.protocol.samples import EACH_VERSION, Samples

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_CODES = tuple(int(code) for code in ErrorCode)


class KioSamples(Samples):
    """Messages that kio can hold."""

    def struct(self, plan: StructPlan) -> Any:
        """Leave out unknown tags."""
        message = super().struct(plan)
        message.unknown_tags = ()
        return message

    def field(self, step: Step) -> object:
        """Use error codes that exist, and times and durations that fit Python's."""
        value = super().field(step)
        if step.name == "ErrorCode" and step.present:
            return self.random.choice(_CODES)
        if step.name in ("TransactionStartTimeMs", "LogAppendTimeMs") and step.present:
            return self.random.randrange(2**41)
        if step.element == "int64" and isinstance(value, int) and (step.present or step.tag is not None):
            return max(-(2**45), min(value, 2**45))
        return value


def kio_class(message: type[Message], version: int) -> type[Any] | None:
    """Return kio's class, or `None` where it has no such version."""
    name = message.schema_name
    kind = next((kind for kind in ("Request", "Response") if name.endswith(kind)), "Header")
    stem = name if kind == "Header" else name.removesuffix(kind)
    try:
        module = importlib.import_module(f"kio.schema.{snake_case(stem)}.v{version}.{kind.lower()}")
    except ModuleNotFoundError:
        return None
    found: type[Any] = getattr(module, name)
    return found


KNOWN_TO_BOTH = [(message, version) for message, version in EACH_VERSION if kio_class(message, version) is not None]


def kio_decode(kind: type[Any], data: bytes) -> Any:
    """Decode a whole message with kio."""
    read: Callable[..., tuple[Any, int]] = entity_reader(kind)
    value, size = read(data, 0)
    assert size == len(data)
    return value


def kio_encode(kind: type[Any], value: Any) -> bytes:
    """Encode a message with kio."""
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, value)
    return buffer.getvalue()


def fields_of(plan: StructPlan, message: Any) -> dict[str, Any]:
    """Return what a version carries of our message or of kio's, by Kafka's names, in plain values."""
    return {
        step.name: _plain(step, _attribute(message, step.attribute))
        for step in plan.steps
        if step.present or step.tag is not None
    }


def _attribute(message: Any, name: str) -> Any:
    # kio leaves the unit out where the value is a duration
    return getattr(message, name if hasattr(message, name) else name.removesuffix("_ms"))


def _plain(step: Step, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain_element(step, element) for element in value]
    return _plain_element(step, value)


def _plain_element(step: Step, value: Any) -> Any:
    if step.struct is not None and value is not None:
        return fields_of(step.struct, value)
    if step.element == "uuid":
        return bytes(16) if value is None else value.bytes if isinstance(value, uuid.UUID) else value
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return int(value) if isinstance(value, enum.IntEnum) else value
