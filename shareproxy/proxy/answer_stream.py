"""Pass a broker's bytes on to the client, editing the few answers that need it.

In: chunks from the broker, finished local steps. Out: bytes for the client in request order, in as few pieces, and
local steps. Must never: let an answer overtake another, or hold one that it does not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import decode_response
from shareproxy.protocol.messages import SaslAuthenticateResponse
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.api_versions import API_VERSIONS, LAG_API, LAG_VERSION, edit_api_versions
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import BROKER_TOKEN, ClosingError, Exchange, RequestHead
from shareproxy.proxy.hints import (
    HINTED,
    MAX_HELD_ANSWER_BYTES,
    TAIL_BYTES,
    HintHider,
    may_hold_hint,
    rewrite_hint,
)
from shareproxy.proxy.out_of_range import LocalRows
from shareproxy.proxy.request_stream import cut_token
from shareproxy.proxy.requests import SASL_AUTHENTICATE, SASL_HANDSHAKE
from shareproxy.proxy.rewrite import REWRITTEN, rewrite_answer

_HEAD: Final = struct.Struct(">ii")  # size, correlation_id
_SIZE: Final = struct.Struct(">i")
_EDITED: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, LAG_API, *REWRITTEN})
_LOOKED_AT: Final = _EDITED | frozenset(HINTED)


class LagStep(NamedTuple):
    """Work to do outside: complete a broker's DescribeShareGroupOffsets answer.

    Args:
        frame: the answer without its size.
        version: the version in which the broker wrote it, 0 or 1.
        client_version: the version in which the client asked; only 1 has Lag.
        local: rows that are answered here, if there are any.
    """

    frame: bytes
    version: int
    client_version: int = LAG_VERSION
    local: LocalRows | None = None


class AnswerStream:
    """The way from the broker to the client.

    Args:
        exchange: shared with the request side.
        out: list that gets the bytes for the client.
        mapping: from a broker's node id, host and port to the advertised host and port.
        max_edited_bytes: largest answer that is edited; others are never held and have no limit.
    """

    __slots__ = (
        "_edited",
        "_exchange",
        "_held",
        "_hider",
        "_left",
        "_mapping",
        "_max_edited_bytes",
        "_missing",
        "_out",
        "_parts",
        "_waiting",
        "step",
    )

    def __init__(self, exchange: Exchange, out: list[bytes], mapping: AddressMapping, max_edited_bytes: int) -> None:
        self.step: LagStep | None = None
        self._exchange, self._out = exchange, out
        self._mapping, self._max_edited_bytes = mapping, max_edited_bytes
        self._left = 0  # bytes of the current answer that still have to pass
        self._held = b""  # the incomplete start of an answer
        self._edited: RequestHead | None = None
        self._parts: list[bytes] = []
        self._missing = 0  # bytes until the edited answer is whole
        self._hider: HintHider | None = None  # of the large answer that is passing
        self._waiting: list[bytes] = []  # what came during a step

    @property
    def within_answer(self) -> bool:
        """Tell whether an answer has been passed in part only, or is being edited."""
        return bool(self._left or self._held or self._edited or self._hider or self.step)

    def feed(self, chunk: bytes) -> None:
        """Take bytes from the broker.

        Raises:
            ClosingError: they are not the answers that are due.
        """
        left = self._left
        if left >= len(chunk) > 0:  # the inside of a large answer
            self._left = left - len(chunk)
            self._out.append(chunk)
            return
        while chunk and self.step is None:
            chunk = self._take(chunk)
        if chunk:
            self._waiting.append(chunk)
        exchange = self._exchange
        if exchange.crowded and len(exchange.outstanding) <= exchange.max_in_flight // 2:
            exchange.crowded = False

    def finish_step(self, frame: Sequence[bytes]) -> None:
        """Take the answer that `step` became, in parts and without its size, and go on.

        Raises:
            ClosingError: what waited behind it are not the answers that are due.
        """
        self.step = None
        self._put(frame)
        waiting = b"".join(self._waiting)
        self._waiting.clear()
        self.feed(waiting)

    def _take(self, chunk: bytes) -> bytes:
        """Work on a chunk up to the end of the next edited answer; return the rest."""
        if self._edited is not None:
            return self._collect(self._edited, chunk)
        if self._hider is not None:
            return self._pass_large(self._hider, chunk)
        if self._held:
            chunk = self._held + chunk
            self._held = b""
        if self._exchange.phase is BROKER_TOKEN:
            return self._pass_token(chunk)
        return self._pass_answers(chunk)

    def _pass_answers(self, chunk: bytes) -> bytes:
        position, end = self._left, len(chunk)
        outstanding, apis = self._exchange.outstanding, self._exchange.apis
        self._left = 0
        while end - position >= 8:
            size, correlation_id = _HEAD.unpack_from(chunk, position)
            if not outstanding or outstanding[0][3] != correlation_id or size < 4:
                raise self._unexpected(chunk, position)
            head = outstanding.popleft()
            counts = apis[head[1]]
            counts[0] += 1
            counts[1] += head[0]
            counts[2] += size
            stop = position + 4 + size
            if head[1] not in _LOOKED_AT:
                position = stop
                continue
            if head[1] in _EDITED:
                if not self._edits(head):
                    position = stop
                    continue
                if size > self._max_edited_bytes:
                    self._pass_first(chunk, position)
                    detail = f"{size} bytes for API key {head[1]}; the limit is {self._max_edited_bytes}"
                    raise ClosingError(CloseReason.ANSWER_TOO_LARGE, detail)
            elif head[2] >= HINTED[head[1]].since:
                if stop <= end and not may_hold_hint(head[1], chunk[max(stop - TAIL_BYTES, position + 4) : stop]):
                    position = stop
                    continue
                if size > MAX_HELD_ANSWER_BYTES:
                    self._hider = HintHider(head[1], head[2], size)
                    return self._pass_large(self._hider, chunk, position + 4)
            else:
                position = stop
                continue
            self._edited, self._missing = head, size
            self._pass_first(chunk, position)
            return chunk[position + 4 :]
        if position >= end:
            self._left = position - end
            self._out.append(chunk)
        else:
            self._held = chunk[position:]
            self._pass_first(chunk, position)
        return b""

    def _pass_first(self, chunk: bytes, position: int) -> None:
        if position:
            self._out.append(chunk[:position])

    def _unexpected(self, chunk: bytes, position: int) -> ClosingError:
        """Pass the good answers before it on, and say what is wrong with this one."""
        self._pass_first(chunk, position)
        size, correlation_id = _HEAD.unpack_from(chunk, position)
        outstanding = self._exchange.outstanding
        if not outstanding:
            return ClosingError(CloseReason.UNEXPECTED_ANSWER, f"correlation id {correlation_id}, but nothing is due")
        detail = f"correlation id {correlation_id} in {size} bytes, but {outstanding[0][3]} is due"
        return ClosingError(CloseReason.UNEXPECTED_ANSWER, detail)

    def _edits(self, head: RequestHead) -> bool:
        _, api_key, version, _ = head
        if api_key == SASL_HANDSHAKE:
            return version == 0
        if api_key == SASL_AUTHENTICATE:
            return not self._exchange.authenticated and 0 <= version <= SaslAuthenticateResponse.max_version
        if api_key != LAG_API:
            return True
        asked = self._exchange.lag_asked
        if not self._exchange.fills_lag or not 0 <= version <= LAG_VERSION:
            return False
        if version < LAG_VERSION and asked[0].local is None:
            asked.popleft()  # no Lag in this version, and all rows are the broker's
            return False
        return True

    def _collect(self, head: RequestHead, chunk: bytes) -> bytes:
        part, rest = chunk[: self._missing], chunk[self._missing :]
        self._parts.append(part)
        self._missing -= len(part)
        if self._missing:
            return rest
        frame = b"".join(self._parts)
        self._parts.clear()
        self._edited = None
        try:
            self._edit(head, frame)
        except DecodeError as error:
            raise ClosingError(CloseReason.MALFORMED_ANSWER, f"API key {head[1]} version {head[2]}: {error}") from None
        return rest

    def _pass_large(self, hider: HintHider, chunk: bytes, start: int = 0) -> bytes:
        stop = min(start + hider.missing, len(chunk))
        try:
            passed = hider.feed(chunk, start, stop)
        except DecodeError as error:
            raise ClosingError(CloseReason.MALFORMED_ANSWER, str(error)) from None
        if not hider.missing:
            self._hider = None
        if passed is chunk and stop < len(chunk):
            if self._exchange.phase is not BROKER_TOKEN:
                self._left = stop  # it passes with what is behind it: nothing of this size is copied
                return chunk
            passed = chunk[:stop]
        if passed:
            self._out.append(passed)
        return chunk[stop:]

    def _edit(self, head: RequestHead, frame: bytes) -> None:
        _, api_key, version, _ = head
        if api_key in HINTED:
            hinted = may_hold_hint(api_key, frame[-TAIL_BYTES:])
            self._put(rewrite_hint(api_key, version, frame, self._mapping) if hinted else (frame,))
            return
        if api_key == LAG_API:
            asked = self._exchange.lag_asked.popleft()
            self.step = LagStep(frame, asked.version, version, asked.local)
        elif api_key == API_VERSIONS:
            edited = edit_api_versions(version, frame, fills_lag=self._exchange.fills_lag)
            if edited.lag_version is not None:
                self._exchange.versions.lag_version = edited.lag_version
            self._put((edited.frame,))
        elif api_key == SASL_HANDSHAKE:
            self._put((frame,))
            self._exchange.handshake_answered(accepted=frame[4:6] == b"\0\0")
        elif api_key == SASL_AUTHENTICATE:
            _, message = decode_response(SaslAuthenticateResponse, version, frame)
            self._put((frame,))
            self._exchange.authentication_answered(message)
        else:
            self._put(rewrite_answer(api_key, version, frame, self._mapping))

    def _pass_token(self, chunk: bytes) -> bytes:
        token, rest = cut_token(chunk)
        if not token:
            self._held = rest
            return b""
        self._out.append(token)
        self._exchange.broker_token_passed()
        return rest

    def _put(self, frame: Sequence[bytes]) -> None:
        self._out.append(_SIZE.pack(sum(map(len, frame))))
        self._out.extend(frame)
