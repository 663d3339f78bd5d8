"""Clients that are run for the table reach the proxy's ports only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop import sealed
from tests.interop.sealed import Address, Ran, Surroundings, run_sealed
from tests.interop.sockets import remote_addresses

ALLOWED, TRAP = ("127.0.0.2", 9), ("127.0.0.1", 9)
# connects to each address given, and prints what it gets to read there or why it could not
PROBE = """
import json, socket, sys
found = {}
for host, port in json.load(sys.stdin):
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            found[f"{host}:{port}"] = connection.makefile("rb").read().decode()
    except OSError as error:
        found[f"{host}:{port}"] = type(error).__name__
print(json.dumps(found))
"""

needs_namespaces = pytest.mark.skipif(not sealed.namespace_command(), reason="no network namespaces on this machine")


@pytest.fixture
async def greeter() -> AsyncIterator[Address]:
    """A server on this machine that says "hello"."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()


async def probe(around: Surroundings, *addresses: Address) -> tuple[dict[str, str], Ran]:
    """Run a command that connects to the addresses."""
    ran = await run_sealed([sys.executable, "-c", PROBE], around, stdin=json.dumps(addresses).encode(), timeout=60)
    assert ran.code == 0, ran.errors
    return json.loads(ran.output), ran


@needs_namespaces
async def test_allowed_port_leads_outside(greeter: Address) -> None:
    """The command reaches what the port stands for."""
    found, ran = await probe(Surroundings({ALLOWED: greeter}, [TRAP]), ALLOWED)

    assert found == {"127.0.0.2:9": "hello"}
    assert not ran.strayed


@needs_namespaces
async def test_trap_is_reported(greeter: Address) -> None:
    """An address that the command must not know gives it away, even if it then goes on."""
    _, ran = await probe(Surroundings({ALLOWED: greeter}, [TRAP]), TRAP, ALLOWED)

    assert ran.strayed == {TRAP}


@needs_namespaces
async def test_nothing_else_is_reachable(greeter: Address) -> None:
    """A port of this machine does not exist for the command."""
    found, _ = await probe(Surroundings({ALLOWED: greeter}), greeter)

    assert found == {f"127.0.0.1:{greeter[1]}": "ConnectionRefusedError"}


async def test_command_that_takes_too_long_is_ended() -> None:
    """Its exit code is then None."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]

    ran = await run_sealed(command, Surroundings({}), stdin=b"", timeout=0.2)

    assert ran.code is None


async def test_watched_where_namespaces_are_not_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, greeter: Address
) -> None:
    """A connection past the allowed ports is seen in the command's sockets."""
    seen = tmp_path / "seen"

    def look(session: int) -> set[Address]:
        found = remote_addresses(session)
        if found:
            seen.touch()
        return found

    monkeypatch.setattr(sealed, "namespace_command", lambda: ())
    monkeypatch.setattr(sealed, "remote_addresses", look)
    hold = (
        f"import os, socket\nheld = socket.create_connection({greeter})\nwhile not os.path.exists({str(seen)!r}): pass"
    )

    around = Surroundings({("127.0.0.2", greeter[1]): greeter})
    ran = await run_sealed([sys.executable, "-c", hold], around, stdin=b"", timeout=60)

    assert ran.strayed == {greeter}
