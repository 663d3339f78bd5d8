"""The rewriters of all seven answers that hold addresses, whole and as they stream.

In: API key, version, where to cut, and an answer without its size. Out: nothing, or a finding: another error than
`DecodeError`, a readable answer that is refused, a field other than an address that changed, or a broker's address
that a client could read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from fuzz.finding import expect
from fuzz.messages import RESPONSES, addresses_in, advertised, read, same, sample, to_proxy
from fuzz.target import Target
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import encode_response, response_header_version
from shareproxy.protocol.message import Response, UnknownTags
from shareproxy.protocol.messages import ResponseHeader
from shareproxy.proxy.api_versions import MAX_VERSIONS
from shareproxy.proxy.hints import HINTED, TAIL_BYTES, UNUSED_TAG, HintHider, may_hold_hint, rewrite_hint
from shareproxy.proxy.rewrite import REWRITTEN, rewrite_answer

_KEYS: Final = sorted([*REWRITTEN, *HINTED])


def run(data: bytes) -> None:
    """Take API key, version and distance of cuts in three bytes, then the answer."""
    if len(data) < 3 + 4:
        return
    api_key, version, distance, frame = data[0], data[1], data[2], data[3:]
    if api_key not in _KEYS or version > MAX_VERSIONS[api_key]:
        return
    message = RESPONSES[api_key]
    if version < max(message.min_version, HINTED[api_key].since if api_key in HINTED else 0):
        return
    before = read_answer(message, version, frame)
    try:
        parts = (rewrite_hint if api_key in HINTED else rewrite_answer)(api_key, version, frame, to_proxy)
    except DecodeError as error:
        expect(before is None, "a readable answer is rewritten", message.schema_name, version, frame, str(error))
    else:
        check_answer(message, version, before, b"".join(parts))
    if api_key in HINTED:
        _hide(message, version, before, frame, distance)


def read_answer(message: type[Response], version: int, frame: bytes, *, prefix: bool = False) -> Response | None:
    """Decode header and body; None if they are damaged."""
    start = body_start(message, version, frame)
    return None if start is None else read(message, version, frame, start, prefix=prefix)


def body_start(message: type[Response], version: int, frame: bytes) -> int | None:
    """Return where the body begins, None if the header is damaged."""
    header = read(ResponseHeader, response_header_version(message, version), frame, 0, prefix=True)
    if header is None:
        return None
    # its tags keep their place, so what is left of the header is its end
    for start in range(4, len(frame) + 1):
        if read(ResponseHeader, response_header_version(message, version), frame[:start], 0) is not None:
            return start
    return None


def check_answer(message: type[Response], version: int, before: Response | None, edited: bytes) -> None:
    """Hold an edited answer against the one that a broker wrote, and look for brokers' addresses in it."""
    after = read_answer(message, version, edited, prefix=True)
    if before is not None:
        expected = advertised(before)
        expect(after is not None, "an edited answer can be read", message.schema_name, version, before, edited)
        assert after is not None
        expect(same(after, expected, version), "addresses are replaced and nothing else", expected, after)
        expect(read_answer(message, version, edited) is not None, "nothing is put behind an answer", edited)
    elif after is not None:
        left = [row for row in addresses_in(after) if (row.host, row.port) != to_proxy(_id(row), "", 0)]
        expect(not left, "no broker's address reaches a client", message.schema_name, version, left, edited)


def _id(row: Any) -> int:
    return int(getattr(row, "node_id", getattr(row, "broker_id", -1)))


def _hide(message: type[Response], version: int, before: Response | None, frame: bytes, distance: int) -> None:
    hinted = may_hold_hint(message.api_key, frame[-TAIL_BYTES:])
    if before is not None and any(addresses_in(before)) and as_written(before):
        expect(hinted, "the end of an answer with a hint tells", message.schema_name, version, frame)
    whole, refused = _streamed(message, version, frame, len(frame))
    if before is not None:
        expect(not refused, "a readable answer passes as it comes", message.schema_name, version, frame)
        expect(len(whole) == len(frame), "a passing answer keeps its length", len(frame), whole)
        after = read_answer(message, version, whole)
        expect(after is not None, "an answer without its hint can be read", frame, whole)
        assert after is not None
        if not any(tag == UNUSED_TAG for tag, _ in _tags(before)):
            expect(
                same(_bare(after, before), _bare(before, before), version), "only a hint is taken out", before, after
            )
        expect(not any(addresses_in(after)), "no broker's address reaches a client", whole)
    for step in {1, distance + 1}:
        pieces, cut_refused = _streamed(message, version, frame, step)
        expect(
            (pieces, cut_refused) == (whole, refused) or (refused and cut_refused and _begins(pieces, whole)),
            "chunks do not change what passes",
            (message.schema_name, version, step, frame),
            whole,
            pieces,
        )


def _begins(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def _streamed(message: type[Response], version: int, frame: bytes, step: int) -> tuple[bytes, bool]:
    """Return what passes of an answer in pieces of a size, and whether it was refused."""
    passed: list[bytes] = []
    try:
        hider = HintHider(message.api_key, version, len(frame))
        for start in range(0, len(frame), step):
            passed.append(hider.feed(frame[start : start + step]))
    except DecodeError:
        return b"".join(passed), True
    return b"".join(passed), False


def as_written(answer: Any) -> bool:
    """Tell whether the end of an answer is as brokers write it: it is guessed from there whether there is a hint."""
    last = answer.node_endpoints[-1]
    plain = (last.rack or "").isprintable() and not last.unknown_tags and not _tags(answer)
    return plain and 0 < last.port < 65_536


def _tags(answer: Any) -> UnknownTags:
    """Return the tags of an answer that no version has defined yet."""
    found: UnknownTags = answer.unknown_tags
    return found


def _bare(answer: Response, before: Any) -> Any:
    """Return an answer without hint and without the tags that may stand for it."""
    bare: Any = copy.copy(answer)
    bare.node_endpoints = []
    # the room of an ordinary field is filled by one tag, which takes that of unknown ones as well
    gone = not HINTED[answer.api_key].tagged and bool(before.node_endpoints)
    bare.unknown_tags = () if gone else tuple(row for row in bare.unknown_tags if row[0] != UNUSED_TAG)
    return bare


def _cases() -> Iterator[tuple[type[Response], int]]:
    for api_key in _KEYS:
        message = RESPONSES[api_key]
        first = max(message.min_version, HINTED[api_key].since if api_key in HINTED else 0)
        for version in range(first, message.max_version + 1):
            yield message, version


def seeds() -> Iterator[bytes]:
    """Yield answers of each API and version."""
    random = Random(2)
    for message, version in _cases():
        for _ in range(3):
            yield _sample(message, version, random)


def fresh(random: Random) -> bytes:
    """Return an answer of any API and version."""
    return _sample(*random.choice(list(_cases())), random)


def _sample(message: type[Response], version: int, random: Random) -> bytes:
    frame = encode_response(sample(message, version, random), version, random.getrandbits(31))
    return bytes((message.api_key, version, random.randrange(40))) + frame


TARGET: Final = Target("addresses", "the rewriters of answers with addresses, whole and streaming", run, seeds, fresh)
