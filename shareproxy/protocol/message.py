"""Base classes of the generated message classes.

A message class serves all versions of its message; what a version lacks keeps the schema default.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import msgspec

UnknownTags = tuple[tuple[int, bytes], ...]
"""Tagged fields that the schema does not know: tag and raw bytes, kept and written back."""


class ProtocolStruct(msgspec.Struct, gc=False):
    """Any struct of the protocol.

    The collector skips these objects (`gc=False`): messages are trees, a cycle cannot occur.
    """


class Message(ProtocolStruct, gc=False):
    """A struct with a schema file of its own."""

    schema_name: ClassVar[str]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    first_flexible_version: ClassVar[int]


class ApiMessage(Message, gc=False):
    """A request or a response."""

    api_key: ClassVar[int]


class Response(ApiMessage, gc=False):
    """What a broker answers."""


R = TypeVar("R", bound=Response)


class Request(ApiMessage, Generic[R], gc=False):
    """What a client asks; the type parameter is the class of the answer."""

    response_class: ClassVar[type[Response]]
