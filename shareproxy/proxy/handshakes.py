"""Speak TLS with clients that were just accepted, until they are connections or have failed.

In: accepted sockets of one port. Out: client connections, and for each client that does not become one a reason, a
log line and a count. Must never: begin TLS with somebody who has not sent a byte, or take a health probe for a failure.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.accepting import PlainListener
from shareproxy.proxy.client_tls import TlsPorts
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.connection import Connection, peer_of
from shareproxy.proxy.dial import describe_os_error
from shareproxy.proxy.sides import ClientSide
from shareproxy.proxy.surroundings import Surroundings

# The first byte of every TLS connection: a record of the type handshake.
_TLS_RECORD: Final = 0x16
# What OpenSSL calls a client that has no certificate, and the alerts of one that does not like ours. A client's alert
# may also be about something else: versions, or its own state.
_NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_ALERT: Final = "ALERT"
_ABOUT_CERTIFICATES: Final = ("CERTIFICATE", "UNKNOWN_CA", "UNRECOGNIZED_NAME")
# The loops' own timers must not be before ours, which says what it was.
_LOOPS_OWN_MARGIN: Final = 5.0


class Handshakes:
    """The handshakes on one port.

    Args:
        around: shared by all connections.
        tls: our side; each handshake takes the context that it has then.
        connect: makes the connection of a client whose handshake is done.
        node_id: what the port belongs to, None for any broker.
    """

    def __init__(
        self,
        around: Surroundings,
        tls: TlsPorts,
        connect: Callable[[asyncio.BaseTransport], Connection],
        node_id: NodeId | None,
    ) -> None:
        self._around, self._tls, self._connect, self._node_id = around, tls, connect, node_id
        self._loop = asyncio.get_running_loop()

    def take(self, accepted: socket.socket, peer: Any) -> None:
        """Take a socket; it is closed or belongs to a connection in the end.

        Args:
            accepted: non-blocking.
            peer: its other side, as `accept` returns it.
        """
        host, name = peer_of(peer)
        refusal = self._around.refusal(host)
        if refusal is not None:
            accepted.close()
            self._failed(name, self._loop.time(), *refusal)
            return
        task = self._loop.create_task(self._run(accepted, host, name))
        self._around.handshake_began(task, host)

    async def _run(self, accepted: socket.socket, host: str, name: str) -> None:
        began = self._loop.time()
        timeout = self._around.limits.unauthenticated_timeout
        failure: tuple[CloseReason, str] | None = None
        spoke = False
        task = asyncio.current_task()

        def connect(transport: asyncio.BaseTransport) -> Connection:
            self._around.handshake_ended(task, host)  # or it would count twice
            return self._connect(transport)

        try:
            async with asyncio.timeout(timeout):
                failure = await self._first_byte(accepted)
                spoke = True
                if failure is None:
                    await self._loop.connect_accepted_socket(
                        lambda: ClientSide(connect),
                        accepted,
                        ssl=self._tls.context,
                        ssl_handshake_timeout=timeout + _LOOPS_OWN_MARGIN,
                    )
        except TimeoutError:
            reason = CloseReason.TLS_TIMEOUT if spoke else CloseReason.FIRST_REQUEST_TIMEOUT
            what = "the TLS handshake was not done" if spoke else "not a byte"
            failure = reason, f"{what} within limits.unauthenticated_timeout, {timeout:g} s"
        except OSError as error:  # ssl.SSLError is one
            # a health probe may end with a reset as well
            failure = reason_of(error) if spoke else (CloseReason.NO_REQUEST, describe_os_error(error))
        except asyncio.CancelledError:
            failure = CloseReason.STOPPED, "during the TLS handshake"
            raise
        except Exception as error:
            self._around.log.error("bug in the proxy", client=name, exc_info=error)
            failure = CloseReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}"
        finally:
            self._around.handshake_ended(task, host)
            if not spoke or (failure is not None and failure[0] in (CloseReason.NO_REQUEST, CloseReason.PLAIN_TEXT)):
                accepted.close()  # otherwise it belongs to a transport, which closes it
            if failure is not None:
                self._failed(name, began, *failure)

    async def _first_byte(self, accepted: socket.socket) -> tuple[CloseReason, str] | None:
        """Wait for a client's first byte, which stays in the socket; return what is wrong with it."""
        readable = self._loop.create_future()
        self._loop.add_reader(accepted.fileno(), _set, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(accepted.fileno())
        first = accepted.recv(4, socket.MSG_PEEK)
        if not first:
            return CloseReason.NO_REQUEST, ""
        if first[0] == _TLS_RECORD:
            return None
        speaks = "HTTP without TLS" if first[:3].isalpha() else "plain text"
        return CloseReason.PLAIN_TEXT, f"{speaks}, but this port speaks TLS; Kafka: security.protocol=SSL or SASL_SSL"

    def _failed(self, name: str, began: float, reason: CloseReason, detail: str) -> None:
        self._around.turned_away(name, self._node_id, reason, detail, self._loop.time() - began)


class TlsListener(PlainListener):
    """Accepts clients that are to speak TLS until it is closed.

    Args:
        bound: non-blocking and bound; this object closes it.
        handshakes: take the clients.
    """

    def __init__(self, bound: socket.socket, handshakes: Handshakes) -> None:
        super().__init__(bound, asyncio.Protocol)
        self._handshakes = handshakes

    def _take(self, connected: socket.socket, peer: Any) -> None:
        self._handshakes.take(connected, peer)


def reason_of(error: OSError) -> tuple[CloseReason, str]:
    """Return why a handshake failed, as a reason and a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CloseReason.TLS_CLIENT_CERTIFICATE, f"the client's certificate is not accepted: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        if isinstance(error, ConnectionError):  # Python's asyncio does not say why it leaves
            text = "the client left within it; that may be because it does not accept the certificate it was shown"
            return CloseReason.TLS_HANDSHAKE, text
        return CloseReason.TLS_HANDSHAKE, describe_os_error(error)
    why = error.reason or str(error)
    words = why.replace("_", " ").lower()
    if why == _NO_CERTIFICATE:
        return CloseReason.TLS_CLIENT_CERTIFICATE, "the client has no certificate, but tls.client_auth is required"
    if _ALERT in why and any(word in why for word in _ABOUT_CERTIFICATES):
        return CloseReason.TLS_REFUSED, f"the client does not accept the certificate it was shown: {words}"
    return CloseReason.TLS_HANDSHAKE, words


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
