"""One client's connection to one node: frames in, answers out in order, one at a time, as brokers work.

In: bytes. Out: bytes, late where a fault or the broker's own patience says so.
Must never: answer two requests of a connection at once, or answer before the client has said who it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
from shareproxy.testing.simulation.call import Call, Late
from shareproxy.testing.simulation.faults import Kind
from shareproxy.testing.simulation.login import Login
from shareproxy.testing.simulation.record_of_requests import Received

if TYPE_CHECKING:
    from shareproxy.testing.simulation.node import Node


class _HangUp(Exception):  # noqa: N818 - what a broker does
    """Close the connection without an answer, as a broker does with what it does not understand."""


class NodeConnection(asyncio.Protocol):
    """The broker's end of one connection."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._frames = FrameReader(MAX_REQUEST_BYTES)
        self._waiting: deque[bytes] = deque()
        self._timer: asyncio.TimerHandle | None = None
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
        while self._waiting and self._timer is None and self._transport is not None and not self._node.broker.frozen:
            frame = self._waiting.popleft()
            try:
                answer, seconds, cut = self._answer(frame)
            except (ProtocolError, _HangUp):
                self.drop()
                return
            if seconds > 0:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(seconds, self._late, answer, cut)
            else:
                self._send(answer, cut)

    def _late(self, answer: bytes, cut: int | None) -> None:
        self._timer = None
        if self._node.broker.frozen:
            # it got stuck while it worked; it goes on when it is thawed
            self._node.held_back.append((self, answer, cut))
            return
        self._send(answer, cut)
        self.go_on()

    def send_held_back(self, answer: bytes, cut: int | None) -> None:
        """Send what was ready when the node froze."""
        self._send(answer, cut)
        self.go_on()

    def _send(self, answer: bytes, cut: int | None) -> None:
        if self._transport is None:
            return
        if cut is None:
            self._transport.write(answer)
            return
        self._transport.write(answer[:cut])
        self._transport.close()

    def _answer(self, frame: bytes) -> tuple[bytes, float, int | None]:
        """Return answer, seconds until it goes out, and after how many bytes the connection is cut."""
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
            node.requests.add(
                Received(
                    node.broker.node_id,
                    head.api_key,
                    head.api_version,
                    header.client_id,
                    self._login.principal,
                    message,
                )
            )
            late = 0.0
            cut = state.faults.first(Kind.CUT, head.api_key, node.broker.node_id)
            if cut is not None and cut.value < 1:
                raise _HangUp
            if (slow := state.faults.first(Kind.DELAY, head.api_key, node.broker.node_id)) is not None:
                late = slow.value
            answer: Response | bytes | None = None
            if not supported:
                answer = _unsupported(head, node.broker.kafka.apis)
            elif (own := state.faults.first(Kind.ANSWER, head.api_key, node.broker.node_id)) is not None:
                assert own.answer is not None
                answer = None if message is None else own.answer(message, node.broker.node_id)
            if answer is None:
                made = self._make(head, message)
                answer, late = (made.answer, late + made.seconds) if isinstance(made, Late) else (made, late)
            if (throttle := state.faults.first(Kind.THROTTLE, head.api_key, node.broker.node_id)) is not None:
                _throttle(answer, int(throttle.value))
        if isinstance(answer, Response):
            version = head.api_version
            if isinstance(answer, ApiVersionsResponse) and answer.error_code == 35:
                version = 0  # the client may not know the body of any other
            answer = encode_response(answer, version, head.correlation_id)
        return sized(answer), late, None if cut is None else int(cut.value)

    def _make(self, head: RequestHead, message: Request[Any] | None) -> Response | Late:
        if message is None:
            raise _HangUp
        if isinstance(message, SaslHandshakeRequest | SaslAuthenticateRequest):
            return self._login.take(message)
        if not self._login.done and head.api_key != ApiVersionsRequest.api_key:
            raise _HangUp
        node = self._node
        call = Call(node.state, node.broker, message, head.api_version, self._login.principal)
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


def _throttle(answer: Response | bytes, milliseconds: int) -> None:
    if isinstance(answer, Response) and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = milliseconds
