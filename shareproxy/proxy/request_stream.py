"""Pass a client's bytes on to the broker, looking at the first bytes of each request only.

In: chunks from the client. Out: the same bytes for the broker, in as few pieces, and the heads of requests that will
be answered. Must never: hold more than the first fields of one request, or forward one whose answer could not be read.
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import Final

from shareproxy.protocol.errors import DecodeError, FrameError
from shareproxy.protocol.framing import check_size
from shareproxy.proxy.api_versions import LAG_API, LAG_VERSION, MAX_VERSIONS
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import (
    MAX_IN_FLIGHT,
    MAX_TOKEN_BYTES,
    ClosingError,
    Exchange,
    LagAsked,
    Phase,
    RequestHead,
)
from shareproxy.proxy.hints import HINTED
from shareproxy.proxy.out_of_range import MAX_HELD_REQUEST_BYTES, OffsetsRequest, Places
from shareproxy.proxy.requests import PRODUCE, SASL_HANDSHAKE, produce_is_answered, sasl_mechanism
from shareproxy.proxy.rewrite import REWRITTEN

# What is held of a request whose first fields are incomplete: two strings of at most 32 KiB and the header's tags; or
# all of one that asks for named partitions.
MAX_HELD_BYTES: Final = MAX_HELD_REQUEST_BYTES + 64 * 1024

_HEAD: Final = struct.Struct(">ihhi")
_SIZE: Final = struct.Struct(">i")
_MIN_SIZE: Final = 8  # api_key, api_version and correlation_id
_LOOKED_AT: Final = frozenset({SASL_HANDSHAKE, LAG_API, *REWRITTEN, *HINTED})


class _Fate(Enum):
    ANSWERED = auto()
    UNANSWERED = auto()
    INCOMPLETE = auto()
    LOOKED_UP = auto()


class RequestStream:
    """The way from the client to the broker.

    Args:
        exchange: shared with the answer side.
        out: list that gets the bytes for the broker.
        max_bytes: largest request.
    """

    def __init__(self, exchange: Exchange, out: list[bytes], max_bytes: int) -> None:
        self._exchange, self._out, self._max_bytes = exchange, out, max_bytes
        self._left = 0  # bytes of the current request that still have to pass
        self._held = b""
        self.lookup: OffsetsRequest | None = None
        """A request that is held until it is known which of its partitions exist; `finish_lookup` ends it."""

    @property
    def within_request(self) -> bool:
        """Tell whether a request has come in part only."""
        return bool(self._left or self._held)

    @property
    def waiting(self) -> bool:
        """Tell whether `feed(b"")` would get on."""
        return bool(self._held) and self._exchange.phase in (Phase.REQUESTS, Phase.CLIENT_TOKEN)

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
            self._held = b""
        if not chunk:
            return
        phase = self._exchange.phase
        if phase is Phase.REQUESTS:
            self._pass_requests(chunk)
        elif phase is Phase.CLIENT_TOKEN:
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
        exchange.phase = Phase.REQUESTS
        self.feed(b"")

    def _pass_requests(self, chunk: bytes) -> None:
        position, end, limit = self._left, len(chunk), self._max_bytes
        exchange = self._exchange
        outstanding = exchange.outstanding
        self._left = 0
        downgraded: list[int] = []
        try:
            while end - position >= 12:
                head: RequestHead = _HEAD.unpack_from(chunk, position)
                size = head[0]
                if not _MIN_SIZE <= size <= limit:
                    raise _refused_size(size, limit)
                if head[1] in _LOOKED_AT:
                    fate = self._look_at(chunk, position, head, downgraded)
                    if fate is _Fate.INCOMPLETE or fate is _Fate.LOOKED_UP:
                        break
                    if fate is _Fate.ANSWERED:
                        outstanding.append(head)
                else:
                    outstanding.append(head)
                position += 4 + size
                if exchange.phase is not Phase.REQUESTS:
                    break
        finally:
            # also when the next request is refused: the ones before it were good
            if position >= end:
                self._left = position - end
                self._out.append(_in_version_0(chunk, downgraded))
            elif position:
                self._out.append(_in_version_0(chunk[:position], downgraded))
        if len(outstanding) >= MAX_IN_FLIGHT:
            exchange.crowded = True
        if position < end:
            self._hold(chunk[position:])

    def _look_at(self, chunk: bytes, position: int, head: RequestHead, downgraded: list[int]) -> _Fate:
        size, api_key, version, _ = head
        exchange = self._exchange
        try:
            if api_key == PRODUCE:
                _require_known(api_key, version)
                answered = produce_is_answered(chunk, position, size, version)
                if answered is None:
                    return _Fate.INCOMPLETE
                return _Fate.ANSWERED if answered else _Fate.UNANSWERED
            if api_key == SASL_HANDSHAKE:
                if version == 0:
                    mechanism = sasl_mechanism(chunk, position, size)
                    if mechanism is None:
                        return _Fate.INCOMPLETE
                    exchange.expect_tokens(mechanism)
                return _Fate.ANSWERED
        except DecodeError as error:
            raise ClosingError(CloseReason.MALFORMED_REQUEST, str(error)) from None
        if api_key != LAG_API:
            _require_known(api_key, version)
        elif 0 <= version <= LAG_VERSION and exchange.fills_lag:
            if size <= MAX_HELD_REQUEST_BYTES:
                end = position + 4 + size
                if len(chunk) < end:
                    return _Fate.INCOMPLETE
                if self._needs_lookup(chunk[position + 4 : end], version):
                    return _Fate.LOOKED_UP
            asked = exchange.asked_version(version)
            if asked != version:
                downgraded.append(position)
            exchange.lag_asked.append(LagAsked(asked))
        return _Fate.ANSWERED

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
        if self._exchange.phase is not Phase.REQUESTS:
            return
        if len(rest) >= _SIZE.size:  # do not wait for eight more bytes to say that the size is wrong
            (size,) = _SIZE.unpack_from(rest)
            if not _MIN_SIZE <= size <= self._max_bytes:
                raise _refused_size(size, self._max_bytes)
        if len(rest) > MAX_HELD_BYTES:
            detail = f"the first fields of a request are over {MAX_HELD_BYTES} bytes"
            raise ClosingError(CloseReason.MALFORMED_REQUEST, detail)


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
    if not 0 <= version <= newest:
        detail = f"API key {api_key} version {version} was not offered; 0 to {newest} are known here"
        raise ClosingError(CloseReason.UNSUPPORTED_VERSION, detail)


def _refused_size(size: int, limit: int) -> ClosingError:
    try:
        check_size(size, limit)
    except FrameError as error:
        detail = str(error)
    else:
        return ClosingError(CloseReason.MALFORMED_REQUEST, f"a request of {size} bytes has no room for a header")
    if size <= 0:
        return ClosingError(CloseReason.FRAME_SIZE, detail)
    if "TLS" in detail:
        return ClosingError(CloseReason.TLS_HELLO, detail)
    return ClosingError(CloseReason.HTTP_REQUEST if "HTTP" in detail else CloseReason.FRAME_TOO_LARGE, detail)
