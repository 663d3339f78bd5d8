"""Log in to a broker.

In: a connection that knows its API versions, credentials. Out: how long the login lasts.
Must never: write a credential anywhere but to the broker, or compute on the event loop.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Final, Protocol, cast

from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, DeadlinePassed
from shareproxy.cluster.oauth import OAuthLogin, forget_token
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest

if TYPE_CHECKING:
    from shareproxy.cluster.connection import Connection

# a new connection replaces this one when so much of the login's life is over (KIP-368)
RENEW_AFTER: Final = 0.85


class Authenticator(Protocol):
    """One side of a SASL exchange, as aiokafka has them."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Take the broker's token, return ours and whether an answer is due; None at the end."""
        ...


async def log_in(connection: Connection, deadline: float) -> float | None:
    """Run the SASL exchange.

    Returns:
        Seconds after which the connection should be replaced, None for a login without end.

    Raises:
        AuthenticationFailed: with the broker's own text.
        ClusterError: the exchange could not be run.
    """
    security = connection.security
    where = f"{connection.address} refused the login"
    mechanism = security.sasl_mechanism or ""
    handshake = await connection.request(SaslHandshakeRequest(mechanism), deadline=deadline, min_version=1)
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationFailed(f"{where}: it does not offer sasl.mechanism={mechanism}, but {offered}")
    if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        plain = "SSL" if security.tls else "PLAINTEXT"
        raise AuthenticationFailed(f"{where}: this listener has none; set security.protocol={plain}")
    if handshake.error_code:
        raise AuthenticationFailed(f"{where}: error {handshake.error_code} ({error_name(handshake.error_code)})")
    try:
        async with asyncio.timeout_at(deadline):
            authenticator = await _authenticator(connection)
            lifetime_ms = await _exchange(connection, authenticator, deadline)
    except TimeoutError:
        raise DeadlinePassed(f"{connection.address}: the login was not finished in time") from None
    except (ValueError, KeyError, AssertionError) as error:
        # aiokafka's authenticators say so when the broker cannot prove that it knows the password
        raise AuthenticationFailed(f"{connection.address}: the broker's part of the login is wrong: {error}") from error
    return lifetime_ms / 1000 * RENEW_AFTER if lifetime_ms > 0 else None


async def _exchange(connection: Connection, authenticator: Authenticator, deadline: float) -> int:
    token, lifetime_ms = None, 0
    while (step := await authenticator.step(token)) is not None:
        answer = await connection.request(SaslAuthenticateRequest(step[0]), deadline=deadline)
        if answer.error_code:
            forget_token(connection.security)
            text = answer.error_message or error_name(answer.error_code)
            raise AuthenticationFailed(f"{connection.address} refused the login: {text.rstrip('.')}")
        token, lifetime_ms = answer.auth_bytes, answer.session_lifetime_ms
    return lifetime_ms


async def _authenticator(connection: Connection) -> Authenticator:
    security = connection.security
    if security.sasl_mechanism == "OAUTHBEARER":
        return OAuthLogin(security)
    loop = asyncio.get_running_loop()
    # loading takes a few hundred milliseconds; other connections go on meanwhile
    conn = await loop.run_in_executor(None, importlib.import_module, "aiokafka.conn")
    match security.sasl_mechanism:
        case "PLAIN":
            made = conn.SaslPlainAuthenticator(
                loop=loop, sasl_plain_username=security.username, sasl_plain_password=security.password
            )
        case "GSSAPI":
            if conn.gssapi is None:
                raise ClusterError(
                    "sasl.mechanism=GSSAPI needs the Python package gssapi; install it beside shareproxy"
                )
            principal = f"{security.kerberos_service_name}@{connection.address.host}"
            made = conn.SaslGSSAPIAuthenticator(loop=loop, principal=principal)
        case mechanism:
            made = conn.ScramAuthenticator(
                loop=loop,
                sasl_plain_username=security.username,
                sasl_plain_password=security.password,
                sasl_mechanism=mechanism,
            )
    return cast("Authenticator", made)
