"""From a consumer group to a share group: where it begins (R28), names (R29), order (R31)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.admin.errors import (
    AccessDenied,
    GroupNotEmpty,
    GroupNotFound,
    NotAShareGroup,
    OffsetRefused,
    TimedOut,
    WrongArgument,
)
from shareproxy.drain.group_config_change import auto_offset_reset, set_group_config
from shareproxy.drain.migration import MigrationPlan, compacted_topics, migrate, named, plan_migration
from shareproxy.protocol import messages as m
from shareproxy.testing import SimulatedCluster
from tests.drain.migration_cluster import ALTER_SHARE_OFFSETS, Brokers, brokers_of

RESET = "share.auto.offset.reset"


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Topic `t` with three partitions of ten records; consumer group `c` is at 4 and 10 of two of them."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t", 3)
        cluster.produce("t", range(3), 10)
        cluster.commit_offsets("c", {"t": {0: 4, 1: 10}})
        yield cluster


@pytest.fixture
async def brokers(cluster: SimulatedCluster) -> AsyncIterator[Brokers]:
    """The way to the cluster."""
    async with brokers_of(cluster) as brokers:
        yield brokers


def new_offsets(plan: MigrationPlan) -> dict[tuple[str, int], int]:
    """Return the start offsets of a plan."""
    return {} if plan.offsets is None else plan.offsets.offsets


async def test_r28_committed_offsets_become_start_offsets(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Nothing is changed by the plan; the plan carried out makes the group."""
    plan = await plan_migration(brokers, "s", from_group="c")
    assert new_offsets(plan) == {("t", 0): 4, ("t", 1): 10}
    assert plan.accepted
    assert cluster.requests.count(ALTER_SHARE_OFFSETS) == 0

    result = await migrate(brokers, plan)
    assert result.done
    assert result.altered is not None
    assert result.altered.created_group
    assert result.to_dict()["done"] is True


async def test_r28_partitions_without_a_commit_begin_at_the_reset(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """With `latest` what is there is skipped, and that is said; a reset that is set too changes it."""
    plan = await plan_migration(brokers, "s", from_group="c")
    assert plan.without_commit == (("t", 2),)
    assert any(
        "t-2: there the share group begins at latest; what is there already is skipped" in w for w in plan.warnings
    )

    brokers.take_configs()
    plan = await plan_migration(brokers, "s", from_group="c", reset="earliest")
    assert any(w.endswith("t-2: there the share group begins at earliest") for w in plan.warnings)


async def test_r28_the_reset_is_set_before_the_offsets(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """The plan asks only whether it would work."""
    asked = brokers.take_configs()
    plan = await plan_migration(brokers, "s", from_group="c", reset="by_duration:PT1H")
    assert asked == [("s", RESET, "by_duration:PT1H", True)]
    result = await migrate(brokers, plan)
    assert asked[1:] == [("s", RESET, "by_duration:PT1H", False)]
    assert (result.reset, result.done) == ("by_duration:PT1H", True)


async def test_r28_a_reset_alone_needs_no_consumer_group(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """No start offset is touched."""
    brokers.take_configs()
    plan = await plan_migration(brokers, "s", reset="earliest")
    assert (plan.offsets, plan.reset_now, plan.from_group) == (None, "latest", None)
    result = await migrate(brokers, plan)
    assert result.to_dict() == {"auto_offset_reset": "earliest", "offsets": None, "done": True}
    assert cluster.requests.count(ALTER_SHARE_OFFSETS) == 0


async def test_r28_a_reset_does_not_move_what_has_begun(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """The warning names the partitions and what does move them."""
    brokers.take_configs()
    cluster.set_share_state("s", "t", 0, start_offset=3)
    plan = await plan_migration(brokers, "s", reset="earliest")
    assert any("has begun with t-0" in w and "shareproxy offsets reset s" in w for w in plan.warnings)


async def test_deleted_records_are_not_begun_at(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Where retention was quicker than the group, it begins at the first record that is left."""
    cluster.delete_records("t", 0, 6)
    plan = await plan_migration(brokers, "s", from_group="c")
    assert new_offsets(plan)["t", 0] == 6
    assert plan.offsets is not None
    assert plan.offsets.rows[0].note == "the records from 4 to 5 are deleted already: it begins at 6"
    assert plan.accepted


async def test_a_commit_beyond_the_end_is_refused(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """As after a topic was made anew: the share group would skip what is yet to be written."""
    cluster.commit_offsets("c", {"t": {0: 99}})
    plan = await plan_migration(brokers, "s", from_group="c")
    assert not plan.accepted
    assert "beyond the end" in plan.all_refusals[0]


async def test_only_named_topics_are_taken_over(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """The others stay out."""
    cluster.create_topic("u")
    cluster.produce("u", 0, 5)
    cluster.commit_offsets("c", {"u": {0: 1}})
    plan = await plan_migration(brokers, "s", from_group="c", topics=["u"])
    assert new_offsets(plan) == {("u", 0): 1}


async def test_r29_one_name_cannot_be_both(brokers: Brokers) -> None:
    """A group has one type."""
    with pytest.raises(WrongArgument, match="such as 'share-c'"):
        await plan_migration(brokers, "c", from_group="c")


async def test_r29_the_name_of_a_consumer_group_is_refused(brokers: Brokers) -> None:
    """Also with a reset alone, which Kafka would take without a word."""
    with pytest.raises(NotAShareGroup, match="such as 'share-c'"):
        await plan_migration(brokers, "c", reset="earliest")


async def test_r29_a_running_consumer_group_is_warned_of(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Both get every record while both run."""
    cluster.join_consumer_group("c", ["t"], kind="classic")
    plan = await plan_migration(brokers, "s", from_group="c")
    assert any("has 1 member: while both groups run each gets every record" in w for w in plan.warnings)


async def test_r31_order_is_spoken_of_and_compaction_by_name(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """A compacted topic has keys that matter."""
    cluster.create_topic("u", configs={"cleanup.policy": "compact,delete"})
    cluster.produce("u", 0, 5)
    cluster.commit_offsets("c", {"u": {0: 1}})
    plan = await plan_migration(brokers, "s", from_group="c")
    assert any("a share group keeps no order" in w for w in plan.warnings)
    assert any(w.startswith("'u': compacted, so its keys matter") for w in plan.warnings)
    assert await compacted_topics(brokers, [], 0.0) == ()


async def test_a_share_group_with_members_is_not_touched(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Kafka would refuse it; the plan says so before."""
    cluster.join("s", ["t"])
    plan = await plan_migration(brokers, "s", from_group="c")
    assert not plan.accepted
    assert "stop its consumers first" in plan.all_refusals[0]
    assert plan.to_dict()["refusals"] == list(plan.all_refusals)


async def test_kafka_4_1_cannot_take_offsets_over() -> None:
    """It answers as if it had; that is said before."""
    async with SimulatedCluster(version="4.1.2") as cluster:
        cluster.create_topic("t")
        cluster.produce("t", 0, 5)
        cluster.commit_offsets("c", {"t": {0: 1}})
        async with brokers_of(cluster) as brokers:
            plan = await plan_migration(brokers, "s", from_group="c")
            assert any("Kafka 4.1 ignores the request" in refusal for refusal in plan.refusals)
            with pytest.raises(WrongArgument, match=r"upgrade to 4\.2"):
                await migrate(brokers, plan)


async def test_a_consumer_group_that_is_none_or_empty_is_named(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Missing, of another type, or without a commit."""
    with pytest.raises(GroupNotFound, match="'nobody'"):
        await plan_migration(brokers, "s", from_group="nobody")
    cluster.set_share_state("shared", "t", 0, start_offset=3)
    with pytest.raises(WrongArgument, match="name a consumer group"):
        await plan_migration(brokers, "s", from_group="shared")
    cluster.create_topic("u")
    plan = await plan_migration(brokers, "s", from_group="c", topics=["u"])
    assert plan.refusals == ("consumer group 'c' committed no offset of these topics; there is nothing to take over",)


async def test_nothing_to_do_is_wrong(brokers: Brokers) -> None:
    """Either a group or a reset is needed."""
    with pytest.raises(WrongArgument, match="nothing to do"):
        await plan_migration(brokers, "s")


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P2DT3M", "by_duration:PT0.5S"])
def test_values_of_the_reset(text: str) -> None:
    """Kafka's three forms."""
    assert auto_offset_reset(f" {text} ") == text


@pytest.mark.parametrize(
    "text", ["", "none", "Earliest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h"]
)
def test_wrong_values_of_the_reset(text: str) -> None:
    """Refused before anything is asked, with an example."""
    with pytest.raises(WrongArgument, match="by_duration:PT1H"):
        auto_offset_reset(text)


async def test_what_brokers_refuse_becomes_part_of_the_plan(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """A value that they do not take is a reason against it; a missing right is an error of its own."""
    brokers.take_configs(40, "Invalid value.")
    plan = await plan_migration(brokers, "s", reset="by_duration:PT1H")
    assert plan.refusals == (
        "group 's': the brokers do not take share.auto.offset.reset=by_duration:PT1H: Invalid value",
    )
    brokers.take_configs(30)
    with pytest.raises(AccessDenied, match="ALTER_CONFIGS on the group") as caught:
        await plan_migration(brokers, "s", reset="earliest")
    assert caught.value.operation == "ALTER_CONFIGS"
    brokers.take_configs(44, None)
    with pytest.raises(Exception, match=r"was not set: the broker gave no reason \(error 44"):
        await plan_migration(brokers, "s", reset="earliest")


async def test_a_config_that_does_not_show_is_told(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Brokers learn of it a little later; not for ever."""
    brokers.answers[m.IncrementalAlterConfigsRequest] = lambda _: m.IncrementalAlterConfigsResponse()
    deadline = asyncio.get_running_loop().time() + 0.2
    with pytest.raises(TimedOut, match="do not show it yet"):
        await set_group_config(brokers, "s", RESET, "earliest", deadline=deadline)


async def test_what_was_done_before_a_refusal_is_told(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """The reset stays set when the brokers then refuse the offsets."""
    brokers.take_configs()
    plan = await plan_migration(brokers, "s", from_group="c", reset="earliest")
    cluster.fail(ALTER_SHARE_OFFSETS, 29, topic="t")
    with pytest.raises(AccessDenied, match=r"share\.auto\.offset\.reset=earliest was set before that"):
        await migrate(brokers, plan)


def test_many_partitions_are_named_shortly() -> None:
    """The first five, and how many more."""
    assert named([("t", 0)]) == "t-0"
    assert named([("t", number) for number in range(7)]) == "t-0, t-1, t-2, t-3, t-4 and 2 more"


async def test_a_plan_that_is_refused_sets_nothing(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Not the reset either, where it is the offsets that cannot be taken over."""
    asked = brokers.take_configs()
    cluster.join("s", ["t"])
    members = await plan_migration(brokers, "s", from_group="c", reset="earliest")
    cluster.commit_offsets("d", {"t": {0: 99}})
    beyond = await plan_migration(brokers, "other", from_group="d", reset="earliest")
    asked.clear()

    with pytest.raises(GroupNotEmpty, match="stop its consumers first"):
        await migrate(brokers, members)
    with pytest.raises(OffsetRefused, match="beyond the end") as refused:
        await migrate(brokers, beyond)

    assert asked == []
    assert "was set before" not in str(refused.value)
