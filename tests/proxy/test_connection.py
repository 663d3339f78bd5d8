"""One client connection: ends, refusals, pressure and bugs."""

from __future__ import annotations

import asyncio
import struct

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.headers import RequestHead
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import MetadataRequest
from shareproxy.proxy import connection
from shareproxy.proxy.plain_socket import READ_BYTES, WRITE_HIGH_BYTES
from shareproxy.proxy.server import Proxy
from shareproxy.proxy.upstream import Upstream
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request, request

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def proxy(broker: FakeBroker, proxies: Proxies) -> Proxy:
    """Return a proxy in front of the broker."""
    return await proxies.start(broker)


GARBAGE = {
    "tls_hello": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "http_request": b"GET /metrics HTTP/1.1\r\nHost: proxy\r\n\r\n",
    "frame_too_large": struct.pack(">i", 2**31 - 1) + bytes(100),
    "frame_size": struct.pack(">i", -2) + bytes(100),
    "malformed_request": struct.pack(">i", 3) + b"abc",
    "unsupported_version": opaque_request(api_key=3, version=99),
}


@pytest.mark.parametrize(("reason", "garbage"), GARBAGE.items(), ids=GARBAGE)
async def test_garbage_closes_that_connection_only(
    broker: FakeBroker, proxy: Proxy, reason: str, garbage: bytes
) -> None:
    """One log line with one reason; the neighbour goes on and the broker sees nothing of it."""
    async with Client(proxy.bootstrap_address) as neighbour, Client(proxy.bootstrap_address) as client:
        await neighbour.ask(opaque_request(1))
        with capture_logs() as logs:
            client.send(garbage)
            assert await client.rest() == b""
        assert await neighbour.ask(opaque_request(2)) == opaque_answer(2, b"\1")

    assert [(line["event"], line["reason"]) for line in logs] == [("connection closed", reason)]
    assert logs[0]["log_level"] == "warning"
    assert logs[0]["detail"]
    assert len(broker.requests) == 2


async def test_garbage_closes_while_the_broker_is_down(broker: FakeBroker, proxy: Proxy) -> None:
    """It is the client's fault, whatever the broker's state."""
    await broker.stop()
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(GARBAGE["http_request"])
            assert await client.rest() == b""

    assert [line["reason"] for line in logs] == ["http_request"]


async def test_truncated_request_ends_with_the_client(broker: FakeBroker, proxy: Proxy) -> None:
    """A client that leaves within a request is told in the log; the broker sees the end too."""
    frame = opaque_request(body=bytes(100))
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(frame[:50])
            await broker.until(lambda: broker.connections)
        await broker.until(lambda: broker.ended)

    assert [(line["reason"], line.get("detail")) for line in logs] == [("client_closed", "within a request")]


async def test_health_probe_does_not_reach_the_broker(broker: FakeBroker, proxy: Proxy) -> None:
    """A client without a byte is a debug line and no connection."""
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address):
            pass
        await eventually(lambda: logs)

    assert [(line["reason"], line["log_level"]) for line in logs] == [("no_request", "debug")]
    assert broker.connections == 0


async def test_broker_that_refuses_a_request_closes_the_client(broker: FakeBroker, proxy: Proxy) -> None:
    """What was answered before arrives; then the end, as from the broker itself."""

    def close_on_second(head: RequestHead, frame: bytes) -> bytes | None:
        if head.correlation_id == 1:
            return opaque_answer(1, b"first")
        broker.close_connections()
        return None

    broker.reply = close_on_second
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1) + opaque_request(2, api_key=31_000, version=77))
            assert await client.rest() == opaque_answer(1, b"first")

    assert [(line["reason"], line["detail"]) for line in logs] == [("broker_closed", "1 answers were due")]


async def test_unexpected_answer_closes_both(broker: FakeBroker, proxy: Proxy) -> None:
    """A broker that loses the order cannot be trusted with the next answer."""
    broker.reply = lambda head, frame: opaque_answer(77)
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1))
            assert await client.rest() == b""
        await broker.until(lambda: broker.ended)

    assert [line["reason"] for line in logs] == ["unexpected_answer"]


async def test_refused_client_gets_the_answers_before_it_and_an_end(broker: FakeBroker, proxy: Proxy) -> None:
    """Not a reset, which could take the answers with it: what it sent meanwhile is read, and dropped."""
    answer_now = asyncio.Event()

    async def answer(head: RequestHead, frame: bytes) -> bytes:
        await answer_now.wait()
        return opaque_answer(head.correlation_id, b"\1")

    broker.reply = answer
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1) + GARBAGE["unsupported_version"])
            (one,) = await until_paused(proxy)
            client.send(opaque_request(2, body=bytes(1000)))
            answer_now.set()

            assert await client.reader.read(-1) == opaque_answer(1, b"\1")
            client.send(opaque_request(3))
        await eventually(lambda: proxy.connections == 0)

    assert one.close_reason == "unsupported_version"
    assert [line["reason"] for line in logs] == ["unsupported_version"]
    assert len(broker.requests) == 1


async def test_refused_client_that_never_ends_is_dropped(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for, but not for ever."""
    monkeypatch.setattr(connection, "FLUSH_SECONDS", 0.01)
    async with Client(proxy.bootstrap_address) as client:
        await client.ask(opaque_request(1))
        client.send(GARBAGE["unsupported_version"])
        assert await client.rest() == b""

        await eventually(lambda: proxy.connections == 0)


async def test_node_that_leaves_before_the_first_byte_closes(broker: FakeBroker, proxy: Proxy) -> None:
    """The node was there when the client came and is not any more when it speaks."""
    with capture_logs() as logs:
        async with Client(proxy.node_addresses[NodeId(1)]) as client:
            await eventually(lambda: proxy.connections == 1)
            proxy._upstream.nodes.clear()
            client.send(opaque_request(1))
            assert await client.rest() == b""

    assert [line["reason"] for line in logs] == ["node_unknown"]


async def test_client_whose_broker_is_down_sees_a_reset(broker: FakeBroker, proxy: Proxy) -> None:
    """As near to a refused connection as it can be; an end without a word looks like wrong security settings."""
    await broker.stop()
    async with Client(proxy.node_addresses[NodeId(1)]) as client:
        client.send(opaque_request(1))
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


async def test_answers_that_nobody_reads_do_not_stop_the_last_requests(broker: FakeBroker, proxy: Proxy) -> None:
    """Requests behind answered ones arrive even if the client left without reading."""
    frames = [opaque_request(number, body=bytes(10_000)) for number in range(100)]
    async with Client(proxy.bootstrap_address) as client:
        client.send(b"".join(frames))
        await client.writer.drain()
        client.writer.write_eof()
        await broker.until(lambda: len(broker.requests) == 100)

    assert broker.received == b"".join(frames)


async def test_client_that_does_not_read_stops_the_broker(broker: FakeBroker, proxy: Proxy) -> None:
    """What the proxy holds for a slow client is bounded."""
    sent = 0

    async def flood(head: RequestHead, frame: bytes) -> bytes | None:
        nonlocal sent
        size = 300 * 1024 * 1024
        (writer,) = broker._writers
        writer.write(struct.pack(">ii", 4 + size, head.correlation_id))
        while sent < size:
            writer.write(bytes(1024 * 1024))
            await writer.drain()
            sent += 1024 * 1024
        return b""

    broker.reply = flood
    async with Client(proxy.bootstrap_address) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(opaque_request(1))
        await eventually(lambda: any(not one._broker_reading for one in proxy._around.open))
        (one,) = proxy._around.open
        held, received = one.unsent_bytes, one.broker_bytes
        client.writer.transport.abort()

    assert WRITE_HIGH_BYTES < held <= WRITE_HIGH_BYTES + READ_BYTES
    assert received < 300 * 1024 * 1024
    await eventually(lambda: proxy.connections == 0)


async def test_broker_that_does_not_read_stops_the_client(broker: FakeBroker, proxy: Proxy) -> None:
    """What the proxy holds for a slow broker is bounded, and arrives when it reads again."""
    broker.reading.clear()
    frame = opaque_request(1, body=bytes(80 * 1024 * 1024))
    async with Client(proxy.bootstrap_address) as client:
        client.send(frame)
        (one,) = await until_paused(proxy)
        held, received = one.unsent_bytes, one.client_bytes
        broker.reading.set()
        assert await client.frame() == opaque_answer(1, b"\1")

    assert WRITE_HIGH_BYTES < held <= WRITE_HIGH_BYTES + READ_BYTES
    assert received < len(frame)
    assert len(broker.received) == len(frame)


async def test_large_frames_pass_both_ways(broker: FakeBroker, proxy: Proxy) -> None:
    """What is not edited has no limit on the way back."""
    body = bytes(range(256)) * 80_000
    broker.reply = lambda head, frame: opaque_answer(head.correlation_id, body * 6)
    async with Client(proxy.bootstrap_address) as client:
        reply = await client.ask(opaque_request(1, body=body))

    assert broker.received == opaque_request(1, body=body)
    assert reply == opaque_answer(1, body * 6)


async def test_bug_closes_that_connection_only(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the traceback, the client an end, the process lives."""
    async with Client(proxy.bootstrap_address) as neighbour, Client(proxy.bootstrap_address) as client:
        await neighbour.ask(opaque_request(1))
        with monkeypatch.context() as broken, capture_logs() as logs:
            broken.setattr("shareproxy.proxy.answer_stream.rewrite_answer", lambda *arguments: 1 / 0)
            client.send(request(MetadataRequest(), 12))
            assert await client.rest() == b""
        assert await neighbour.ask(opaque_request(2)) == opaque_answer(2, b"\1")

    assert [line["event"] for line in logs] == ["bug in the proxy", "connection closed"]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
    assert logs[1]["reason"] == "internal_error"


async def test_bug_in_a_task_closes_that_connection_only(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks beside the data path are watched as well."""

    async def broken(*arguments: object) -> object:
        raise ZeroDivisionError("bug")

    monkeypatch.setattr(Upstream, "begin", lambda self, node_id: None)
    monkeypatch.setattr(Upstream, "connect", broken)
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(opaque_request(1))
            assert await client.rest() == b""

    assert [line["event"] for line in logs] == ["bug in the proxy", "connection closed"]
    await eventually(lambda: proxy.connections == 0)


async def test_broker_that_never_ends_is_dropped(
    broker: FakeBroker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the client's end the broker is waited for, but not for ever."""
    monkeypatch.setattr(connection, "FLUSH_SECONDS", 0.01)
    async with Client(proxy.bootstrap_address) as client:
        await client.ask(opaque_request(1))
        broker.reading.clear()
        client.send(opaque_request(2))
        await asyncio.sleep(0)

    await eventually(lambda: proxy.connections == 0)


async def test_ipv6_addresses_have_brackets_in_the_log(broker: FakeBroker, proxies: Proxies) -> None:
    """One way to write addresses, everywhere."""
    try:
        proxy = await proxies.start(broker, listen=Address("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            await client.ask(opaque_request(1))
        await eventually(lambda: logs)

    assert logs[-1]["client"].startswith("[::1]:")


async def until_paused(proxy: Proxy) -> list[connection.Connection]:
    """Wait until a client is not read; return those that are not."""
    await eventually(lambda: any(not one._client_reading for one in proxy._around.open))
    return [one for one in proxy._around.open if not one._client_reading]
