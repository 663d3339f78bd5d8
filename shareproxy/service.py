"""Wire the layers into one running service: the only place that does.

In: settings. Out: a proxy, its own cluster connection with the lag engine, and the health probes, until a signal.
Must never: decide anything about the protocol or about lag.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import Security
from shareproxy.config import ConfigError, Settings
from shareproxy.connecting import bootstrap_addresses, one_address, own_connection
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import SourceChoice
from shareproxy.observe.http import HealthServer
from shareproxy.proxy.ports import PortsError, parse_node_ids
from shareproxy.proxy.server import Proxy, ProxySettings
from shareproxy.service_log import configure_log

# a client's request in flight when we are told to stop may still finish within this many seconds
STOP_SECONDS: Final = 5.0
# objects of the service live on; these thresholds keep the collector from walking them on every large answer
GC_THRESHOLDS: Final = (50_000, 20, 100)


def proxy_settings(settings: Settings, security: Security) -> ProxySettings:
    """Translate the settings into those of the proxy.

    Raises:
        ConfigError: an address or a range of ports is wrong, or an address is not one that clients can reach.
    """
    listen = one_address("listen", settings.listen)
    advertised = settings.advertised_host or listen.host
    try:
        return ProxySettings(
            listen=listen,
            advertised_host=advertised.strip("[]"),
            node_ports=_port_range("node_ports", settings.node_ports),
            node_ids=parse_node_ids(settings.node_ids) if settings.node_ids else None,
            bootstrap_servers=bootstrap_addresses(settings),
            broker_security=security,
            max_frame_bytes=settings.limits.max_frame_bytes,
            max_connections=settings.limits.max_connections,
            connect_timeout=settings.limits.connect_timeout,
            lag_timeout=settings.lag_timeout,
        )
    except PortsError as error:
        raise ConfigError(str(error)) from None


class Service:
    """The running parts of `shareproxy serve`."""

    def __init__(self, settings: Settings) -> None:
        self.own = own_connection(settings)
        self.proxy_settings = proxy_settings(settings, self.own.security)
        source = SourceChoice(settings.lag_source)
        self.cluster = Cluster(
            self.proxy_settings.bootstrap_servers,
            self.own.security,
            client_id=self.own.client_id,
            connect_timeout=settings.limits.connect_timeout,
        )
        self.engine = LagEngine(self.cluster, source=source, timeout=settings.lag_timeout)
        self.proxy = Proxy(self.proxy_settings, self.engine, source)
        self.health: HealthServer | None = None
        if settings.http:
            address = one_address("http", settings.http)
            self.health = HealthServer(address.host, address.port, self._not_ready)

    def _not_ready(self) -> str | None:
        return None if self.proxy.ready else self.proxy.reason

    async def start(self) -> None:
        """Bind all ports; the cluster need not be there yet.

        Raises:
            ConfigError: an address cannot be bound.
        """
        try:
            await self.proxy.start()
            if self.health is not None:
                await self.health.start()
        except OSError as error:
            await self.stop()
            raise ConfigError(str(error)) from None

    async def stop(self) -> None:
        """Let requests in flight finish, then close everything."""
        await self.proxy.stop(STOP_SECONDS)
        if self.health is not None:
            await self.health.stop()
        await self.cluster.close()


def serve_until_stopped(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT.

    Raises:
        ConfigError: settings or ports are wrong; nothing keeps running.
    """
    configure_log(settings.log)
    allow_open_files()
    _run(_serve(settings))


def allow_open_files() -> None:
    """Raise the limit of open files to what the system allows: each client needs two, and the usual limit is 1024."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit; macOS may refuse
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(settings: Settings) -> None:
    log = structlog.get_logger()
    service = Service(settings)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
            loop.add_signal_handler(number, stopped.set)
    for note in service.own.notes:
        log.warning("property file", note=note)
    await service.start()
    log.info(
        "serving",
        listen=settings.listen,
        advertised_host=service.proxy_settings.advertised_host,
        node_ports=settings.node_ports,
        bootstrap_server=settings.bootstrap_server,
        lag_source=settings.lag_source,
    )
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        await stopped.wait()
        log.info("stopping", grace_seconds=STOP_SECONDS)
    finally:
        await service.stop()


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it exists: it saves a tenth of the CPU per forwarded frame."""
    if sys.platform != "win32":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    else:  # pragma: no cover - not run in CI
        asyncio.run(main)


def _port_range(key: str, text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 65_536):
        raise ConfigError(f"{key}: {text!r} is not a range of ports; write for instance 19100-19163")
    return int(low), int(high)
