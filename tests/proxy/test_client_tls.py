"""TLS between clients and the proxy: certificates, client certificates, replaced files, one port for all nodes."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.errors import PropertiesError
from shareproxy.protocol.headers import decode_response
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import MetadataRequest, MetadataResponse
from shareproxy.proxy.client_tls import ClientTls, TlsPorts
from shareproxy.proxy.host_pattern import HostPattern
from shareproxy.proxy.ports import PortsError
from shareproxy.testing.kafka_security import Certificates, make_certificates
from tests.proxy.conftest import Proxies, proxy_settings
from tests.proxy.fake_broker import Client, FakeBroker
from tests.proxy.frames import opaque_answer, opaque_request, request

pytestmark = pytest.mark.timeout(60)


class TlsClient(Client):
    """A client that speaks TLS."""

    def __init__(self, address: Address, context: ssl.SSLContext, server_name: str = "localhost") -> None:
        super().__init__(address)
        self._context, self._server_name = context, server_name

    async def __aenter__(self) -> TlsClient:
        self.reader, self.writer = await asyncio.open_connection(
            *self._address, ssl=self._context, server_hostname=self._server_name
        )
        return self


def trusting(certificates: Certificates, *, own: bool = False) -> ssl.SSLContext:
    """Return a client's context; with `own` it shows a certificate."""
    context = ssl.create_default_context(cafile=str(certificates.ca_pem))
    if own:
        context.load_cert_chain(certificates.client_pem)
    return context


def unchecked(certificates: Certificates) -> ssl.SSLContext:
    """Return a context for host names that no certificate here is for."""
    context = trusting(certificates)
    context.check_hostname = False
    return context


async def test_clients_speak_tls(broker: FakeBroker, proxies: Proxies, certificates: Certificates) -> None:
    """The broker hears plain text, and answers come back whole."""
    proxy = await proxies.start(broker, client_tls=ClientTls(str(certificates.server_pem)))

    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
        assert await client.ask(opaque_request(1, body=bytes(300_000))) == opaque_answer(1, b"\1")

    assert broker.received == opaque_request(1, body=bytes(300_000))


async def test_old_tls_is_refused(broker: FakeBroker, proxies: Proxies, certificates: Certificates) -> None:
    """Nothing below 1.2."""
    proxy = await proxies.start(broker, client_tls=ClientTls(str(certificates.server_pem)))
    context = trusting(certificates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")

    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with TlsClient(proxy.bootstrap_address, context):
            pass


async def test_plain_text_to_a_tls_port_ends(broker: FakeBroker, proxies: Proxies, certificates: Certificates) -> None:
    """No broker hears of it, and others go on."""
    proxy = await proxies.start(broker, client_tls=ClientTls(str(certificates.server_pem)))
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1))
        await client.rest()

    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
        await client.ask(opaque_request(2))
    assert broker.received == opaque_request(2)


@pytest.mark.parametrize(("own", "accepted"), [(True, True), (False, False)])
async def test_client_certificates_can_be_required(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, own: bool, accepted: bool
) -> None:
    """Without one there is no connection."""
    tls = ClientTls(str(certificates.server_pem), client_ca_file=str(certificates.ca_pem), client_auth="required")
    proxy = await proxies.start(broker, client_tls=tls)

    try:
        async with TlsClient(proxy.bootstrap_address, trusting(certificates, own=own)) as client:
            answered = await client.ask(opaque_request(1)) == opaque_answer(1, b"\1")
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        answered = False

    assert answered is accepted


async def test_replaced_certificate_is_shown_after_a_reload(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, tmp_path: Path
) -> None:
    """Open connections go on; new ones see the new certificate; a broken file changes nothing."""
    live = tmp_path / "server.pem"
    shutil.copy(certificates.server_pem, live)
    proxy = await proxies.start(broker, client_tls=ClientTls(str(live)))
    other = make_certificates(tmp_path / "other")
    async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as old:
        await old.ask(opaque_request(1))

        live.write_text("no certificate")
        with pytest.raises(PropertiesError, match=r"server\.pem.*no usable PEM"):
            proxy.reload_certificates()
        async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as still:
            await still.ask(opaque_request(2))

        shutil.copy(other.server_pem, live)
        proxy.reload_certificates()
        async with TlsClient(proxy.bootstrap_address, trusting(other)) as new:
            await new.ask(opaque_request(3))
        assert await old.ask(opaque_request(4)) == opaque_answer(4, b"\1")


async def test_authority_that_was_taken_out_is_not_trusted_after_a_reload(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates, strangers: Certificates, tmp_path: Path
) -> None:
    """Its clients are refused from then on; their open connections and the other authority's clients go on."""
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(certificates.ca_pem.read_text() + strangers.ca_pem.read_text())
    tls = ClientTls(str(certificates.server_pem), client_ca_file=str(authorities), client_auth="required")
    proxy = await proxies.start(broker, client_tls=tls)
    of_the_other = trusting(certificates)
    of_the_other.load_cert_chain(strangers.client_pem)

    async with TlsClient(proxy.bootstrap_address, of_the_other) as old:
        assert await old.ask(opaque_request(1)) == opaque_answer(1, b"\1")
        shutil.copy(certificates.ca_pem, authorities)
        proxy.reload_certificates()

        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with TlsClient(proxy.bootstrap_address, of_the_other) as refused:
                await refused.ask(opaque_request(2))
        async with TlsClient(proxy.bootstrap_address, trusting(certificates, own=True)) as trusted:
            assert await trusted.ask(opaque_request(3)) == opaque_answer(3, b"\1")
        assert await old.ask(opaque_request(4)) == opaque_answer(4, b"\1")
    assert proxy.meter.to_dict()["counters"]["connections_closed"]["tls_client_certificate"] == 1


def test_bad_files_are_named(certificates: Certificates, tmp_path: Path) -> None:
    """Which file, what is wrong with it."""
    key = tmp_path / "key.pem"
    key.write_bytes(certificates.client_key_pem.read_bytes())

    with pytest.raises(PropertiesError, match=r"nowhere\.pem: cannot be used for TLS with clients: No such file"):
        TlsPorts(ClientTls(str(tmp_path / "nowhere.pem")))
    with pytest.raises(PropertiesError, match=r"key\.pem does not belong"):
        TlsPorts(ClientTls(str(certificates.server_pem), str(key)))
    with pytest.raises(PropertiesError, match="no file says whose"):
        ClientTls(str(certificates.server_pem), client_auth="required")


@pytest.mark.parametrize(
    ("bad", "content", "problem"),
    [
        ("certificate", None, "No such file or directory"),
        ("key", None, "No such file or directory"),
        ("authorities", None, "No such file or directory"),
        ("certificate", "x", "no usable PEM certificate is in it"),
        ("key", "x", "no usable PEM key is in it, or its password is wrong"),
        ("authorities", "x", "no usable PEM certificate is in it"),
    ],
)
def test_only_the_bad_one_of_several_files_is_blamed(
    certificates: Certificates, tmp_path: Path, bad: str, content: str | None, problem: str
) -> None:
    """OpenSSL does not say which of a certificate and a key it could not use."""
    files = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key", "authorities")}
    shutil.copy(certificates.client_certificate_pem, files["certificate"])
    shutil.copy(certificates.client_key_pem, files["key"])
    shutil.copy(certificates.ca_pem, files["authorities"])
    tls = ClientTls(str(files["certificate"]), str(files["key"]), client_ca_file=str(files["authorities"]))
    TlsPorts(tls)

    files[bad].unlink()
    if content is not None:
        files[bad].write_text(content)

    with pytest.raises(PropertiesError) as caught:
        TlsPorts(tls)
    assert str(caught.value).endswith(f"{bad}.pem: cannot be used for TLS with clients: {problem}")


@asynccontextmanager
async def two_nodes() -> AsyncIterator[tuple[FakeBroker, FakeBroker]]:
    """Run two brokers."""
    async with FakeBroker(NodeId(1)) as first, FakeBroker(NodeId(2)) as second:
        yield first, second


async def test_one_port_leads_to_the_node_that_the_client_names(proxies: Proxies, certificates: Certificates) -> None:
    """By its server name, as clients send it for the host they were told; any other name goes to any broker."""
    async with two_nodes() as (first, second):
        proxy = await proxies.start(
            first,
            second,
            client_tls=ClientTls(str(certificates.server_pem)),
            node_hosts=HostPattern("b{node_id}.kafka.example"),
            advertised_port=9093,
        )

        async def asked(name: str) -> int:
            async with TlsClient(proxy.bootstrap_address, unchecked(certificates), name) as client:
                return (await client.ask(opaque_request(1)))[-1]

        async with TlsClient(proxy.bootstrap_address, trusting(certificates)) as client:
            _, told = decode_response(MetadataResponse, 12, (await client.ask(request(MetadataRequest(), 12)))[4:])

        assert [await asked("b1.kafka.example"), await asked("B2.kafka.example")] == [1, 2]
        proxy.reload_certificates()
        assert [await asked("b1.kafka.example"), await asked("b2.kafka.example")] == [1, 2]
        assert await asked("kafka.example") in (1, 2)
        assert [(row.node_id, row.host, row.port) for row in told.brokers] in (
            [(1, "b1.kafka.example", 9093)],
            [(2, "b2.kafka.example", 9093)],
        )


async def test_name_of_a_node_that_is_not_there_closes(
    broker: FakeBroker, proxies: Proxies, certificates: Certificates
) -> None:
    """A client that looks for a broker must not be given another one (KIP-1242)."""
    proxy = await proxies.start(
        broker, client_tls=ClientTls(str(certificates.server_pem)), node_hosts=HostPattern("b{node_id}.kafka.example")
    )

    async with TlsClient(proxy.bootstrap_address, unchecked(certificates), "b7.kafka.example") as client:
        client.send(opaque_request(1))
        assert await client.rest() == b""
    assert not broker.requests
    counted = proxy.meter.to_dict()
    assert "7" not in counted["counters"]["connections_opened"], "anybody could make up a label for each number"


def test_host_names_without_tls_are_refused() -> None:
    """Plain text does not say which host a client wants."""
    with pytest.raises(PortsError, match="by TLS only"):
        proxy_settings(node_hosts=HostPattern("b{node_id}.kafka.example"))
