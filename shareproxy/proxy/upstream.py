"""Know where the brokers are and connect to them.

In: bootstrap addresses, addresses seen in answers, metadata read from time to time. Out: connections to one node, or
to any broker. Must never: lead a node's port to another node, or keep a resolved name.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import ClusterError, PropertiesError
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.dial import Dial, Resolver, numeric_places
from shareproxy.proxy.exchange import BrokerVersions
from shareproxy.proxy.plain_connect import Begun, begin, finish
from shareproxy.proxy.plain_socket import AVAILABLE, PlainSocket

P = TypeVar("P", bound=asyncio.Protocol)

# TLS with one of several brokers: one that hangs must not use up the whole connect timeout.
ATTEMPT_SECONDS: Final = 3.0
# An address that failed not longer ago than this is tried after those that did not.
DOUBT_SECONDS: Final = 10.0
# Nodes come and go rarely, and clients' own Metadata answers show them as well.
WATCH_SECONDS: Final = 10.0
READ_SECONDS: Final = 5.0
FIRST_RETRY_SECONDS: Final = 0.2
LAST_RETRY_SECONDS: Final = 5.0
NOT_ASKED_YET: Final = "no broker has answered yet"

ReadNodes = Callable[[float], Awaitable[Mapping[NodeId, Address]]]
"""Read all nodes' addresses from the cluster before a deadline in the event loop's time."""


class UnreachableError(Exception):
    """No connection could be made; the text says where to and why."""


class UnknownNodeError(Exception):
    """The node id is not in the cluster now."""


class Upstream:
    """The brokers behind the proxy.

    Args:
        bootstrap_servers: where to begin; each name is resolved at each connect.
        security: whether connections to brokers begin with TLS, and how; SASL is the clients' own matter.

    Raises:
        PropertiesError: a file with certificates cannot be used.
    """

    def __init__(self, bootstrap_servers: Sequence[Address], security: Security = PLAINTEXT) -> None:
        self.bootstrap_servers = tuple(bootstrap_servers)
        self.nodes: dict[NodeId, Address] = {}
        self.failure: str | None = NOT_ASKED_YET
        """Why the cluster cannot be read now; None while it can."""
        self._security = security
        if security.tls:
            security.ssl_context()  # a file that cannot be read is better known now than at the first client
        self._resolver = Resolver()
        self._doubtful: dict[Address, float] = {}
        """Addresses that failed not long ago, and when."""
        self._versions: dict[NodeId, BrokerVersions] = {}
        self._turn = 0
        self._wanted = asyncio.Event()

    def learn(self, node_id: NodeId, address: Address) -> None:
        """Note an address that a broker gave to a client."""
        self.nodes[node_id] = address

    def versions_of(self, node_id: NodeId | None) -> BrokerVersions:
        """Return what is known of a node; of a broker not chosen yet (None), or not in the cluster, nothing is."""
        if node_id is None or node_id not in self.nodes:
            return BrokerVersions()
        return self._versions.setdefault(node_id, BrokerVersions())

    def addresses(self, node_id: NodeId | None) -> list[Address]:
        """Return where to try: a node's one address, or all brokers, beginning with another node each time.

        Raises:
            UnknownNodeError: the node is not in the cluster now.
        """
        if node_id is not None:
            if node_id not in self.nodes:
                self._wanted.set()
                raise UnknownNodeError(f"node {node_id} is not among the cluster's nodes {sorted(self.nodes)}")
            return [self.nodes[node_id]]
        # A broker that hangs still takes connections, but is soon not among the nodes any more: bootstrap servers that
        # are no node's address come last.
        live = list(dict.fromkeys(self.nodes.values()))
        others = [address for address in self.bootstrap_servers if address not in live]
        self._turn += 1
        in_turn = [*_turned(live, self._turn), *_turned(others, self._turn)]
        if self._doubtful:
            since = asyncio.get_running_loop().time() - DOUBT_SECONDS
            in_turn.sort(key=lambda address: self._doubtful.get(address, since) > since)
        return in_turn

    def begin(self, node_id: NodeId | None) -> Begun | None:
        """Begin to connect where there is one address and nothing to resolve or to encrypt; None where there is more.

        Args:
            node_id: the node it must be, None for any broker.
        """
        if self._security.tls or not AVAILABLE:
            return None
        known = (*self.nodes.values(), *self.bootstrap_servers) if node_id is None else (self.nodes.get(node_id),)
        address = known[0]
        if address is None or any(other != address for other in known):
            return None
        places = numeric_places(address)
        if not places:
            return None
        try:
            return begin(address, places[0])
        except OSError:
            return None  # `connect` says what the matter is

    async def connect(
        self, factory: Callable[[], P], node_id: NodeId | None, timeout: float, begun: Begun | None = None
    ) -> tuple[asyncio.Transport, P, Address]:
        """Open one connection.

        Args:
            factory: makes the protocol.
            node_id: the node it must be, None for any broker.
            timeout: seconds for all attempts together, name resolution and TLS included.
            begun: what `begin` has begun; it is finished or closed.

        Raises:
            UnknownNodeError: the node is not in the cluster now.
            UnreachableError: all attempts failed.
        """
        try:
            tls = self._security.ssl_context() if self._security.tls else None  # files may have been renewed
        except PropertiesError as error:
            raise UnreachableError(str(error)) from None
        addresses = self.addresses(node_id)
        dial = Dial(self._resolver, addresses)
        if timeout <= 0:
            raise UnreachableError(dial.why())
        connect: Awaitable[tuple[asyncio.Transport, P, Address]]
        if len(addresses) == 1 and numeric_places(addresses[0]):  # nothing to choose from: half the work
            connect = _connect_directly(factory, addresses[0], tls, dial, begun)
        else:
            connect = self._connect_to_first(factory, tls, dial)
        try:
            async with asyncio.timeout(timeout):
                return await connect
        except (OSError, TimeoutError):
            self._doubt(dial.worse_than(None))
            self._wanted.set()  # it may have moved
            raise UnreachableError(dial.why()) from None

    async def _connect_to_first(
        self, factory: Callable[[], P], tls: ssl.SSLContext | None, dial: Dial
    ) -> tuple[asyncio.Transport, P, Address]:
        while (place := await dial.connected()) is not None:
            try:
                async with asyncio.timeout(None if tls is None else ATTEMPT_SECONDS):
                    transport, protocol = await _adopt(factory, place.socket, place.address, tls)
            except (OSError, TimeoutError) as error:
                dial.give_up(place.address, place.place, error)
            else:
                self._doubt(dial.worse_than(place.address))
                self._doubtful.pop(place.address, None)
                return transport, protocol, place.address
        raise ConnectionError(dial.why())

    def _doubt(self, addresses: Sequence[Address]) -> None:
        if addresses:
            now = asyncio.get_running_loop().time()
            self._doubtful = {address: time for address, time in self._doubtful.items() if time > now - DOUBT_SECONDS}
            self._doubtful.update(dict.fromkeys(addresses, now))

    async def watch(self, read_nodes: ReadNodes) -> None:
        """Keep `nodes` and `failure` current until cancelled."""
        log = structlog.get_logger()
        loop = asyncio.get_running_loop()
        retry = FIRST_RETRY_SECONDS
        while True:
            unexpected: Exception | None = None
            try:
                nodes = await read_nodes(loop.time() + READ_SECONDS)
                failure = None
            except (ClusterError, OSError, TimeoutError) as error:
                failure = str(error) or type(error).__name__
            except Exception as error:
                failure, unexpected = f"{type(error).__name__}: {error}", error
            if failure is None:
                if self.failure is not None:
                    log.info("cluster reached", nodes={node: str(address) for node, address in sorted(nodes.items())})
                self.nodes = dict(nodes)
                retry, pause = FIRST_RETRY_SECONDS, WATCH_SECONDS
            else:
                if failure != self.failure:
                    log.warning("cluster not reached", error=failure, exc_info=unexpected)
                pause = retry * random.uniform(0.8, 1.2)
                retry = min(retry * 2, LAST_RETRY_SECONDS)
            self.failure = failure
            await self._pause(pause, FIRST_RETRY_SECONDS)

    async def _pause(self, seconds: float, least: float) -> None:
        """Sleep, but not on when a client came for a node that is not known."""
        await asyncio.sleep(least)
        try:
            async with asyncio.timeout(max(seconds - least, 0)):
                await self._wanted.wait()
        except TimeoutError:
            pass
        self._wanted.clear()


async def _connect_directly(
    factory: Callable[[], P], address: Address, tls: ssl.SSLContext | None, dial: Dial, begun: Begun | None
) -> tuple[asyncio.Transport, P, Address]:
    try:
        if begun is None:
            begun = begin(address, numeric_places(address)[0])
        transport, protocol = await _adopt(factory, await finish(begun), address, tls)
    except OSError as error:
        dial.give_up(address, None, error)
        raise
    return transport, protocol, address


async def _adopt(
    factory: Callable[[], P], connected: socket.socket, address: Address, tls: ssl.SSLContext | None
) -> tuple[asyncio.Transport, P]:
    loop = asyncio.get_running_loop()
    if tls is None and AVAILABLE:
        protocol = factory()
        transport = PlainSocket(loop, connected, protocol)
        protocol.connection_made(transport)
        return transport, protocol
    name = address.host if tls else None
    return await loop.create_connection(factory, sock=connected, ssl=tls, server_hostname=name)


def _turned(addresses: Sequence[Address], turn: int) -> list[Address]:
    first = turn % len(addresses) if addresses else 0
    return [*addresses[first:], *addresses[:first]]
