"""Brokers' addresses come in; a running shareproxy in a thread of its own, with its lag engine, goes out.

For tests that speak to it with blocking clients. Must never outlive its `with` block.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from shareproxy.cluster.addresses import Address, parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import SourceChoice
from shareproxy.proxy.server import Proxy, ProxySettings
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
STOP_TIMEOUT = 30.0  # seconds

T = TypeVar("T")


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that serves.

    Attributes:
        proxy: the proxy itself; it belongs to the other thread's loop.
        bootstrap_servers: its bootstrap port, as clients want it.
        run: runs a coroutine in the proxy's loop and returns its result.
    """

    proxy: Proxy
    bootstrap_servers: str
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    @property
    def node_ports(self) -> dict[int, str]:
        """Node id → advertised "host:port", of every node id that has a port."""
        return {int(node_id): str(address) for node_id, address in self.proxy.node_addresses.items()}


@contextmanager
def running_proxy(
    bootstrap_servers: str,
    *,
    broker_security: Security = PLAINTEXT,
    own_security: Security | None = None,
    own_bootstrap_servers: str | None = None,
    source: SourceChoice = SourceChoice.AUTO,
    fills_lag: bool = True,
    wait_ready: bool = True,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    **settings: object,
) -> Iterator[RunningProxy]:
    """Run a proxy in front of a cluster until the block ends.

    Args:
        bootstrap_servers: where clients' connections go.
        broker_security: of the proxy's connections to brokers for clients.
        own_security: of the connections on which lag is looked up; None for the same.
        own_bootstrap_servers: where those go; None for the same brokers.
        source: where lag is taken from.
        fills_lag: False for a proxy without a lag engine.
        wait_ready: begin the block only when the proxy says that it is ready.
        new_loop: asyncio's or uvloop's.
        settings: more of `ProxySettings`, such as `listen`.
    """
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(STOP_TIMEOUT)

    values: dict[str, object] = {
        "listen": Address(HOST, 0),
        "advertised_host": HOST,
        "node_ports": _free_ports(8),
        "bootstrap_servers": parse_addresses(bootstrap_servers),
        "broker_security": broker_security,
    }
    chosen = ProxySettings(**(values | settings))  # type: ignore[arg-type]
    cluster = Cluster(parse_addresses(own_bootstrap_servers or bootstrap_servers), own_security or broker_security)
    engine = LagEngine(cluster, source=source) if fills_lag else None
    try:
        proxy = run(_made(chosen, engine, source))
        if wait_ready:
            wait_until(lambda: proxy.ready, "the proxy is ready")
        yield RunningProxy(proxy, str(proxy.bootstrap_address), run)
        run(proxy.stop(1))
    finally:
        run(cluster.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_TIMEOUT)
        loop.close()


async def _made(settings: ProxySettings, engine: LagEngine | None, source: SourceChoice) -> Proxy:
    proxy = Proxy(settings, engine, source)
    await proxy.start()
    return proxy


def _free_ports(count: int) -> tuple[int, int]:
    while True:
        low = random.randrange(20_000, 32_000 - count)
        if all(_is_free(port) for port in range(low, low + count)):
            return low, low + count - 1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
