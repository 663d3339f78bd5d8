"""The admin client asks as little as it can, and one failure never hides what the others said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shareproxy import AccessDenied, AdminError, CannotReach, GroupNotFound, ShareAdmin, Want, WrongArgument
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.model import Status
from shareproxy.protocol.messages import DescribeConfigsResponse, DescribeConfigsResult
from shareproxy.testing import SimulatedCluster


async def test_groups_are_listed_with_type_state_and_coordinator(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """By default share groups."""
    cluster.commit_offsets("c", {"t": {0: 1}})
    cluster.join("busy", ["t"])

    share = await admin.list_groups()
    busy = await admin.list_groups(states="stable")
    every = await admin.list_groups(types=())

    assert [(row.group, row.type, row.state) for row in share.groups] == [
        ("busy", "share", "Stable"),
        ("g", "share", "Empty"),
    ]
    assert [row.group for row in busy.groups] == ["busy"]
    assert {row.group: row.type for row in every.groups} == {"busy": "share", "c": "classic", "g": "share"}
    assert share.groups[1].coordinator == cluster.group_coordinator("g")


async def test_a_frozen_broker_does_not_hide_the_groups_of_the_others(
    cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """It is named among the problems."""
    coordinator = cluster.group_coordinator("g")
    await admin.list_groups()
    frozen = 1 if coordinator != 1 else 2
    cluster.freeze_node(frozen)

    listing = await admin.list_groups(timeout=1.5)

    assert [row.group for row in listing.groups] == ["g"]
    assert len(listing.problems) == 1
    assert f"broker {frozen}" in listing.problems[0]


async def test_many_groups_are_described_with_a_request_per_broker(
    cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """However many there are."""
    names = [f"group-{number}" for number in range(40)]
    for name in names:
        cluster.join(name, ["t"])

    found = await admin.describe_groups(names)

    assert list(found) == names
    assert {description.state for description in found.values()} == {"Stable"}
    assert cluster.requests.count(77) <= 3


async def test_a_member_is_described_with_what_it_serves(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Subscriptions and assignment by topic."""
    cluster.join("busy", ["t"])

    description = (await admin.describe_groups("busy"))["busy"]

    [member] = description.members
    [given] = member.assignment
    assert (member.subscribed_topics, given.topic, given.partitions) == (("t",), "t", (0, 1))
    as_json: Any = description.to_dict()
    assert as_json["members"][0]["assignment"][0]["partitions"] == [0, 1]


async def test_one_bad_group_hides_no_other(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """It has an error of its own, in words."""
    cluster.commit_offsets("c", {"t": {0: 1}})
    cluster.fail(77, 30, group="g")
    cluster.join("busy", ["t"])

    found = await admin.describe_groups(["g", "nosuch", "c", "busy"])

    assert {name: description.error and description.error.name for name, description in found.items()} == {
        "g": "GROUP_AUTHORIZATION_FAILED",
        "nosuch": "GROUP_ID_NOT_FOUND",
        "c": "NOT_A_SHARE_GROUP",
        "busy": None,
    }


async def test_a_coordinator_that_moves_is_asked_again(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """At its new place, without the caller noticing."""
    await admin.describe_groups("g")
    moved = 1 + (cluster.group_coordinator("g") or 0) % 3
    cluster.move_group_coordinator("g", moved)

    found = (await admin.describe_groups("g"))["g"]

    assert (found.error, found.state, found.coordinator) == (None, "Empty", moved)


async def test_end_offsets_are_read_where_they_are_asked_for(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The lag is the same without; a closer look at anything brings them along."""
    looks = {}
    for want in (None, Want.LOG_END, Want.LOG_START):
        cluster.requests.clear()
        [group] = (await admin.lag("g", want=want)).groups
        looks[want] = [(row.lag, row.end_offset) for row in group.partitions]
        asked = cluster.requests.count(2)
        assert asked == 0 if want is None else asked > 0
        assert all((row.visible is None) is (want is not Want.LOG_START) for row in group.partitions)

    assert looks[Want.LOG_START] == looks[Want.LOG_END]
    assert all(end is not None for _, end in looks[Want.LOG_END])
    assert looks[None] == [(lag, None) for lag, _ in looks[Want.LOG_END]]


async def test_an_end_that_the_lag_needs_is_read(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """A start offset one beyond the end looks like an unknown lag to the broker: −1."""
    cluster.alter_offsets("g", {"t": {0: 11}})  # the end is 10

    [group] = (await admin.lag("g")).groups

    beyond, sound = group.partitions
    assert (beyond.lag, beyond.status, sound.status) == (0, Status.START_BEYOND_END, Status.OK)
    assert beyond.end_offset is not None
    assert sound.end_offset is None


async def test_start_offsets(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """One row per partition; a leaderless one has an offset all the same, or says why not."""
    cluster.create_topic("new", 1)

    rows = await admin.offsets("g")
    new = await admin.offsets("g", topics="new")

    assert [(row.topic, row.partition, row.start_offset, row.error) for row in rows] == [
        ("t", 0, 2, None),
        ("t", 1, 0, None),
    ]
    assert [(row.topic, row.start_offset, row.error) for row in new] == [("new", None, None)]


async def test_start_offsets_of_a_group_that_is_not_there(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """An exception, not an empty list; a group without state has an empty list."""
    cluster.join("idle", ["nosuch"])

    with pytest.raises(GroupNotFound, match="'missing' does not exist") as caught:
        await admin.offsets("missing")

    assert (caught.value.code, caught.value.name) == (69, "GROUP_ID_NOT_FOUND")
    assert await admin.offsets("idle") == ()


async def test_lag_of_one_of_some_and_of_all(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The report of the engine."""
    one, some, every = await admin.lag("g"), await admin.lag(["g", "nosuch"]), await admin.lag()

    assert [group.lag for group in one.groups] == [16]
    assert [group.error is None for group in some.groups] == [True, False]
    assert [group.group for group in every.groups] == ["g"]


async def test_a_closer_look_at_lag(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """What was wanted is there beside the lag."""
    cluster.delete_records("t", 0, 3)

    report = await admin.lag("g", topics=["t"], want=Want.LOG_START | Want.CONFIGS)

    [group] = report.groups
    assert group.partitions[0].visible is not None
    assert group.partitions[0].visible.log_start_offset == 3


async def test_lag_of_consumer_groups(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """One, or all that are there; share groups are told apart."""
    cluster.commit_offsets("c", {"t": {0: 4}})

    one, every = await admin.consumer_lag("c", topics="t", look_closer=True), await admin.consumer_lag()
    other = await admin.consumer_lag("g")

    assert [(row.lag, row.visible_lag) for row in one.groups[0].partitions if row.lag is not None] == [(6, 6)]
    assert [group.group for group in every.groups] == ["c"]
    assert other.groups[0].error is not None
    assert other.groups[0].error.name == "NOT_A_CONSUMER_GROUP"


async def test_configuration_of_a_group(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """By name, defaults included."""
    cluster.set_group_config("g", {"share.isolation.level": "read_committed"})

    found = await admin.group_configs("g")

    assert found["share.isolation.level"].value == "read_committed"
    assert found["share.auto.offset.reset"].is_default


async def test_a_denied_configuration_names_the_right(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Operation and resource."""
    cluster.answer_with(32, lambda *_: DescribeConfigsResponse(results=[DescribeConfigsResult(30, None, 32, "g", [])]))

    with pytest.raises(AccessDenied) as caught:
        await admin.group_configs("g")

    assert (caught.value.operation, caught.value.resource) == ("DESCRIBE_CONFIGS", "group 'g'")


async def test_watching_shows_what_changes(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Lag, and rates between two looks."""
    lags = []
    async for snapshot in admin.watch("g", topics="t", interval=0.05):
        lags.append(snapshot.report.groups[0].lag)
        if len(lags) == 2:
            break
        cluster.produce("t", 0, 4)

    assert lags == [16, 20]
    assert snapshot.rates is not None
    assert snapshot.fresh


@pytest.mark.parametrize("wrong", [{"interval": 0}, {"groups": [""]}])
async def test_what_cannot_be_watched_is_said_at_once(admin: ShareAdmin, wrong: dict[str, Any]) -> None:
    """Not at the first snapshot."""
    with pytest.raises(WrongArgument):
        admin.watch(**wrong)


async def test_a_cluster_that_is_not_there() -> None:
    """The sentence names the address."""
    async with SimulatedCluster() as gone:
        servers = gone.bootstrap_servers
    async with ShareAdmin(servers, timeout=0.3) as admin:
        with pytest.raises(CannotReach, match=servers):
            await admin.lag()


async def test_somebody_elses_cluster_stays_open(cluster: SimulatedCluster) -> None:
    """Whoever opened it closes it."""
    async with Cluster(parse_addresses(cluster.bootstrap_servers)) as theirs:
        async with ShareAdmin.over(theirs, lag_source="summary") as admin:
            assert (await admin.lag("g")).groups[0].lag == 16
        assert (await theirs.metadata(deadline=asyncio.get_running_loop().time() + 5)).nodes


async def test_a_closed_client_says_so(cluster: SimulatedCluster) -> None:
    """And may be closed twice."""
    admin = ShareAdmin(cluster.bootstrap_servers)
    await admin.close()
    await admin.close()

    with pytest.raises(AdminError, match="closed"):
        await admin.list_groups()
