"""Values of a closer look, and their JSON."""

from __future__ import annotations

from shareproxy.lag.model import GroupLag, PartitionLag
from shareproxy.lag.visible_model import (
    DeadLetter,
    DeliveryCount,
    GroupVisible,
    PartitionVisible,
    StateRun,
    Want,
)
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import T1


def test_partition_document() -> None:
    """Every key is always there, beside those of the lag."""
    visible = PartitionVisible(
        consumable_lag=3,
        phantom_offsets=1,
        delivery_counts=(DeliveryCount(2, 3),),
        runs=(StateRun(0, 2, "available", 2),),
        notes=("why",),
    )
    row = PartitionLag("t", T1, 0, lag=4, visible=visible).to_dict()

    assert (row["lag"], row["consumable_lag"], row["phantom_offsets"]) == (4, 3, 1)
    assert row["delivery_counts"] == [{"count": 2, "offsets": 3}]
    assert row["runs"] == [{"first_offset": 0, "last_offset": 2, "state": "available", "delivery_count": 2}]
    assert row["notes"] == ["why"]
    unknown = PartitionVisible().to_dict()
    assert unknown.keys() <= row.keys()
    assert {value for key, value in unknown.items() if key != "notes"} == {None}


def test_group_document() -> None:
    """Settings and dead letters under one key."""
    group = GroupVisible("read_committed", "latest", 5, 30_000, 2_000, DeadLetter("dlq.t", 4), ("note",))

    document = GroupLag(GroupId("g"), visible=group).to_dict()

    assert document["visible"] == {
        "isolation_level": "read_committed",
        "auto_offset_reset": "latest",
        "delivery_count_limit": 5,
        "record_lock_duration_ms": 30_000,
        "max_record_locks": 2_000,
        "dead_letter": {"topic": "dlq.t", "depth": 4, "message": None},
        "notes": ["note"],
    }
    assert GroupVisible().to_dict()["dead_letter"] is None


def test_without_a_closer_look_no_keys() -> None:
    """The documented JSON stays as it is."""
    row = PartitionLag("t", T1, 0)

    assert "visible" not in GroupLag(GroupId("g"), partitions=(row,)).to_dict()
    assert "consumable_lag" not in row.to_dict()


def test_all_wants() -> None:
    """Each of them."""
    assert set(Want.ALL) == {
        Want.LOG_END,
        Want.LOG_START,
        Want.OPEN,
        Want.PHANTOM,
        Want.AGE,
        Want.STATES,
        Want.PROJECTED,
        Want.DEAD_LETTERS,
        Want.CONFIGS,
        Want.HOLDERS,
    }
