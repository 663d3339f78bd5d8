"""The edit of ApiVersions answers, held against one that is made on decoded messages.

In: version of the request, whether lag is filled, and an answer without its size. Out: nothing, or a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from fuzz.finding import expect
from fuzz.messages import read, same, sample
from fuzz.target import Target
from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.headers import encode_response
from shareproxy.protocol.messages import ApiVersionsResponse, ApiVersionsResponseApiVersion
from shareproxy.proxy.api_versions import LAG_API, LAG_VERSION, MAX_VERSIONS, edit_api_versions

_NEWEST: Final = ApiVersionsResponse.max_version


def run(data: bytes) -> None:
    """Take version and flag in two bytes, then the answer."""
    if len(data) < 2:
        return
    version, fills_lag, frame = data[0] - 2, bool(data[1] & 1), data[2:]
    before = _read(version, frame)
    try:
        edited = edit_api_versions(version, frame, fills_lag=fills_lag)
    except DecodeError as error:
        expect(before is None, "a readable answer is edited", version, frame, str(error))
        return
    after = _read(version, edited.frame, prefix=True)
    if after is not None:
        for row in after.api_keys:
            known = MAX_VERSIONS.get(row.api_key, row.max_version)
            expect(row.max_version <= known, "nothing newer than what is known is offered", version, row)
    if before is None:
        return
    assert after is not None
    body = _body_version(version, frame)
    if body > _NEWEST or body < 0:
        expected, lag = _unsupported(), None
    else:
        expected, lag = _edited(before, fills_lag)
    shown = _body_version(version, edited.frame)
    expect(same(after, expected, min(max(shown, 0), _NEWEST)), "only maximum versions change", expected, after)
    expect(edited.lag_version == lag, "the broker's version is told", edited.lag_version, lag)
    expect(edited.frame[:4] == frame[:4], "the correlation id stays", edited.frame)


def _read(version: int, frame: bytes, *, prefix: bool = False) -> ApiVersionsResponse | None:
    if len(frame) < 6:
        return None
    body = _body_version(version, frame)
    if not 0 <= body <= _NEWEST:
        return ApiVersionsResponse()  # whatever it says, the client gets error 35
    return read(ApiVersionsResponse, body, frame, 4, prefix=prefix)


def _body_version(version: int, frame: bytes) -> int:
    """Return the version of the body: an answer with error 35 is in version 0 (KIP-511)."""
    return 0 if int.from_bytes(frame[4:6]) == ErrorCode.UNSUPPORTED_VERSION else version


def _unsupported() -> ApiVersionsResponse:
    rows = [ApiVersionsResponseApiVersion(ApiVersionsResponse.api_key, 0, _NEWEST)]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows)


def _edited(before: ApiVersionsResponse, fills_lag: bool) -> tuple[ApiVersionsResponse, int | None]:
    """Return the answer with capped versions, and the broker's newest DescribeShareGroupOffsets."""
    rows, lag = [], None
    for row in before.api_keys:
        known = MAX_VERSIONS.get(row.api_key)
        if known is not None and row.min_version > known:
            continue
        if known is not None:
            row.max_version = min(row.max_version, known)
        if row.api_key == LAG_API:
            lag = row.max_version
            row.max_version = LAG_VERSION if fills_lag else row.max_version
        rows.append(row)
    before.api_keys = rows
    return before, lag


def seeds() -> Iterator[bytes]:
    """Yield answers in each version, with and without an error, and one for a request that is too new."""
    random = Random(3)
    rows = [ApiVersionsResponseApiVersion(key, 0, high) for key, high in [*MAX_VERSIONS.items(), (12, 4), (999, 7)]]
    for version in range(_NEWEST + 2):
        for error_code in (0, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.REBOOTSTRAP_REQUIRED):
            body = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else min(version, _NEWEST)
            answer = ApiVersionsResponse(error_code=error_code, api_keys=rows)
            yield bytes((version + 2, version & 1)) + encode_response(answer, body, 7)
        yield fresh(random)


def fresh(random: Random) -> bytes:
    """Return an answer in any version."""
    version = random.randint(0, _NEWEST)
    answer = sample(ApiVersionsResponse, version, random)
    if version < 3 or random.random() < 0.9:
        answer.error_code = random.choice((0, 0, 42))
    for row in answer.api_keys:
        row.api_key = random.choice([*MAX_VERSIONS, 12, 71])
        row.min_version, row.max_version = random.randint(0, 3), random.randint(-1, 20)
    return bytes((version + 2, random.getrandbits(1))) + encode_response(answer, version, random.getrandbits(31))


TARGET: Final = Target("api_versions", "the edit of ApiVersions answers", run, seeds, fresh)
