"""Health probes over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shareproxy.observe.http import HealthServer


class Probe:
    """A health server whose readiness the test sets."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.server = HealthServer("127.0.0.1", 0, lambda: self.reason)

    async def ask(self, request: bytes) -> bytes:
        """Send raw bytes and return everything that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(request)
            writer.write_eof()
            return await reader.read()
        finally:
            writer.close()


@pytest.fixture
async def probe() -> AsyncIterator[Probe]:
    """Run a server for one test."""
    probe = Probe()
    await probe.server.start()
    yield probe
    await probe.server.stop()


async def test_ready_is_200(probe: Probe) -> None:
    """A ready service says so."""
    assert (await probe.ask(b"GET /readyz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_not_ready_is_503_with_the_reason(probe: Probe) -> None:
    """A service that cannot reach its cluster says why, and goes on living."""
    probe.reason = "no broker answers"
    answer = await probe.ask(b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"\r\n\r\nno broker answers\n")
    assert (await probe.ask(b"GET /livez HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [(b"GET /metrics HTTP/1.1\r\n\r\n", b"404"), (b"POST /readyz HTTP/1.1\r\n\r\n", b"405")],
)
async def test_other_requests_are_refused(probe: Probe, request_bytes: bytes, status: bytes) -> None:
    """Only the two paths exist, and only for GET."""
    assert (await probe.ask(request_bytes)).split(b" ")[1] == status


@pytest.mark.parametrize("noise", [b"", b"\x00\x01", b"GET /readyz", b"x" * 20_000])
async def test_noise_is_closed_without_an_answer(probe: Probe, noise: bytes) -> None:
    """What is not an HTTP request gets nothing, and the next probe works."""
    with contextlib.suppress(ConnectionError):  # a reset is as good as silence
        assert await probe.ask(noise) == b""
    assert (await probe.ask(b"GET /livez HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
