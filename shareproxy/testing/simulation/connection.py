"""One client's connection to one node: frames in, answers out in order, one at a time, as brokers work.

In: bytes. Out: bytes, late where a fault or the broker's own patience says so.
Must never: answer two requests of a connection at once, or answer before the client has said who it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from shareproxy.protocol.codec import decode_prefix
from shareproxy.protocol.errors import ProtocolError
from shareproxy.protocol.framing import MAX_REQUEST_BYTES, FrameReader
from shareproxy.protocol.headers import (
    RequestHead,
    encode_response,
    read_request_head,
    request_header_version,
    sized,
)
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    RequestHeader,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from shareproxy.testing.simulation.answers import ANSWERS
from shareproxy.testing.simulation.call import Call, Late, Parked
from shareproxy.testing.simulation.faults import Fault, Kind
from shareproxy.testing.simulation.login import Login
from shareproxy.testing.simulation.record_of_requests import Received
from shareproxy.testing.simulation.sharing import connection_ended
from shareproxy.testing.simulation.steps import steps_of

if TYPE_CHECKING:
    from shareproxy.testing.simulation.node import Node


class _HangUp(Exception):  # noqa: N818 - what a broker does
    """Close the connection without an answer, as a broker does with what it does not understand."""


class Fate(Enum):
    """What becomes of an answer."""

    SENT = auto()
    CUT = auto()
    NEVER_SENT = auto()


class Outgoing:
    """An answer on its way, or a request that waits for one.

    Attributes:
        answer: the frame with its size once it is there.
        late: seconds until it goes out.
        cut: bytes after which the connection is closed, if that is its fate.
    """

    def __init__(self, head: RequestHead) -> None:
        self.answer: bytes | Parked = b""
        self.late, self.cut, self.throttle_time_ms = 0.0, 0, 0
        self.fate = Fate.SENT
        self._head = head

    def with_answer(self, answer: Response | bytes | Parked) -> Outgoing:
        """Take the answer."""
        if isinstance(answer, Response):
            if self.throttle_time_ms and hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = self.throttle_time_ms
            version = self._head.api_version
            if isinstance(answer, ApiVersionsResponse) and answer.error_code == 35:
                version = 0  # the client may not know the body of any other
            answer = encode_response(answer, version, self._head.correlation_id)
        self.answer = sized(answer) if isinstance(answer, bytes) else answer
        return self


class NodeConnection(asyncio.Protocol):
    """The broker's end of one connection."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._frames = FrameReader(MAX_REQUEST_BYTES)
        self._waiting: deque[bytes] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._parked: tuple[Parked, Outgoing] | None = None
        self._missed = False  # the time of what waits was up while the node was frozen
        self._transport: asyncio.Transport | None = None
        self._login = Login(node.state.users)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._node.connections.add(self)
        if not self._node.listens:  # it was stopped while the connection was on its way
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._node.left(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        state = self._node.state
        with state.lock:
            connection_ended(state, self._node.broker, self)
            if self._parked is not None:
                parked, self._parked = self._parked[0], None
                state.parked.discard(parked)
                parked.abandoned()

    def data_received(self, data: bytes) -> None:
        """Take what came, and answer what is whole."""
        try:
            self._waiting.extend(self._frames.feed(data))
        except ProtocolError:
            self.drop()
            return
        self.go_on()

    def drop(self) -> None:
        """Close without another word."""
        if self._transport is not None:
            self._transport.abort()

    def go_on(self) -> None:
        """Answer what waits, until an answer is late or the node is frozen."""
        if self._parked is not None:
            self._look_again()
        while self._waiting and self._timer is None and self._transport is not None and not self._node.broker.frozen:
            frame = self._waiting.popleft()
            try:
                outgoing = self._answer(frame)
            except (ProtocolError, _HangUp):
                self.drop()
                return
            self._after(outgoing)

    def _after(self, outgoing: Outgoing) -> None:
        """Send an answer as late as it shall be."""
        if isinstance(outgoing.answer, bytes):
            if outgoing.late > 0:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(outgoing.late, self._late, outgoing)
            else:
                self._send(outgoing)
            return
        parked = outgoing.answer
        loop = asyncio.get_running_loop()
        self._parked = parked, outgoing
        self._timer = loop.call_later(parked.seconds, self._time_is_up)
        parked.notify = lambda: loop.call_soon_threadsafe(self._look_again)
        self._node.state.parked.add(parked)

    def _time_is_up(self) -> None:
        self._look_again(last=True)

    def _look_again(self, *, last: bool = False) -> None:
        """Answer the request that waits, if there is an answer by now."""
        if self._parked is None:
            return
        if self._node.broker.frozen:
            self._missed = self._missed or last  # it looks again when it is thawed
            return
        parked, outgoing = self._parked
        state = self._node.state
        with state.lock:
            answer = parked.answer(last=last or self._missed)
            if answer is None:
                return
            state.parked.discard(parked)
        self._parked, self._missed = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._after(outgoing.with_answer(answer))
        self.go_on()

    def _late(self, outgoing: Outgoing) -> None:
        self._timer = None
        if self._node.broker.frozen:
            # it got stuck while it worked; it goes on when it is thawed
            self._node.held_back.append((self, outgoing))
            return
        self._send(outgoing)
        self.go_on()

    def send_held_back(self, outgoing: Outgoing) -> None:
        """Send what was ready when the node froze."""
        self._send(outgoing)
        self.go_on()

    def _send(self, outgoing: Outgoing) -> None:
        if self._transport is None or outgoing.fate is Fate.NEVER_SENT:
            return
        assert isinstance(outgoing.answer, bytes)
        if outgoing.fate is Fate.SENT:
            self._transport.write(outgoing.answer)
            return
        self._transport.write(outgoing.answer[: outgoing.cut])
        self._transport.close()

    def _answer(self, frame: bytes) -> Outgoing:
        """Return the answer, or what waits for one, and what becomes of it."""
        head = read_request_head(frame)
        node, state = self._node, self._node.state
        known = ANSWERS.get(head.api_key)
        with state.lock:
            message: Request[Any] | None = None
            header = decode_prefix(RequestHeader, 1, frame)[0]
            supported = _supported(head, node.broker.kafka.apis)
            kind = _LOGIN.get(head.api_key) or (None if known is None else known.request)
            if supported and kind is not None:
                # like brokers, it does not mind bytes after the body
                _, body = decode_prefix(RequestHeader, request_header_version(kind, head.api_version), frame)
                message = decode_prefix(kind, head.api_version, frame, body)[0]
            client_id = header.client_id
            node.requests.add(
                Received(
                    node.broker.node_id,
                    head.api_key,
                    head.api_version,
                    client_id,
                    self._login.principal,
                    message,
                )
            )
            steps = steps_of(message)

            def fault(kind: Kind) -> Fault | None:
                return state.faults.first(kind, head.api_key, node.broker.node_id, steps)

            outgoing = Outgoing(head)
            if (cut := fault(Kind.CUT)) is not None:
                if cut.value < 1:
                    raise _HangUp
                outgoing.fate, outgoing.cut = Fate.CUT, int(cut.value)
            if (lost := fault(Kind.LOSE)) is not None:
                outgoing.fate = Fate.CUT if lost.value else Fate.NEVER_SENT
            if (slow := fault(Kind.DELAY)) is not None:
                outgoing.late = slow.value
            answer: Response | bytes | None = None
            if not supported:
                answer = _unsupported(head, node.broker.kafka.apis)
            elif (own := fault(Kind.ANSWER)) is not None:
                assert own.answer is not None
                answer = None if message is None else own.answer(message, node.broker.node_id)
            made: Response | bytes | Late | Parked = answer or self._make(head, message, client_id or "")
            if isinstance(made, Late):
                outgoing.late += made.seconds
                made = made.answer
            if (throttle := fault(Kind.THROTTLE)) is not None:
                outgoing.throttle_time_ms = int(throttle.value)
        return outgoing.with_answer(made)

    def _make(self, head: RequestHead, message: Request[Any] | None, client_id: str) -> Response | Late | Parked:
        if message is None:
            raise _HangUp
        if isinstance(message, SaslHandshakeRequest | SaslAuthenticateRequest):
            return self._login.take(message)
        if not self._login.done and head.api_key != ApiVersionsRequest.api_key:
            raise _HangUp
        node = self._node
        call = Call(node.state, node.broker, message, head.api_version, self._login.principal, self, client_id)
        return ANSWERS[head.api_key].answer(call)


_LOGIN: dict[int, type[Request[Any]]] = {
    SaslHandshakeRequest.api_key: SaslHandshakeRequest,
    SaslAuthenticateRequest.api_key: SaslAuthenticateRequest,
}


def _supported(head: RequestHead, apis: Any) -> bool:
    low, high = apis.get(head.api_key, (0, -1))
    return bool(low <= head.api_version <= high)


def _unsupported(head: RequestHead, apis: Any) -> Response:
    if head.api_key != ApiVersionsRequest.api_key:
        raise _HangUp
    return ApiVersionsResponse(35, [ApiVersionsResponseApiVersion(head.api_key, *apis[head.api_key])])
