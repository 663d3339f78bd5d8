"""Answer a worker's probes and its scraper over HTTP.

In: GET requests. Out: /livez, /readyz with the reason in a sentence, /metrics for Prometheus, all from memory.
Must never: be there unless it was asked for, or keep a worker from ending.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from shareproxy.cluster.addresses import Address

Readiness = Callable[[], str | None]
"""Returns `None` when ready, else the reason in one sentence."""

LIVE_PATHS: Final = ("/livez", "/healthz", "/health")
READY_PATHS: Final = ("/readyz", "/ready")
HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
# answers under way may still be finished when we are told to stop
STOP_SECONDS: Final = 1.0


class HealthServer:
    """Serve one address.

    /livez answers as long as the event loop turns: a handler that blocks it is what a restart mends.

    Args:
        host: address to bind.
        port: port to bind, 0 for any free one.
        readiness: asked on each /readyz, one after the other; the first reason is told.
        registry: what /metrics shows.
    """

    def __init__(self, host: str, port: int, *, readiness: Sequence[Readiness], registry: CollectorRegistry) -> None:
        self._host, self._port = host, port
        self._readiness, self._registry = tuple(readiness), registry
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """Return the bound port."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            OSError: the address cannot be bound; its text names the address and what to try.
        """
        application = web.Application()
        for path in LIVE_PATHS:
            application.router.add_get(path, _live)
        for path in READY_PATHS:
            application.router.add_get(path, self._ready)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            # newer versions of asyncio have no number for a host none of whose addresses is here
            number = errno.EADDRNOTAVAIL if error.errno is None else error.errno
            why = os.strerror(number) if number > 0 else error.strerror or str(error)
            address = Address(self._host, self._port)
            raise OSError(error.errno, f"cannot listen on {address}: {why}; choose another address") from None

    async def stop(self) -> None:
        """Stop listening and drop open connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _ready(self, request: web.Request) -> web.Response:
        reasons = (readiness() for readiness in self._readiness)
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is not None:
            return web.Response(text=f"{reason}\n", status=503, headers=HEADERS)
        return web.Response(text="ready\n", headers=HEADERS)

    async def _metrics(self, request: web.Request) -> web.Response:
        # how a client words that it can read OpenMetrics is the library's knowledge
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={**HEADERS, "Content-Type": content_type})


async def _live(request: web.Request) -> web.Response:
    return web.Response(text="alive\n", headers=HEADERS)
