"""Whether anything is left in a group: what `shareproxy consume -e` ends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest

from shareproxy.admin.errors import AccessDenied, CannotReach, NotSupported
from shareproxy.cli import what_is_left
from shareproxy.cli.what_is_left import WhatIsLeft
from shareproxy.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag, Status
from shareproxy.lag.visible_model import PartitionVisible
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report
from tests.support.waiting import eventually


class TwoPartitions:
    """A cluster with topic orders, two partitions."""

    async def metadata(self, topics: Collection[str], *, deadline: float) -> ClusterMetadata:
        """Return it."""
        partitions = {number: PartitionMetadata(number) for number in range(2)}
        return ClusterMetadata("c", None, {}, {"orders": TopicMetadata("orders", TOPIC_ID, partitions=partitions)})


def lag_of(rows: Mapping[int, int | Status], error: GroupError | None = None) -> GroupLag:
    """Return the lag of each partition, or why there is none."""
    made = [
        PartitionLag("orders", TOPIC_ID, number, lag=found)
        if isinstance(found, int)
        else PartitionLag("orders", TOPIC_ID, number, status=found, message=f"it is {found.value}")
        for number, found in rows.items()
    ]
    return GroupLag(GroupId("g"), "Stable", error, tuple(made))


def looking(*looks: GroupLag | Exception, ours: Collection[int] = ()) -> WhatIsLeft:
    """Return what looks at these answers in turn."""
    admin: Any = FakeAdmin(*(look if isinstance(look, Exception) else report(look) for look in looks))
    cluster: Any = TwoPartitions()
    return WhatIsLeft(admin, cluster, "g", ["orders"], lambda: {("orders", number) for number in ours}, timeout=3.0)


@pytest.mark.parametrize(
    ("rows", "held", "left"),
    [
        ({0: 0, 1: 0}, 0, False),
        ({0: 1, 1: 0}, 0, True),
        ({0: 2, 1: 3}, 5, False),
        ({0: 2, 1: 3}, 4, True),
        ({0: 0}, 0, True),
        ({0: 0, 1: Status.NO_START_OFFSET}, 0, True),
        ({0: 0, 1: Status.NO_LEADER}, 0, True),
        ({}, 0, True),
    ],
)
async def test_lag_against_what_is_held(rows: Mapping[int, int | Status], held: int, left: bool) -> None:
    """Nothing is left when the lag of all partitions is what we hold; an unknown one may hide anything."""
    assert await looking(lag_of(rows)).anything(held) is left


async def test_partitions_without_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition that never had a record brokers know no lag; given none for a while, it counts as empty."""
    monkeypatch.setattr(what_is_left, "SETTLING_SECONDS", 0.05)
    rows = lag_of({0: 0, 1: Status.NO_START_OFFSET})
    ours, theirs = looking(rows, ours=[0, 1]), looking(rows, ours=[0])
    assert await ours.anything(0) is True
    assert await theirs.anything(0) is True

    async def nothing_is_left() -> bool:
        return not await ours.anything(0)

    await eventually(nothing_is_left, "a partition that gave no record counts as empty")
    assert await theirs.anything(0) is True


@pytest.mark.parametrize(("to_consume", "left"), [(0, False), (1, True), (None, True)])
async def test_lag_that_is_an_upper_bound(to_consume: int | None, left: bool) -> None:
    """Kafka 4.1 counts aborted records as well, for ever: there a closer look decides."""
    row = PartitionLag("orders", TOPIC_ID, 0, lag=1, exact=False)
    closer = msgspec.structs.replace(row, visible=PartitionVisible(consumable_lag=to_consume))
    other = PartitionLag("orders", TOPIC_ID, 1, lag=0, exact=True, visible=PartitionVisible(consumable_lag=0))

    looks = [GroupLag(GroupId("g"), "Stable", None, (each, other)) for each in (row, closer)]

    assert await looking(*looks).anything(0) is left


async def test_brokers_that_are_away(capsys: pytest.CaptureFixture[str]) -> None:
    """That is no answer: it goes on, and says so once."""
    looking_on = looking(CannotReach("no broker answers"))

    assert [await looking_on.anything(0) for _ in range(3)] == [True] * 3
    assert capsys.readouterr().err == "shareproxy: no broker answers\n"


@pytest.mark.parametrize(
    ("status", "kind"), [(Status.NOT_AUTHORIZED, AccessDenied), (Status.UNSUPPORTED, NotSupported)]
)
async def test_lag_that_nobody_will_tell(status: Status, kind: type[Exception]) -> None:
    """Waiting for it would be for ever."""
    with pytest.raises(kind, match=f"-e has to know what is left of orders-1: it is {status.value}"):
        await looking(lag_of({0: 0, 1: status})).anything(0)


async def test_group_that_may_not_be_seen() -> None:
    """The same for the whole group."""
    error = GroupError(30, "GROUP_AUTHORIZATION_FAILED", "this user may not see group 'g'")

    with pytest.raises(AccessDenied, match="-e has to know what is left: this user may not see"):
        await looking(lag_of({}, error)).anything(0)
