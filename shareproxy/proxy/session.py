"""Decide what happens to each byte of one client connection and of the broker connection behind it.

In: chunks and ends of both sides, finished local steps. Out: bytes for both sides, one local step at a time, wishes
to pause reading, at last one close reason. Must never: touch a socket or a clock, or copy what it does not edit.

    phase          the client's bytes                            next phase
    REQUESTS       requests pass; what is answered is noted      HANDSHAKE after a SaslHandshake v0
    HANDSHAKE      wait for the handshake's answer               CLIENT_TOKEN if it has error 0, else REQUESTS
    CLIENT_TOKEN   one SASL token without a header passes        BROKER_TOKEN
    BROKER_TOKEN   wait for the broker's token                   CLIENT_TOKEN, or REQUESTS after the last token
    LOOKUP         wait for `finish_lookup`: which of the        REQUESTS
                     partitions that a request names exist

    the broker's bytes                                           meanwhile
    an answer that is due and not edited                         passes chunk by chunk, at any size
    an edited answer (ApiVersions, Metadata, FindCoordinator,    is collected, then passes changed; the last one waits
      DescribeCluster; DescribeShareGroupOffsets)                  for `finish_step`, and all behind it wait too
    anything else                                                closes

Answers leave in the order of their requests; a Produce with acks 0 has none. Correlation ids stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shareproxy.protocol.framing import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.answer_stream import AnswerStream, LagStep
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import (
    CLIENT_TOKEN,
    MAX_IN_FLIGHT,
    REQUESTS,
    BrokerVersions,
    ClosingError,
    Exchange,
    RequestHead,
)
from shareproxy.proxy.meter import ApiCounts
from shareproxy.proxy.out_of_range import OffsetsRequest, Places
from shareproxy.proxy.request_stream import MAX_UNAUTHENTICATED_BYTES, RequestStream


class Session:
    """The state of one client connection.

    After each call look at `to_broker` and `to_client` (bytes in order, to be taken away), `step`, `lookup`,
    `client_paused`, `broker_paused` and `close_reason`. The broker may be connected later than the first calls.

    Args:
        mapping: from a broker's node id, host and port to the advertised host and port.
        fills_lag: whether local steps can be done; if not, DescribeShareGroupOffsets passes unread.
        versions: what is known of the broker from earlier connections; its ApiVersions answers are noted there.
        max_request_bytes: larger requests close the connection, as a broker does.
        max_unauthenticated_bytes: the same before the client has authenticated, and for what authenticates it.
        max_edited_bytes: larger answers close it if they have to be edited; others have no limit.
        max_in_flight: requests without an answer at which the client is no longer read.
        wants_sasl: whether the broker wants SASL, so that a client has to authenticate before all else.
        apis: counts requests and answers.
    """

    __slots__ = (
        "_answers",
        "_broker_ended",
        "_client_spoke",
        "_exchange",
        "_refusal",
        "_requests",
        "close_detail",
        "close_reason",
        "to_broker",
        "to_client",
    )

    def __init__(
        self,
        mapping: AddressMapping,
        *,
        fills_lag: bool = True,
        versions: BrokerVersions | None = None,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
        max_edited_bytes: int = MAX_RESPONSE_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        wants_sasl: bool = False,
        apis: ApiCounts | None = None,
    ) -> None:
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []
        self.close_reason: CloseReason | None = None
        self.close_detail = ""
        self._exchange = Exchange(
            versions or BrokerVersions(),
            fills_lag=fills_lag,
            authenticated=not wants_sasl,
            max_in_flight=max_in_flight,
            apis=apis,
        )
        self._requests = RequestStream(self._exchange, self.to_broker, max_request_bytes, max_unauthenticated_bytes)
        self._answers = AnswerStream(self._exchange, self.to_client, mapping, max_edited_bytes)
        self._client_spoke = False
        self._broker_ended = False
        # of a request behind others whose answers are still due; not the error itself, which would hold its frames
        self._refusal: tuple[CloseReason, str] | None = None

    @property
    def step(self) -> LagStep | None:
        """The local work that the next answer waits for; `finish_step` ends it."""
        return self._answers.step

    @property
    def lookup(self) -> OffsetsRequest | None:
        """The request that waits for which of its partitions exist; `finish_lookup` ends it."""
        return self._requests.lookup

    @property
    def client_paused(self) -> bool:
        """Whether the client should not be read now."""
        exchange = self._exchange
        if exchange.phase is not REQUESTS and exchange.phase is not CLIENT_TOKEN:
            return True
        return exchange.crowded or self._refusal is not None

    @property
    def broker_paused(self) -> bool:
        """Whether the broker should not be read now."""
        return self._answers.step is not None

    @property
    def within_request(self) -> bool:
        """Whether a request has come in part only, or the client is in the middle of authenticating."""
        return self._requests.within_request or self._exchange.phase is not REQUESTS

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight either way, so that closing loses nothing."""
        return not (self._exchange.outstanding or self._answers.within_answer or self.within_request)

    @property
    def broker_ended(self) -> bool:
        """Whether the broker has ended; a local step may still be waited for."""
        return self._broker_ended

    @property
    def refused(self) -> bool:
        """Whether the client sent something that is not accepted; what came before it is answered first."""
        return self._refusal is not None

    @property
    def outstanding(self) -> Sequence[RequestHead]:
        """The heads of the requests that wait for their answers, the oldest first."""
        return self._exchange.outstanding

    @property
    def authenticated(self) -> bool:
        """Whether the client has done all that the broker wants of it before its first real request."""
        return self._exchange.authenticated

    @property
    def asked(self) -> bool:
        """Whether the first fields of a request have come, though perhaps not all of it."""
        return self._client_spoke and (bool(self._exchange.outstanding) or not self._requests.within_head)

    def receive_from_client(self, chunk: bytes) -> bool:
        """Take bytes that the client sent; return whether `to_broker` is all that there is to look at."""
        self._client_spoke = True
        if self.close_reason is not None or self._refusal is not None:
            return False
        try:
            self._requests.feed(chunk)
        except ClosingError as closing:
            self._refuse(closing)
            return False
        exchange = self._exchange
        return exchange.phase is REQUESTS and not exchange.crowded

    def _refuse(self, closing: ClosingError) -> None:
        """Close as a broker does: the requests before the one that it does not accept are still answered."""
        self._refusal = closing.reason, closing.detail
        if not self._exchange.outstanding and not self._answers.within_answer:
            self.close(closing.reason, closing.detail)

    def receive_client_end(self, detail: str = "") -> None:
        """Take the end of what the client sends, and what went wrong if something did.

        Everything before it is in `to_broker` and should still arrive.
        """
        exchange = self._exchange
        if exchange.crowded and self._refusal is None and self.close_reason is None:
            # nobody is left who could be told to wait, and what is held may hold a Produce with acks 0
            exchange.crowded, exchange.max_in_flight = False, sys.maxsize
            try:
                self._requests.feed(b"")
            except ClosingError as closing:
                self._refusal = closing.reason, closing.detail
        if self._refusal is not None:
            self.close(*self._refusal)
        elif self._client_spoke:
            self.close(CloseReason.CLIENT_CLOSED, _both("within a request" if self.within_request else "", detail))
        else:
            self.close(CloseReason.NO_REQUEST, detail)

    def receive_from_broker(self, chunk: bytes) -> bool:
        """Take bytes that the broker sent; return whether `to_client` is all that there is to look at."""
        if self.close_reason is not None:
            return False
        exchange = self._exchange
        calm = exchange.phase is REQUESTS and not exchange.crowded and self._refusal is None
        try:
            self._answers.feed(chunk)
        except ClosingError as closing:
            self._fail(closing)
            return False
        if calm:
            return self._answers.step is None
        self._go_on()
        return False

    def _fail(self, closing: ClosingError) -> None:
        refusal = self._refusal
        if refusal is not None and closing.reason is CloseReason.UNEXPECTED_ANSWER and not self._exchange.outstanding:
            # it would have been closed before this came, if it had come in a chunk of its own
            self.close(*refusal)
        else:
            self.close(closing.reason, closing.detail)

    def _go_on(self) -> None:
        """Let the client have its turn if it has come with an answer; close if the last answer has passed."""
        refusal = self._refusal
        if refusal is not None:
            if not self._exchange.outstanding and not self._answers.within_answer:
                self.close(*refusal)
        elif self._requests.waiting:
            try:
                self._requests.feed(b"")
            except ClosingError as closing:
                self._refuse(closing)

    def receive_broker_end(self, detail: str = "") -> None:
        """Take the end of what the broker sends, and what went wrong if something did.

        A local step in progress is still waited for.
        """
        self._broker_ended = True
        if self._refusal is not None:
            self.close(*self._refusal)
        elif self.step is None:
            due = len(self._exchange.outstanding)
            self.close(CloseReason.BROKER_CLOSED, _both(f"{due} answers were due" if due else "", detail))

    def finish_lookup(self, missing: Places) -> None:
        """Take which of the partitions of `lookup` do not exist; the next lookup may come out of it."""
        if self.lookup is None or self.close_reason is not None:
            return
        try:
            self._requests.finish_lookup(missing)
        except ClosingError as closing:
            self._refuse(closing)

    def finish_step(self, frame: Sequence[bytes]) -> None:
        """Take the answer that `step` became, in parts and without its size; the next step may come out of it."""
        if self.step is None or self.close_reason is not None:
            return
        try:
            self._answers.finish_step(frame)
        except ClosingError as closing:
            self._fail(closing)
        else:
            self._go_on()
        if self._broker_ended:
            self.receive_broker_end()

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """End the session; the first reason stays."""
        if self.close_reason is None:
            self.close_reason, self.close_detail = reason, detail


def _both(first: str, second: str) -> str:
    return f"{first}; {second}" if first and second else first or second
