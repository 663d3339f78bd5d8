"""A change is made at most once, checked before it is sent and verified after."""

from __future__ import annotations

import pytest

from shareproxy import (
    AccessDenied,
    AdminError,
    CannotReach,
    GroupNotEmpty,
    GroupNotFound,
    NotSupported,
    OffsetRefused,
    ShareAdmin,
    TimedOut,
    UnknownTopic,
    WrongArgument,
)
from shareproxy.protocol import messages as m
from shareproxy.testing import SimulatedCluster

ALTER, DELETE_OFFSETS, DELETE_GROUPS = 91, 92, 42


async def starts(admin: ShareAdmin, group: str = "g") -> list[int | None]:
    """Return the start offsets of a group."""
    return [row.start_offset for row in await admin.offsets(group)]


async def test_offsets_are_set(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Where asked, and nowhere else."""
    result = await admin.alter_offsets("g", {("t", 1): 7})

    assert (result.done, result.created_group) == (True, False)
    assert result.to_dict()["rows"] == [{"topic": "t", "partition": 1, "start_offset": 7, "error": None}]
    assert await starts(admin) == [2, 7]


async def test_a_missing_group_is_made(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """As Kafka does; the result says so."""
    result = await admin.alter_offsets("new", {("t", 0): 3, ("t", 1): 4})

    assert (result.done, result.created_group) == (True, True)
    assert await starts(admin, "new") == [3, 4]


async def test_the_first_group_of_a_cluster_is_made() -> None:
    """The topic where Kafka keeps groups comes with it."""
    async with SimulatedCluster() as cluster, ShareAdmin(cluster.bootstrap_servers) as admin:
        cluster.create_topic("t", 1)
        cluster.produce("t", 0, 5)

        result = await admin.alter_offsets("first", {("t", 0): 3})

        assert result.created_group
        assert await starts(admin, "first") == [3]


@pytest.mark.parametrize("offset", [11, 0])
async def test_offsets_outside_of_the_log_are_not_sent(
    offset: int, cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """Not even the good ones beside them."""
    cluster.delete_records("t", 1, 1)

    with pytest.raises(OffsetRefused, match="nothing was changed; t-1: offset") as caught:
        await admin.alter_offsets("g", {("t", 0): 5, ("t", 1): offset})

    assert len(caught.value.refusals) == 1
    assert cluster.requests.count(ALTER) == 0


async def test_a_group_with_members_is_not_touched(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Neither its offsets nor itself."""
    cluster.join("g", ["t"])

    with pytest.raises(GroupNotEmpty, match="stop its consumers first"):
        await admin.alter_offsets("g", {("t", 0): 5})
    with pytest.raises(GroupNotEmpty):
        await admin.delete_offsets("g", ["t"])
    errors = await admin.delete_groups(["g"])

    assert errors["g"] is not None
    assert errors["g"].code == 68
    assert [cluster.requests.count(api) for api in (ALTER, DELETE_OFFSETS, DELETE_GROUPS)] == [0, 0, 0]


async def test_kafka_4_1_says_yes_and_does_nothing() -> None:
    """That is found out, and the sentence says what helps."""
    async with SimulatedCluster(version="4.1.2") as cluster, ShareAdmin(cluster.bootstrap_servers) as admin:
        cluster.create_topic("t", 1)
        cluster.produce("t", 0, 5)
        cluster.set_share_state("g", "t", 0, start_offset=1)

        with pytest.raises(NotSupported, match=r"Kafka 4\.1 ignores this request; upgrade to 4\.2"):
            await admin.alter_offsets("g", {("t", 0): 3})


async def test_a_row_that_fails_is_told(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Beside one that did not."""
    cluster.fail(ALTER, 29, topic="t", partition=1)

    result = await admin.alter_offsets("g", {("t", 0): 5, ("t", 1): 5})

    assert not result.done
    assert [row.error is None for row in result.rows] == [True, False]
    assert result.rows[1].error is not None
    assert "READ on the topic" in result.rows[1].error.message


async def test_where_no_row_was_taken_it_is_an_exception(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Of the kind of its first row."""
    cluster.fail(ALTER, 29, topic="t")

    with pytest.raises(AccessDenied) as caught:
        await admin.alter_offsets("g", {("t", 0): 5})

    assert (caught.value.operation, caught.value.resource) == ("READ", "topic 't'")


async def test_a_row_that_is_left_out_has_failed(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Only what the broker names was changed."""
    row = m.AlterShareGroupOffsetsResponsePartition(0)
    answer = m.AlterShareGroupOffsetsResponse(responses=[m.AlterShareGroupOffsetsResponseTopic("t", partitions=[row])])
    cluster.answer_with(ALTER, lambda *_: answer)

    result = await admin.alter_offsets("g", {("t", 0): 5, ("t", 1): 5})

    assert result.rows[1].error is not None
    assert "leaves it out" in result.rows[1].error.message


@pytest.mark.parametrize(
    ("code", "kind"), [(30, AccessDenied), (68, GroupNotEmpty), (35, NotSupported), (-1, AdminError)]
)
async def test_a_refusal_of_the_whole_change(
    code: int, kind: type[AdminError], cluster: SimulatedCluster, admin: ShareAdmin
) -> None:
    """For offsets that are set, and for those that are deleted."""
    cluster.answer_with(ALTER, lambda *_: m.AlterShareGroupOffsetsResponse(error_code=code))
    cluster.answer_with(DELETE_OFFSETS, lambda *_: m.DeleteShareGroupOffsetsResponse(error_code=code))

    with pytest.raises(kind) as altering:
        await admin.alter_offsets("g", {("t", 0): 5})
    with pytest.raises(kind) as deleting:
        await admin.delete_offsets("g", "t")

    assert altering.value.code == deleting.value.code == code
    if isinstance(altering.value, AccessDenied) and isinstance(deleting.value, AccessDenied):
        assert (altering.value.operation, deleting.value.operation) == ("READ", "DELETE")


async def test_a_broker_that_did_nothing_is_followed_by_another(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """NOT_COORDINATOR says for certain that nothing was changed."""
    answers = iter([m.AlterShareGroupOffsetsResponse(error_code=16)])
    cluster.answer_with(ALTER, lambda *_: next(answers, None), times=1)

    result = await admin.alter_offsets("g", {("t", 0): 5})

    assert result.done
    assert cluster.requests.count(ALTER) == 2


async def test_a_lost_answer_is_not_asked_for_again(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The change may have been made: who tries again blindly may undo what came after it."""
    cluster.cut(ALTER, times=None)

    with pytest.raises(CannotReach, match="not known whether the change was made"):
        await admin.alter_offsets("g", {("t", 0): 5})

    assert cluster.requests.count(ALTER) == 1


async def test_a_late_answer_is_not_asked_for_again(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """Likewise."""
    cluster.slow(60, ALTER)

    with pytest.raises(TimedOut, match="not known whether the change was made"):
        await admin.alter_offsets("g", {("t", 0): 5}, timeout=0.5)

    assert cluster.requests.count(ALTER) == 1


async def test_offsets_of_a_topic_are_deleted(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The group stays; a topic that it does not have is told by row, or raised where there is no other."""
    cluster.create_topic("other", 1)

    result = await admin.delete_offsets("g", ["t", "other"])

    assert [(row.topic, row.error is None) for row in result.rows] == [("other", False), ("t", True)]
    assert not result.done
    assert await starts(admin) == []
    with pytest.raises(UnknownTopic, match="has no offsets of it"):
        await admin.delete_offsets("g", "t")


async def test_offsets_of_a_missing_group_are_not_deleted(cluster: SimulatedCluster, admin: ShareAdmin) -> None:
    """The sentence names it; a list without topics is a mistake."""
    with pytest.raises(GroupNotFound, match="'missing'"):
        await admin.delete_offsets("missing", "t")
    with pytest.raises(WrongArgument, match="topics: none is named"):
        await admin.delete_offsets("g", [])


@pytest.fixture
def two_groups(cluster: SimulatedCluster) -> SimulatedCluster:
    """Share groups `a` and `b`, beside a classic one `c`."""
    cluster.set_share_state("a", "t", 0, start_offset=1)
    cluster.set_share_state("b", "t", 0, start_offset=1)
    cluster.commit_offsets("c", {"t": {0: 1}})
    return cluster


async def test_share_groups_are_deleted(two_groups: SimulatedCluster, admin: ShareAdmin) -> None:
    """Each has its own answer; a group of another type is left alone."""
    found = await admin.delete_groups(["a", "c", "missing"])

    assert {name: error and error.name for name, error in found.items()} == {
        "a": None,
        "c": "NOT_A_SHARE_GROUP",
        "missing": "GROUP_ID_NOT_FOUND",
    }
    left = await admin.list_groups(types=())
    assert [row.group for row in left.groups] == ["b", "c", "g"]


@pytest.mark.parametrize(
    ("code", "words"), [(30, "DELETE on the group"), (68, "stop its consumers"), (16, "try again"), (69, "not exist")]
)
async def test_a_group_that_stays_says_why(
    code: int, words: str, two_groups: SimulatedCluster, admin: ShareAdmin
) -> None:
    """Beside one that went."""
    two_groups.fail(DELETE_GROUPS, code, group="a")

    found = await admin.delete_groups(["a", "b"])

    assert found["b"] is None
    assert found["a"] is not None
    assert found["a"].code == code
    assert words in found["a"].message


async def test_a_lost_answer_to_a_deletion(two_groups: SimulatedCluster, admin: ShareAdmin) -> None:
    """Nobody knows; it is not sent again."""
    two_groups.cut(DELETE_GROUPS, times=None)

    found = await admin.delete_groups(["a"])

    assert found["a"] is not None
    assert "not known whether the change was made" in found["a"].message
    assert two_groups.requests.count(DELETE_GROUPS) == 1
