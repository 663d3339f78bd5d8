"""Each decoder and encoder: compiled code against the interpreter, and the round trip.

In: kind of message, version and body. Out: nothing, or a finding: another error than the protocol's, two back ends
that disagree, or a message that is not the same after it was written and read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, Final

from fuzz.finding import expect
from fuzz.messages import HEADERS, REQUESTS, RESPONSES, same, sample
from fuzz.recorded import recorded_frames
from fuzz.target import Target
from shareproxy.protocol import interpreter
from shareproxy.protocol.compiler import Decoder, Encoder, compile_decoder, compile_encoder
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.headers import request_header_version, response_header_version
from shareproxy.protocol.message import Message
from shareproxy.protocol.messages import MESSAGES
from shareproxy.protocol.plan import plan_for

_KINDS: Final[tuple[dict[int, type[Message]], ...]] = (
    {**REQUESTS},
    {**RESPONSES},
    dict(enumerate(HEADERS)),
)


def run(data: bytes) -> None:
    """Take kind, API key and version in three bytes, then a body."""
    if len(data) < 3 or data[0] >= len(_KINDS):
        return
    message, version, body = _KINDS[data[0]].get(data[1]), data[2], data[3:]
    if message is None or not message.min_version <= version <= message.max_version:
        return
    plan = plan_for(message, version)
    decode, encode = _compiled(message, version)
    value = problem = None
    try:
        value, position = interpreter.decode(plan, body)
    except DecodeError as error:
        problem = str(error)
    try:
        found, stop = decode(body, 0)
    except DecodeError as error:
        expect(str(error) == problem, "both back ends refuse the same bytes for the same reason", problem, str(error))
        return
    expect(problem is None, "both back ends accept the same bytes", problem, found)
    assert value is not None
    expect(stop == position and same(found, value, version), "both back ends read the same", value, found)  # type: ignore[arg-type]
    _write(plan, value, encode, version)


def _write(plan: Any, value: Any, encode: Encoder, version: int) -> None:
    try:
        written = interpreter.encode(plan, value)
    except EncodeError as error:
        expect(False, "what was read can be written", value, str(error))
        return
    expect(encode(value) == written, "both back ends write the same", written, encode(value))
    again, position = interpreter.decode(plan, written)
    expect(position == len(written), "what was written is read to its end", written)
    expect(interpreter.encode(plan, again) == written, "what was written is read as it was", value, again)


@cache
def _compiled(message: type[Message], version: int) -> tuple[Decoder, Encoder]:
    plan, title = plan_for(message, version), f"{message.schema_name} version {version}"
    return compile_decoder(plan, title), compile_encoder(plan, title)


def seeds() -> Iterator[bytes]:
    """Yield bodies of brokers and clients, and one sample per message and version."""
    for recorded in recorded_frames():
        request, response = REQUESTS[recorded.api_key], RESPONSES[recorded.api_key]
        version = recorded.version
        assert request_header_version(request, version) == 2
        assert response_header_version(response, version) == 1
        yield bytes((0, recorded.api_key, version)) + recorded.request[recorded.body_start :]
        yield bytes((1, recorded.api_key, version)) + recorded.response[5:]
    random = Random(1)
    for kind, messages in enumerate(_KINDS):
        for key, message in messages.items():
            for version in range(message.min_version, message.max_version + 1):
                yield _sample(kind, key, message, version, random)


def fresh(random: Random) -> bytes:
    """Return a random message of any kind and version."""
    kind = random.randrange(len(_KINDS))
    key, message = random.choice(list(_KINDS[kind].items()))
    return _sample(kind, key, message, random.randint(message.min_version, message.max_version), random)


def _sample(kind: int, key: int, message: type[Message], version: int, random: Random) -> bytes:
    return bytes((kind, key, version)) + interpreter.encode(
        plan_for(message, version), sample(message, version, random)
    )


assert len(MESSAGES) == sum(map(len, _KINDS))
TARGET: Final = Target("codec", "each decoder and encoder, compiled and interpreted", run, seeds, fresh)
