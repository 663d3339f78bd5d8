"""Wire the layers into one running service: the only place that does.

In: settings. Out: a proxy, an exporter or both, with their own connection to the cluster, until a signal.
Must never: decide anything about the protocol or about lag.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.security import Security
from shareproxy.config import ConfigError, Settings, Tls
from shareproxy.connecting import bootstrap_addresses, one_address, own_connection
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import SourceChoice
from shareproxy.service_log import configure_log

if TYPE_CHECKING:
    from shareproxy.observe.exporter import Exporter
    from shareproxy.observe.http import HttpServer
    from shareproxy.observe.snapshot import NameFilter
    from shareproxy.proxy.client_tls import ClientTls
    from shareproxy.proxy.server import Proxy, ProxySettings

# a client's request in flight when we are told to stop may still finish within this many seconds
STOP_SECONDS: Final = 5.0
# the exporter alone is for others to ask; a proxy has HTTP only if it is told an address
EXPORTER_HTTP: Final = "127.0.0.1:9464"
# objects of the service live on; these thresholds keep the collector from walking them on every large answer
GC_THRESHOLDS: Final = (50_000, 20, 100)


def proxy_settings(settings: Settings, security: Security) -> ProxySettings:
    """Translate the settings into those of the proxy.

    Raises:
        ConfigError: an address or a range of ports is wrong, or an address is not one that clients can reach.
    """
    from shareproxy.proxy.host_pattern import HostPattern
    from shareproxy.proxy.ports import PortsError, parse_node_ids
    from shareproxy.proxy.server import ProxySettings

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
            client_tls=_client_tls(settings.tls),
            node_hosts=HostPattern(settings.node_hosts) if settings.node_hosts else None,
            advertised_port=settings.advertised_port or None,
        )
    except PortsError as error:
        raise ConfigError(str(error)) from None


def _client_tls(tls: Tls) -> ClientTls | None:
    if not tls.certificate:
        if tls != Tls():
            raise ConfigError(
                "tls.certificate: name the PEM file that clients are shown; the other keys of [tls] need it"
            )
        return None
    from shareproxy.proxy.client_tls import ClientTls

    return ClientTls(tls.certificate, tls.key or None, tls.key_password or None, tls.client_ca or None, tls.client_auth)


class Service:
    """The running parts of `shareproxy serve` and `shareproxy exporter`.

    What is not wanted is not imported: the proxy alone starts faster.

    Args:
        settings: of all parts.
        with_proxy: whether clients are served.
        with_exporter: whether share groups are watched; needs the setting `http`.
    """

    def __init__(self, settings: Settings, *, with_proxy: bool, with_exporter: bool) -> None:
        self.own = own_connection(settings)
        source = SourceChoice(settings.lag_source)
        self.cluster = Cluster(
            bootstrap_addresses(settings),
            self.own.security,
            client_id=self.own.client_id,
            connect_timeout=settings.limits.connect_timeout,
        )
        self.proxy_settings: ProxySettings | None = None
        self.proxy: Proxy | None = None
        self.exporter: Exporter | None = None
        self.http: HttpServer | None = None
        # one engine for both: what it remembers of the cluster serves both
        engine = LagEngine(self.cluster, source=source, timeout=settings.lag_timeout)
        if with_proxy:
            from shareproxy.proxy.server import Proxy

            self.proxy_settings = proxy_settings(settings, self.own.security)
            self.proxy = Proxy(self.proxy_settings, engine, source)
        if with_exporter:
            self.exporter = exporter(settings, engine, self.cluster)
        if settings.http:
            from shareproxy.observe.http import HttpServer

            address = one_address("http", settings.http)
            readiness = []
            if self.proxy is not None:
                readiness.append(self._proxy_not_ready)
            if self.exporter is not None:
                readiness.append(self.exporter.collector.why_not_fresh)
            self.http = HttpServer(address.host, address.port, readiness, self.exporter)

    def _proxy_not_ready(self) -> str | None:
        assert self.proxy is not None
        return None if self.proxy.ready else self.proxy.reason

    def reload(self) -> None:
        """Read the certificates for clients again; a file that cannot be used is logged and changes nothing."""
        if self.proxy is None:
            return
        log = structlog.get_logger()
        try:
            self.proxy.reload_certificates()
        except PropertiesError as error:
            log.error("certificates not reloaded", error=str(error))
        else:
            log.info("certificates reloaded")

    async def start(self) -> None:
        """Bind all ports; the cluster need not be there yet.

        Raises:
            ConfigError: an address cannot be bound.
        """
        try:
            if self.proxy is not None:
                await self.proxy.start()
            if self.http is not None:
                await self.http.start()
        except OSError as error:
            await self.stop()
            raise ConfigError(str(error)) from None
        if self.exporter is not None:
            self.exporter.collector.start()

    async def stop(self) -> None:
        """Let requests in flight finish, then close everything."""
        if self.proxy is not None:
            await self.proxy.stop(STOP_SECONDS)
        if self.http is not None:
            await self.http.stop()
        if self.exporter is not None:
            await self.exporter.collector.stop()
        await self.cluster.close()


def exporter(settings: Settings, engine: LagEngine, cluster: Cluster) -> Exporter:
    """Build the exporter that the settings describe.

    Raises:
        ConfigError: a pattern is not a regular expression.
    """
    from shareproxy.lag.visible_model import Want
    from shareproxy.observe.collector import CollectorSettings
    from shareproxy.observe.directory import BrokerDirectory
    from shareproxy.observe.exporter import Exporter

    wanted = settings.exporter
    looker = None
    if wanted.visible != "off":
        from shareproxy.lag.visible import VisibleReader

        looker = VisibleReader(cluster)
    return Exporter(
        engine,
        BrokerDirectory(cluster),
        CollectorSettings(
            interval=wanted.interval,
            timeout=settings.timeout,
            stale_after=wanted.stale_after,
            groups=_name_filter("groups", wanted.include_groups, wanted.exclude_groups),
            topics=_name_filter("topics", wanted.include_topics, wanted.exclude_topics),
            internal_topics=wanted.internal_topics,
            want=Want.ALL if wanted.visible == "all" else Want.LOG_START | Want.OPEN,
        ),
        granularity=wanted.granularity,
        cluster_label=wanted.cluster_label,
        looker=looker,
        requests=lambda: cluster.requests_sent,
    )


def serve_until_stopped(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT.

    Raises:
        ConfigError: settings or ports are wrong; nothing keeps running.
    """
    _run(settings, with_proxy=True, with_exporter=bool(settings.http) and settings.exporter.enabled)


def export_until_stopped(settings: Settings) -> None:
    """Run the exporter alone until SIGTERM or SIGINT.

    Raises:
        ConfigError: settings or the port are wrong; nothing keeps running.
    """
    if not settings.http:
        settings = msgspec.structs.replace(settings, http=EXPORTER_HTTP)
    _run(settings, with_proxy=False, with_exporter=True)


def allow_open_files() -> None:
    """Raise the limit of open files to what the system allows: each client needs two, and the usual limit is 1024."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit; macOS may refuse
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _until_stopped(settings: Settings, *, with_proxy: bool, with_exporter: bool) -> None:
    log = structlog.get_logger()
    service = Service(settings, with_proxy=with_proxy, with_exporter=with_exporter)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
            loop.add_signal_handler(number, stopped.set)
    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, service.reload)
    for note in service.own.notes:
        log.warning("property file", note=note)
    await service.start()
    about = {"bootstrap_server": settings.bootstrap_server, "lag_source": settings.lag_source}
    if service.proxy_settings is not None:
        advertised_host = service.proxy_settings.advertised_host
        about |= {"listen": settings.listen, "advertised_host": advertised_host, "node_ports": settings.node_ports}
    if service.http is not None:
        about["http"] = settings.http
    log.info("serving" if with_proxy else "exporting", **about)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        await stopped.wait()
        log.info("stopping", grace_seconds=STOP_SECONDS)
    finally:
        await service.stop()


def _run(settings: Settings, *, with_proxy: bool, with_exporter: bool) -> None:
    """Run on uvloop where it exists: it saves a tenth of the CPU per forwarded frame."""
    configure_log(settings.log)
    allow_open_files()
    main: Coroutine[Any, Any, None] = _until_stopped(settings, with_proxy=with_proxy, with_exporter=with_exporter)
    if sys.platform != "win32":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    else:  # pragma: no cover - not run in CI
        asyncio.run(main)


def _name_filter(what: str, include: str, exclude: str) -> NameFilter:
    from shareproxy.observe.snapshot import NameFilter

    return NameFilter(
        _pattern(f"exporter.include_{what}", include) if include else None,
        _pattern(f"exporter.exclude_{what}", exclude) if exclude else None,
    )


def _pattern(key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"{key}: {text!r} is not a regular expression: {error}; write for instance orders-.*|payments"
        ) from None


def _port_range(key: str, text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 65_536):
        raise ConfigError(f"{key}: {text!r} is not a range of ports; write for instance 19100-19163")
    return int(low), int(high)
