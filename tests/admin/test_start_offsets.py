"""Start offsets are those of the brokers, or the reason why there is none."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy import AccessDenied, NotSupported, ShareAdmin, UnknownTopic
from shareproxy.testing import SimulatedCluster


async def test_a_partition_that_cannot_be_read_has_a_reason(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Its zero in the error row is no offset; the others have theirs."""
    cluster.move_leader("t", 0, None)

    rows = await admin.offsets("g", timeout=0.8)

    assert [(row.partition, row.start_offset) for row in rows if row.error is None] == [(1, 0)]
    [bad] = [row for row in rows if row.error is not None]
    assert (bad.partition, bad.start_offset) == (0, None)
    assert bad.error is not None
    assert bad.error.message.startswith("t-0: ")


async def test_an_unknown_lag_is_no_reason_to_hide_the_offset(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """A count that is not set, a start beyond the end."""
    cluster.set_share_state("u", "t", 0, start_offset=5)
    cluster.set_share_state("u", "t", 1, start_offset=99, delivery_complete_count=0)

    rows = await admin.offsets("u")

    assert [(row.start_offset, row.error) for row in rows] == [(5, None), (99, None)]


async def test_a_topic_that_is_not_there(admin: ShareAdmin) -> None:
    """Is named."""
    with pytest.raises(UnknownTopic, match="'nosuch' cannot be seen"):
        await admin.offsets("g", topics="nosuch")


async def test_a_denied_group(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Operation and resource."""
    cluster.fail([77, 90], 30, group="g")

    with pytest.raises(AccessDenied) as caught:
        await admin.offsets("g")

    assert (caught.value.operation, caught.value.resource) == ("DESCRIBE", "group 'g'")


async def test_share_groups_that_are_switched_off(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The sentence names the feature."""
    cluster.set_share_version(0)

    with pytest.raises(NotSupported, match=r"share\.version"):
        await admin.offsets("g")


async def test_a_client_that_is_used_by_many_tasks(admin: ShareAdmin) -> None:
    """Each gets its answer."""
    found = await asyncio.gather(*(admin.offsets("g") for _ in range(20)))

    assert {tuple(row.start_offset for row in rows) for rows in found} == {(2, 0)}
