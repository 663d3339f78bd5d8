"""Own the two sockets of one client connection and do what its session says.

In: a client's socket. Out: bytes both ways, and one log line at the end. Must never: await on the data path, leave
one socket open without the other, or read a side faster than the other takes it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import structlog

from shareproxy.cluster.addresses import Address
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.answer_stream import LagStep
from shareproxy.proxy.close import ORDINARY, CloseReason
from shareproxy.proxy.out_of_range import OffsetsRequest
from shareproxy.proxy.session import Session
from shareproxy.proxy.share_offsets import LagAnswer, LagFiller, fill, find_missing
from shareproxy.proxy.upstream import UnknownNodeError, UnreachableError, Upstream

# Unsent bytes at which the other side is no longer read, and at which it is read again: two of the largest chunks
# that the event loop reads, so that a fast connection never runs dry, and the most one connection can hold.
WRITE_HIGH_BYTES: Final = 512 * 1024
WRITE_LOW_BYTES: Final = 128 * 1024
# What a client may send before a broker is connected; then it is not read until one is.
EARLY_BYTES: Final = 64 * 1024
# How long a side that does not take its last bytes, or a broker that does not end, is waited for: as long as clients
# wait for an answer.
FLUSH_SECONDS: Final = 30.0
# How long a request waits for Metadata on our own connection, usually a millisecond or nothing; then it goes as it is.
LOOKUP_SECONDS: Final = 1.0


class Surroundings:
    """What all connections of one proxy share.

    Args:
        upstream: connects to brokers.
        mapping: from brokers' addresses to advertised ones.
        filler: works out lag, None to leave DescribeShareGroupOffsets alone.
        choice: which rows it is asked for.
        lag_timeout, connect_timeout: seconds.
        max_request_bytes: largest request.
        max_connections: further clients are closed at once.
    """

    def __init__(
        self,
        upstream: Upstream,
        mapping: AddressMapping,
        filler: LagFiller | None,
        choice: SourceChoice,
        *,
        lag_timeout: float,
        connect_timeout: float,
        max_request_bytes: int,
        max_connections: int,
    ) -> None:
        self.upstream, self.mapping, self.filler, self.choice = upstream, mapping, filler, choice
        self.lag_timeout, self.connect_timeout = lag_timeout, connect_timeout
        self.max_request_bytes, self.max_connections = max_request_bytes, max_connections
        self.log = structlog.get_logger()
        self.open: set[Connection] = set()
        """Connections with a socket that is not closed yet."""
        self.on_last_closed: Callable[[], None] = lambda: None

    def forget(self, connection: Connection) -> None:
        """Drop a connection whose sockets are both closed."""
        self.open.discard(connection)
        if not self.open:
            self.on_last_closed()


class Connection:
    """One client and its broker.

    The broker is connected when the client's first bytes come: a health probe or a port scan never reaches it.

    Args:
        around: shared by all connections.
        node_id: which broker it must be, None for any.
    """

    def __init__(self, around: Surroundings, node_id: NodeId | None) -> None:
        self.close_reason: CloseReason | None = None
        self._around, self._node_id = around, node_id
        self._loop = asyncio.get_running_loop()
        self._session = Session(
            around.mapping,
            fills_lag=around.filler is not None,
            versions=around.upstream.versions_of(node_id),
            max_request_bytes=around.max_request_bytes,
        )
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._client_name = self._broker_name = ""
        self._client_reading = self._broker_reading = True
        self._client_full = self._broker_full = False  # they do not take what is written
        self._early_bytes = 0
        self._draining = self._broker_ending = False
        self._connecting: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None
        self._looking_up: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # -- the owner's side ---------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Close as soon as nothing is in flight."""
        self._draining = True
        self._pump()

    def abort(self) -> None:
        """Close now, whatever is in flight."""
        self._session.close(CloseReason.STOPPED, "did not finish in time")
        self._pump()
        self._abort_sockets()

    # -- the client's side --------------------------------------------------------------------------------------------

    def client_connected(self, transport: asyncio.Transport) -> None:
        """Take the client's socket."""
        self._client = transport
        self._client_name = _peer_name(transport)
        _prepare(transport)
        around = self._around
        around.open.add(self)
        try:
            if self._node_id is not None:
                around.upstream.addresses(self._node_id)
        except UnknownNodeError as error:
            self._refuse(CloseReason.NODE_UNKNOWN, str(error))
        if len(around.open) > around.max_connections:
            self._refuse(CloseReason.TOO_MANY_CONNECTIONS, f"the limit is {around.max_connections}")

    def client_sent(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self.close_reason is not None:
            return
        try:
            self._session.receive_from_client(data)
            if self._broker is None:
                self._early_bytes += len(data)
                if self._connecting is None and self._session.close_reason is None:
                    self._connecting = self._start(self._connect())
            self._pump()
        except Exception as error:
            self._fail(error)

    def client_ended(self, detail: str = "") -> None:
        """Take the end of the client's bytes, or of its socket."""
        if self.close_reason is None:
            self._session.receive_client_end()
            self._session.close_detail = self._session.close_detail or detail
            self._pump()

    def client_lost(self, error: Exception | None) -> None:
        """Take the end of the client's socket."""
        self._client = None
        self.client_ended(str(error) if error else "")
        self._forget_if_done()

    def client_writable(self, writable: bool) -> None:
        """Take whether the client takes more bytes."""
        self._client_full = not writable
        self._set_reading()

    # -- the broker's side --------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        around = self._around
        try:
            _, _, address = await around.upstream.connect(
                lambda: BrokerSide(self), self._node_id, around.connect_timeout
            )
        except UnknownNodeError as error:
            self._session.close(CloseReason.NODE_UNKNOWN, str(error))
        except UnreachableError as error:
            self._drop_broker()
            self._session.close(CloseReason.BROKER_UNREACHABLE, str(error))
        else:
            self._broker_name = str(address)
        self._connecting = None
        self._pump()

    def _drop_broker(self) -> None:
        """Give up a socket whose connecting failed in its last step: its loss is not always reported."""
        if self._broker is not None:
            self._broker.abort()
            self._broker = None

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """Take the broker's socket."""
        self._broker = transport
        _prepare(transport)

    def broker_sent(self, data: bytes) -> None:
        """Take bytes from the broker."""
        if self.close_reason is not None:
            return
        try:
            self._session.receive_from_broker(data)
            self._pump()
        except Exception as error:
            self._fail(error)

    def broker_ended(self, detail: str = "") -> None:
        """Take the end of the broker's bytes, or of its socket."""
        if self.close_reason is None:
            self._session.receive_broker_end()
            self._session.close_detail = self._session.close_detail or detail
            self._pump()
        elif self._broker is not None:
            self._broker.close()

    def broker_lost(self, error: Exception | None) -> None:
        """Take the end of the broker's socket."""
        self._broker = None
        self.broker_ended(str(error) if error else "")
        self._forget_if_done()

    def broker_writable(self, writable: bool) -> None:
        """Take whether the broker takes more bytes."""
        self._broker_full = not writable
        self._set_reading()

    # -- doing what the session says ----------------------------------------------------------------------------------

    def _pump(self) -> None:
        session = self._session
        while session.step is not None and self._filling is None and session.close_reason is None:
            if not self._begin_step(session.step):
                break
        if session.lookup is not None and self._looking_up is None and session.close_reason is None:
            self._looking_up = self._start(self._look_up(session.lookup))
        if self._client is not None and session.to_client:
            _write(self._client, session.to_client)
        if self._broker is not None and session.to_broker:
            _write(self._broker, session.to_broker)
        if self._draining and session.close_reason is None and session.idle:
            session.close(CloseReason.STOPPED)
        if session.close_reason is not None:
            self._close(session.close_reason, session.close_detail)
        else:
            self._set_reading()

    def _begin_step(self, step: LagStep) -> bool:
        """Work on a step; return whether it is done already."""
        around = self._around
        try:
            answer = LagAnswer(step, around.choice)
        except DecodeError as error:
            self._session.close(CloseReason.MALFORMED_ANSWER, str(error))
            return False
        if around.filler is None or not answer.asked:
            self._session.finish_step(answer.frame())
            return True
        self._filling = self._start(self._fill(answer, around.filler))
        return False

    async def _look_up(self, request: OffsetsRequest) -> None:
        filler = self._around.filler
        assert filler is not None
        missing = await find_missing(request, filler, self._loop.time() + min(LOOKUP_SECONDS, self._around.lag_timeout))
        self._looking_up = None
        self._session.finish_lookup(missing)
        self._pump()

    async def _fill(self, answer: LagAnswer, filler: LagFiller) -> None:
        await fill(answer, filler, self._loop.time() + self._around.lag_timeout)
        self._filling = None
        self._session.finish_step(answer.frame())
        self._pump()

    def _set_reading(self) -> None:
        session = self._session
        if self._client is not None and self.close_reason is None:
            early = self._broker is None and self._early_bytes > EARLY_BYTES
            stop = (
                self._broker_full or early or session.client_paused or (self._draining and not session.within_request)
            )
            if stop is self._client_reading:
                self._client_reading = not stop
                self._client.pause_reading() if stop else self._client.resume_reading()
        if self._broker is not None and self.close_reason is None:
            stop = self._client_full or session.broker_paused
            if stop is self._broker_reading:
                self._broker_reading = not stop
                self._broker.pause_reading() if stop else self._broker.resume_reading()

    def _refuse(self, reason: CloseReason, detail: str) -> None:
        self._session.close(reason, detail)
        self._pump()

    def _close(self, reason: CloseReason, detail: str) -> None:
        first = self.close_reason is None
        if first:
            self.close_reason = reason
            self._deadline = self._loop.call_later(FLUSH_SECONDS, self._abort_sockets)
            for task in (self._filling, self._looking_up):
                if task is not None:
                    task.cancel()
            # what a client sent before its end still goes to the broker: it may be a Produce with acks 0
            if not (reason is CloseReason.CLIENT_CLOSED and self._session.to_broker):
                self._stop_connecting()
            if self._client is not None:
                self._client.close()
        if self._broker is not None and not self._broker_ending:
            self._broker_ending = True
            if reason is CloseReason.CLIENT_CLOSED and self._broker.can_write_eof():
                # closing with unread answers would reset the connection and could take the last requests with it
                if not self._broker_reading:
                    self._broker_reading = True
                    self._broker.resume_reading()
                self._broker.write_eof()
            else:
                self._broker.close()
        self._forget_if_done()
        if first:
            self._log_end(reason, detail)  # last: a log that cannot be written must not keep a socket open

    def _stop_connecting(self) -> None:
        # once there is a transport its own end counts: uvloop never reports the loss of one whose connect is cancelled
        if self._connecting is not None and self._broker is None:
            self._connecting.cancel()

    def _abort_sockets(self) -> None:
        self._stop_connecting()
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.abort()

    def _forget_if_done(self) -> None:
        if self.close_reason is None or self._client or self._broker or self._connecting:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._around.forget(self)

    def _fail(self, error: BaseException) -> None:
        """Take a bug: this connection closes, the process lives."""
        self._around.log.error("bug in the proxy", client=self._client_name, exc_info=error)
        self._session.close(CloseReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        self._close(CloseReason.INTERNAL_ERROR, self._session.close_detail)

    def _log_end(self, reason: CloseReason, detail: str) -> None:
        log = self._around.log
        write = log.info if reason in ORDINARY else log.debug if reason is CloseReason.NO_REQUEST else log.warning
        event: dict[str, object] = {"reason": reason.value, "client": self._client_name}
        if self._node_id is not None:
            event["node_id"] = self._node_id
        if self._broker_name:
            event["broker"] = self._broker_name
        if detail:
            event["detail"] = detail
        write("connection closed", **event)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if task is self._connecting:
            self._connecting = None
            if task.cancelled():
                self._drop_broker()
        if task is self._filling:
            self._filling = None
        if task is self._looking_up:
            self._looking_up = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._forget_if_done()


class ClientSide(asyncio.Protocol):
    """The event loop's view of a client's socket.

    Args:
        connect: makes the connection when the socket, and TLS on it, is there.
    """

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
    """The event loop's view of a broker's socket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.data_received = connection.broker_sent  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._connection.broker_connected(cast("asyncio.Transport", transport))

    def eof_received(self) -> None:
        """Pass it on; the transport then closes."""
        self._connection.broker_ended()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        self._connection.broker_lost(error)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._connection.broker_writable(False)

    def resume_writing(self) -> None:
        """Pass it on."""
        self._connection.broker_writable(True)


def _prepare(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
    # a peer whose machine is gone never says so
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _write(transport: asyncio.Transport, chunks: list[bytes]) -> None:
    if len(chunks) == 1:
        transport.write(chunks[0])
    else:
        transport.writelines(chunks)
    chunks.clear()


def _peer_name(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(Address(peer[0], peer[1])) if peer else "unknown"
