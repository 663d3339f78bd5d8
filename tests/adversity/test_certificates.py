"""Certificates run out, on each side, and are renewed without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Self

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.security import Security
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.client_tls import ClientTls
from tests.adversity.certificate_authority import Authority
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import HOST, PATIENCE, Client, FakeBroker
from tests.proxy.frames import opaque_answer, opaque_request

pytestmark = pytest.mark.timeout(60)

EXPIRED, GOOD = -1, 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return an authority of this test's own."""
    directory = tmp_path / "authority"
    directory.mkdir()
    return Authority(directory)


def listener_context(certificate: Path, clients: Path | None = None) -> ssl.SSLContext:
    """Return the context of a broker's listener; with `clients` it wants certificates of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def handshake(address: Address, trusted: Path) -> str:
    """Connect as a client that checks the certificate; return why it did not work, "" if it did."""
    context = ssl.create_default_context(cafile=str(trusted))
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=context)
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    writer.write(opaque_request(1))
    answer = await reader.readexactly(len(opaque_answer(1, b"\1")))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    assert answer == opaque_answer(1, b"\1")
    return ""


async def test_brokers_certificate_runs_out_and_is_renewed(
    authority: Authority, proxies: Proxies, tmp_path: Path
) -> None:
    """New clients are closed with the reason in the log, open ones go on; a renewed one is taken without restart."""
    certificate = tmp_path / "broker.pem"
    authority.issue(certificate, days=GOOD)
    context = listener_context(certificate)
    async with FakeBroker(NodeId(1), context) as broker:
        trust = Security("SSL", ca_file=str(authority.certificate))
        proxy = await proxies.start(broker, broker_security=trust)
        async with Client(proxy.bootstrap_address) as early:
            await early.ask(opaque_request(1))
            authority.issue(certificate, days=EXPIRED)
            context.load_cert_chain(certificate)

            with capture_logs() as logs:
                async with Client(proxy.bootstrap_address) as late:
                    late.send(opaque_request(1))
                    assert await late.rest() == b""
            assert await early.ask(opaque_request(2)) == opaque_answer(2, b"\1")

            authority.issue(certificate, days=GOOD)
            context.load_cert_chain(certificate)
            async with Client(proxy.bootstrap_address) as renewed:
                assert await renewed.ask(opaque_request(3)) == opaque_answer(3, b"\1")

    assert [line["reason"] for line in logs] == ["broker_unreachable"]
    assert "certificate has expired" in logs[0]["detail"]


async def test_our_certificate_for_clients_runs_out_and_is_reloaded(
    authority: Authority, broker: FakeBroker, proxies: Proxies, tmp_path: Path
) -> None:
    """A client that checks it refuses; after a reload of the renewed file new ones come in, and the old one stayed."""
    certificate = tmp_path / "proxy.pem"
    authority.issue(certificate, days=GOOD)
    proxy = await proxies.start(broker, client_tls=ClientTls(str(certificate)))
    address = proxy.bootstrap_address
    context = ssl.create_default_context(cafile=str(authority.certificate))
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    authority.issue(certificate, days=EXPIRED)
    proxy.reload_certificates()

    assert await handshake(address, authority.certificate) == "certificate has expired"
    writer.write(opaque_request(5))
    assert await reader.readexactly(len(opaque_answer(5, b"\1"))) == opaque_answer(5, b"\1")

    authority.issue(certificate, days=GOOD)
    proxy.reload_certificates()
    assert await handshake(address, authority.certificate) == ""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class AlertingBroker:
    """A broker in a thread, which says why it ends a handshake; asyncio's servers say nothing."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server((HOST, 0))
        self.stand_in = FakeBroker(NodeId(1))
        """Says where it is; never started."""
        self.stand_in.address = Address(*self._listener.getsockname())
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                raw, _ = self._listener.accept()
                client = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
                try:
                    client.do_handshake()
                    client.recv(1_000)
                    client.sendall(opaque_answer(2, b"\1"))
                    client.close()
                except OSError:
                    # closing with unread bytes would be a reset, which can overtake the alert
                    with socket.socket(fileno=client.detach()) as refused, contextlib.suppress(OSError):
                        refused.shutdown(socket.SHUT_WR)
                        while refused.recv(1_000):
                            pass


async def test_our_certificate_for_brokers_runs_out_and_is_renewed(
    authority: Authority, proxies: Proxies, tmp_path: Path
) -> None:
    """A broker that wants client certificates says so, and so does the log; a new file is read at the next connect."""
    listener, ours = tmp_path / "broker.pem", tmp_path / "ours.pem"
    authority.issue(listener, days=GOOD)
    authority.issue(ours, days=EXPIRED)
    with AlertingBroker(listener_context(listener, authority.certificate)) as broker:
        security = Security("SSL", ca_file=str(authority.certificate), certificate_file=str(ours))
        proxy = await proxies.start(broker.stand_in, broker_security=security)
        with capture_logs() as logs:
            async with Client(proxy.bootstrap_address) as client:
                client.send(opaque_request(1))
                assert await client.rest() == b""

        authority.issue(ours, days=GOOD)
        async with Client(proxy.bootstrap_address) as renewed:
            assert await renewed.ask(opaque_request(2)) == opaque_answer(2, b"\1")

    (closed,) = [line for line in logs if line["event"] == "connection closed"]
    assert closed["reason"] in ("broker_closed", "broker_unreachable")  # TLS 1.3 tells it after the handshake
    assert "certificate expired" in closed["detail"].lower(), closed
