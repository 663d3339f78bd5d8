"""The report's values and their JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from shareproxy.lag.model import (
    GroupError,
    GroupLag,
    LagReport,
    PartitionLag,
    Source,
    SourceChoice,
    Status,
    rfc3339,
)
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import T1

KNOWN = PartitionLag("t", T1, 0, 2, 11, 3, 2, 7, Source.BROKER, True)
UNKNOWN = PartitionLag("t", T1, 1, status=Status.NO_LEADER, error_code=5, message="no leader")


def test_json_has_every_key_in_the_documented_order() -> None:
    """Scripts see the same keys whatever is known."""
    report = LagReport(
        "c", datetime(2026, 11, 30, 5, 40, 0, 123456, UTC), (GroupLag(GroupId("g"), "Empty", None, (KNOWN, UNKNOWN)),)
    )

    assert json.dumps(report.to_dict()) == json.dumps(
        {
            "cluster_id": "c",
            "time": "2026-11-30T05:40:00.123Z",
            "groups": [
                {
                    "group": "g",
                    "state": "Empty",
                    "error": None,
                    "lag": 7,
                    "complete": False,
                    "partitions_known": 1,
                    "partitions_total": 2,
                    "partitions": [
                        {
                            "topic": "t",
                            "topic_id": "AQIDBAUGBwgJCgsMDQ4PEA",
                            "partition": 0,
                            "start_offset": 2,
                            "end_offset": 11,
                            "leader_epoch": 3,
                            "delivery_complete_count": 2,
                            "lag": 7,
                            "source": "broker",
                            "exact": True,
                            "status": "ok",
                        },
                        {
                            "topic": "t",
                            "topic_id": "AQIDBAUGBwgJCgsMDQ4PEA",
                            "partition": 1,
                            "start_offset": None,
                            "end_offset": None,
                            "leader_epoch": None,
                            "delivery_complete_count": None,
                            "lag": None,
                            "source": None,
                            "exact": None,
                            "status": "no_leader",
                        },
                    ],
                }
            ],
        }
    )


def test_json_of_a_group_error_names_code_and_sentence() -> None:
    """An error takes the place of null."""
    group = GroupLag(GroupId("g"), error=GroupError(69, "GROUP_ID_NOT_FOUND", "no such group"))

    assert group.to_dict()["error"] == {"code": 69, "name": "GROUP_ID_NOT_FOUND", "message": "no such group"}


@pytest.mark.parametrize(
    ("rows", "error", "complete"),
    [
        ((KNOWN,), None, True),
        ((KNOWN, UNKNOWN), None, False),
        ((KNOWN,), GroupError(3, "X", "y"), False),
        ((), GroupError(69, "X", "y"), False),
    ],
)
def test_a_sum_is_complete_only_without_error_and_unknowns(
    rows: tuple[PartitionLag, ...], error: GroupError | None, complete: bool
) -> None:
    """`lag` may be used as it is only if nothing is missing."""
    assert GroupLag(GroupId("g"), None, error, rows).complete is complete


def test_time_is_written_in_utc_whatever_zone_it_has() -> None:
    """A moment in another zone is the same moment with a Z."""
    there = timezone(timedelta(hours=2))

    assert rfc3339(datetime(2026, 1, 1, 1, 0, tzinfo=there)) == "2025-12-31T23:00:00.000Z"


def test_choices_are_auto_and_the_sources() -> None:
    """Whatever can be read from can be pinned."""
    assert {choice.value for choice in SourceChoice} == {"auto", *(source.value for source in Source)}
