"""The login: what goes over the wire, how long it lasts, what a person is told."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, DeadlinePassed, UnsupportedApi
from shareproxy.cluster.pool import DATA, ConnectionPool
from shareproxy.cluster.security import Security
from shareproxy.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.cluster.scripted_broker import SILENCE, Answer, ScriptedBroker, soon

PLAIN = Security("SASL_PLAINTEXT", "PLAIN", "ann", "secret")
SCRAM = Security("SASL_PLAINTEXT", "SCRAM-SHA-256", "a,n=n", "secret")


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    """A broker that accepts every mechanism and every token."""
    async with ScriptedBroker() as started:
        started.on(SaslHandshakeRequest, lambda request: SaslHandshakeResponse(0, [request.mechanism]))
        started.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse())
        yield started


async def log_in(broker: ScriptedBroker, security: Security, deadline: float | None = None) -> Connection:
    """Open a connection and close it again."""
    connection = await Connection.open(broker.address, security, deadline=soon() if deadline is None else deadline)
    await connection.close()
    return connection


async def test_plain_sends_name_and_password(broker: ScriptedBroker) -> None:
    """After a version 1 handshake, in frames with headers (RFC 4616, KIP-152)."""
    connection = await log_in(broker, PLAIN)

    assert [(received.head.api_key, received.head.api_version) for received in broker.received] == [
        (18, 4),
        (17, 1),
        (36, 2),
    ]
    assert broker.messages(SaslHandshakeRequest)[0].mechanism == "PLAIN"
    assert broker.messages(SaslAuthenticateRequest)[0].auth_bytes == b"ann\0ann\0secret"
    assert connection.expires_at is None


async def test_a_refused_login_shows_the_brokers_own_text(broker: ScriptedBroker) -> None:
    """It is the only one that knows why."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(58, "Authentication failed: no such user."))

    with pytest.raises(AuthenticationFailed, match=r"refused the login: Authentication failed: no such user$"):
        await log_in(broker, PLAIN)


async def test_a_refused_login_without_text_shows_the_code(broker: ScriptedBroker) -> None:
    """By its name."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(58, None))

    with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
        await log_in(broker, PLAIN)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (SaslHandshakeResponse(33, ["GSSAPI", "PLAIN"]), r"does not offer sasl\.mechanism=PLAIN, but GSSAPI, PLAIN"),
        (SaslHandshakeResponse(33, []), "but none"),
        (SaslHandshakeResponse(34, []), r"this listener has none; set security\.protocol=PLAINTEXT"),
        (SaslHandshakeResponse(42, []), r"error 42 \(INVALID_REQUEST\)"),
    ],
)
async def test_a_refused_mechanism_says_what_to_set(
    broker: ScriptedBroker, answer: SaslHandshakeResponse, sentence: str
) -> None:
    """No password was sent."""
    broker.on(SaslHandshakeRequest, lambda _: answer)

    with pytest.raises(AuthenticationFailed, match=sentence):
        await log_in(broker, PLAIN)

    assert broker.count(SaslAuthenticateRequest) == 0


async def test_a_broker_with_the_old_login_only_is_refused(broker: ScriptedBroker) -> None:
    """Version 0 is followed by tokens without header."""
    broker.offers[SaslHandshakeRequest.api_key] = (0, 0)

    with pytest.raises(UnsupportedApi, match="SaslHandshake"):
        await log_in(broker, PLAIN)


async def test_a_silent_broker_costs_the_deadline_only(broker: ScriptedBroker) -> None:
    """Whatever it says before."""
    broker.on(SaslAuthenticateRequest, lambda _: SILENCE)

    with pytest.raises(DeadlinePassed):
        await log_in(broker, PLAIN, soon(0.5))


async def test_a_login_that_ends_is_replaced_in_time(broker: ScriptedBroker) -> None:
    """A new connection takes over before the session lifetime is over (KIP-368)."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(session_lifetime_ms=100_000))
    before = asyncio.get_running_loop().time()
    pool = ConnectionPool(PLAIN, "test", 5.0)
    first, _ = await pool.get(broker.address, DATA, soon())

    assert first.expires_at is not None
    assert before + 80 <= first.expires_at < before + 100
    assert not first.worn
    first.expires_at = before
    second, fresh = await pool.get(broker.address, DATA, soon())
    assert fresh
    assert second.expires_at is not None
    assert broker.count(SaslAuthenticateRequest) == 2
    await pool.close()


async def test_scram_hides_the_password(broker: ScriptedBroker) -> None:
    """Name with escapes; a broker that cannot prove that it knows the password is refused (RFC 5802)."""
    salt = base64.b64encode(b"salt").decode()

    def answer(request: SaslAuthenticateRequest) -> Answer:
        first = request.auth_bytes.decode()
        if first.startswith("n,,"):
            nonce = first.rpartition("r=")[2]
            return SaslAuthenticateResponse(auth_bytes=f"r={nonce}x,s={salt},i=4096".encode())
        return SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(b"wrong"))

    broker.on(SaslAuthenticateRequest, answer)

    with pytest.raises(AuthenticationFailed, match="the broker's part of the login is wrong"):
        await log_in(broker, SCRAM)

    tokens = [request.auth_bytes for request in broker.messages(SaslAuthenticateRequest)]
    assert tokens[0].startswith(b"n,,n=a=2Cn=3Dn,r=")
    assert not any(b"secret" in token for token in tokens)


@pytest.mark.parametrize("token", [b"", b"nonsense", b"r=other,s=c2FsdA==,i=1", b"\xff"])
async def test_scram_nonsense_is_an_error_of_the_login(broker: ScriptedBroker, token: bytes) -> None:
    """Never a traceback."""
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(auth_bytes=token))

    with pytest.raises(AuthenticationFailed, match="the broker's part of the login is wrong"):
        await log_in(broker, SCRAM)


async def test_a_token_is_read_at_each_login(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Somebody else renews the file (RFC 7628)."""
    file = tmp_path / "token"
    security = Security("SASL_PLAINTEXT", "OAUTHBEARER", token_file=str(file))

    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        await log_in(broker, security)

    tokens = [request.auth_bytes for request in broker.messages(SaslAuthenticateRequest)]
    assert tokens == [b"n,,\x01auth=Bearer one\x01\x01", b"n,,\x01auth=Bearer two\x01\x01"]


async def test_a_missing_token_file_is_named(broker: ScriptedBroker, tmp_path: Path) -> None:
    """With the system's reason."""
    security = Security("SASL_PLAINTEXT", "OAUTHBEARER", token_file=str(tmp_path / "none"))

    with pytest.raises(ClusterError, match="none cannot be read: No such file"):
        await log_in(broker, security)


async def test_kerberos_without_its_package_says_what_to_install(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among the dependencies: it needs system libraries."""
    import aiokafka.conn

    monkeypatch.setattr(aiokafka.conn, "gssapi", None)

    with pytest.raises(ClusterError, match="needs the Python package gssapi"):
        await log_in(broker, Security("SASL_PLAINTEXT", "GSSAPI"))


def test_plain_text_does_not_load_the_sasl_library() -> None:
    """Start-up time counts; neither is a TLS context made."""
    code = "import sys, shareproxy.cluster.cluster, shareproxy.cluster.properties; print('aiokafka' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
