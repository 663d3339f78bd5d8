"""Pass a client's bytes on to the broker, looking at the first bytes of each request only.

In: chunks from the client. Out: the same bytes for the broker, in as few pieces, and the heads of requests that will
be answered. Must never: hold more than the first fields of one request, or forward one whose answer could not be read.
"""

from __future__ import annotations

import struct
from typing import Final

from shareproxy.protocol.errors import DecodeError, FrameError
from shareproxy.protocol.framing import check_size
from shareproxy.proxy.api_versions import API_VERSIONS, LAG_API, LAG_VERSION, MAX_VERSIONS
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import (
    CLIENT_TOKEN,
    MAX_TOKEN_BYTES,
    REQUESTS,
    ClosingError,
    Exchange,
    LagAsked,
    Phase,
    RequestHead,
)
from shareproxy.proxy.hints import HINTED
from shareproxy.proxy.out_of_range import MAX_HELD_REQUEST_BYTES, OffsetsRequest, Places
from shareproxy.proxy.requests import PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE, produce_is_answered, sasl_mechanism
from shareproxy.proxy.rewrite import REWRITTEN

# What is held of a request whose first fields are incomplete: two strings of at most 32 KiB and the header's tags; or
# all of one that asks for named partitions.
MAX_HELD_BYTES: Final = MAX_HELD_REQUEST_BYTES + 64 * 1024

_HEAD: Final = struct.Struct(">ihhi")
_SIZE: Final = struct.Struct(">i")
_MIN_SIZE: Final = 8  # api_key, api_version and correlation_id
# Kafka's `sasl.server.max.receive.size`, which a broker holds against each request before authentication
MAX_UNAUTHENTICATED_BYTES: Final = 524_288
# what a broker takes from somebody it does not know yet
_UNAUTHENTICATED: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
_HINTED_FROM_1: Final = frozenset(api_key for api_key, hint in HINTED.items() if hint.since == 1)
_LOOKED_AT: Final = frozenset({LAG_API, *_UNAUTHENTICATED, *REWRITTEN, *HINTED})


# what becomes of a request that is looked at
_ANSWERED: Final = 0
_UNANSWERED: Final = 1
_INCOMPLETE: Final = 2
_LOOKED_UP: Final = 3


class RequestStream:
    """The way from the client to the broker.

    Args:
        exchange: shared with the answer side.
        out: list that gets the bytes for the broker.
        max_bytes: largest request.
        max_unauthenticated_bytes: largest one that comes before authentication, or is a part of it.
    """

    __slots__ = ("_exchange", "_held", "_left", "_max_bytes", "_max_unauthenticated_bytes", "_out", "_wanted", "lookup")

    def __init__(
        self,
        exchange: Exchange,
        out: list[bytes],
        max_bytes: int,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
    ) -> None:
        self._exchange, self._out, self._max_bytes = exchange, out, max_bytes
        self._max_unauthenticated_bytes = min(max_unauthenticated_bytes, max_bytes)
        self._left = 0  # bytes of the current request that still have to pass
        self._held = b""
        self._wanted = 0  # bytes without which looking at what is held again would be for nothing
        self.lookup: OffsetsRequest | None = None
        """A request that is held until it is known which of its partitions exist; `finish_lookup` ends it."""

    @property
    def within_request(self) -> bool:
        """Tell whether a request has come in part only."""
        return bool(self._left or self._held)

    @property
    def within_head(self) -> bool:
        """Tell whether the first fields of a request have come in part only."""
        return bool(self._held)

    @property
    def waiting(self) -> bool:
        """Tell whether `feed(b"")` would get on."""
        exchange = self._exchange
        if not self._held or self._wanted or exchange.full:
            return False
        return exchange.phase in (REQUESTS, CLIENT_TOKEN)

    def feed(self, chunk: bytes) -> None:
        """Take bytes from the client.

        Raises:
            ClosingError: they are not requests that may pass; what came before them is in `out`.
        """
        left = self._left
        if left >= len(chunk) > 0:  # the inside of a large request
            self._left = left - len(chunk)
            self._out.append(chunk)
            return
        if self._held:
            chunk = self._held + chunk
            if len(chunk) < self._wanted:
                self._hold(chunk)
                return
            self._held, self._wanted = b"", 0
        if not chunk:
            return
        phase = self._exchange.phase
        if phase is REQUESTS:
            self._pass_requests(chunk)
        elif phase is CLIENT_TOKEN:
            self._pass_token(chunk)
        else:
            self._held = chunk

    def finish_lookup(self, missing: Places) -> None:
        """Send the request that `lookup` holds without the partitions that do not exist, and go on.

        Raises:
            ClosingError: what came behind it are not requests that may pass.
        """
        assert self.lookup is not None
        lookup, self.lookup = self.lookup, None
        head: RequestHead = _HEAD.unpack_from(self._held)
        frame, local = lookup.without(missing)
        exchange = self._exchange
        asked = exchange.asked_version(head[2])
        exchange.outstanding.append(head)
        exchange.lag_asked.append(LagAsked(asked, local))
        sent = _SIZE.pack(len(frame)) + frame
        self._out.append(_in_version_0(sent, [0] if asked != head[2] else []))
        self._held = self._held[4 + head[0] :]
        exchange.phase = REQUESTS
        self.feed(b"")

    def _pass_requests(self, chunk: bytes) -> None:
        exchange = self._exchange
        position, end, limit = self._left, len(chunk), self._limit
        outstanding, most = exchange.outstanding, exchange.max_in_flight
        self._left = fate = 0
        downgraded: list[int] = []
        try:
            while end - position >= 12 and len(outstanding) < most:
                head: RequestHead = _HEAD.unpack_from(chunk, position)
                size = head[0]
                if not _MIN_SIZE <= size <= limit:
                    raise self._refused_size(size)
                if head[1] in _LOOKED_AT:
                    fate = self._look_at(chunk, position, head, downgraded)
                    if fate >= _INCOMPLETE:
                        break
                    if fate == _ANSWERED:
                        outstanding.append(head)
                else:
                    outstanding.append(head)
                position += 4 + size
                if exchange.phase is not REQUESTS:
                    break
        finally:
            # also when the next request is refused: the ones before it were good
            if position >= end:
                self._left = position - end
                self._out.append(_in_version_0(chunk, downgraded))
            elif position:
                self._out.append(_in_version_0(chunk[:position], downgraded))
        if len(outstanding) >= most:
            exchange.crowded = True
        if position < end:
            if fate == _INCOMPLETE:
                # first fields that come bit by bit are looked at a few times, not with every bit
                self._wanted = min(2 * (end - position), 4 + _SIZE.unpack_from(chunk, position)[0])
            self._hold(chunk[position:])

    def _look_at(self, chunk: bytes, position: int, head: RequestHead, downgraded: list[int]) -> int:
        size, api_key, version, _ = head
        exchange = self._exchange
        if api_key in _UNAUTHENTICATED and size > self._max_unauthenticated_bytes:
            raise self._unauthenticated_size(size)
        try:
            if api_key == PRODUCE:
                _require_known(api_key, version)
                answered = produce_is_answered(chunk, position, size, version)
                if answered is None:
                    return _INCOMPLETE
                if answered:
                    return _ANSWERED
                counts = exchange.apis[PRODUCE]
                counts[0] += 1
                counts[1] += size
                return _UNANSWERED
            if api_key == SASL_HANDSHAKE:
                if version == 0 or (version == 1 and not exchange.authenticated):
                    mechanism = sasl_mechanism(chunk, position, size)
                    if mechanism is None:
                        return _INCOMPLETE
                    (exchange.expect_authentication if version else exchange.expect_tokens)(mechanism)
                return _ANSWERED
            if api_key in _UNAUTHENTICATED:
                return _ANSWERED
        except DecodeError as error:
            raise ClosingError(CloseReason.MALFORMED_REQUEST, str(error)) from None
        if api_key != LAG_API:
            _require_known(api_key, version)
        elif 0 <= version <= LAG_VERSION and exchange.fills_lag:
            # nobody makes this proxy ask for them before the brokers know who that is
            if size <= MAX_HELD_REQUEST_BYTES and exchange.authenticated:
                end = position + 4 + size
                if len(chunk) < end:
                    return _INCOMPLETE
                if self._needs_lookup(chunk[position + 4 : end], version):
                    return _LOOKED_UP
            asked = exchange.asked_version(version)
            if asked != version:
                downgraded.append(position)
            exchange.lag_asked.append(LagAsked(asked))
        return _ANSWERED

    def _needs_lookup(self, frame: bytes, version: int) -> bool:
        """Hold a request that names partitions: a broker answers late if one of them does not exist."""
        try:
            request = OffsetsRequest(frame, version)
        except DecodeError:
            return False  # the broker has its own way to refuse it
        if not request.asked:
            return False
        self.lookup, self._exchange.phase = request, Phase.LOOKUP
        return True

    def _pass_token(self, chunk: bytes) -> None:
        token, rest = cut_token(chunk)
        if token:
            self._out.append(token)
            self._exchange.client_token_passed()
        self._held = rest

    def _hold(self, rest: bytes) -> None:
        self._held = rest
        if self._exchange.phase is not REQUESTS or self._exchange.full:
            return  # it may hold many requests, which are looked at when it is their turn
        if len(rest) >= _SIZE.size:  # do not wait for eight more bytes to say that the size is wrong
            (size,) = _SIZE.unpack_from(rest)
            if not _MIN_SIZE <= size <= self._limit:
                raise self._refused_size(size)
        if len(rest) > MAX_HELD_BYTES:
            detail = f"the first fields of a request are over {MAX_HELD_BYTES} bytes"
            raise ClosingError(CloseReason.MALFORMED_REQUEST, detail)

    @property
    def _limit(self) -> int:
        return self._max_bytes if self._exchange.authenticated else self._max_unauthenticated_bytes

    def _refused_size(self, size: int) -> ClosingError:
        try:
            check_size(size, self._max_bytes)
        except FrameError as error:
            detail = str(error)
        else:
            if size >= _MIN_SIZE:
                return self._unauthenticated_size(size)
            return ClosingError(CloseReason.MALFORMED_REQUEST, f"a request of {size} bytes has no room for a header")
        if size <= 0:
            return ClosingError(CloseReason.FRAME_SIZE, detail)
        if "TLS" in detail:
            return ClosingError(CloseReason.TLS_HELLO, detail)
        if "HTTP" in detail:
            return ClosingError(CloseReason.HTTP_REQUEST, detail)
        return ClosingError(CloseReason.FRAME_TOO_LARGE, f"{detail} (limits.max_frame_bytes)")

    def _unauthenticated_size(self, size: int) -> ClosingError:
        detail = f"a request of {size} bytes before authentication; limits.max_unauthenticated_frame_bytes is "
        detail += str(self._max_unauthenticated_bytes)
        return ClosingError(CloseReason.UNAUTHENTICATED_FRAME_TOO_LARGE, detail)


def cut_token(chunk: bytes) -> tuple[bytes, bytes]:
    """Split a SASL token with its size from what follows; the token is empty while it is incomplete.

    Raises:
        ClosingError: its size is negative or over Kafka's limit.
    """
    if len(chunk) < _SIZE.size:
        return b"", chunk
    (size,) = _SIZE.unpack_from(chunk)
    if not 0 <= size <= MAX_TOKEN_BYTES:
        detail = f"a SASL token of {size} bytes; the limit is {MAX_TOKEN_BYTES}"
        raise ClosingError(CloseReason.FRAME_SIZE if size < 0 else CloseReason.FRAME_TOO_LARGE, detail)
    end = _SIZE.size + size
    return (b"", chunk) if len(chunk) < end else (chunk[:end], chunk[end:])


def _in_version_0(chunk: bytes, positions: list[int]) -> bytes:
    """Return the chunk with version 0 in the requests at these positions."""
    if not positions:
        return chunk
    patched = bytearray(chunk)
    for position in positions:
        patched[position + 6 : position + 8] = b"\0\0"
    return bytes(patched)


def _require_known(api_key: int, version: int) -> None:
    # What a broker does with a version that it does not know. A newer answer could hold addresses that are missed.
    newest = MAX_VERSIONS[api_key]
    # version 0 of the share APIs was a preview, whose answers end with addresses in a layout of their own
    oldest = 1 if api_key in _HINTED_FROM_1 else 0
    if not oldest <= version <= newest:
        detail = f"API key {api_key} version {version} was not offered; {oldest} to {newest} are known here"
        raise ClosingError(CloseReason.UNSUPPORTED_VERSION, detail)
