"""Carry request frames out and answer frames in over one transport, many at a time.

In: frames with their correlation ids and deadlines. Out: answer frames, matched by position and checked by id.
Must never: await on the data path, or give an answer to a request it does not belong to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from shareproxy.cluster.errors import BadAnswer, ConnectionClosed, DeadlinePassed, cause_text
from shareproxy.protocol.errors import DecodeError, FrameError
from shareproxy.protocol.framing import FrameReader
from shareproxy.protocol.headers import read_correlation_id, sized

# a request that nobody waits for any more and that is this old blocks the ones behind it: the broker works in order
STALL_SECONDS: Final = 0.5
# an orderly close (TLS says goodbye) may take this long before the socket is dropped
CLOSE_SECONDS: Final = 1.0
_TLS_ALERT: Final = b"\x15\x03"
_HTTP_ANSWER: Final = b"HTTP"


class _Pending:
    """One request without its answer."""

    __slots__ = ("answer", "correlation_id", "sent")

    def __init__(self, correlation_id: int, answer: asyncio.Future[bytes], sent: float) -> None:
        self.correlation_id, self.answer, self.sent = correlation_id, answer, sent


class Pipeline(asyncio.Protocol):
    """The data path of one connection.

    Args:
        where: `host:port` for messages.
        limit: largest answer in bytes.
    """

    def __init__(self, where: str, limit: int) -> None:
        self.where = where
        self.hint = ""
        """What to try if the broker closes the connection now; put behind the sentence."""
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(limit)
        self._transport: asyncio.Transport  # from `connection_made` on
        self._pending: deque[_Pending] = deque()
        self._waiting = 0
        self._first_bytes = b""
        self._error: ConnectionClosed | None = None
        self._retired = False
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None

    # the transport calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: the connection is open."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand whole answers to those who wait for them."""
        if len(self._first_bytes) < 4:
            self._first_bytes = (self._first_bytes + data[:4])[:4]
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except FrameError as error:
            self.fail(BadAnswer(f"{self.where} does not answer as a Kafka broker: {self._why(error)}"), error)
        except DecodeError as error:
            self.fail(BadAnswer(f"{self.where} sent an answer that cannot be read: {error}"), error)

    def _take(self, frame: bytes) -> None:
        correlation_id = read_correlation_id(frame)
        if not self._pending:
            raise DecodeError(f"correlation id {correlation_id}, although nothing was asked")
        pending = self._pending.popleft()
        if pending.correlation_id != correlation_id:
            self._pending.appendleft(pending)  # so that whoever waits for it is told
            raise DecodeError(f"correlation id {correlation_id} where {pending.correlation_id} was due")
        if not pending.answer.done():
            pending.answer.set_result(frame)

    def _why(self, error: FrameError) -> str:
        if self._first_bytes.startswith(_TLS_ALERT):
            return "it answered with TLS; set security.protocol=SSL (or SASL_SSL) for this listener"
        if self._first_bytes == _HTTP_ANSWER:
            return "it answered with HTTP; is this the address of a broker?"
        return str(error)

    def pause_writing(self) -> None:
        """Stop sending: the broker does not take what we have sent."""
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Go on sending."""
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    def eof_received(self) -> None:
        """Close: a broker that sends no more answers is of no use."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who waits."""
        if self._error is None:
            reason = f" ({cause_text(exc)})" if exc else ""
            when = " in the middle of an answer" if self._reader.held else ""
            self._give_up(ConnectionClosed(f"{self.where} closed the connection{when}{reason}{self.hint}"), exc)
        self.resume_writing()
        if not self._lost.done():
            self._lost.set_result(None)

    # the connection calls these

    @property
    def closed(self) -> bool:
        """Tell whether requests can still be sent."""
        return self._error is not None or self._retired

    @property
    def finished(self) -> bool:
        """Tell whether the transport is gone."""
        return self._lost.done()

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call when the transport is gone, whoever closed it."""
        self._lost.add_done_callback(lambda _: call())

    @property
    def in_flight(self) -> int:
        """Count the requests without answer, also those that nobody waits for any more."""
        return len(self._pending)

    @property
    def stalled(self) -> bool:
        """Tell whether a request that nobody waits for has kept the others waiting for a while."""
        if not self._pending:
            return False
        head = self._pending[0]
        return head.answer.done() and self._loop.time() - head.sent >= STALL_SECONDS

    async def exchange(self, correlation_id: int, frame: bytes, deadline: float, what: str) -> bytes:
        """Send one request frame and return its answer.

        Args:
            correlation_id: the one in the frame.
            frame: without its size.
            deadline: in the event loop's time; afterwards a late answer is swallowed.
            what: name of the request for messages.

        Raises:
            DeadlinePassed: no answer in time; the connection stays usable.
            ConnectionClosed: the connection ended first.
        """
        if deadline <= self._loop.time():
            raise DeadlinePassed(f"no time was left to ask {self.where} for {what}")
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                while self._writable is not None and self._error is None:
                    # shielded: all senders wait for the same future, one of them giving up must not end it
                    await asyncio.shield(self._writable)
                if self._error is not None:
                    raise self._closed_error()
                answer: asyncio.Future[bytes] = self._loop.create_future()
                self._pending.append(_Pending(correlation_id, answer, self._loop.time()))
                self._transport.write(sized(frame))
                return await answer
        except TimeoutError:
            raise DeadlinePassed(f"{self.where} did not answer {what} in time") from None
        finally:
            self._waiting -= 1
            if self._retired and self._waiting == 0:
                self._end(ConnectionClosed(f"the connection to {self.where} was replaced"))

    def fail(self, error: ConnectionClosed, cause: BaseException | None = None) -> None:
        """Drop the connection at once and tell everyone who waits why."""
        self._give_up(error, cause)
        self._transport.abort()

    def retire(self) -> None:
        """Take no more requests; close as soon as nobody waits for an answer."""
        self._retired = True
        if self._waiting == 0:
            self._end(ConnectionClosed(f"the connection to {self.where} was replaced"))

    async def close(self) -> None:
        """Close and wait until the transport is gone."""
        self._end(ConnectionClosed(f"the connection to {self.where} was closed on this side"))
        done, _ = await asyncio.wait([self._lost], timeout=CLOSE_SECONDS)
        if not done:
            self._transport.abort()
            await self._lost

    def _end(self, error: ConnectionClosed) -> None:
        self._give_up(error, None)
        self._transport.close()

    def _give_up(self, error: ConnectionClosed, cause: BaseException | None) -> None:
        if self._error is not None:
            return
        error.__cause__ = cause
        self._error = error
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(self._closed_error())
        self.resume_writing()

    def _closed_error(self) -> ConnectionClosed:
        # a new object each time: one exception raised in several tasks would collect all their tracebacks
        assert self._error is not None
        error = type(self._error)(str(self._error))
        error.__cause__ = self._error.__cause__
        return error
