"""Listen for clients and lead each one to its broker.

In: settings and something that works out lag. Out: one bootstrap port and one port per node id, all bound at start,
whether the cluster is there or not. Must never: show a client an address that is not one of these.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.framing import MAX_REQUEST_BYTES
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.client_tls import HANDSHAKE_SECONDS, ClientTls, TlsPorts, server_name
from shareproxy.proxy.connection import ClientSide, Connection, Surroundings
from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.proxy.ports import NO_PORT, NodePorts, PortsError
from shareproxy.proxy.share_offsets import LagFiller
from shareproxy.proxy.upstream import ReadNodes, Upstream, describe_os_error

# Clients that come at the same moment, as after a restart; the kernel caps it at its own limit.
BACKLOG: Final = 1024
# an aborted socket reports its end in the next turn of the loop; one that never does must not hold up the stop
ABORT_SECONDS: Final = 2.0
_ANY_HOST: Final = ("", "0.0.0.0", "::")


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
        max_frame_bytes: largest request; Kafka's own default.
        max_connections: clients at a time; each needs two of the process's file descriptors.
        connect_timeout: seconds to reach a broker, after which the client is closed; clients give up after 30.
        lag_timeout: seconds to find lag, after which it is unknown.
        client_tls: certificate for clients; None for plain text.
        node_hosts: with TLS, a host name for each node: then there are no node ports, and a client's server name
            (SNI) leads it to its node.
        advertised_port: of those host names, None for the port of `listen`; another one behind a load balancer.

    Raises:
        PortsError: clients cannot use the advertised host, or the node ids do not fit the ports.
    """

    listen: Address
    advertised_host: str
    bootstrap_servers: tuple[Address, ...]
    node_ports: tuple[int, int] = (19_100, 19_163)
    node_ids: tuple[range, ...] | None = None
    broker_security: Security = PLAINTEXT
    max_frame_bytes: int = MAX_REQUEST_BYTES
    max_connections: int = 10_000
    connect_timeout: float = 5.0
    lag_timeout: float = 3.0
    client_tls: ClientTls | None = None
    node_hosts: HostPattern | None = None
    advertised_port: int | None = None

    def __post_init__(self) -> None:
        if self.advertised_host in _ANY_HOST:
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
                structlog.get_logger().error(self._ports.why_missing(node_id, host, port), node_id=node_id)
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
            lag_timeout=settings.lag_timeout,
            connect_timeout=settings.connect_timeout,
            max_request_bytes=settings.max_frame_bytes,
            max_connections=settings.max_connections,
        )
        self._cluster: Cluster | None = None
        self._read_nodes = read_nodes or self._read_nodes_ourselves
        self._listeners: list[asyncio.Server] = []
        self._watcher: asyncio.Task[None] | None = None
        self._state = "not started"

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
        return f"the cluster cannot be reached: {failure}" if failure else ""

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
        host, port = self._settings.listen
        try:
            await self._listen(host, port, None)
            if self._settings.node_hosts is None:
                for node_id, node_port in self._ports:
                    await self._listen(host, node_port, node_id)
        except OSError:
            self._stop_listening()
            raise
        self._state = ""
        self._watcher = asyncio.create_task(self._upstream.watch(self._read_and_report))

    def reload_certificates(self) -> None:
        """Show new clients the certificate that lies in the files now.

        Raises:
            PropertiesError: a file cannot be used; the certificate stays.
        """
        if self._tls is not None:
            self._tls.reload()

    async def stop(self, grace: float = 0.0) -> None:
        """Accept no more clients, close each one when nothing of it is in flight, and all after `grace` seconds."""
        self._state = "stopping"
        self._stop_listening()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        around = self._around
        closed = asyncio.Event()
        around.on_last_closed = closed.set
        for connection in tuple(around.open):
            connection.drain()
        try:
            async with asyncio.timeout(grace):
                while around.open:
                    await closed.wait()
        except TimeoutError:
            for connection in tuple(around.open):
                connection.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ABORT_SECONDS):
                    while around.open:
                        closed.clear()
                        await closed.wait()
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None
        self._state = "stopped"

    async def _listen(self, host: str, port: int, node_id: NodeId | None) -> None:
        loop = asyncio.get_running_loop()
        tls, pattern = self._tls, self._settings.node_hosts

        def connect(transport: asyncio.BaseTransport) -> Connection:
            asked = node_id if pattern is None else pattern.node_of(server_name(transport))
            return Connection(self._around, asked)

        try:
            server = await loop.create_server(
                lambda: ClientSide(connect),
                host or None,
                port,
                backlog=BACKLOG,
                ssl=None if tls is None else tls.context,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            text = f"cannot listen on {Address(host, port)}: {describe_os_error(error)}"
            raise OSError(error.errno, text) from None
        self._listeners.append(server)

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
                settings.bootstrap_servers, settings.broker_security, connect_timeout=settings.connect_timeout
            )
        metadata = await self._cluster.metadata((), deadline=deadline)
        return {node_id: Address(node.host, node.port) for node_id, node in metadata.nodes.items()}
