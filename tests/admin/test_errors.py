"""Exceptions carry Kafka's code and name, and become JSON."""

from __future__ import annotations

import pytest

from shareproxy.admin.errors import (
    AccessDenied,
    AdminError,
    CannotReach,
    GroupNotEmpty,
    GroupNotFound,
    NotAShareGroup,
    NotSupported,
    OffsetRefused,
    TimedOut,
    UnknownTopic,
    WrongArgument,
)

KINDS: list[type[AdminError]] = [
    AccessDenied,
    CannotReach,
    GroupNotEmpty,
    GroupNotFound,
    NotAShareGroup,
    NotSupported,
    OffsetRefused,
    TimedOut,
    UnknownTopic,
    WrongArgument,
]


@pytest.mark.parametrize("kind", KINDS)
def test_all_are_admin_errors(kind: type[AdminError]) -> None:
    """One `except` catches them all."""
    with pytest.raises(AdminError, match="what to try"):
        raise kind("what to try")


def test_a_code_brings_its_name() -> None:
    """Kafka's name of the code, unless another is given."""
    assert AdminError("no", 69).name == "GROUP_ID_NOT_FOUND"
    assert AdminError("no", 69, "NOT_A_SHARE_GROUP").name == "NOT_A_SHARE_GROUP"
    assert AdminError("no").name is None


def test_an_error_becomes_json() -> None:
    """With what kind it is."""
    assert GroupNotEmpty("busy", 68).to_dict() == {
        "error": "GroupNotEmpty",
        "code": 68,
        "name": "NON_EMPTY_GROUP",
        "message": "busy",
    }


def test_a_denial_names_operation_and_resource() -> None:
    """In JSON too."""
    error = AccessDenied("no", 30, operation="DESCRIBE", resource="group 'orders'")

    assert error.to_dict()["operation"] == "DESCRIBE"
    assert error.to_dict()["resource"] == "group 'orders'"


def test_a_refusal_lists_every_partition() -> None:
    """In JSON as a list."""
    assert OffsetRefused("no", refusals=("t-0: why", "t-1: why")).to_dict()["refusals"] == ["t-0: why", "t-1: why"]
