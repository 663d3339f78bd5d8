"""From a share group back to a consumer group (R30)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shareproxy.admin.errors import AccessDenied, AdminError, GroupNotEmpty, GroupNotFound, WrongArgument
from shareproxy.drain.rollback import RollbackRow, plan_rollback, roll_back
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import DescribeShareGroupOffsetsRequest, ListOffsetsRequest
from shareproxy.testing import SimulatedCluster
from tests.drain.migration_cluster import Brokers, brokers_of


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Topic `t` with three partitions of ten records; share group `s` is at 4 with two more done, at 2, and done."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t", 3)
        cluster.produce("t", range(3), 10)
        cluster.set_share_state("s", "t", 0, start_offset=4, delivery_complete_count=2)
        cluster.set_share_state("s", "t", 1, start_offset=2, delivery_complete_count=0)
        cluster.set_share_state("s", "t", 2, start_offset=6, delivery_complete_count=4)
        yield cluster


@pytest.fixture
async def brokers(cluster: SimulatedCluster) -> AsyncIterator[Brokers]:
    """The way to the cluster."""
    async with brokers_of(cluster) as brokers:
        brokers.take_commits()
        yield brokers


async def test_start_offsets_are_committed(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Nothing by the plan; then for a group that there was not yet, and where all is done the end."""
    plan = await plan_rollback(brokers, "s", "c")
    assert plan.offsets == {("t", 0): 4, ("t", 1): 2, ("t", 2): 10}
    assert plan.accepted
    assert brokers.commits == 0

    done = await roll_back(brokers, plan)
    assert done.done
    again = await plan_rollback(brokers, "s", "c")
    assert {row.committed_offset for row in again.rows} == {4, 2, 10}
    assert (again.offsets, again.accepted) == ({}, True)
    assert await roll_back(brokers, again) == again
    assert brokers.commits == 1


async def test_what_is_done_behind_the_start_offset_comes_again(brokers: Brokers) -> None:
    """It is counted, for no commit can say which it is."""
    plan = await plan_rollback(brokers, "s", "c")
    assert plan.rows[0] == RollbackRow("t", 0, 4, None, 4, 10, 2)
    assert plan.warnings == (
        "2 offsets behind the start offsets are done already and will be given to the consumer group again: a "
        "committed offset cannot say which",
    )


async def test_a_consumer_group_is_not_taken_back(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Where it is further on, or there already, its offset is left."""
    cluster.commit_offsets("c", {"t": {0: 9, 1: 2}})
    plan = await plan_rollback(brokers, "s", "c")
    assert plan.offsets == {("t", 2): 10}
    assert "is further on" in (plan.rows[0].note or "")
    assert "is there already" in (plan.rows[1].note or "")


async def test_a_consumer_group_with_members_is_refused(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Kafka takes offsets from outside only while a group has none."""
    cluster.commit_offsets("c", {"t": {0: 1}})
    cluster.join_consumer_group("c", ["t"], kind="classic")
    plan = await plan_rollback(brokers, "s", "c")
    assert "'c' has 1 member, and Kafka takes offsets" in plan.refusals[0]
    with pytest.raises(WrongArgument, match="stop its consumers"):
        await roll_back(brokers, plan)
    assert brokers.commits == 0


async def test_a_share_group_that_still_runs_is_warned_of(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Its start offsets move on meanwhile."""
    cluster.join("s", ["t"])
    plan = await plan_rollback(brokers, "s", "c")
    assert any("share group 's' has 1 member: its start offsets move on" in w for w in plan.warnings)


async def test_only_named_topics(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """The others are left; one that the share group has not begun with has nothing to commit."""
    cluster.create_topic("u")
    plan = await plan_rollback(brokers, "s", "c", topics=["u"])
    assert [(row.topic, row.new_offset, row.note) for row in plan.rows] == [
        ("u", None, "the share group has not begun with it")
    ]
    assert not plan.accepted


async def test_names_that_cannot_be(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """One name for both, no such share group, a consumer group that is none."""
    with pytest.raises(WrongArgument, match="name the consumer group"):
        await plan_rollback(brokers, "s", "s")
    with pytest.raises(GroupNotFound):
        await plan_rollback(brokers, "nobody", "c")
    cluster.set_share_state("other", "t", 0, start_offset=1)
    with pytest.raises(WrongArgument, match="name a consumer group"):
        await plan_rollback(brokers, "s", "other")


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (25, GroupNotEmpty, "got members meanwhile"),
        (22, GroupNotEmpty, "got members meanwhile"),
        (30, AccessDenied, "READ on the group"),
        (69, AdminError, "a group of another type"),
    ],
)
async def test_what_the_coordinator_refuses_is_a_sentence(
    cluster: SimulatedCluster, brokers: Brokers, code: int, kind: type[AdminError], words: str
) -> None:
    """It says the same in every row."""
    plan = await plan_rollback(brokers, "s", "c")
    brokers.take_commits(lambda topic, partition: code)
    with pytest.raises(AdminError, match=words) as caught:
        await roll_back(brokers, plan)
    assert type(caught.value) is kind


async def test_rows_that_are_refused_have_errors(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """Beside those that were taken."""
    plan = await plan_rollback(brokers, "s", "c")
    brokers.take_commits(lambda topic, partition: {0: 29, 1: 7}.get(partition, 0))
    done = await roll_back(brokers, plan)
    assert not done.done
    assert "READ on the topic" in (done.rows[0].error or "")
    assert "offset 2 was not committed (error 7" in (done.rows[1].error or "")
    assert done.rows[2].error is None
    assert done.to_dict()["share_group"] == "s"


async def test_deleted_records_are_not_gone_back_to(cluster: SimulatedCluster, brokers: Brokers) -> None:
    """A commit below the log start counts for nothing: with `latest` the consumer group would skip what is left."""
    cluster.delete_records("t", 0, 6)

    plan = await plan_rollback(brokers, "s", "c", topics=["t"])

    assert plan.offsets["t", 0] == 6
    assert plan.offsets["t", 1] == 2


@pytest.mark.parametrize(("look", "offset"), [(1, 6), (2, 10)])
async def test_records_that_come_while_it_looks_are_not_skipped(
    cluster: SimulatedCluster, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, look: int, offset: int
) -> None:
    """An end read after a lag of 0 is not how far the group is done."""
    ask, looks = brokers.request, 0

    async def request(node_id: NodeId | None, message: Any, **named: Any) -> Any:
        nonlocal looks
        if isinstance(message, ListOffsetsRequest) and looks == look:
            looks = 10
            cluster.produce("t", 2, 3)
        answer = await ask(node_id, message, **named)
        looks += isinstance(message, DescribeShareGroupOffsetsRequest)
        return answer

    monkeypatch.setattr(brokers, "request", request)
    plan = await plan_rollback(brokers, "s", "c")

    assert looks >= 10
    assert plan.offsets["t", 2] == offset
    assert plan.rows[2].end_offset == 13
