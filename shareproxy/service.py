"""Wire the layers into one running service: the only place that does.

In: settings. Out: a proxy, an exporter or both, with their own connection to the cluster, until a signal.
Must never: decide anything about the protocol or about lag.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.security import Security
from shareproxy.config import CannotListen, ConfigError, Settings, Tls
from shareproxy.connecting import bootstrap_addresses, one_address, own_connection
from shareproxy.front import Front, FrontHere, MakeFront
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import SourceChoice
from shareproxy.lifecycle import live, run
from shareproxy.reloading import Reread, change

if TYPE_CHECKING:
    from prometheus_client.registry import Collector as Source

    from shareproxy.observe.exporter import Exporter
    from shareproxy.observe.http import HttpServer
    from shareproxy.observe.snapshot import NameFilter
    from shareproxy.proxy.client_tls import ClientTls
    from shareproxy.proxy.server import ProxySettings
    from shareproxy.sink_beside import SinkBeside

# the exporter alone is for others to ask; a proxy has HTTP only if it is told an address
EXPORTER_HTTP: Final = "127.0.0.1:9464"


def proxy_settings(settings: Settings, security: Security, *, reuse_port: bool = False) -> ProxySettings:
    """Translate the settings into those of the proxy.

    Args:
        settings: of all parts.
        security: of connections to brokers.
        reuse_port: whether other processes listen on the same ports.

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
            limits=settings.limits,
            lag_timeout=settings.lag_timeout,
            client_tls=_client_tls(settings.tls),
            node_hosts=HostPattern(settings.node_hosts) if settings.node_hosts else None,
            advertised_port=settings.advertised_port or None,
            reuse_port=reuse_port,
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
        reread: reads the settings again, for `reload`; None if they cannot change.
        front: makes what serves the clients; None for a proxy in this process.
        reuse_port: whether other processes listen on the same ports.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        with_proxy: bool,
        with_exporter: bool,
        reread: Reread | None = None,
        front: MakeFront | None = None,
        reuse_port: bool = False,
    ) -> None:
        self.settings, self._reread = settings, reread
        self.own = own_connection(settings)
        source = SourceChoice(settings.lag_source)
        self.cluster = Cluster(
            bootstrap_addresses(settings),
            self.own.security,
            client_id=self.own.client_id,
            connect_timeout=settings.limits.connect_timeout,
        )
        self.proxy_settings: ProxySettings | None = None
        self.front: Front | None = None
        self.exporter: Exporter | None = None
        self.http: HttpServer | None = None
        # one engine for both: what it remembers of the cluster serves both
        engine = LagEngine(self.cluster, source=source, timeout=settings.lag_timeout)
        if with_proxy:
            self.proxy_settings = proxy_settings(settings, self.own.security, reuse_port=reuse_port)
            if front is not None:
                self.front = front(settings, self.proxy_settings)
            else:
                from shareproxy.proxy.server import Proxy

                self.front = FrontHere(Proxy(self.proxy_settings, engine, source))
        self.sink: SinkBeside | None = None
        if settings.sink:
            from shareproxy.sink_beside import sink_beside

            self.sink = sink_beside(settings.sink)
        more = self._more_metrics() if settings.http else ()
        if with_exporter:
            self.exporter = exporter(settings, engine, self.cluster, more)
        if settings.http:
            self.http = self._http(more)

    def _more_metrics(self) -> Sequence[Source]:
        beside = () if self.sink is None else (self.sink.metrics,)
        if self.front is None:
            return beside
        from shareproxy.observe.proxy_metrics import ProxyMetrics

        return (ProxyMetrics(self.front.meter), *self.front.metrics(), *beside)

    def _http(self, more: Sequence[Source]) -> HttpServer:
        from shareproxy.observe.http import HttpServer
        from shareproxy.observe.self_metrics import OwnPage

        address = one_address("http", self.settings.http)
        readiness = []
        refresh: Callable[[], Awaitable[None]] | None = None
        if self.front is not None:
            readiness.append(self.front.why_not_ready)
            refresh = self.front.refresh
        if self.exporter is not None:
            readiness.append(self.exporter.collector.why_not_fresh)
        if self.sink is not None:
            readiness.append(self.sink.worker.why_not_ready)
        metrics = self.exporter or OwnPage(more)
        http = HttpServer(address.host, address.port, readiness, self.exporter, metrics=metrics, refresh=refresh)
        if self.sink is not None:
            self.sink.show(http.application)
        return http

    def why_not_ready(self) -> str | None:
        """Return why clients are not served, or why nothing fresh is shown; None if all is well."""
        if self.front is not None and (reason := self.front.why_not_ready()):
            return reason
        if self.exporter is not None and (reason := self.exporter.collector.why_not_fresh()):
            return reason
        return None if self.sink is None else self.sink.worker.why_not_ready()

    async def reload(self) -> None:
        """Read settings and certificates again; if something of them cannot be used, nothing changes."""
        log = structlog.get_logger()
        try:
            found = change(self.settings, self._reread() if self._reread is not None else self.settings)
            await self.take(found.settings)
        except (ConfigError, PropertiesError) as error:
            log.error("settings not reloaded", error=str(error))
            return
        if found.needs_restart:
            log.warning("settings reloaded", changed=found.changed, needs_restart=found.needs_restart)
        else:
            log.info("settings reloaded", changed=found.changed)

    async def take(self, settings: Settings) -> None:
        """Go on with other settings, and with the certificates that lie in the files now.

        Args:
            settings: differ from those before only in what may change.

        Raises:
            PropertiesError: a file with certificates cannot be used; nothing changed.
            ConfigError: a worker process cannot use what this one could.
        """
        if self.front is not None:
            await self.front.reload(settings)
        self.settings = settings

    async def start(self) -> None:
        """Bind all ports; the cluster need not be there yet.

        Raises:
            CannotListen: an address cannot be bound.
            ConfigError: a worker process or a sink cannot use the settings.
            AdminError, DrainError, ClusterError: no task of a sink can work.
        """
        try:
            if self.http is not None:
                await self.http.start()
            if self.front is not None:
                await self.front.start()
            if self.sink is not None:
                await self.sink.worker.start()
        except BaseException as error:
            await self.stop(0.0, 0.0)
            if isinstance(error, OSError):
                raise CannotListen(error.strerror or str(error)) from None
            raise
        if self.exporter is not None:
            self.exporter.collector.start()

    async def stop(self, delay: float | None = None, grace: float | None = None) -> None:
        """Let requests in flight finish, then close everything.

        Args:
            delay: seconds in which clients are still let in, None for the setting's.
            grace: seconds that requests in flight may then take, None for the setting's.
        """
        settings = self.settings
        if delay is None and grace is None:
            structlog.get_logger().info("stopping", delay=settings.stop_delay, timeout=settings.stop_timeout)
        delay = settings.stop_delay if delay is None else delay
        grace = settings.stop_timeout if grace is None else grace
        if self.front is not None:
            await self.front.stop(delay, grace)
        if self.sink is not None:
            await self.sink.worker.stop()
        if self.http is not None:
            await self.http.stop()
        if self.exporter is not None:
            await self.exporter.collector.stop()
        await self.cluster.close()

    def hurry(self) -> None:
        """Let `stop` wait for no client any more."""
        if self.front is not None:
            self.front.hurry()
        if self.sink is not None:
            self.sink.worker.hurry()

    async def failed(self) -> Exception:
        """Return when clients cannot be served any more, with the reason."""
        if self.front is not None:
            return await self.front.failed()
        never: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        return await never


def exporter(settings: Settings, engine: LagEngine, cluster: Cluster, more: Sequence[Source] = ()) -> Exporter:
    """Build the exporter that the settings describe.

    Args:
        settings: what to look at, and how often.
        engine: tells the lag.
        cluster: is asked for everything else.
        more: metrics to be shown beside it.

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
        more=more,
    )


def serve_until_stopped(settings: Settings, reread: Reread | None = None, front: MakeFront | None = None) -> None:
    """Run the service until SIGTERM or SIGINT.

    Args:
        settings: of all parts.
        reread: reads them again at SIGHUP.
        front: makes what serves the clients; None for a proxy in this process.

    Raises:
        ConfigError: settings are wrong; nothing keeps running.
        CannotListen: an address cannot be bound now; nothing keeps running.
    """
    with_exporter = bool(settings.http) and settings.exporter.enabled
    run(settings, lambda: _until_stopped(settings, True, with_exporter, reread, front))


def export_until_stopped(settings: Settings, reread: Reread | None = None) -> None:
    """Run the exporter alone until SIGTERM or SIGINT.

    Raises:
        ConfigError: settings are wrong; nothing keeps running.
        CannotListen: the address cannot be bound now; nothing keeps running.
    """
    if not settings.http:
        settings = msgspec.structs.replace(settings, http=EXPORTER_HTTP)
    run(settings, lambda: _until_stopped(settings, False, True, reread, None))


async def _until_stopped(
    settings: Settings, with_proxy: bool, with_exporter: bool, reread: Reread | None, front: MakeFront | None
) -> None:
    log = structlog.get_logger()
    service = Service(settings, with_proxy=with_proxy, with_exporter=with_exporter, reread=reread, front=front)
    for note in service.own.notes:
        log.warning("property file", note=note)
    about: dict[str, Any] = {"bootstrap_server": settings.bootstrap_server, "lag_source": settings.lag_source}
    if service.proxy_settings is not None:
        advertised_host = service.proxy_settings.advertised_host
        about |= {"listen": settings.listen, "advertised_host": advertised_host, "node_ports": settings.node_ports}
    if service.http is not None:
        about["http"] = settings.http
    if front is not None:
        about["workers"] = settings.workers
    about["event_loop"] = type(asyncio.get_running_loop()).__module__.partition(".")[0]

    def say_so() -> None:
        if with_proxy:
            log.info("serving", **about)
        else:
            log.info("exporting", **about)

    await live(service, say_so)


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
