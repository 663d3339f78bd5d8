"""The process has no file descriptor left."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.testing.ports import ports_side_by_side
from tests.adversity.held import descriptors_of
from tests.proxy.fake_broker import HOST, PATIENCE, Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request

pytestmark = pytest.mark.timeout(120)

DESCRIPTORS = 60
# more than it can take, and than the queue of its port would hide
FLOOD = 150
# a closed connection is a line of its own; what is told about descriptors must not grow with time or clients
LINES_ABOUT_DESCRIPTORS = 10
WATCHED_SECONDS = 2.0
PAUSE_SECONDS = 0.05


class Starved:
    """A proxy with few descriptors."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: IO[str]) -> None:
        self.process, self.address, self._log = process, Address(HOST, port), log

    def lines(self) -> Sequence[str]:
        """Return its log."""
        self._log.seek(0)
        return self._log.read().splitlines()

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@pytest.fixture(params=["uvloop", "asyncio"])
def starved(request: pytest.FixtureRequest, broker: FakeBroker) -> Iterator[Starved]:
    """Run a proxy in front of the broker, with few descriptors."""
    ports = ports_side_by_side(4)
    command = [sys.executable, "-m", "tests.adversity.proxy_process", request.param, str(broker.address.port)]
    command += [str(ports[0]), str(DESCRIPTORS)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield Starved(process, ports[0], log)
        finally:
            process.kill()


@contextlib.contextmanager
def flood(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """Hold so many connections, each with a request on its way."""
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
            held.append(client)
        yield held


async def until(moment: float) -> None:
    """Wait for a moment by the clock of `time.monotonic`."""
    await eventually(lambda: time.monotonic() > moment)


async def test_it_lives_without_descriptors_and_recovers(broker: FakeBroker, starved: Starved) -> None:
    """A flood takes them all: who is served goes on, the log stays short, the processor idle; then all are served."""
    async with Client(starved.address) as served:
        assert await served.ask(opaque_request(1)) == opaque_answer(1, b"\1")
        with flood(starved.address, FLOOD):
            await eventually(lambda: descriptors_of(starved.process.pid) >= DESCRIPTORS - 2)
            used, begun = starved.processor_seconds(), time.monotonic()
            number = 2
            while time.monotonic() < begun + WATCHED_SECONDS:
                assert await served.ask(opaque_request(number)) == opaque_answer(number, b"\1")
                number += 1
                await until(time.monotonic() + PAUSE_SECONDS)
            used = starved.processor_seconds() - used
            assert starved.process.poll() is None

    about = [line for line in starved.lines() if "connection closed" not in line]
    assert len(about) <= LINES_ABOUT_DESCRIPTORS, about[:20]
    assert used < WATCHED_SECONDS / 4

    async def answers() -> bool:
        with contextlib.suppress(OSError, EOFError):
            async with Client(starved.address) as client:
                return await client.ask(opaque_request(7)) == opaque_answer(7, b"\1")
        return False

    deadline = time.monotonic() + PATIENCE
    while not await answers():
        assert time.monotonic() < deadline, "it did not recover"
