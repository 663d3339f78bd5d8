"""Listen for clients and lead each one to its broker.

In: settings and something that works out lag. Out: one bootstrap port and one port per node id, all bound at start,
whether the cluster is there or not. Must never: show a client an address that is not one of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.config import Limits
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.accepting import PlainListener
from shareproxy.proxy.client_tls import ClientTls, TlsPorts, server_name
from shareproxy.proxy.connection import Connection
from shareproxy.proxy.dial import numeric_places
from shareproxy.proxy.handshakes import Handshakes, TlsListener
from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.proxy.listening import BACKLOG, listen
from shareproxy.proxy.meter import Meter
from shareproxy.proxy.plain_socket import AVAILABLE
from shareproxy.proxy.ports import NO_PORT, NodePorts, PortsError
from shareproxy.proxy.share_offsets import LagFiller
from shareproxy.proxy.sides import ClientSide
from shareproxy.proxy.surroundings import Surroundings
from shareproxy.proxy.upstream import NOT_ASKED_YET, ReadNodes, Upstream

# Idle clients are closed so many at a time, with a pause, so that 10,000 do not come back at one moment; all within a
# part of the time that there is to stop.
DRAIN_AT_ONCE: Final = 50
DRAIN_PAUSE_SECONDS: Final = 0.01
DRAIN_PART: Final = 0.5
# an aborted socket reports its end in the next turn of the loop; one that never does must not hold up the stop
ABORT_SECONDS: Final = 2.0
DEFAULT_LIMITS: Final = Limits()
_ANY_HOST: Final = ("", "*")
_MAPPED: Final = bytes(10) + b"\xff\xff"  # of an IPv4 address within IPv6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Where the proxy listens, what it tells clients, where the brokers are, and the limits.

    Args:
        listen: the bootstrap port's address.
        advertised_host: the host name under which clients reach this machine.
        node_ports: first and last port for nodes.
        node_ids: declared node ids in the order of their ports; None for 0 and up.
        bootstrap_servers: brokers to begin with.
        broker_security: TLS towards brokers is taken from it; its SASL identity is for reading metadata only,
            clients authenticate as themselves.
        limits: what one client may take, and for how long; each needs two of the process's file descriptors.
        lag_timeout: seconds to find lag, after which it is unknown.
        client_tls: certificate for clients; None for plain text.
        node_hosts: with TLS, a host name for each node: then there are no node ports, and a client's server name
            (SNI) leads it to its node.
        advertised_port: of those host names, None for the port of `listen`; another one behind a load balancer.
        reuse_port: share the ports with other processes; the kernel spreads the clients over them.

    Raises:
        PortsError: clients cannot use the advertised host, or the node ids do not fit the ports.
    """

    listen: Address
    advertised_host: str
    bootstrap_servers: tuple[Address, ...]
    node_ports: tuple[int, int] = (19_100, 19_163)
    node_ids: tuple[range, ...] | None = None
    broker_security: Security = PLAINTEXT
    limits: Limits = DEFAULT_LIMITS
    lag_timeout: float = 3.0
    client_tls: ClientTls | None = None
    node_hosts: HostPattern | None = None
    advertised_port: int | None = None
    reuse_port: bool = False

    def __post_init__(self) -> None:
        if self.advertised_host in _ANY_HOST or _is_any(self.advertised_host):
            raise PortsError(
                f"clients cannot connect to {self.advertised_host or 'an empty host name'!r}; "
                "give --advertised-host the name under which they reach this machine"
            )
        if self.node_hosts is not None:
            if self.client_tls is None:
                raise PortsError(f"host names such as {self.node_hosts} lead to nodes by TLS only; give a certificate")
        elif self.listen.port in dict(self.ports()).values():
            raise PortsError(f"port {self.listen.port} is both the bootstrap port and a node's; change one of them")

    def ports(self) -> NodePorts:
        """Return which port leads to which node."""
        return NodePorts(*self.node_ports, self.node_ids)

    def addresses(self) -> list[tuple[Address, NodeId | None]]:
        """Return where to listen, with the node that is behind each port; None is any."""
        addresses: list[tuple[Address, NodeId | None]] = [(self.listen, None)]
        if self.node_hosts is None:
            addresses += [(Address(self.listen.host, port), node_id) for node_id, port in self.ports()]
        return addresses


def _is_any(host: str) -> bool:
    """Tell whether a host stands for all addresses of a machine, in any of the ways to write 0.0.0.0 and ::."""
    places = numeric_places(Address(host, 0))
    numbers = [socket.inet_pton(family, place[0].partition("%")[0]) for family, place in places]
    return any(number.rstrip(b"\0") in (b"", _MAPPED) for number in numbers)


class Advertised:
    """The mapping from brokers' addresses to the ones clients are told; brokers are learnt from it on the way.

    Args:
        host: advertised host.
        ports: advertised ports.
        upstream: told where brokers are.
    """

    def __init__(self, host: str, ports: NodePorts, upstream: Upstream) -> None:
        self._host, self._ports, self._upstream = host, ports, upstream
        self._reported: set[int] = set()

    def __call__(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Return the advertised address of a node; one that refuses connections if the node has no port."""
        advertised = self._ports.port_of(node_id)
        if advertised is None:
            if node_id not in self._reported:
                self._reported.add(node_id)
                why = self._ports.why_missing(node_id, host, port)
                structlog.get_logger().error("node has no port", node_id=node_id, detail=why)
            return self._host, NO_PORT
        self._upstream.learn(NodeId(node_id), Address(host, port))
        return self._host, advertised


class AdvertisedHosts:
    """The same mapping where every node has a host name and all have one port.

    Args:
        pattern: of the host names.
        port: advertised port.
        upstream: told where brokers are.
    """

    def __init__(self, pattern: HostPattern, port: int, upstream: Upstream) -> None:
        self._pattern, self._port, self._upstream = pattern, port, upstream

    def __call__(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Return the advertised address of a node."""
        self._upstream.learn(NodeId(node_id), Address(host, port))
        return self._pattern.host_of(node_id), self._port


class Proxy:
    """The running proxy.

    Args:
        settings: see there.
        lag: works out lag; None leaves DescribeShareGroupOffsets as the brokers answer it.
        source: with `auto` lag is worked out only where a broker does not know it.
        read_nodes: reads the nodes' addresses; None for a small client of its own.

    Raises:
        PropertiesError: a file with certificates cannot be used.
    """

    def __init__(
        self,
        settings: ProxySettings,
        lag: LagFiller | None,
        source: SourceChoice = SourceChoice.AUTO,
        *,
        read_nodes: ReadNodes | None = None,
    ) -> None:
        self._settings, self._ports = settings, settings.ports()
        self._upstream = Upstream(settings.bootstrap_servers, settings.broker_security)
        self._tls = None if settings.client_tls is None else TlsPorts(settings.client_tls)
        self._advertised: AddressMapping = Advertised(settings.advertised_host, self._ports, self._upstream)
        if settings.node_hosts is not None:
            port = settings.listen.port if settings.advertised_port is None else settings.advertised_port
            self._advertised = AdvertisedHosts(settings.node_hosts, port, self._upstream)
        self._around = Surroundings(
            self._upstream,
            self._advertised,
            lag,
            source,
            limits=settings.limits,
            lag_timeout=settings.lag_timeout,
            wants_sasl=settings.broker_security.sasl,
        )
        self._cluster: Cluster | None = None
        self._read_nodes = read_nodes or self._read_nodes_ourselves
        self._listeners: list[asyncio.Server | PlainListener] = []
        self._watcher: asyncio.Task[None] | None = None
        self._state = "not started"
        self._draining = False
        self._hurry, self._last_closed = asyncio.Event(), asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether clients are served: ports bound, cluster reached, not stopping."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why not ready, as a sentence; empty when ready."""
        if self._state:
            return self._state
        failure = self._upstream.failure
        if failure == NOT_ASKED_YET and self._cluster is not None:
            failure = self._cluster.trouble or failure  # the first look goes on for seconds before it gives up
        return f"the cluster cannot be reached: {failure}" if failure else ""

    @property
    def meter(self) -> Meter:
        """What it has counted."""
        return self._around.meter

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._around.open)

    @property
    def bootstrap_address(self) -> Address:
        """Where it listens for bootstrapping clients, with the real port if 0 was asked for."""
        host, port = self._listeners[0].sockets[0].getsockname()[:2]
        return Address(host, port)

    @property
    def node_addresses(self) -> Mapping[NodeId, Address]:
        """The advertised address of each node id that has a port."""
        return {node_id: Address(self._settings.advertised_host, port) for node_id, port in self._ports}

    async def start(self) -> None:
        """Bind all ports and begin to look for the cluster, which need not be there yet.

        Raises:
            OSError: a port cannot be bound; its text names the address. Nothing stays bound.
        """
        try:
            for address, node_id in self._settings.addresses():
                await self._listen(address, node_id)
        except OSError:
            self._stop_listening()
            raise
        self._around.fit_to_open_files()
        self._state = ""
        self._watcher = asyncio.create_task(self._upstream.watch(self._read_and_report))

    def set_limits(self, limits: Limits) -> None:
        """Take other limits; those of frame sizes and of what is in flight hold for new connections."""
        self._around.limits = limits

    def reload_certificates(self) -> None:
        """Show new clients the certificate that lies in the files now, and trust the authorities in them only.

        Raises:
            PropertiesError: a file cannot be used; the certificate stays.
        """
        if self._tls is not None:
            self._tls.reload()

    async def stop(self, grace: float = 0.0, delay: float = 0.0) -> None:
        """Accept no more clients, close each one when nothing of it is in flight, and all after `grace` seconds.

        Args:
            grace: seconds for what is in flight.
            delay: seconds in which clients are still let in, although `reason` already says that it is stopping.
        """
        self._state = "stopping"
        if self._listeners:
            await self._wait(delay)
        self._stop_listening()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        around = self._around
        around.on_last_closed = self._last_closed.set
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._drain(grace)
                await self._until_closed()
        self._abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABORT_SECONDS):
                await self._around.end_handshakes()
                await self._until_closed()
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None
        self._state = "stopped"

    def hurry(self) -> None:
        """Let `stop` wait for nothing any more; what is in flight is cut off."""
        self._hurry.set()
        if self._state == "stopping" and not self._listeners:
            self._abort()

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _drain(self, grace: float) -> None:
        """Begin with the clients that nothing is lost of."""
        self._draining = True
        waiting = sorted(self._around.open, key=lambda connection: not connection.idle)
        pause = min(DRAIN_PAUSE_SECONDS, grace * DRAIN_PART * DRAIN_AT_ONCE / max(1, len(waiting)))
        for first in range(0, len(waiting), DRAIN_AT_ONCE):
            if first:
                await self._wait(pause)
            for connection in waiting[first : first + DRAIN_AT_ONCE]:
                connection.drain()
        if self._hurry.is_set():
            self._abort()

    async def _until_closed(self) -> None:
        while self._around.open:
            self._last_closed.clear()
            await self._last_closed.wait()

    def _abort(self) -> None:
        for connection in tuple(self._around.open):
            connection.abort()

    async def _listen(self, address: Address, node_id: NodeId | None) -> None:
        loop = asyncio.get_running_loop()
        tls, pattern = self._tls, self._settings.node_hosts

        def connect(transport: asyncio.BaseTransport) -> Connection:
            asked = node_id if pattern is None else pattern.node_of(server_name(transport))
            connection = Connection(self._around, asked, named=pattern is not None)
            if self._draining:  # it was accepted before, and its handshake took until now
                loop.call_soon(connection.drain)
            return connection

        for listening in listen(address, reuse_port=self._settings.reuse_port):
            if tls is not None:
                handshakes = Handshakes(self._around, tls, connect, node_id)
                listener: PlainListener = TlsListener(listening, handshakes)
            elif AVAILABLE:
                listener = PlainListener(listening, lambda: ClientSide(connect))
            else:  # pragma: no cover - Windows
                server = await loop.create_server(lambda: ClientSide(connect), sock=listening, backlog=BACKLOG)
                self._listeners.append(server)
                continue
            listener.start()
            self._listeners.append(listener)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def _read_and_report(self, deadline: float) -> Mapping[NodeId, Address]:
        nodes = await self._read_nodes(deadline)
        for node_id, address in nodes.items():
            self._advertised(node_id, *address)  # a broker without a port is better known before a client meets it
        return nodes

    async def _read_nodes_ourselves(self, deadline: float) -> Mapping[NodeId, Address]:
        settings = self._settings
        if self._cluster is None:
            self._cluster = Cluster(
                settings.bootstrap_servers, settings.broker_security, connect_timeout=settings.limits.connect_timeout
            )
        metadata = await self._cluster.metadata((), deadline=deadline)
        return {node_id: Address(node.host, node.port) for node_id, node in metadata.nodes.items()}
