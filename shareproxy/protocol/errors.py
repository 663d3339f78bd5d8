"""Hold the errors of the protocol layer and Kafka's error codes.

In: nothing. Out: exceptions with the place of the problem, names and texts of error codes.
Must never: do I/O or log.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ProtocolError(Exception):
    """Base of everything this layer raises on purpose."""


class SchemaError(ProtocolError):
    """Say where a message schema is wrong: file, field and attribute.

    Args:
        file: name of the schema file, or of the text it came from.
        field: dotted path of the field, `""` for the message itself.
        attribute: JSON attribute at fault, `""` if none is.
        problem: what is wrong and what would be right.
    """

    def __init__(self, file: str, field: str, attribute: str, problem: str) -> None:
        self.file, self.field, self.attribute, self.problem = file, field, attribute, problem
        place = [file]
        if field:
            place.append(f"field {field}")
        if attribute:
            place.append(f"attribute {attribute!r}")
        super().__init__(f"{', '.join(place)}: {problem}")


class CodecError(ProtocolError):
    """Say in which field bytes and message do not fit each other.

    Args:
        problem: what is wrong.
        path: names of the fields from the message down to the place.
    """

    def __init__(self, problem: str, path: Iterable[str] = ()) -> None:
        super().__init__(problem)
        self.problem, self.path = problem, tuple(path)

    def __str__(self) -> str:
        where = ".".join(self.path)
        return f"{where}: {self.problem}" if where else self.problem


class inside:  # noqa: N801 - reads as a statement: `with inside(name):`
    """Put a name in front of the path of every `CodecError` that leaves the block."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CodecError):
            error.path = (self._name, *error.path)


class DecodeError(CodecError):
    """The bytes are not a message of this type and version."""


class EncodeError(CodecError):
    """The message cannot be written in this version."""


class FrameError(ProtocolError):
    """The stream is not cut into frames that may be accepted."""


class ErrorCode(IntEnum):
    """Kafka's error codes that this program acts on; others stay plain ints.

    Source: Kafka's protocol guide, error codes.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    GROUP_MAX_SIZE_REACHED = 81
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    MISMATCHED_ENDPOINT_TYPE = 114
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    REBOOTSTRAP_REQUIRED = 129
    SHARE_SESSION_LIMIT_REACHED = 133


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, `ERROR_<code>` for one not listed here."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"
