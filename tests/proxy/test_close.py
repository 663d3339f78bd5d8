"""Each reason for which a client's connection ends can come about, and is told once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.security import Security
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import MetadataRequest
from shareproxy.proxy.client_tls import ClientTls
from shareproxy.proxy.close import ORDINARY, CloseReason, log_level
from shareproxy.proxy.server import Proxy
from shareproxy.testing.kafka_security import Certificates
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request, request, sasl_handshake
from tests.proxy.test_client_tls import TlsClient, trusting

pytestmark = pytest.mark.timeout(120)

SASL: Final = Security("SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p")
HELLO_PART: Final = b"\x16\x03\x01\x02\x00\x01"
SHORT: Final = 0.1  # seconds of a limit that is waited for


class Stage:
    """What a scene plays on."""

    def __init__(
        self, broker: FakeBroker, proxies: Proxies, certificates: Certificates, strangers: Certificates
    ) -> None:
        self.broker, self._proxies = broker, proxies
        self.certificates, self.strangers = certificates, strangers
        self.proxy: Proxy | None = None

    async def start(self, **settings: object) -> Address:
        """Start the proxy; return its bootstrap address."""
        self.proxy = await self._proxies.start(self.broker, **settings)  # type: ignore[arg-type]
        return self.proxy.bootstrap_address

    async def start_tls(self, **limits: object) -> Address:
        """Start it with ports that speak TLS and want client certificates."""
        own = self.certificates
        tls = ClientTls(str(own.server_pem), client_ca_file=str(own.ca_pem), client_auth="required")
        return await self.start(client_tls=tls, **limits)


async def send(address: Address, data: bytes) -> None:
    """Send bytes and wait for the end, which may be a reset that comes before the connection is seen."""
    with contextlib.suppress(ConnectionError):
        async with Client(address) as client:
            client.send(data)
            await client.rest()


async def client_closed(stage: Stage) -> None:
    """A client asks, and leaves."""
    async with Client(await stage.start()) as client:
        await client.ask(opaque_request(1))


async def no_request(stage: Stage) -> None:
    """A health probe."""
    async with Client(await stage.start()):
        pass


async def broker_closed(stage: Stage) -> None:
    """The broker does not accept a request."""
    stage.broker.reply = lambda head, frame: stage.broker.close_connections()
    await send(await stage.start(), opaque_request(1))


async def broker_unreachable(stage: Stage) -> None:
    """The broker is down."""
    address = await stage.start()
    await stage.broker.stop()
    await send(address, opaque_request(1))


async def node_unknown(stage: Stage) -> None:
    """The cluster has one node, and this is another one's port."""
    await stage.start()
    assert stage.proxy is not None
    await send(stage.proxy.node_addresses[NodeId(2)], b"")


async def unsupported_sasl(stage: Stage) -> None:
    """The broker accepts a mechanism whose tokens nobody here can count."""
    stage.broker.reply = lambda head, frame: opaque_answer(head.correlation_id, bytes(6))
    await send(await stage.start(), sasl_handshake(1, "GSSAPI"))


async def malformed_answer(stage: Stage) -> None:
    """Metadata that is none."""
    stage.broker.reply = lambda head, frame: opaque_answer(head.correlation_id, b"\xff\xff\xff")
    await send(await stage.start(), request(MetadataRequest(), 12))


async def answer_too_large(stage: Stage) -> None:
    """Metadata of a gigabyte."""
    stage.broker.reply = lambda head, frame: struct.pack(">ii", 2**30, head.correlation_id)
    await send(await stage.start(), request(MetadataRequest(), 12))


async def unexpected_answer(stage: Stage) -> None:
    """The broker answers something else."""
    stage.broker.reply = lambda head, frame: opaque_answer(77)
    await send(await stage.start(), opaque_request(1))


async def unauthenticated_frame_too_large(stage: Stage) -> None:
    """A large request to brokers that want to know first who sends it."""
    await send(await stage.start(broker_security=SASL), opaque_request(1, body=bytes(600_000)))


async def too_many_connections(stage: Stage) -> None:
    """The limit is one."""
    address = await stage.start(max_connections=1)
    async with Client(address) as first:
        await first.ask(opaque_request(1))
        await send(address, b"")


async def too_many_from_address(stage: Stage) -> None:
    """The limit is one per client address."""
    address = await stage.start(max_connections_per_address=1)
    async with Client(address) as first:
        await first.ask(opaque_request(1))
        await send(address, b"")


async def first_request_timeout(stage: Stage) -> None:
    """A client that only connects."""
    await send(await stage.start(unauthenticated_timeout=SHORT), b"")


async def authentication_timeout(stage: Stage) -> None:
    """A client that asks for the versions and goes no further."""
    await send(await stage.start(broker_security=SASL, unauthenticated_timeout=SHORT), opaque_request(1, api_key=18))


async def slow_request(stage: Stage) -> None:
    """A request that stops in its middle."""
    await send(await stage.start(slow_request_timeout=SHORT), opaque_request(1, body=bytes(100))[:50])


async def stalled(stage: Stage) -> None:
    """A client that does not take its answer."""
    stage.broker.reply = lambda head, frame: opaque_answer(head.correlation_id, bytes(40_000_000))
    async with Client(await stage.start(stalled_timeout=SHORT)) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(opaque_request(1))
        assert stage.proxy is not None
        proxy = stage.proxy
        await eventually(lambda: proxy.meter.to_dict()["counters"]["connections_closed"])


async def idle_timeout(stage: Stage) -> None:
    """A client that has got what it wanted."""
    await send(await stage.start(idle_timeout=SHORT), opaque_request(1))


async def plain_text(stage: Stage) -> None:
    """A Kafka client without TLS at a port with TLS."""
    await send(await stage.start_tls(), opaque_request(1))


async def tls_handshake(stage: Stage) -> None:
    """A client that leaves after its first bytes."""
    async with Client(await stage.start_tls()) as client:
        client.send(HELLO_PART)
        await client.writer.drain()


async def tls_timeout(stage: Stage) -> None:
    """A client that says no more after its first bytes."""
    await send(await stage.start_tls(unauthenticated_timeout=SHORT), HELLO_PART)


async def tls_refused(stage: Stage) -> None:
    """A client that knows other authorities."""
    address = await stage.start_tls()

    def connect() -> None:
        with socket.create_connection(address) as plain, contextlib.suppress(ssl.SSLError):
            trusting(stage.strangers).wrap_socket(plain, server_hostname="localhost")

    await asyncio.to_thread(connect)


async def tls_client_certificate(stage: Stage) -> None:
    """A client without a certificate."""
    address = await stage.start_tls()
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        async with TlsClient(address, trusting(stage.certificates)) as client:
            await client.rest()


async def stopped(stage: Stage) -> None:
    """The proxy ends."""
    async with Client(await stage.start()) as client:
        await client.ask(opaque_request(1))
        assert stage.proxy is not None
        await stage.proxy.stop(0)


async def internal_error(stage: Stage) -> None:
    """The mapping of addresses has a bug."""
    address = await stage.start()

    def broken(node_id: int, host: str, port: int) -> tuple[str, int]:
        raise ZeroDivisionError("bug")

    assert stage.proxy is not None
    stage.proxy._around.mapping = broken
    await send(address, request(MetadataRequest(), 12))


def garbage(data: bytes) -> Callable[[Stage], Awaitable[None]]:
    """Return a scene with a client that speaks something else."""

    async def scene(stage: Stage) -> None:
        await send(await stage.start(), data)

    return scene


SCENES: Final[Mapping[CloseReason, Callable[[Stage], Awaitable[None]]]] = {
    CloseReason.CLIENT_CLOSED: client_closed,
    CloseReason.NO_REQUEST: no_request,
    CloseReason.BROKER_CLOSED: broker_closed,
    CloseReason.BROKER_UNREACHABLE: broker_unreachable,
    CloseReason.NODE_UNKNOWN: node_unknown,
    CloseReason.TLS_HELLO: garbage(HELLO_PART + bytes(500)),
    CloseReason.HTTP_REQUEST: garbage(b"GET /metrics HTTP/1.1\r\n\r\n"),
    CloseReason.FRAME_SIZE: garbage(struct.pack(">i", -2) + bytes(100)),
    CloseReason.FRAME_TOO_LARGE: garbage(struct.pack(">i", 2**31 - 1) + bytes(100)),
    CloseReason.UNAUTHENTICATED_FRAME_TOO_LARGE: unauthenticated_frame_too_large,
    CloseReason.MALFORMED_REQUEST: garbage(struct.pack(">i", 3) + b"abc"),
    CloseReason.UNSUPPORTED_VERSION: garbage(opaque_request(api_key=3, version=99)),
    CloseReason.UNSUPPORTED_SASL: unsupported_sasl,
    CloseReason.MALFORMED_ANSWER: malformed_answer,
    CloseReason.ANSWER_TOO_LARGE: answer_too_large,
    CloseReason.UNEXPECTED_ANSWER: unexpected_answer,
    CloseReason.TOO_MANY_CONNECTIONS: too_many_connections,
    CloseReason.TOO_MANY_FROM_ADDRESS: too_many_from_address,
    CloseReason.FIRST_REQUEST_TIMEOUT: first_request_timeout,
    CloseReason.AUTHENTICATION_TIMEOUT: authentication_timeout,
    CloseReason.SLOW_REQUEST: slow_request,
    CloseReason.STALLED: stalled,
    CloseReason.IDLE_TIMEOUT: idle_timeout,
    CloseReason.PLAIN_TEXT: plain_text,
    CloseReason.TLS_HANDSHAKE: tls_handshake,
    CloseReason.TLS_TIMEOUT: tls_timeout,
    CloseReason.TLS_REFUSED: tls_refused,
    CloseReason.TLS_CLIENT_CERTIFICATE: tls_client_certificate,
    CloseReason.STOPPED: stopped,
    CloseReason.INTERNAL_ERROR: internal_error,
}
NEEDS_NO_DETAIL: Final = {
    CloseReason.CLIENT_CLOSED,
    CloseReason.NO_REQUEST,
    CloseReason.STOPPED,
}
ALSO_THE_FIRST_CLIENT: Final = {CloseReason.TOO_MANY_CONNECTIONS, CloseReason.TOO_MANY_FROM_ADDRESS}


@pytest.mark.parametrize("reason", CloseReason)
async def test_each_reason_is_told_once(
    broker: FakeBroker,
    proxies: Proxies,
    certificates: Certificates,
    strangers: Certificates,
    reason: CloseReason,
) -> None:
    """One client, one line, one count; and nothing of it is left."""
    stage = Stage(broker, proxies, certificates, strangers)
    with capture_logs() as logs:
        await SCENES[reason](stage)
        proxy = stage.proxy
        assert proxy is not None
        expected = {reason.value: 1} | ({"client_closed": 1} if reason in ALSO_THE_FIRST_CLIENT else {})
        await eventually(lambda: proxy.meter.to_dict()["counters"]["connections_closed"] == expected)
        await eventually(lambda: not proxy.connections and not proxy._around.handshakes)

    lines = [line for line in logs if line["event"] == "connection closed"]
    assert sorted(line["reason"] for line in lines) == sorted(expected)
    line = next(line for line in lines if line["reason"] == reason.value)
    assert line["log_level"] == log_level(reason)
    assert line["client"].startswith("127.0.0.1:")
    assert line["seconds"] >= 0
    assert "detail" in line or reason in NEEDS_NO_DETAIL
    told = proxy.meter.to_dict()
    assert sum(told["counters"]["connections_opened"].values()) == len(lines)
    assert not any(told["gauges"]["connections"].values())


def test_levels() -> None:
    """Probes do not flood the log, ordinary ends do not warn."""
    assert {reason: log_level(reason) for reason in ORDINARY} == dict.fromkeys(ORDINARY, "info")
    assert log_level(CloseReason.NO_REQUEST) == "debug"
    assert log_level(CloseReason.SLOW_REQUEST) == "warning"
