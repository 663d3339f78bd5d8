"""Errors: sentences for people."""

from __future__ import annotations

import ssl

import pytest

from shareproxy.cluster.errors import BrokerError, PropertiesError, UnsupportedApi, cause_text
from shareproxy.cluster.retries import Retry


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "connection refused"),
        (TimeoutError(), "no answer in time"),
        (OSError(113, "No route to host"), "no route to host"),
        (OSError("odd"), "odd"),
        (OSError(), "oserror"),
        (ValueError("x"), "x"),
        (ValueError(), "ValueError"),
    ],
)
def test_causes_are_told_in_a_few_words(error: Exception, text: str) -> None:
    """Never empty, never a class name where there is something better."""
    assert cause_text(error) == text


def test_tls_causes_are_told_in_words() -> None:
    """OpenSSL's own names are written in capitals."""
    error = ssl.SSLError(1, "x")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"

    assert cause_text(error) == "TLS failed: tlsv1 alert unknown ca"
    error.reason = ""
    assert "TLS failed" in cause_text(error)


def test_a_brokers_error_has_code_name_text_and_place() -> None:
    """And tells a program what helps."""
    error = BrokerError(16, "not me", "node 1, ListGroups")

    assert str(error) == "node 1, ListGroups: error 16 (NOT_COORDINATOR): not me"
    assert error.retry is Retry.ELSEWHERE
    assert str(BrokerError(42, None, "here")) == "here: error 42 (INVALID_REQUEST)"


def test_an_unsupported_api_says_needed_and_offered() -> None:
    """In versions."""
    assert str(UnsupportedApi(90, "X", (1, 1), (0, 0), "h:1")).endswith(
        "version 1 is needed, but the broker offers version 0"
    )
    assert str(UnsupportedApi(90, "X", (1, 3), None)).endswith(
        "versions 1–3 is needed, but the broker does not offer it"
    )


def test_a_properties_error_leaves_out_what_is_not_known() -> None:
    """File, line, key, problem."""
    assert str(PropertiesError("f", "bad", line=3, key="k")) == "f, line 3: k: bad"
    assert str(PropertiesError("f", "bad")) == "f: bad"
