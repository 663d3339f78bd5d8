"""Names of APIs."""

from __future__ import annotations

import inspect

from shareproxy.protocol import messages
from shareproxy.protocol.api_names import API_NAMES, api_name
from shareproxy.protocol.message import Request


def test_names_are_those_of_the_messages() -> None:
    """Of all that are known here."""
    known = [kind for _, kind in inspect.getmembers(messages, inspect.isclass) if issubclass(kind, Request)]
    known = [kind for kind in known if "schema_name" in vars(kind)]

    assert known
    for kind in known:
        assert f"{api_name(kind.api_key)}Request" == kind.schema_name


def test_keys_without_a_name_are_numbers() -> None:
    """Of a newer Kafka, or of somebody who makes them up."""
    assert [api_name(-1), api_name(len(API_NAMES)), api_name(31_000)] == ["-1", "95", "31000"]
