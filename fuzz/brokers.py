"""Stand in for a broker: read requests as they come out of the proxy, and answer them.

In: bytes for the broker, decisions. Out: answers in the order of the requests, as a broker may write them, or damaged.
Must never: use the proxy's way of reading a request: what it has to pass on is what a broker reads.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final, NamedTuple

from fuzz.dice import Dice
from fuzz.messages import REQUESTS, RESPONSES, build, read
from fuzz.targets.addresses import as_written
from fuzz.targets.lag_answers import answer_to
from shareproxy.protocol import interpreter
from shareproxy.protocol.headers import request_header_version, response_header_version, sized
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeShareGroupOffsetsRequest,
    ProduceRequest,
    RequestHeader,
    ResponseHeader,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from shareproxy.protocol.plan import plan_for
from shareproxy.proxy.exchange import TOKEN_ROUNDS
from shareproxy.proxy.hints import HINTED

_LAG: Final = DescribeShareGroupOffsetsRequest.api_key
TOKEN: Final = -1
"""Stands for the API key of a SASL token without a header."""


class Asked(NamedTuple):
    """A request that waits for its answer; `frame` is without its size."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes


class Broker:
    """What one broker has read of one connection.

    Args:
        tells_lag_version: whether its ApiVersions name DescribeShareGroupOffsets.

    Attributes:
        asked: requests in order, those without an answer left out.
        gone: whether it has read something for which brokers close the connection.
        received: all frames, without their size.
    """

    def __init__(self, *, tells_lag_version: bool = True) -> None:
        self._tells_lag_version = tells_lag_version
        self.asked: deque[Asked] = deque()
        self.gone = False
        self.received: list[bytes] = []
        self._buffer = b""
        self._tokens = 0  # that are still to come

    def receive(self, data: bytes) -> None:
        """Take what the proxy sends."""
        self._buffer += data
        while len(self._buffer) >= 4 and not self.gone:
            size = int.from_bytes(self._buffer[:4], signed=True)
            if size < 0 or size > 2**27:
                self.gone = True
            elif len(self._buffer) < 4 + size:
                return
            else:
                frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
                self.received.append(frame)
                self._read(frame)

    def _read(self, frame: bytes) -> None:
        if self._tokens:
            self._tokens -= 1
            self.asked.append(Asked(TOKEN, 0, 0, frame))
            return
        if len(frame) < 8:
            self.gone = True
            return
        asked = Asked._make((*struct.unpack_from(">hhi", frame), frame))
        message = REQUESTS.get(asked.api_key)
        if message is None or not message.min_version <= asked.version <= message.max_version:
            self.asked.append(asked)  # another broker than those of today may know it
            return
        body = self._body(message, asked)
        if body is None:
            self.gone = True
        elif not (isinstance(body, ProduceRequest) and body.acks == 0):
            self.asked.append(asked)

    def _body(self, message: type[Any], asked: Asked) -> Any:
        try:
            _, start = interpreter.decode(
                plan_for(RequestHeader, request_header_version(message, asked.version)), asked.frame
            )
        except Exception:
            return None
        return read(message, asked.version, asked.frame, start, prefix=True)

    def answer(self, dice: Dice) -> tuple[Asked, bytes]:
        """Answer the oldest request.

        Returns:
            The request and the answer without its size.
        """
        asked = self.asked.popleft()
        if asked.api_key == TOKEN:
            return asked, dice.blob()
        head = struct.pack(">i", asked.correlation_id)
        message, version = RESPONSES.get(asked.api_key), asked.version
        if message is ApiVersionsResponse and not 0 <= version <= ApiVersionsResponse.max_version:
            if dice.below(2):
                return asked, head + b"\0\0" + dice.blob()  # a broker that is newer than what is known
            return asked, head + struct.pack(">hihhh", 35, 1, 18, 0, 4)
        if message is None or not message.min_version <= version <= message.max_version:
            return asked, head + dice.blob()
        if asked.api_key == _LAG:
            answer: Any = answer_to(self._body(DescribeShareGroupOffsetsRequest, asked), dice)
        else:
            answer = build(plan_for(message, version), dice)
        if isinstance(answer, SaslHandshakeResponse):
            answer.error_code = dice.choose((0, 0, 0, 33, 34))
            question = self._body(SaslHandshakeRequest, asked)
            if version == 0 and not answer.error_code:
                self._tokens = TOKEN_ROUNDS.get(question.mechanism, 1)
        elif isinstance(answer, ApiVersionsResponse):
            answer.error_code = dice.choose((0, 0, 42, 129))
            others = [row for row in answer.api_keys if row.api_key != _LAG]
            told = ApiVersionsResponseApiVersion(_LAG, 0, dice.choose((0, 1, 2)))
            answer.api_keys = [*others, told] if self._tells_lag_version else others
        elif asked.api_key in HINTED and answer.node_endpoints and not as_written(answer):
            answer.node_endpoints = []
        header = interpreter.encode(
            plan_for(ResponseHeader, response_header_version(message, version)), ResponseHeader(asked.correlation_id)
        )
        return asked, header + interpreter.encode(plan_for(message, version), answer)


def token(dice: Dice) -> bytes:
    """Return a SASL token with its size."""
    return sized(dice.blob())
