"""Know where the brokers are and connect to them.

In: bootstrap addresses, addresses seen in answers, metadata read from time to time. Out: connections to one node, or
to any broker. Must never: lead a node's port to another node, or keep a resolved name.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import ClusterError, PropertiesError
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.exchange import BrokerVersions

P = TypeVar("P", bound=asyncio.Protocol)

# One attempt at one of several brokers: a dead machine must not use up the whole connect timeout.
ATTEMPT_SECONDS: Final = 3.0
# Nodes come and go rarely, and clients' own Metadata answers show them as well.
WATCH_SECONDS: Final = 10.0
READ_SECONDS: Final = 5.0
FIRST_RETRY_SECONDS: Final = 0.2
LAST_RETRY_SECONDS: Final = 5.0

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
        self.failure: str | None = "the cluster was not asked yet"
        """Why the cluster cannot be read now; None while it can."""
        self._security = security
        if security.tls:
            security.ssl_context()  # a file that cannot be read is better known now than at the first client
        self._versions: dict[NodeId, BrokerVersions] = {}
        self._turn = 0
        self._wanted = asyncio.Event()

    def learn(self, node_id: NodeId, address: Address) -> None:
        """Note an address that a broker gave to a client."""
        self.nodes[node_id] = address

    def versions_of(self, node_id: NodeId | None) -> BrokerVersions:
        """Return what is known of a node; None is a broker not chosen yet, of which nothing is."""
        return BrokerVersions() if node_id is None else self._versions.setdefault(node_id, BrokerVersions())

    def addresses(self, node_id: NodeId | None) -> list[Address]:
        """Return where to try: a node's one address, or all brokers, beginning with another one each time.

        Raises:
            UnknownNodeError: the node is not in the cluster now.
        """
        if node_id is not None:
            if node_id not in self.nodes:
                self._wanted.set()
                raise UnknownNodeError(f"node {node_id} is not among the cluster's nodes {sorted(self.nodes)}")
            return [self.nodes[node_id]]
        everyone = list(dict.fromkeys((*self.nodes.values(), *self.bootstrap_servers)))
        self._turn = (self._turn + 1) % len(everyone)
        return everyone[self._turn :] + everyone[: self._turn]

    async def connect(
        self, factory: Callable[[], P], node_id: NodeId | None, timeout: float
    ) -> tuple[asyncio.Transport, P, Address]:
        """Open one connection.

        Args:
            factory: makes the protocol.
            node_id: the node it must be, None for any broker.
            timeout: seconds for all attempts together, name resolution and TLS included.

        Raises:
            UnknownNodeError: the node is not in the cluster now.
            UnreachableError: all attempts failed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            tls = self._security.ssl_context() if self._security.tls else None  # files may have been renewed
        except PropertiesError as error:
            raise UnreachableError(str(error)) from None
        addresses = self.addresses(node_id)
        failures = []
        for position, address in enumerate(addresses):
            left = deadline - loop.time()
            if left <= 0:
                break
            last = position == len(addresses) - 1
            try:
                async with asyncio.timeout(left if last else min(left, ATTEMPT_SECONDS)):
                    transport, protocol = await loop.create_connection(
                        factory,
                        address.host,
                        address.port,
                        ssl=tls,
                        server_hostname=address.host if tls else None,
                    )
                return transport, protocol, address
            except (OSError, TimeoutError) as error:
                failures.append(f"{address}: {_cause(error)}")
        self._wanted.set()  # it may have moved
        raise UnreachableError("; ".join(failures) or "no time was left")

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


def _cause(error: OSError | TimeoutError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return describe_os_error(error)


def describe_os_error(error: OSError) -> str:
    """Return the system's own words; the event loops put others in their place."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
