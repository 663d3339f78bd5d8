"""Stand in for clients: requests of every kind, some of them wrong.

In: decisions. Out: bytes as they come from a client. Must never: be careful.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from fuzz.damage import damaged
from fuzz.dice import Dice
from fuzz.messages import REQUESTS, build
from fuzz.targets.lag_answers import asked_for
from shareproxy.protocol import interpreter
from shareproxy.protocol.headers import request_header_version, sized
from shareproxy.protocol.message import Request
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    ProduceRequest,
    RequestHeader,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from shareproxy.protocol.plan import plan_for
from shareproxy.proxy.api_versions import MAX_VERSIONS

_LOOKED_AT: Final = sorted(set(MAX_VERSIONS) & set(REQUESTS))
_CLIENT_IDS: Final = ("c", None, "", "x" * 200)
_STRANGERS: Final = (b"GET / HTTP/1.1\r\n", bytes.fromhex("16030100c8010000c40303"), bytes(4), b"\xff\xff\xff\xff")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "SCRAM-SHA-256", "GSSAPI", "")


def request(number: int, dice: Dice) -> bytes:
    """Return one request with its size, or what should have been one.

    Args:
        number: its correlation id.
    """
    match dice.below(12):
        case 0:
            return _opaque(number, dice)
        case 1:
            return sized(_produce(number, dice))
        case 2 | 3:
            return sized(_known(number, dice))
        case 4:
            return sized(_frame(ApiVersionsRequest, dice.below(7), number, dice))
        case 5 | 6:
            version = dice.choose((1, 0, 1, 2))
            body = interpreter.encode(plan_for(DescribeShareGroupOffsetsRequest, 1), asked_for(dice))
            frame = _head(DescribeShareGroupOffsetsRequest.api_key, version, number, 2, dice) + body
            return sized(damaged(frame, dice) if dice.seldom() else frame)
        case 7:
            handshake = SaslHandshakeRequest(dice.choose(_MECHANISMS))
            if dice.below(2):
                return sized(_frame(SaslAuthenticateRequest, dice.below(3), number, dice))
            version = dice.choose((0, 1))
            body = interpreter.encode(plan_for(SaslHandshakeRequest, version), handshake)
            return sized(_head(SaslHandshakeRequest.api_key, version, number, 1, dice) + body)
        case 8:
            return sized(dice.blob())
        case 9:
            return sized(damaged(_known(number, dice) if dice.below(2) else _produce(number, dice), dice))
        case 10:
            frame = _known(number, dice)
            return struct.pack(">i", len(frame) + dice.signed(1)) + frame
        case _:
            return dice.choose((b"", *_STRANGERS)) + dice.blob()


def _opaque(number: int, dice: Dice) -> bytes:
    api_key, version = dice.choose((12, 8, 11, 22, 999)), dice.below(6)
    return sized(struct.pack(">hhih", api_key, version, number, -1) + dice.blob())


def _produce(number: int, dice: Dice) -> bytes:
    version = 3 + dice.below(11)
    plan = plan_for(ProduceRequest, version)
    message = build(plan, dice)
    message.acks = dice.choose((1, 0, -1))
    return _head(ProduceRequest.api_key, version, number, request_header_version(ProduceRequest, version), dice) + (
        interpreter.encode(plan, message)
    )


def _known(number: int, dice: Dice) -> bytes:
    message = REQUESTS[dice.choose(_LOOKED_AT)]
    newest = MAX_VERSIONS[message.api_key]
    return _frame(message, newest + 1 - dice.below(newest + 2), number, dice)


def _frame(message: type[Request[Any]], version: int, number: int, dice: Dice) -> bytes:
    """Return a frame; a version that nobody knows gets the nearest body."""
    near = min(max(version, message.min_version), message.max_version)
    plan = plan_for(message, near)
    head = _head(message.api_key, version, number, request_header_version(message, near), dice)
    return head + interpreter.encode(plan, build(plan, dice))


def _head(api_key: int, version: int, number: int, header_version: int, dice: Dice) -> bytes:
    header = RequestHeader(api_key, version, number, dice.choose(_CLIENT_IDS))
    if header_version == 2 and dice.seldom():
        header.unknown_tags = ((7, dice.blob()),)
    return interpreter.encode(plan_for(RequestHeader, header_version), header)
