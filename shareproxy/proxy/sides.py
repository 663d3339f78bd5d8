"""Stand between the event loop and a connection, once for its client and once for its broker.

In: what the event loop tells a protocol. Out: the same, to the connection. Must never: let an attempt to connect that
was given up touch the connection, or hold a socket that is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from shareproxy.proxy.connection import Connection


class ClientSide(asyncio.Protocol):
    """The event loop's view of a client's socket.

    Args:
        connect: makes the connection when the socket, and TLS on it, is there.
    """

    __slots__ = ("_connect", "_connection")

    _connection: Connection

    def __init__(self, connect: Callable[[asyncio.BaseTransport], Connection]) -> None:
        self._connect = connect

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._connection = self._connect(transport)
        self._connection.client_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._connection.client_sent(data)

    def eof_received(self) -> None:
        """Pass it on; the transport then closes when its last bytes are sent."""
        self._connection.client_ended()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        self._connection.client_lost(error)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._connection.client_writable(False)

    def resume_writing(self) -> None:
        """Pass it on."""
        self._connection.client_writable(True)


class BrokerSide(asyncio.Protocol):
    """The event loop's view of a broker's socket.

    An attempt to connect may be given up in its very last step, and end while the next one is under way: nothing of it
    is passed on before `adopt`.
    """

    __slots__ = ("_adopted", "_connection", "_early", "_lost", "_transport")

    def __init__(self, connection: Connection) -> None:
        self._connection, self._adopted = connection, False
        self._transport: asyncio.Transport | None = None  # until it is decided what becomes of it: they form a cycle
        self._early = b""
        self._lost: tuple[Exception | None] | None = None  # it has ended, and with what error

    def adopt(self) -> None:
        """Be the connection's broker from now on."""
        transport, self._transport = self._transport, None
        assert transport is not None
        self._adopted = True
        self._connection.broker_connected(transport)
        if self._early:
            self._connection.broker_sent(self._early)
            self._early = b""
        if self._lost is not None:
            self._connection.broker_lost(*self._lost)

    def give_up(self) -> None:
        """Close the socket, unless it was adopted; its loss is not always reported."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        if self._adopted:
            self._connection.broker_sent(data)
        else:
            self._early += data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it until it is adopted."""
        self._transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> None:
        """Pass it on; the transport then closes."""
        if self._adopted:
            self._connection.broker_ended()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        if self._adopted:
            self._connection.broker_lost(error)
        else:
            self._lost = (error,)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._connection.broker_writable(False)

    def resume_writing(self) -> None:
        """Pass it on."""
        self._connection.broker_writable(True)
