"""TLS: whom we trust, who we are, and what a person is told when it does not fit."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import AuthenticationFailed, BadAnswer, ConnectionClosed, PropertiesError, WrongListener
from shareproxy.cluster.retries import Retry
from shareproxy.cluster.security import PLAINTEXT, Security
from tests.cluster.certificates import OwnCertificate
from tests.cluster.scripted_broker import ScriptedBroker, soon


async def connect(address: Address, security: Security) -> None:
    """Open and close a connection."""
    connection = await Connection.open(address, security, deadline=soon())
    await connection.close()


def trusting(certificates: OwnCertificate) -> Security:
    """Trust the test certificate."""
    return Security("SSL", ca_file=str(certificates.certificate))


async def test_a_trusted_broker_is_talked_to(certificates: OwnCertificate) -> None:
    """Authority from a file, or as text."""
    async with ScriptedBroker(tls=certificates.server_context()) as broker:
        await connect(broker.address, trusting(certificates))
        await connect(broker.address, Security("SSL", ca_pem=certificates.certificate.read_text()))

    assert broker.connections == 2


async def test_a_broker_of_an_unknown_authority_is_refused(certificates: OwnCertificate) -> None:
    """The sentence says what to set."""
    async with ScriptedBroker(tls=certificates.server_context()) as broker:
        with pytest.raises(AuthenticationFailed, match=r"not accepted: self-signed.*set ssl\.truststore\.location"):
            await connect(broker.address, Security("SSL"))


async def test_a_broker_of_another_name_is_refused(certificates: OwnCertificate) -> None:
    """Unless names are not checked."""
    async with ScriptedBroker(tls=certificates.server_context()) as broker:
        address = Address("localhost", broker.address.port)

        with pytest.raises(AuthenticationFailed, match=r"name that is in the certificate"):
            await connect(address, trusting(certificates))
        await connect(address, replace(trusting(certificates), check_hostname=False))


async def test_a_client_certificate_is_shown(certificates: OwnCertificate) -> None:
    """From files, with an encrypted key, from one file, or as text."""
    chain, key = str(certificates.certificate), str(certificates.key)
    both = certificates.certificate.with_name("both.pem")
    both.write_text(certificates.key.read_text() + certificates.certificate.read_text())
    trust = trusting(certificates)
    async with ScriptedBroker(tls=certificates.server_context(client_certificate=True)) as broker:
        await connect(broker.address, replace(trust, certificate_file=chain, key_file=key))
        encrypted = str(certificates.encrypted_key)
        await connect(broker.address, replace(trust, certificate_file=chain, key_file=encrypted, key_password="secret"))
        await connect(broker.address, replace(trust, certificate_file=str(both)))
        texts = (certificates.certificate.read_text(), certificates.encrypted_key.read_text())
        await connect(broker.address, replace(trust, certificate_pem=texts[0], key_pem=texts[1], key_password="secret"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_without_certificate_is_told(certificates: OwnCertificate, version: ssl.TLSVersion) -> None:
    """TLS 1.2 refuses within the handshake, TLS 1.3 after it."""
    context = certificates.server_context(client_certificate=True)
    context.minimum_version = context.maximum_version = version

    # asyncio's own server hangs up without the alert that brokers send, so this one is a thread
    def serve() -> None:
        accepted = listener.accept()[0]
        tls = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        with contextlib.suppress(ssl.SSLError):
            tls.do_handshake()
        with socket.socket(fileno=tls.detach()) as plain:
            while plain.recv(1_000):  # closing with bytes unread would overtake the alert
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve)
        serving.start()
        with pytest.raises(AuthenticationFailed, match=r"does not accept us: .*set ssl\.keystore\.location"):
            await connect(Address("127.0.0.1", listener.getsockname()[1]), trusting(certificates))
        serving.join()


async def test_a_client_without_certificate_gets_a_hint(certificates: OwnCertificate) -> None:
    """Where the broker hangs up without saying why."""
    context = certificates.server_context(client_certificate=True)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with ScriptedBroker(tls=context) as broker:
        with pytest.raises(ConnectionClosed, match=r"set ssl\.keystore\.location"):
            await connect(broker.address, trusting(certificates))


async def test_plain_text_to_a_tls_listener_says_so(certificates: OwnCertificate) -> None:
    """The listener answers with a TLS alert, or hangs up."""
    async with ScriptedBroker(tls=certificates.server_context()) as broker:
        with pytest.raises(Exception, match=r"set security\.protocol=SSL") as caught:
            await connect(broker.address, PLAINTEXT)

    assert isinstance(caught.value, BadAnswer) or "if this listener speaks TLS" in str(caught.value)


@pytest.mark.parametrize(("protocol", "plain"), [("SSL", "PLAINTEXT"), ("SASL_SSL", "SASL_PLAINTEXT")])
async def test_tls_to_a_plain_listener_says_so(certificates: OwnCertificate, protocol: str, plain: str) -> None:
    """The listener takes the greeting for a huge frame and hangs up; waiting does not change it."""
    async with ScriptedBroker() as broker:
        security = Security(protocol, "PLAIN", "u", "p", ca_file=str(certificates.certificate))

        with pytest.raises(WrongListener, match=rf"security\.protocol={plain}\b") as caught:
            await connect(broker.address, security)

    assert caught.value.retry is Retry.FINAL


def test_files_that_cannot_be_used_are_named(certificates: OwnCertificate, tmp_path: Path) -> None:
    """Missing, not PEM, wrong password."""
    missing, text = str(tmp_path / "none.pem"), tmp_path / "text.pem"
    text.write_text("not a certificate")
    chain, encrypted = str(certificates.certificate), str(certificates.encrypted_key)

    with pytest.raises(PropertiesError, match=r"none\.pem: cannot be read"):
        Security("SSL", ca_file=missing).ssl_context()
    with pytest.raises(PropertiesError, match=r"text\.pem: cannot be used for TLS: no usable PEM"):
        Security("SSL", ca_file=str(text)).ssl_context()
    for password in ("wrong", None):
        with pytest.raises(PropertiesError, match=r"cert\.pem: cannot be used for TLS"):
            Security("SSL", certificate_file=chain, key_file=encrypted, key_password=password).ssl_context()


def test_a_context_is_kept_until_a_file_is_replaced(certificates: OwnCertificate, tmp_path: Path) -> None:
    """Renewed certificates are taken without a restart."""
    copy = tmp_path / "ca.pem"
    shutil.copy(certificates.certificate, copy)
    security = Security("SSL", ca_file=str(copy))
    first = security.ssl_context()
    assert security.ssl_context() is first

    os.utime(copy, ns=(1, 1))

    assert security.ssl_context() is not first


@pytest.mark.parametrize(
    ("protocol", "mechanism", "username", "problem"),
    [
        ("TLS", None, None, r"security\.protocol is one of PLAINTEXT, SSL"),
        ("SASL_SSL", None, None, r"sasl\.mechanism is one of PLAIN"),
        ("SASL_SSL", "SCRAM", None, "not 'SCRAM'"),
        ("SASL_SSL", "PLAIN", "u", "PLAIN needs a user name and a password"),
        ("SASL_SSL", "OAUTHBEARER", None, "needs a file with the token"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(
    protocol: str, mechanism: str | None, username: str | None, problem: str
) -> None:
    """At the time they are put together."""
    with pytest.raises(ValueError, match=problem):
        Security(protocol, mechanism, username)


def test_secrets_are_not_shown() -> None:
    """A description may be logged."""
    shown = repr(Security("SASL_SSL", "PLAIN", "ann", "hidden", key_password="hidden", key_pem="hidden"))

    assert "ann" in shown
    assert "hidden" not in shown


def test_plain_text_needs_no_login_and_no_tls() -> None:
    """The default."""
    assert not PLAINTEXT.tls
    assert not PLAINTEXT.sasl
