"""Hold what can go wrong for whoever drains a queue.

In: nothing. Out: exceptions whose text says what happened, where, and what to try. What is not special to draining is
raised as in `shareproxy.admin.errors`: AccessDenied, CannotReach, NotAShareGroup, NotSupported, WrongArgument.
"""

# ruff: noqa: N818 - these names say what happened

from __future__ import annotations

from shareproxy.protocol.errors import error_name


class DrainError(Exception):
    """Base of what only draining can raise.

    Args:
        message: a sentence for a person.
        code: Kafka's error code, `None` where none came from a broker.

    Attributes:
        message: as above.
        code: as above.
        name: Kafka's name of the code, `None` without one.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        self.message, self.code = message, code
        self.name = None if code is None else error_name(code)
        super().__init__(message)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"error": type(self).__name__, "code": self.code, "name": self.name, "message": self.message}


class GroupIsFull(DrainError):
    """The group has as many members as the brokers allow (`group.share.max.size`)."""


class ConsumerClosed(DrainError):
    """The consumer was closed, or never started."""
