"""Answer health probes over HTTP: `/livez` and `/readyz`.

In: GET requests. Out: 200, or 503 with the reason in one line. Must never: ask a broker; the state is told to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

# a probe sends one short request; anything longer or slower is not a probe
MAX_REQUEST_BYTES: Final = 8_192
REQUEST_SECONDS: Final = 5.0

Readiness = Callable[[], str | None]
"""Returns `None` when ready, else the reason in one sentence."""


class HealthServer:
    """Serve the two probe paths on one address.

    Args:
        host: address to bind.
        port: port to bind, 0 for any free one.
        readiness: asked on each `/readyz`.
    """

    def __init__(self, host: str, port: int, readiness: Readiness) -> None:
        self._host, self._port, self._readiness = host, port, readiness
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Return the bound port."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)

    async def stop(self) -> None:
        """Stop listening and drop open connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._answer(head)
                writer.write(_response(status, text))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # not a probe; nothing to tell it
        finally:
            writer.close()

    def _answer(self, head: bytes) -> tuple[HTTPStatus, str]:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here"
        if path == b"/livez":
            return HTTPStatus.OK, "alive"
        if path == b"/readyz":
            reason = self._readiness()
            return (HTTPStatus.OK, "ready") if reason is None else (HTTPStatus.SERVICE_UNAVAILABLE, reason)
        return HTTPStatus.NOT_FOUND, "paths here: /livez /readyz"


def _response(status: HTTPStatus, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
