"""One client connection before and while its broker is connected."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy import connection
from shareproxy.proxy.connection import EARLY_BYTES
from shareproxy.proxy.plain_socket import READ_BYTES
from shareproxy.proxy.server import Proxy
from shareproxy.proxy.upstream import Upstream
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request, produce
from tests.proxy.test_connection import GARBAGE, until_paused

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def proxy(broker: FakeBroker, proxies: Proxies) -> Proxy:
    """Return a proxy in front of the broker."""
    return await proxies.start(broker)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the proxy connect to brokers only after the event is set."""
    opened, connect = asyncio.Event(), Upstream.connect

    async def connect_later(
        self: Upstream, factory: Callable[[], asyncio.Protocol], node_id: NodeId | None, timeout: float, begun: None
    ) -> object:
        await opened.wait()
        return await connect(self, factory, node_id, timeout)

    monkeypatch.setattr(Upstream, "begin", lambda self, node_id: None)
    monkeypatch.setattr(Upstream, "connect", connect_later)
    return opened


async def test_early_requests_arrive_in_order(broker: FakeBroker, proxy: Proxy, gate: asyncio.Event) -> None:
    """What comes before the broker is connected waits."""
    async with Client(proxy.bootstrap_address) as client:
        for number in range(1, 6):
            client.send(opaque_request(number))
            await asyncio.sleep(0)
        gate.set()
        answers = [await client.frame() for _ in range(5)]

    assert answers == [opaque_answer(number, b"\1") for number in range(1, 6)]


async def test_early_bytes_are_bounded(
    broker: FakeBroker, proxy: Proxy, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends much before the broker is connected is no longer read."""
    receive, read_while_paused = connection.Connection.client_sent, []

    def watch(self: connection.Connection, data: bytes) -> None:
        read_while_paused.append(not self._client_reading)
        receive(self, data)

    monkeypatch.setattr(connection.Connection, "client_sent", watch)
    frame = opaque_request(1, body=bytes(30 * 1024 * 1024))
    async with Client(proxy.bootstrap_address) as client:
        client.send(frame)
        (one,) = await until_paused(proxy)
        held = one.client_bytes
        gate.set()
        assert await client.frame() == opaque_answer(1, b"\1")

    assert EARLY_BYTES < held <= EARLY_BYTES + READ_BYTES
    assert not any(read_while_paused)
    assert broker.received == frame


async def test_client_that_leaves_during_the_connect_leaves_nothing(
    broker: FakeBroker, proxy: Proxy, gate: asyncio.Event
) -> None:
    """No socket and no task stays; an answered request of a client that is gone is not delivered for nothing."""
    before = len(asyncio.all_tasks())
    async with Client(proxy.bootstrap_address) as client:
        client.send(GARBAGE["tls_hello"])
        await client.rest()
    await eventually(lambda: proxy.connections == 0)

    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1)[:3])
        await eventually(lambda: proxy.connections == 1)
    await eventually(lambda: proxy.connections == 0)

    assert len(asyncio.all_tasks()) == before
    assert broker.connections == 0


async def test_client_that_ends_as_the_broker_connects_is_forgotten(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a socket's connection and the turn of the task that asked for it, the connection has an end too."""
    connected = connection.Connection.broker_connected

    def connected_and_ended(self: connection.Connection, transport: asyncio.Transport) -> None:
        connected(self, transport)
        asyncio.get_running_loop().call_soon(self.client_ended)

    monkeypatch.setattr(connection.Connection, "broker_connected", connected_and_ended)
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1))
        await client.rest()

    await eventually(lambda: proxy.connections == 0)
    await broker.until(lambda: broker.ended)
    assert len(broker.requests) == 1


async def test_attempt_that_was_given_up_does_not_end_the_next_one(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS an attempt can have a transport, and be given up all the same; its loss is told later."""
    connect, given_up = Upstream.connect, []

    class Given(asyncio.Transport):
        def abort(self) -> None:
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

        def __init__(self, protocol: asyncio.Protocol) -> None:
            self.protocol = protocol
            super().__init__({"socket": socket.socket()})

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def get_write_buffer_size(self) -> int:
            return 0

    async def connect_twice(
        self: Upstream, factory: Callable[[], asyncio.Protocol], node_id: NodeId | None, timeout: float, begun: None
    ) -> object:
        first = factory()
        given_up.append(first)
        first.connection_made(Given(first))
        return await connect(self, factory, node_id, timeout)

    monkeypatch.setattr(Upstream, "begin", lambda self, node_id: None)
    monkeypatch.setattr(Upstream, "connect", connect_twice)
    async with Client(proxy.bootstrap_address) as client:
        assert await client.ask(opaque_request(1)) == opaque_answer(1, b"\1")
        for side in given_up:
            side.data_received(b"late")
            side.eof_received()
            side.connection_lost(None)

        assert await client.ask(opaque_request(2)) == opaque_answer(2, b"\1")


async def test_broker_that_speaks_and_ends_before_its_connect_is_done_is_seen(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before the attempt was chosen is not lost, nor is its end."""
    connect = Upstream.connect

    async def connect_and_end(
        self: Upstream, factory: Callable[[], asyncio.Protocol], node_id: NodeId | None, timeout: float, begun: None
    ) -> tuple[asyncio.Transport, asyncio.Protocol, Address]:
        transport, side, address = await connect(self, factory, node_id, timeout)
        side.data_received(b"\0\0\0\4\0")
        side.eof_received()
        side.connection_lost(ConnectionResetError("gone"))
        return transport, side, address

    monkeypatch.setattr(Upstream, "begin", lambda self, node_id: None)
    monkeypatch.setattr(Upstream, "connect", connect_and_end)
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1))
            assert await client.rest() == b""
        await eventually(lambda: proxy.connections == 0)

    assert [(line["reason"], line["detail"]) for line in logs] == [("broker_closed", "1 answers were due; gone")]
    assert logs[0]["broker_bytes"] == 5


@pytest.mark.parametrize("early", [True, False])
async def test_acks_0_before_the_end_reaches_the_broker(
    broker: FakeBroker, proxy: Proxy, gate: asyncio.Event, early: bool
) -> None:
    """A producer without acknowledgements may close right after its last record."""
    frames = [produce(number, acks=0, records=bytes(100_000)) for number in range(50)]
    broker.reply = lambda head, frame: None
    if not early:
        gate.set()

    async with Client(proxy.bootstrap_address) as client:
        for frame in frames:
            client.send(frame)
        client.writer.write_eof()
        if early:
            await eventually(lambda: proxy.connections == 1)
            gate.set()
        await broker.until(lambda: broker.ended)

    assert broker.received == b"".join(frames)
    await eventually(lambda: proxy.connections == 0)
