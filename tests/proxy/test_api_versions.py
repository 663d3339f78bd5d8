"""Editing what a broker says it can do."""

import struct

import msgspec
import pytest

from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import decode_response, encode_response
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
)
from shareproxy.proxy.api_versions import MAX_VERSIONS, edit_api_versions
from tests.proxy.frames import api_versions

ALL_VERSIONS = range(6)


def edited(*entries: tuple[int, int, int], version: int = 4, fills_lag: bool = True) -> list[tuple[int, int, int]]:
    """Edit an answer with these entries and return the entries of the result."""
    frame = encode_response(api_versions(*entries), version, 7)
    result = edit_api_versions(version, frame, fills_lag=fills_lag)
    correlation_id, message = decode_response(ApiVersionsResponse, version, result.frame)
    assert correlation_id == 7
    return [(entry.api_key, entry.min_version, entry.max_version) for entry in message.api_keys]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_parsed_apis_are_capped(version: int) -> None:
    """What is parsed is not offered in versions that are not known."""
    offered = [(key, 0, 99) for key in (0, 3, 10, 18, 60, 90)]

    assert edited(*offered, version=version) == [(0, 0, 13), (3, 0, 13), (10, 0, 6), (18, 0, 5), (60, 0, 2), (90, 0, 1)]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_other_apis_stay(version: int) -> None:
    """APIs that are only forwarded stay as the broker said, unknown ones too."""
    offered = [(2, 1, 99), (12, 0, 9), (71, 0, 0), (12345, 3, 700), (-2, 0, 1)]

    assert edited(*offered, version=version) == offered


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_answers_with_hints_are_capped(version: int) -> None:
    """A newer answer could tell addresses in a place that is not known here."""
    offered = [(0, 0, 99), (1, 4, 99), (78, 1, 9), (79, 1, 9)]

    assert edited(*offered, version=version) == [(0, 0, 13), (1, 4, 18), (78, 1, 2), (79, 1, 2)]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_lag_is_offered_where_the_broker_has_version_0(version: int) -> None:
    """API 90 is the one maximum that is raised (KIP-1226)."""
    assert edited((90, 0, 0), version=version) == [(90, 0, 1)]


def test_lag_is_not_offered_where_nothing_fills_it() -> None:
    """Without something that works out lag, the broker's own version stays."""
    assert edited((90, 0, 0), fills_lag=False) == [(90, 0, 0)]


def test_lag_is_not_offered_where_the_broker_lacks_the_api() -> None:
    """Kafka 4.0 has no API 90: nothing is added."""
    assert edited((3, 0, 13)) == [(3, 0, 13)]


@pytest.mark.parametrize(("entries", "known"), [([(90, 0, 0)], 0), ([(90, 0, 1)], 1), ([(90, 0, 5)], 1), ([], None)])
def test_the_brokers_own_version_is_reported(entries: list[tuple[int, int, int]], known: int | None) -> None:
    """The session needs it to know in which version to ask."""
    frame = encode_response(api_versions(*entries), 3, 1)

    assert edit_api_versions(3, frame, fills_lag=True).lag_version == known


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_api_without_a_common_version_is_left_out(version: int) -> None:
    """A minimum is never lowered."""
    assert edited((3, 14, 20), (1, 4, 18), version=version) == [(1, 4, 18)]


def test_older_versions_stay() -> None:
    """A maximum below ours is the broker's; minimums stay."""
    offered = [(0, 0, 11), (3, 1, 12), (10, 0, 4), (60, 0, 1)]

    assert edited(*offered) == offered


def test_unknown_tags_and_features_are_kept() -> None:
    """Only maximum versions change; everything else is the broker's bytes."""
    message = ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponseApiVersion(3, 0, 99, unknown_tags=((7, b"seven"), (200, b"x" * 300))),
            ApiVersionsResponseApiVersion(90, 0, 0),
        ],
        throttle_time_ms=12,
        finalized_features_epoch=34,
        finalized_features=[ApiVersionsResponseFinalizedFeatureKey("share.version", 2, 1)],
        unknown_tags=((9, b"nine"),),
    )

    result = edit_api_versions(4, encode_response(message, 4, 1), fills_lag=True)

    _, seen = decode_response(ApiVersionsResponse, 4, result.frame)
    message.api_keys[0].max_version, message.api_keys[1].max_version = 13, 1
    assert msgspec.to_builtins(seen) == msgspec.to_builtins(message)


def test_nothing_to_change_changes_no_byte() -> None:
    """An answer within what is known passes as it is."""
    frame = encode_response(api_versions(*((key, 0, newest) for key, newest in MAX_VERSIONS.items())), 4, 1)

    assert edit_api_versions(4, frame, fills_lag=True).frame == frame


@pytest.mark.parametrize("count", [126, 127, 128, 300])
def test_long_lists_are_counted_right(count: int) -> None:
    """The compact count takes a second byte at 127 entries."""
    offered = [(1000 + n, 0, n) for n in range(count)]

    assert edited(*offered, (3, 14, 15)) == offered


@pytest.mark.parametrize("version", [0, 3, 5, 6, 127])
def test_error_35_has_the_version_0_body(version: int) -> None:
    """A broker that does not know the version answers in version 0, whatever was asked; our own limit applies."""
    frame = encode_response(api_versions((18, 0, 9), error_code=35), 0, 7)

    result = edit_api_versions(version, frame, fills_lag=True)

    _, message = decode_response(ApiVersionsResponse, 0, result.frame)
    assert (message.error_code, message.api_keys[0].max_version) == (35, 5)


@pytest.mark.parametrize("version", [6, 127, -1])
def test_version_that_only_the_broker_knows_becomes_error_35(version: int) -> None:
    """The client then asks again in a version that both know, as with a broker that is older than the client."""
    frame = struct.pack(">ih", 7, 0) + b"whatever version 6 is"

    result = edit_api_versions(version, frame, fills_lag=True)

    correlation_id, message = decode_response(ApiVersionsResponse, 3, result.frame)
    entries = [(entry.api_key, entry.min_version, entry.max_version) for entry in message.api_keys]
    assert (correlation_id, message.error_code, entries) == (7, 35, [(18, 0, 5)])
    assert len(result.frame) == 16


@pytest.mark.parametrize("error_code", [129, 42])
def test_node_mismatch_passes(error_code: int) -> None:
    """REBOOTSTRAP_REQUIRED and INVALID_REQUEST have an empty list in the asked version (KIP-1242)."""
    frame = encode_response(api_versions(error_code=error_code), 5, 7)

    assert edit_api_versions(5, frame, fills_lag=True).frame == frame


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_cut_answer_is_refused(version: int) -> None:
    """Bytes that end within the entries are not an answer."""
    frame = encode_response(api_versions((3, 0, 99), (90, 0, 0)), version, 7)
    behind_entries = len(frame) - {0: 0, 1: 4, 2: 4}.get(version, 5)

    for cut in range(behind_entries):
        with pytest.raises(DecodeError):
            edit_api_versions(version, frame[:cut], fills_lag=True)


@pytest.mark.parametrize("version", [0, 3])
def test_impossible_count_is_refused(version: int) -> None:
    """A count is believed only as far as there are bytes."""
    count = struct.pack(">i", 2**31 - 1) if version == 0 else b"\xff\xff\xff\xff\x0f"

    with pytest.raises(DecodeError, match="elements cannot be in"):
        edit_api_versions(version, struct.pack(">ih", 7, 0) + count, fills_lag=True)
