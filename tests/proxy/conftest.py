"""Both event loops for what touches sockets, and proxies that are stopped after each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from shareproxy.cluster.addresses import Address
from shareproxy.config import Limits
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.server import Proxy, ProxySettings
from shareproxy.proxy.share_offsets import LagFiller
from shareproxy.testing.kafka_security import Certificates, make_certificates
from tests.proxy.fake_broker import HOST, FakeBroker, eventually, free_ports

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
WITH_SOCKETS = (
    "test_accepting.py",
    "test_client_tls.py",
    "test_close.py",
    "test_connection.py",
    "test_connection_connecting.py",
    "test_connection_steps.py",
    "test_dial.py",
    "test_handshakes.py",
    "test_limits.py",
    "test_limits_sweep.py",
    "test_plain_connect.py",
    "test_plain_socket.py",
    "test_server.py",
    "test_upstream.py",
)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what touches sockets on both loops."""
    return LOOPS if item.path.name in WITH_SOCKETS else {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """Return a broker with node id 1."""
    async with FakeBroker(NodeId(1)) as started:
        yield started


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return a certificate authority and a server certificate."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates of another authority."""
    return make_certificates(tmp_path_factory.mktemp("strangers"))


class Proxies:
    """Starts proxies in front of fake brokers and stops them."""

    def __init__(self) -> None:
        self.started: list[Proxy] = []

    async def start(self, *brokers: FakeBroker, lag: LagFiller | None = None, **settings: object) -> Proxy:
        """Start one; it knows the brokers as its nodes."""
        nodes = {broker.node_id: broker.address for broker in brokers}

        async def read_nodes(deadline: float) -> Mapping[NodeId, Address]:
            return nodes

        proxy = Proxy(proxy_settings(*brokers, **settings), lag, SourceChoice.AUTO, read_nodes=read_nodes)
        self.started.append(proxy)
        await proxy.start()
        await eventually(lambda: proxy.ready)
        return proxy


@pytest.fixture
async def proxies() -> AsyncIterator[Proxies]:
    """Return a starter of proxies."""
    started = Proxies()
    yield started
    for proxy in started.started:
        await proxy.stop(0)


def proxy_settings(*brokers: FakeBroker, **changes: object) -> ProxySettings:
    """Return settings for a proxy on free ports in front of brokers, node ids 0 to 3; limits go by their own names."""
    values: dict[str, object] = {
        "listen": Address(HOST, 0),
        "advertised_host": HOST,
        "node_ports": free_ports(4),
        "bootstrap_servers": tuple(broker.address for broker in brokers) or (Address(HOST, 1),),
    }
    limits = {key: changes.pop(key) for key in tuple(changes) if key in Limits.__struct_fields__}
    values["limits"] = Limits(**limits)  # type: ignore[arg-type]
    return ProxySettings(**(values | changes))  # type: ignore[arg-type]
