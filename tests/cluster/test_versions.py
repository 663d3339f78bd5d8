"""Versions: the highest one that both sides know."""

from __future__ import annotations

from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    MetadataRequest,
    ReadShareGroupStateSummaryRequest,
)


def test_the_highest_common_version_is_chosen() -> None:
    """The lower of both maxima, within the caller's limits."""
    table = ApiVersionTable({3: (0, 9)})

    assert table.highest(MetadataRequest) == 9
    assert table.highest(MetadataRequest, max_version=7) == 7
    assert table.highest(MetadataRequest, min_version=9) == 9


def test_no_common_version_is_none() -> None:
    """Unknown API, broker too new, broker too old, caller too picky."""
    assert ApiVersionTable({}).highest(MetadataRequest) is None
    assert ApiVersionTable({3: (90, 99)}).highest(MetadataRequest) is None
    assert ApiVersionTable({3: (0, 3)}).highest(MetadataRequest, min_version=4) is None
    assert ApiVersionTable({87: (1, 2)}).highest(ReadShareGroupStateSummaryRequest, max_version=0) is None


def test_the_table_comes_from_the_answer() -> None:
    """API ranges and levels of finalized features."""
    table = ApiVersionTable.of(
        ApiVersionsResponse(
            api_keys=[ApiVersionsResponseApiVersion(3, 0, 13)],
            finalized_features=[ApiVersionsResponseFinalizedFeatureKey("share.version", 2, 0)],
        )
    )

    assert dict(table) == {3: (0, 13)}
    assert table.features["share.version"] == 2
    assert "share.version" in repr(table)
