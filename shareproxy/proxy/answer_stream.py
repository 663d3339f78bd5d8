"""Pass a broker's bytes on to the client, editing the few answers that need it.

In: chunks from the broker, finished local steps. Out: bytes for the client in request order, in as few pieces, and
local steps. Must never: let an answer overtake another, or hold one that it does not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.splice import AddressMapping
from shareproxy.proxy.api_versions import API_VERSIONS, LAG_API, LAG_VERSION, edit_api_versions
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import MAX_IN_FLIGHT, ClosingError, Exchange, Phase, RequestHead
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
from shareproxy.proxy.requests import SASL_HANDSHAKE
from shareproxy.proxy.rewrite import REWRITTEN, rewrite_answer

_HEAD: Final = struct.Struct(">ii")  # size, correlation_id
_SIZE: Final = struct.Struct(">i")
_EDITED: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, LAG_API, *REWRITTEN})


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
        while chunk and self.step is None:
            chunk = self._take(chunk)
        if chunk:
            self._waiting.append(chunk)
        exchange = self._exchange
        if exchange.crowded and len(exchange.outstanding) <= MAX_IN_FLIGHT // 2:
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
        left = self._left
        if left >= len(chunk):  # the inside of a large answer
            self._left = left - len(chunk)
            self._out.append(chunk)
            return b""
        if self._edited is not None:
            return self._collect(self._edited, chunk)
        if self._hider is not None:
            return self._pass_large(self._hider, chunk)
        if self._held:
            chunk = self._held + chunk
            self._held = b""
        if self._exchange.phase is Phase.BROKER_TOKEN:
            return self._pass_token(chunk)
        return self._pass_answers(chunk)

    def _pass_answers(self, chunk: bytes) -> bytes:
        position, end = self._left, len(chunk)
        outstanding = self._exchange.outstanding
        self._left = 0
        while end - position >= 8:
            size, correlation_id = _HEAD.unpack_from(chunk, position)
            if not outstanding:
                raise ClosingError(
                    CloseReason.UNEXPECTED_ANSWER, f"correlation id {correlation_id}, but nothing is due"
                )
            head = outstanding.popleft()
            if head[3] != correlation_id or size < 4:
                detail = f"correlation id {correlation_id} in {size} bytes, but {head[3]} is due"
                raise ClosingError(CloseReason.UNEXPECTED_ANSWER, detail)
            if head[1] in HINTED and head[2] >= HINTED[head[1]].since:
                stop = position + 4 + size
                if stop <= end and not may_hold_hint(head[1], chunk[max(stop - TAIL_BYTES, position + 4) : stop]):
                    position = stop
                    continue
                if size > MAX_HELD_ANSWER_BYTES:
                    self._hider = HintHider(head[1], head[2], size)
                    self._out.append(chunk[: position + 4])
                    return chunk[position + 4 :]
                self._edited, self._missing = head, size
                if position:
                    self._out.append(chunk[:position])
                return chunk[position + 4 :]
            if head[1] in _EDITED and self._edits(head):
                if size > self._max_edited_bytes:
                    detail = f"{size} bytes for API key {head[1]}; the limit is {self._max_edited_bytes}"
                    raise ClosingError(CloseReason.ANSWER_TOO_LARGE, detail)
                self._edited, self._missing = head, size
                if position:
                    self._out.append(chunk[:position])
                return chunk[position + 4 :]
            position += 4 + size
        if position >= end:
            self._left = position - end
            self._out.append(chunk)
        else:
            self._held = chunk[position:]
            if position:
                self._out.append(chunk[:position])
        return b""

    def _edits(self, head: RequestHead) -> bool:
        _, api_key, version, _ = head
        if api_key == SASL_HANDSHAKE:
            return version == 0
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

    def _pass_large(self, hider: HintHider, chunk: bytes) -> bytes:
        part = chunk if len(chunk) <= hider.missing else chunk[: hider.missing]
        try:
            passed = hider.feed(part)
        except DecodeError as error:
            raise ClosingError(CloseReason.MALFORMED_ANSWER, str(error)) from None
        if passed:
            self._out.append(passed)
        if not hider.missing:
            self._hider = None
        return chunk[len(part) :]

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
