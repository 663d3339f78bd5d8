"""What the service needs of its proxy, wherever that runs.

In: settings. Out: clients that are served, counters, reasons. Must never: differ for one process and for several.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from shareproxy.config import Settings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector as Source

    from shareproxy.proxy.meter import MeterDict
    from shareproxy.proxy.server import Proxy, ProxySettings


class Front(Protocol):
    """What clients of the proxy meet: a proxy in this process, or several in processes of their own."""

    async def start(self) -> None:
        """Bind all ports; raises OSError, CannotListen or ConfigError, and then nothing stays bound."""

    def why_not_ready(self) -> str | None:
        """Return why clients are not served, None when they are."""

    async def reload(self, settings: Settings) -> None:
        """Take new limits, and read the certificates for clients again; raises PropertiesError or ConfigError."""

    async def stop(self, delay: float, grace: float) -> None:
        """Stop letting clients in after `delay` seconds, and cut off what is in flight after `grace` more."""

    def hurry(self) -> None:
        """Let `stop` wait for nothing any more."""

    def meter(self) -> MeterDict:
        """Return what was counted so far."""

    async def refresh(self) -> None:
        """Make `meter` current, or nearly so."""

    def metrics(self) -> Sequence[Source]:
        """Return metrics about itself."""

    async def failed(self) -> Exception:
        """Return when it cannot go on, with the reason."""


class FrontHere:
    """The proxy in this process.

    Args:
        proxy: not started yet.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    async def start(self) -> None:
        """Bind all ports; the cluster need not be there yet."""
        await self._proxy.start()

    def why_not_ready(self) -> str | None:
        """Return the proxy's reason."""
        return self._proxy.reason or None

    async def reload(self, settings: Settings) -> None:
        """Read the certificates, then take the limits: what cannot be used changes nothing."""
        self._proxy.reload_certificates()
        self._proxy.set_limits(settings.limits)

    async def stop(self, delay: float, grace: float) -> None:
        """Stop the proxy."""
        await self._proxy.stop(grace, delay)

    def hurry(self) -> None:
        """Hurry the proxy."""
        self._proxy.hurry()

    def meter(self) -> MeterDict:
        """Return the proxy's counters."""
        return self._proxy.meter.to_dict()

    async def refresh(self) -> None:
        """Do nothing: they are always current."""

    def metrics(self) -> Sequence[Source]:
        """Return none."""
        return ()

    async def failed(self) -> Exception:
        """Never return: it recovers from everything by itself."""
        never: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        return await never


MakeFront = Callable[[Settings, "ProxySettings"], Front]
