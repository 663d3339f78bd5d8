"""Looking at groups of either type."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shareproxy.cli.look import look
from shareproxy.lag.consumer_model import ConsumerGroupLag
from shareproxy.lag.model import GroupError, GroupLag
from shareproxy.lag.visible_model import Want
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import FakeAdmin, report

SHARE = GroupLag(GroupId("orders"), "Stable")
OTHER = GroupLag(GroupId("billing"), None, GroupError(69, "NOT_A_SHARE_GROUP", "is a consumer group"))
BILLING = ConsumerGroupLag(GroupId("billing"), "consumer", "Stable")


async def test_share_groups_cost_one_question() -> None:
    """Nobody pays for consumer groups that were not named."""
    admin = FakeAdmin(report(SHARE))
    looked = await look(cast("Any", admin), ["orders"], timeout=2.0)
    assert (looked.report.groups, looked.consumer_groups) == ((SHARE,), ())
    assert len(admin.calls) == 1


@pytest.mark.parametrize("want", [None, Want.ALL])
async def test_a_group_stands_in_one_place_only(want: Want | None) -> None:
    """What turned out to be a consumer group is no share group with an error as well."""
    admin = FakeAdmin(report(SHARE, OTHER), consumer_groups=[BILLING])
    looked = await look(cast("Any", admin), ["orders", "billing"], want=want, timeout=2.0)
    assert (looked.report.groups, looked.consumer_groups) == ((SHARE,), (BILLING,))
    assert admin.asked("consumer_lag")[0]["look_closer"] is (want is not None)


async def test_a_group_of_a_third_type_keeps_its_error() -> None:
    """A streams group may be neither."""
    admin = FakeAdmin(report(OTHER), consumer_groups=[ConsumerGroupLag(GroupId("billing"), error=OTHER.error)])
    looked = await look(cast("Any", admin), ["billing"], timeout=2.0)
    assert (looked.report.groups, looked.consumer_groups) == ((OTHER,), ())
