"""Results are frozen, and become JSON whose keys are always there."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shareproxy.admin.results import (
    AlteredOffset,
    AlterResult,
    DeletedTopic,
    DeleteResult,
    OffsetPlan,
    PlannedOffset,
    ShareOffset,
)
from shareproxy.lag.model import GroupError
from shareproxy.protocol.ids import GroupId, TopicId

ID = TopicId(bytes(16))
G = GroupId("g")
NO = GroupError(3, "UNKNOWN_TOPIC_OR_PARTITION", "not there")


def plan(*rows: PlannedOffset, refusals: tuple[str, ...] = ()) -> OffsetPlan:
    """Return a plan."""
    return OffsetPlan(G, "Empty", False, rows, refusals)


def test_a_plan_is_accepted_if_nothing_speaks_against_it() -> None:
    """Neither as a whole nor for a row; and there has to be something to do."""
    good, bad = PlannedOffset("t", ID, 0, new_offset=5), PlannedOffset("t", ID, 1, new_offset=9, refusal="too far")

    assert plan(good).accepted
    assert not plan(good, bad).accepted
    assert not plan(good, refusals=("members",)).accepted
    assert not plan().accepted


def test_offsets_of_a_plan_leave_out_what_is_refused() -> None:
    """So that they can be given to `alter_offsets`."""
    rows = (
        PlannedOffset("t", ID, 0, new_offset=5),
        PlannedOffset("t", ID, 1, new_offset=9, refusal="too far"),
        PlannedOffset("t", ID, 2, refusal="not known"),
    )

    found = plan(*rows, refusals=("members",))

    assert found.offsets == {("t", 0): 5}
    assert found.all_refusals == ("members", "too far", "not known")


def test_done_is_only_what_is_done_altogether() -> None:
    """One row that failed is enough."""
    assert AlterResult(G, False, (AlteredOffset("t", 0, 5),)).done
    assert not AlterResult(G, False, (AlteredOffset("t", 0, 5), AlteredOffset("t", 1, 5, NO))).done
    assert DeleteResult(G, (DeletedTopic("t"),)).done
    assert not DeleteResult(G, (DeletedTopic("t"), DeletedTopic("u", NO))).done


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        (lambda: ShareOffset("t", ID, 0).to_dict(), "topic topic_id partition start_offset leader_epoch error"),
        (
            lambda: ShareOffset("t", ID, 0, error=NO).to_dict(),
            "topic topic_id partition start_offset leader_epoch error",
        ),
        (
            lambda: plan(PlannedOffset("t", ID, 0)).to_dict(),
            "group state creates_group accepted rows refusals",
        ),
        (
            lambda: PlannedOffset("t", ID, 0).to_dict(),
            "topic topic_id partition start_offset new_offset log_start end lag new_lag skips_min skips_max "
            "delivers_again_min delivers_again_max note refusal",
        ),
        (lambda: AlterResult(G, True, (AlteredOffset("t", 0, 5, NO),)).to_dict(), "group created_group done rows"),
        (lambda: DeleteResult(G, (DeletedTopic("t", NO),)).to_dict(), "group done rows"),
    ],
)
def test_json(make: Callable[[], dict[str, object]], keys: str) -> None:
    """Every key, and nothing that JSON cannot hold."""
    found = make()

    assert " ".join(found) == keys
    assert json.loads(json.dumps(found)) == found
