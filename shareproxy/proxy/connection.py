"""Own the two sockets of one client connection and do what its session says.

In: a client's socket. Out: bytes both ways, and one log line at the end. Must never: await on the data path, leave
one socket open without the other, or read a side faster than the other takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.ids import NodeId
from shareproxy.proxy.answer_stream import LagStep
from shareproxy.proxy.close import CloseReason, log_level
from shareproxy.proxy.exchange import RequestHead
from shareproxy.proxy.meter import Histogram
from shareproxy.proxy.out_of_range import OffsetsRequest
from shareproxy.proxy.plain_connect import Begun
from shareproxy.proxy.plain_socket import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, PlainSocket, prepare, reset
from shareproxy.proxy.session import Session
from shareproxy.proxy.share_offsets import LagAnswer, LagFiller, fill, find_missing
from shareproxy.proxy.sides import BrokerSide
from shareproxy.proxy.surroundings import Surroundings
from shareproxy.proxy.upstream import UnknownNodeError, UnreachableError

# What a client may send before a broker is connected; then it is not read until one is.
EARLY_BYTES: Final = 64 * 1024
# How long a side that does not take its last bytes, or a broker that does not end, is waited for: as long as clients
# wait for an answer.
FLUSH_SECONDS: Final = 30.0
# A broker that is down refuses connections; here the client is connected already, and an end without a word is taken by
# some clients for wrong security settings, which they do not try again. A reset is tried again like a refusal.
_NO_BROKER: Final = frozenset({CloseReason.BROKER_UNREACHABLE, CloseReason.NODE_UNKNOWN})
# How long a request waits for Metadata on our own connection, usually a millisecond or nothing; then it goes as it is.
LOOKUP_SECONDS: Final = 1.0


class Connection:
    """One client and its broker.

    The broker is connected when the client's first bytes come: a health probe or a port scan never reaches it.

    Args:
        around: shared by all connections.
        node_id: which broker it must be, None for any.
        named: whether the client named the node (SNI), so that it may be any number.
    """

    __slots__ = (
        "_around",
        "_began",
        "_broker",
        "_broker_ending",
        "_broker_full",
        "_broker_name",
        "_broker_reading",
        "_calm",
        "_client",
        "_client_full",
        "_client_name",
        "_client_reading",
        "_connecting",
        "_deadline",
        "_draining",
        "_early_bytes",
        "_filling",
        "_looking_up",
        "_loop",
        "_meter",
        "_node_id",
        "_session",
        "_timed",
        "broker_bytes",
        "client_bytes",
        "client_host",
        "close_reason",
        "listener",
    )

    def __init__(self, around: Surroundings, node_id: NodeId | None, *, named: bool = False) -> None:
        self.close_reason: CloseReason | None = None
        self.listener = "bootstrap" if node_id is None else str(node_id)
        """Where the client came in: `bootstrap`, or the node id it asked for."""
        if named and node_id is not None and node_id not in around.upstream.nodes:
            self.listener = "unknown"  # a name may hold any number: not a label for each
        self.client_host = ""
        self.client_bytes = self.broker_bytes = 0
        """Received so far."""
        self._around, self._node_id, self._meter = around, node_id, around.meter
        self._loop = asyncio.get_running_loop()
        self._session = Session(
            around.mapping,
            fills_lag=around.filler is not None,
            versions=around.upstream.versions_of(node_id),
            max_request_bytes=around.limits.max_frame_bytes,
            max_unauthenticated_bytes=around.limits.max_unauthenticated_frame_bytes,
            max_in_flight=around.limits.max_in_flight,
            wants_sasl=around.wants_sasl,
            apis=around.meter.apis,
        )
        self._timed: tuple[RequestHead, float] | None = None  # a request whose answer is waited for, and since when
        self._began = self._loop.time()
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._client_name = self._broker_name = ""
        self._calm = False  # both sides are there, read and take what is written, and nothing else is going on
        self._client_reading = self._broker_reading = True
        self._client_full = self._broker_full = False  # they do not take what is written
        self._early_bytes = 0
        self._draining = self._broker_ending = False
        self._connecting: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None
        self._looking_up: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # -- the owner's side ---------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight either way, so that closing loses nothing."""
        return self._session.idle and not self._session.to_broker  # which waits for a broker to be connected

    @property
    def receiving(self) -> bool:
        """Whether a request has come in part, and its rest is read as soon as it comes."""
        return self._client_reading and self._session.within_request

    @property
    def held_back(self) -> str:
        """Why one side is not read, as a sentence; empty while both are, or will be soon."""
        if self._client_full:
            return "the client does not take what the broker sends"
        return "" if self._client_reading else "the broker does not take or answer what the client sends"

    @property
    def unsent_bytes(self) -> int:
        """Bytes for either side that its socket has not taken."""
        sides = (self._client, self._broker)
        return sum(side.get_write_buffer_size() for side in sides if side is not None)

    @property
    def unproven(self) -> CloseReason | None:
        """Which of its first steps the client has not taken yet, None once it has taken all."""
        session = self._session
        if not self.broker_bytes and not session.asked:
            return CloseReason.FIRST_REQUEST_TIMEOUT
        return None if session.authenticated else CloseReason.AUTHENTICATION_TIMEOUT

    def refuse(self, reason: CloseReason, detail: str) -> None:
        """Close for a reason that bytes do not show, such as a limit of time."""
        try:
            self._session.close(reason, detail)
            self._pump()
        except Exception as error:
            self._fail(error)

    def drain(self) -> None:
        """Close as soon as nothing is in flight."""
        self._draining, self._calm = True, False
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
        self.client_host, self._client_name = peer_of(transport.get_extra_info("peername"))
        _prepare(transport, self.client_sent)
        around = self._around
        refusal = around.refusal(self.client_host)
        around.remember(self)
        try:
            if self._node_id is not None:
                around.upstream.addresses(self._node_id)
        except UnknownNodeError as error:
            self.refuse(CloseReason.NODE_UNKNOWN, str(error))
        if refusal is not None:
            self.refuse(*refusal)

    def client_sent(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self.close_reason is not None:
            return
        self.client_bytes += len(data)
        meter, session = self._meter, self._session
        meter.until_sample -= 1
        began = 0.0 if meter.until_sample else meter.begin_sample()
        try:
            if session.receive_from_client(data) and self._calm:
                _write(self._broker, session.to_broker)
            else:
                if self._broker is None:
                    self._early_bytes += len(data)
                    # not a second one after the first has ended: it would know nothing of what was said to that
                    if self._connecting is None and session.close_reason is None and not session.broker_ended:
                        self._begin_connect()
                self._pump()
            if began:
                self._note_sample(began, meter.latency_to_broker, self._broker, session.to_broker)
        except Exception as error:
            self._fail(error)

    def client_ended(self, detail: str = "") -> None:
        """Take the end of the client's bytes, or of its socket."""
        if self.close_reason is None:
            self._session.receive_client_end(detail)
            self._pump()

    def client_lost(self, error: Exception | None) -> None:
        """Take the end of the client's socket."""
        self._client = None
        self.client_ended(str(error) if error else "")
        self._forget_if_done()

    def client_writable(self, writable: bool) -> None:
        """Take whether the client takes more bytes."""
        self._client_full, self._calm = not writable, False
        self._set_reading()

    # -- the broker's side --------------------------------------------------------------------------------------------

    def _begin_connect(self) -> None:
        """Connect to a broker: within this turn of the loop if it is nearby and has an address of numbers."""
        began = perf_counter()
        begun = self._around.upstream.begin(self._node_id)
        if begun is None or not begun.connected:
            self._connecting = self._start(self._connect(begun), begun)
            return
        self._broker_name = str(begun.address)
        side = BrokerSide(self)
        side.connection_made(PlainSocket(self._loop, begun.socket, side))
        side.adopt()
        self._meter.connected("connected", perf_counter() - began)

    async def _connect(self, begun: Begun | None) -> None:
        around, began, outcome = self._around, perf_counter(), "connected"
        sides: list[BrokerSide] = []

        def attempt() -> BrokerSide:
            sides.append(BrokerSide(self))
            return sides[-1]

        try:
            _, side, address = await around.upstream.connect(
                attempt, self._node_id, around.limits.connect_timeout, begun
            )
        except UnknownNodeError as error:
            outcome = CloseReason.NODE_UNKNOWN.value
            self._session.close(CloseReason.NODE_UNKNOWN, str(error))
        except UnreachableError as error:
            outcome = CloseReason.BROKER_UNREACHABLE.value
            self._session.close(CloseReason.BROKER_UNREACHABLE, str(error))
        else:
            self._broker_name, self._connecting = str(address), None
            side.adopt()
        finally:
            for side in sides:
                side.give_up()
        around.meter.connected(outcome, perf_counter() - began)
        self._connecting = None
        self._pump()

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """Take the broker's socket."""
        self._broker = transport
        _prepare(transport, self.broker_sent)

    def broker_sent(self, data: bytes) -> None:
        """Take bytes from the broker."""
        if self.close_reason is not None:
            return
        self.broker_bytes += len(data)
        meter, session = self._meter, self._session
        meter.until_sample -= 1
        began = 0.0 if meter.until_sample else meter.begin_sample()
        try:
            if session.receive_from_broker(data) and self._calm:
                _write(self._client, session.to_client)
            else:
                self._pump()
            if self._timed is not None:
                self._note_answer(*self._timed)
            if began:
                self._note_sample(began, meter.latency_to_client, self._client, session.to_client)
        except Exception as error:
            self._fail(error)

    def broker_ended(self, detail: str = "") -> None:
        """Take the end of the broker's bytes, or of its socket."""
        if self.close_reason is None:
            self._session.receive_broker_end(detail)
            self._pump()
        elif self._broker is not None:
            self._broker.close()

    def broker_lost(self, error: Exception | None) -> None:
        """Take the end of the broker's socket."""
        self._broker, self._calm = None, False
        self.broker_ended(str(error) if error else "")
        self._forget_if_done()

    def broker_writable(self, writable: bool) -> None:
        """Take whether the broker takes more bytes."""
        self._broker_full, self._calm = not writable, False
        self._set_reading()

    # -- doing what the session says ----------------------------------------------------------------------------------

    def _pump(self) -> None:
        session = self._session
        while session.step is not None and self._filling is None and session.close_reason is None:
            if not self._begin_step(session.step):
                break
        if session.lookup is not None and self._looking_up is None and session.close_reason is None:
            self._looking_up = self._start(self._look_up(session.lookup))
        _write(self._client, session.to_client)
        _write(self._broker, session.to_broker)
        if self._draining and session.close_reason is None and self.idle:
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
        await fill(answer, filler, self._loop.time() + self._around.lag_timeout, self._around.meter)
        self._filling = None
        self._session.finish_step(answer.frame())
        self._pump()

    def _set_reading(self) -> None:
        session, client, broker = self._session, self._client, self._broker
        if self.close_reason is not None:
            return
        if client is not None:
            early = broker is None and self._early_bytes > EARLY_BYTES
            stop = (
                self._broker_full or early or session.client_paused or (self._draining and not session.within_request)
            )
            if stop is self._client_reading:
                self._client_reading = not stop
                client.pause_reading() if stop else client.resume_reading()
        if broker is not None:
            stop = self._client_full or session.broker_paused
            if stop is self._broker_reading:
                self._broker_reading = not stop
                broker.pause_reading() if stop else broker.resume_reading()
            # until one of these changes there is nothing to decide about chunks that only pass
            self._calm = self._client_reading and self._broker_reading and not self._draining and client is not None

    def _note_sample(
        self, began: float, latency: Histogram, receiver: asyncio.Transport | None, left: list[bytes]
    ) -> None:
        """Note how long a chunk took from its arrival to the other socket, if it got there."""
        now = perf_counter()
        if receiver is not None and not left and self._filling is None:
            latency.add(now - began)
        outstanding = self._session.outstanding
        if latency is self._around.meter.latency_to_broker and outstanding:
            self._timed = outstanding[-1], now

    def _note_answer(self, head: RequestHead, since: float) -> None:
        if head not in self._session.outstanding:
            self._timed = None
            self._around.meter.answered(head[1], perf_counter() - since)

    def _close(self, reason: CloseReason, detail: str) -> None:
        first = self.close_reason is None
        if first:
            self.close_reason, self._calm = reason, False
            meter, session = self._meter, self._session
            meter.closed(reason)
            if session.outstanding:
                meter.lost(head[1] for head in session.outstanding)
            for task in (self._filling, self._looking_up):
                if task is not None:
                    task.cancel()
            # what a client sent before its end still goes to the broker: it may be a Produce with acks 0
            if not (reason is CloseReason.CLIENT_CLOSED and session.to_broker):
                self._stop_connecting()
            if self._client is not None and reason in _NO_BROKER:
                reset(self._client)
            elif self._client is not None:
                self._end_client(self._client)
        if self._broker is not None and not self._broker_ending:
            self._broker_ending = True
            if reason is CloseReason.CLIENT_CLOSED and self._session.outstanding and self._broker.can_write_eof():
                # closing with unread answers would reset the connection and could take the last requests with it
                if not self._broker_reading:
                    self._broker_reading = True
                    self._broker.resume_reading()
                self._broker.write_eof()
            else:
                self._broker.close()
        if reason is CloseReason.STALLED:
            self._abort_sockets()  # what is unsent has waited long enough
        if first and not (_has_ended(self._client) and _has_ended(self._broker) and self._connecting is None):
            self._deadline = self._loop.call_later(FLUSH_SECONDS, self._abort_sockets)
        self._forget_if_done()
        if first:
            self._log_end(reason, detail)  # last: a log that cannot be written must not keep a socket open

    def _end_client(self, client: asyncio.Transport) -> None:
        if self._session.refused and self.broker_bytes and client.can_write_eof():
            # closing with unread requests would reset the connection and could take the last answers with it
            if not self._client_reading:
                self._client_reading = True
                client.resume_reading()
            client.write_eof()
        else:
            client.close()

    def _stop_connecting(self) -> None:
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
        try:
            self._around.log.error("bug in the proxy", client=self._client_name, exc_info=error)
        finally:  # also if the log cannot be written
            self._session.close(CloseReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            self._close(CloseReason.INTERNAL_ERROR, self._session.close_detail)

    def _log_end(self, reason: CloseReason, detail: str) -> None:
        event: dict[str, object] = {"reason": reason.value, "client": self._client_name}
        if self._node_id is not None:
            event["node_id"] = self._node_id
        if self._broker_name:
            event["broker"] = self._broker_name
        if detail:
            event["detail"] = detail
        event["seconds"] = round(self._loop.time() - self._began, 3)
        event["client_bytes"], event["broker_bytes"] = self.client_bytes, self.broker_bytes
        getattr(self._around.log, log_level(reason))("connection closed", **event)

    def _start(self, work: Coroutine[Any, Any, None], begun: Begun | None = None) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(lambda task: self._task_done(task, begun))
        return task

    def _task_done(self, task: asyncio.Task[None], begun: Begun | None) -> None:
        if begun is not None and self._broker is None:
            begun.socket.close()  # as when the task was cancelled before it began
        if task is self._connecting:
            self._connecting = None
        if task is self._filling:
            self._filling = None
        if task is self._looking_up:
            self._looking_up = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._forget_if_done()


def _prepare(transport: asyncio.Transport, receive: Callable[[bytes], None]) -> None:
    if isinstance(transport, PlainSocket):
        transport.receive = receive  # all else is done
    else:
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        prepare(transport.get_extra_info("socket"))


def _has_ended(transport: asyncio.Transport | None) -> bool:
    """Tell whether nothing has to be waited for: no last bytes, and no TLS to say good-bye in."""
    return transport is None or (isinstance(transport, PlainSocket) and transport.ended)


def _write(transport: asyncio.Transport | None, chunks: list[bytes]) -> None:
    """Send chunks if there are any and somebody takes them."""
    if not chunks or transport is None:
        return
    if len(chunks) == 1:
        transport.write(chunks[0])
    else:
        transport.writelines(chunks)
    chunks.clear()


def peer_of(address: Any) -> tuple[str, str]:
    """Return the host of a socket's other side, and host and port for the log; it may be gone already."""
    return (address[0], str(Address(address[0], address[1]))) if address else ("unknown", "unknown")
