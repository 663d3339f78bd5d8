"""What a client program says and does becomes an answer, a skip or a failure."""

from __future__ import annotations

import json
import sys

import pytest

from tests.interop.client import Client, ClientFailed
from tests.interop.program import Skipped
from tests.interop.sealed import Surroundings, namespace_command

BROKER = ("127.0.0.1", 9092)


def client_that_runs(code: str) -> Client:
    """Return a client whose program is some Python."""
    return Client("aiokafka", "one", (), (sys.executable, "-c", code), (), (), (), "PLAIN")


async def test_answer() -> None:
    """A program gets its operation and arguments, and its JSON comes back."""
    client = client_that_runs("import json, sys; print(json.dumps({sys.argv[1]: json.load(sys.stdin)}))")

    assert await client.ask("produce", {"topic": "t"}, None) == {"produce": {"topic": "t"}}


async def test_skip() -> None:
    """A library that cannot do something says so."""
    client = client_that_runs('print(\'{"skipped": "no share consumer"}\')')

    with pytest.raises(Skipped, match=r"^no share consumer$"):
        await client.ask("share", {}, None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('lost a record')", "share: ValueError: lost a record"),
        ("raise SystemExit(3)", "share: exit code 3"),
        ("print('hello')", r"share: no JSON: b'hello\\n'"),
    ],
)
async def test_failure(code: str, message: str) -> None:
    """What went wrong is told in one line."""
    with pytest.raises(ClientFailed, match=f"^{message}$"):
        await client_that_runs(code).ask("share", {}, None)


@pytest.mark.skipif(not namespace_command(), reason="no network namespaces on this machine")
async def test_reaching_for_a_broker_is_a_failure() -> None:
    """Even if the client then gets everything at the right address."""
    code = f"import socket; socket.create_connection({BROKER}).close(); print({json.dumps(json.dumps({'sent': 1}))})"

    with pytest.raises(ClientFailed, match=r"outside the proxy's ports, to 127\.0\.0\.1:9092"):
        await client_that_runs(code).ask("produce", {}, Surroundings({}, [BROKER]))
