"""Hold what can go wrong for a user of the library.

In: nothing. Out: exceptions whose text says what happened, where, and what to try; `code` and `name` are Kafka's.
Must never: carry a password.
"""

# ruff: noqa: N818 - these names say what happened

from __future__ import annotations

from shareproxy.protocol.errors import error_name


class AdminError(Exception):
    """Base of everything that `ShareAdmin` raises on purpose.

    Args:
        message: a sentence for a person.
        code: Kafka's error code, `None` where none came from a broker.
        name: Kafka's name of the code; found from the code if not given.

    Attributes:
        message: as above.
        code: as above.
        name: as above, `None` without a code.
    """

    def __init__(self, message: str, code: int | None = None, name: str | None = None) -> None:
        self.message, self.code = message, code
        self.name = error_name(code) if name is None and code is not None else name
        super().__init__(message)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"error": type(self).__name__, "code": self.code, "name": self.name, "message": self.message}


class CannotReach(AdminError):
    """No broker could be reached, or a connection broke; a change that was under way may or may not have been made."""


class TimedOut(CannotReach):
    """The answer did not come in time; a change that was under way may or may not have been made."""


class AccessDenied(AdminError):
    """The brokers know us and refuse, or do not know us at all.

    Args:
        message: a sentence for a person.
        code: Kafka's error code.
        operation: what is missing, such as `DESCRIBE`; `None` where the login itself failed.
        resource: what it is missing on, such as `group 'orders'`; `None` where the login itself failed.
    """

    def __init__(
        self, message: str, code: int | None = None, *, operation: str | None = None, resource: str | None = None
    ) -> None:
        self.operation, self.resource = operation, resource
        super().__init__(message, code)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {**super().to_dict(), "operation": self.operation, "resource": self.resource}


class GroupNotFound(AdminError):
    """There is no group of that name."""


class NotAShareGroup(AdminError):
    """There is a group of that name, but it is of another type."""


class GroupNotEmpty(AdminError):
    """The group has members, and Kafka changes only groups without."""


class OffsetRefused(AdminError):
    """An offset cannot be set: it lies outside of the log, or the broker did not take it.

    Args:
        message: a sentence for a person.
        code: Kafka's error code.
        refusals: one sentence for each partition.
    """

    def __init__(self, message: str, code: int | None = None, *, refusals: tuple[str, ...] = ()) -> None:
        self.refusals = refusals
        super().__init__(message, code)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {**super().to_dict(), "refusals": list(self.refusals)}


class UnknownTopic(AdminError):
    """A topic or a partition does not exist, or may not be seen."""


class NotSupported(AdminError):
    """The brokers are too old, or have the feature switched off."""


class WrongArgument(AdminError):
    """What the caller gave cannot be used; nothing was sent."""
