"""Failures below become exceptions of the library without losing their sentence."""

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
from shareproxy.admin.failures import (
    change_error,
    group_exception,
    row_exception,
    topic_change_error,
    translated,
)
from shareproxy.cluster.errors import (
    AuthenticationFailed,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    InternalTopicMissing,
    NotAuthorized,
    PropertiesError,
    Unreachable,
    UnsupportedApi,
)
from shareproxy.lag.model import GroupError
from shareproxy.protocol.errors import error_name
from shareproxy.protocol.ids import GroupId

ORDERS = GroupId("orders")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PropertiesError("file", "is broken"), WrongArgument),
        (AuthenticationFailed("who are you"), AccessDenied),
        (NotAuthorized("no", 30), AccessDenied),
        (UnsupportedApi(90, "DescribeShareGroupOffsets", (0, 1), None), NotSupported),
        (InternalTopicMissing("__consumer_offsets", "nobody coordinates"), GroupNotFound),
        (DeadlinePassed("late"), TimedOut),
        (Unreachable("gone"), CannotReach),
        (ConnectionClosed("cut"), CannotReach),
        (BrokerError(1, None, "the broker"), AdminError),
        (ClusterError("the client is closed"), AdminError),
    ],
)
def test_each_failure_has_its_exception(error: ClusterError, kind: type[AdminError]) -> None:
    """The kind, the sentence and the cause are kept."""
    with pytest.raises(AdminError) as caught, translated("orders"):
        raise error

    assert type(caught.value) is kind
    assert caught.value.message == str(error)
    assert caught.value.__cause__ is error


def test_a_denied_group_names_the_right() -> None:
    """DESCRIBE is what finding the coordinator needs."""
    with pytest.raises(AccessDenied) as caught, translated("orders"):
        raise NotAuthorized("no right", 30)

    assert (caught.value.operation, caught.value.resource) == ("DESCRIBE", "group 'orders'")


@pytest.mark.parametrize("error", [DeadlinePassed("late"), ConnectionClosed("cut")])
def test_a_lost_answer_to_a_change_says_that_nobody_knows(error: ClusterError) -> None:
    """Whoever tries again blindly may do it twice."""
    with pytest.raises(CannotReach, match="look before you try again"), translated("orders", changing=True):
        raise error


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        (69, "NOT_A_SHARE_GROUP", NotAShareGroup),
        (69, None, GroupNotFound),
        (68, None, GroupNotEmpty),
        (29, None, AccessDenied),
        (30, None, AccessDenied),
        (31, None, AccessDenied),
        (35, None, NotSupported),
        (7, None, TimedOut),
        (3, None, UnknownTopic),
        (-1, None, AdminError),
    ],
)
def test_each_error_of_a_group_has_its_exception(code: int, name: str | None, kind: type[AdminError]) -> None:
    """Code, name and sentence are kept."""
    found = group_exception(GroupError(code, name or error_name(code), "why"), "orders", operation="READ")

    assert type(found) is kind
    assert (found.code, found.name, found.message) == (code, name or error_name(code), "why")


def test_a_denied_change_names_the_right_it_needs() -> None:
    """READ to set offsets, for instance."""
    error = change_error(30, None, ORDERS, operation="READ", what="its offsets cannot be changed")

    found = group_exception(error, "orders", operation="READ")

    assert isinstance(found, AccessDenied)
    assert (found.operation, found.resource) == ("READ", "group 'orders'")
    assert "READ on the group" in found.message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (68, "stop its consumers first"),
        (69, "check its name"),
        (35, "share.version"),
        (42, "its offsets cannot be changed: odd \\(error 42 INVALID_REQUEST\\)"),
    ],
)
def test_a_refused_change_says_what_to_do(code: int, words: str) -> None:
    """In one sentence; the broker's own words where ours have nothing to add."""
    error = change_error(code, "odd.", ORDERS, operation="READ", what="its offsets cannot be changed")

    with pytest.raises(AdminError, match=words):
        raise AdminError(error.message)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (29, AccessDenied, "READ on the topic"),
        (3, UnknownTopic, "has no offsets of it"),
        (100, UnknownTopic, "does not exist"),
        (68, OffsetRefused, "got members meanwhile"),
        (-1, OffsetRefused, "odd \\(error -1 UNKNOWN_SERVER_ERROR\\)"),
    ],
)
def test_a_refused_topic_has_its_exception(code: int, kind: type[AdminError], words: str) -> None:
    """With the sentence of its row."""
    found = row_exception(topic_change_error(code, "odd", ORDERS, "t"), "t")

    assert type(found) is kind
    with pytest.raises(kind, match=words):
        raise found
