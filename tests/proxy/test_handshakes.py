"""Clients that do not become connections: each ends in one log line with one reason, and one count."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import struct
import warnings
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from shareproxy.proxy.client_tls import ClientAuth, ClientTls
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.handshakes import Handshakes, reason_of
from shareproxy.proxy.server import Proxy
from shareproxy.testing.kafka_security import Certificates
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request
from tests.proxy.test_client_tls import TlsClient, trusting

pytestmark = pytest.mark.timeout(120)

HELLO_PART = b"\x16\x03\x01\x02\x00\x01"
Line = MutableMapping[str, Any]


class OneEnd:
    """A proxy with TLS ports, and what one client that came to nothing left in its log."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy, self.line = proxy, dict[str, Any]()


@asynccontextmanager
async def one_end(proxy: Proxy) -> AsyncIterator[OneEnd]:
    """Wait until one client has ended; there is one line, one count and no socket."""
    end = OneEnd(proxy)
    with capture_logs() as logs:
        yield end
        await eventually(lambda: logs)
        await eventually(lambda: not proxy._around.handshakes and not proxy.connections)
    (end.line,) = [dict(line) for line in logs]
    assert end.line["event"] == "connection closed"
    counted = proxy.meter.to_dict()
    assert counted["counters"]["connections_closed"] == {end.line["reason"]: 1}
    assert sum(counted["counters"]["connections_opened"].values()) == 1
    assert not any(counted["gauges"]["connections"].values())
    assert proxy._around._of_host == {}


async def start(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, auth: ClientAuth = "none", **limits: float
) -> Proxy:
    """Start a proxy whose ports speak TLS."""
    ca_file = None if auth == "none" else str(certificates.ca_pem)
    tls = ClientTls(str(certificates.server_pem), client_ca_file=ca_file, client_auth=auth)
    return await proxies.start(broker, lag=None, client_tls=tls, **limits)


async def fail_to_connect(proxy: Proxy, context: ssl.SSLContext, name: str = "localhost") -> None:
    """Try to connect by TLS; TLS 1.3 tells a client of a refusal only after its own side is done."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        async with TlsClient(proxy.bootstrap_address, context, name) as client:
            client.send(opaque_request(1))
            assert await client.rest() == b""


def test_other_errors_of_the_network_are_told_in_the_systems_words() -> None:
    """Not in those of an event loop."""
    error = OSError(errno.EHOSTUNREACH, "whatever the loop says")

    assert reason_of(error) == (CloseReason.TLS_HANDSHAKE, os.strerror(errno.EHOSTUNREACH))


async def test_health_probe_is_no_failed_handshake(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """It connects and leaves: a debug line, as on a plain port."""
    proxy = await start(broker, proxies, certificates)

    async with one_end(proxy) as end, Client(proxy.bootstrap_address):
        pass

    assert (end.line["reason"], end.line["log_level"]) == ("no_request", "debug")


async def test_health_probe_may_end_with_a_reset(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """Some load balancers do that."""
    proxy = await start(broker, proxies, certificates)

    async with one_end(proxy) as end:
        probe = socket.create_connection(proxy.bootstrap_address)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        probe.close()

    assert (end.line["reason"], end.line["log_level"]) == ("no_request", "debug")


@pytest.mark.parametrize(
    ("sent", "speaks"), [(opaque_request(1), "plain text"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP without TLS"), (b"G", "")]
)
async def test_plain_text_is_told_from_tls(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, sent: bytes, speaks: str
) -> None:
    """With what to change in the client; its socket ends at once."""
    proxy = await start(broker, proxies, certificates)

    async with one_end(proxy) as end, Client(proxy.bootstrap_address) as client:
        client.send(sent)
        assert await client.rest() == b""

    assert (end.line["reason"], end.line["log_level"]) == ("plain_text", "warning")
    assert end.line["detail"].startswith(speaks)
    assert "security.protocol=SSL" in end.line["detail"]


async def test_old_version_is_a_failed_handshake(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """In the words of OpenSSL."""
    proxy = await start(broker, proxies, certificates)
    context = trusting(certificates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")

    async with one_end(proxy) as end:
        await fail_to_connect(proxy, context)

    assert end.line["reason"] == "tls_handshake"
    assert "unsupported protocol" in end.line["detail"]


async def test_client_that_leaves_within_the_handshake(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """It has spoken, so it was no probe."""
    proxy = await start(broker, proxies, certificates)

    async with one_end(proxy) as end, Client(proxy.bootstrap_address) as client:
        client.send(HELLO_PART)
        await client.writer.drain()

    assert end.line["reason"] == "tls_handshake"
    assert end.line["detail"].startswith("the client left within it")


async def test_client_that_does_not_trust_us(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, strangers: Certificates
) -> None:
    """As all of them do when our certificate has expired."""
    proxy = await start(broker, proxies, certificates)

    def connect() -> None:
        with socket.create_connection(proxy.bootstrap_address) as plain:
            trusting(strangers).wrap_socket(plain, server_hostname="localhost")

    async with one_end(proxy) as end:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(connect)

    assert end.line["reason"] == "tls_refused"
    assert end.line["detail"] == "the client does not accept the certificate it was shown: tlsv1 alert unknown ca"


async def test_client_without_a_certificate(broker: FakeBroker, proxies: Proxies, certificates: Certificates) -> None:
    """Where one is required."""
    proxy = await start(broker, proxies, certificates, "required")

    async with one_end(proxy) as end:
        await fail_to_connect(proxy, trusting(certificates))

    assert end.line["reason"] == "tls_client_certificate"
    assert "tls.client_auth is required" in end.line["detail"]


@pytest.mark.parametrize("auth", ["requested", "required"])
async def test_client_with_a_certificate_of_somebody_else(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, strangers: Certificates, auth: ClientAuth
) -> None:
    """Optional does not mean that any will do."""
    proxy = await start(broker, proxies, certificates, auth)
    context = trusting(certificates)
    context.load_cert_chain(strangers.client_pem)

    async with one_end(proxy) as end:
        await fail_to_connect(proxy, context)

    assert end.line["reason"] == "tls_client_certificate"
    assert "is not accepted" in end.line["detail"]


@pytest.mark.parametrize(("sent", "reason"), [(b"", "first_request_timeout"), (HELLO_PART, "tls_timeout")])
async def test_handshake_has_a_time_limit(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, sent: bytes, reason: str
) -> None:
    """Whether it was begun or not."""
    proxy = await start(broker, proxies, certificates, unauthenticated_timeout=0.1)

    async with one_end(proxy) as end, Client(proxy.bootstrap_address) as client:
        client.send(sent)
        assert await client.rest() == b""

    assert end.line["reason"] == reason
    assert end.line["detail"].endswith("within limits.unauthenticated_timeout, 0.1 s")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("max_connections", "too_many_connections"), ("max_connections_per_address", "too_many_from_address")],
)
async def test_unfinished_handshakes_count_as_connections(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, limit: str, reason: str
) -> None:
    """Or who never finishes one could have any number of sockets here."""
    proxy = await start(broker, proxies, certificates, "none", **{limit: 1})

    async with Client(proxy.bootstrap_address) as holder:
        holder.send(HELLO_PART)
        await eventually(lambda: proxy._around.handshakes)
        with capture_logs() as logs:
            async with Client(proxy.bootstrap_address) as other:
                assert await other.rest() == b""

    assert [line["reason"] for line in logs] == [reason]
    await eventually(lambda: not proxy._around.handshakes)
    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
        assert await client.ask(opaque_request(1)) == opaque_answer(1, b"\1")


async def test_stop_ends_handshakes(broker: FakeBroker, proxies: Proxies, certificates: Certificates) -> None:
    """Nobody waits for a client that has not even said who it is."""
    proxy = await start(broker, proxies, certificates)

    async with one_end(proxy) as end, Client(proxy.bootstrap_address) as client:
        client.send(HELLO_PART)
        await eventually(lambda: proxy._around.handshakes)
        await proxy.stop(0)
        assert await client.rest() == b""

    assert end.line["reason"] == "stopped"


async def test_bug_in_a_handshake_is_logged(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its traceback; the port goes on."""
    proxy = await start(broker, proxies, certificates)

    async def broken(self: Handshakes, accepted: socket.socket) -> None:
        raise ZeroDivisionError("bug")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(Handshakes, "_first_byte", broken)
        async with Client(proxy.bootstrap_address) as client:
            assert await client.rest() == b""

    assert [line.get("reason") for line in logs] == [None, "internal_error"]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
        assert await client.ask(opaque_request(1)) == opaque_answer(1, b"\1")
