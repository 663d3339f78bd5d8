"""Failures become a status, a sentence, and a word on whether to ask again."""

from __future__ import annotations

import pytest

from shareproxy.cluster.errors import (
    AuthenticationFailed,
    BrokerError,
    ClusterError,
    ConnectionClosed,
    DeadlinePassed,
    NotAuthorized,
    Unreachable,
    UnsupportedApi,
)
from shareproxy.lag.brokers import TIMED_OUT, trouble_from_code, trouble_from_error
from shareproxy.lag.model import Status


@pytest.mark.parametrize(
    ("code", "status", "again"),
    [
        (3, Status.TOPIC_MISSING, True),
        (5, Status.NO_LEADER, True),
        (6, Status.ERROR, True),
        (7, Status.TIMEOUT, True),
        (13, Status.TIMEOUT, True),
        (14, Status.ERROR, True),
        (15, Status.ERROR, True),
        (16, Status.ERROR, True),
        (29, Status.NOT_AUTHORIZED, False),
        (30, Status.NOT_AUTHORIZED, False),
        (31, Status.NOT_AUTHORIZED, False),
        (35, Status.UNSUPPORTED, False),
        (42, Status.ERROR, False),
        (74, Status.ERROR, True),
        (75, Status.ERROR, True),
        (78, Status.ERROR, True),
        (-1, Status.ERROR, False),
        (12345, Status.ERROR, False),
    ],
)
def test_each_code_has_a_status_and_says_whether_to_ask_again(code: int, status: Status, again: bool) -> None:
    """The table of error codes."""
    trouble = trouble_from_code(code)

    assert (trouble.status, trouble.error_code, trouble.again) == (status, code, again)


def test_advice_names_no_flag() -> None:
    """Who reads it may have used the library."""
    for sentence in (trouble_from_code(7).message, TIMED_OUT.message):
        assert "allow more time" in sentence
        assert "--" not in sentence


def test_our_sentence_says_what_to_grant() -> None:
    """A missing right names the ACL that would help."""
    assert "CLUSTER_ACTION" in trouble_from_code(31, "Cluster authorization failed.").message


def test_the_brokers_text_is_kept_where_we_have_none() -> None:
    """An unusual code comes with what the broker said."""
    assert trouble_from_code(42, "The partition id cannot be a negative number.").message == (
        "The partition id cannot be a negative number (error 42 INVALID_REQUEST)"
    )


@pytest.mark.parametrize(
    ("error", "status", "code", "again"),
    [
        (Unreachable("x"), Status.TIMEOUT, None, True),
        (DeadlinePassed("x"), Status.TIMEOUT, None, True),
        (ConnectionClosed("x"), Status.TIMEOUT, None, True),
        (AuthenticationFailed("x"), Status.NOT_AUTHORIZED, None, False),
        (NotAuthorized("x", 30), Status.NOT_AUTHORIZED, 30, False),
        (UnsupportedApi(90, "DescribeShareGroupOffsets", (0, 1), None), Status.UNSUPPORTED, 35, False),
        (BrokerError(15, None, "x"), Status.ERROR, 15, True),
        (BrokerError(42, None, "x"), Status.ERROR, 42, False),
        (ClusterError("x"), Status.TIMEOUT, None, False),
    ],
)
def test_each_failure_to_ask_has_a_status(error: ClusterError, status: Status, code: int | None, again: bool) -> None:
    """The table of the cluster layer's errors; their own sentence is kept."""
    trouble = trouble_from_error(error)

    assert (trouble.status, trouble.error_code, trouble.again) == (status, code, again)
    assert trouble.message == str(error)
