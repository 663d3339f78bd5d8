"""Commits and members are read in every version, and damaged bytes of clients harm nobody."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.consumer_questions import (
    ClassicMembers,
    Commit,
    Commits,
    ConsumerMembers,
    Members,
    assigned_partitions,
)
from shareproxy.protocol import messages as m
from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.message import Request, Response

A, B = GroupId("a"), GroupId("b")
NODE = NodeId(1)


class OneBroker:
    """A broker that speaks one version of an API and gives one answer after the other."""

    def __init__(self, request: type[Request[Any]], version: int, *answers: Response) -> None:
        self._table = ApiVersionTable({request.api_key: (0, version)})
        self._answers = list(answers)
        self.asked: list[Any] = []

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> ApiVersionTable:
        """Return the one range."""
        return self._table

    async def request(
        self, node_id: NodeId | None, message: Request[Any], *, deadline: float, max_version: int | None = None
    ) -> Response:
        """Let question and answer travel in the version spoken."""
        version = self._table.highest(type(message), max_version)
        assert version is not None
        self.asked.append(decode(type(message), version, encode(message, version)))
        answer = self._answers.pop(0)
        return decode(type(answer), version, encode(answer, version))


async def ask(question: type[Any], broker: OneBroker, *groups: GroupId) -> dict[GroupId, Any]:
    """Ask a question about groups."""
    deadline = asyncio.get_running_loop().time() + 5
    answers: dict[GroupId, Any] = dict(await question(cast("Brokers", broker)).ask(NODE, groups, deadline=deadline))
    return answers


async def test_commits_of_many_groups_in_one_request() -> None:
    """All topics of all groups; −1 is no commit; an error, or no row at all, is a group's own."""
    topic = m.OffsetFetchResponseTopics(
        "t",
        partitions=[
            m.OffsetFetchResponsePartitions(0, 5, 2),
            m.OffsetFetchResponsePartitions(1, -1, -1),
            m.OffsetFetchResponsePartitions(2, -1, -1, "", 29),
        ],
    )
    answer = m.OffsetFetchResponse(
        groups=[m.OffsetFetchResponseGroup("a", [topic]), m.OffsetFetchResponseGroup("b", [], 30)]
    )
    broker = OneBroker(m.OffsetFetchRequest, 10, answer)

    found = await ask(Commits, broker, A, B, GroupId("left out"))

    assert found[A] == {("t", 0): Commit(5, 2), ("t", 1): Commit(None, None), ("t", 2): Commit(None, None, 29)}
    assert found[B].error_code == 30
    assert isinstance(found[GroupId("left out")], Trouble)
    [asked] = broker.asked
    assert [(group.group_id, group.topics) for group in asked.groups] == [
        ("a", None),
        ("b", None),
        ("left out", None),
    ]


async def test_commits_from_an_old_broker() -> None:
    """One group per request."""
    rows = [m.OffsetFetchResponsePartition(0, 5)]
    broker = OneBroker(
        m.OffsetFetchRequest,
        7,
        m.OffsetFetchResponse(topics=[m.OffsetFetchResponseTopic("t", rows)]),
        m.OffsetFetchResponse(error_code=30),
    )

    found = await ask(Commits, broker, A, B)

    assert found[A] == {("t", 0): Commit(5, None)}
    assert found[B].error_code == 30
    assert [asked.group_id for asked in broker.asked] == ["a", "b"]


async def test_a_broker_that_cannot_name_all_topics() -> None:
    """It is too old, and is not asked."""
    broker = OneBroker(m.OffsetFetchRequest, 1)

    found = await ask(Commits, broker, A)

    assert found[A].error_code == 35
    assert broker.asked == []


async def test_members_of_consumer_groups() -> None:
    """What all of them are assigned, together."""
    topic = m.ConsumerGroupDescribeResponseTopicPartitions(topic_name="t", partitions=[0, 1])
    assignment = m.ConsumerGroupDescribeResponseAssignment([topic])
    members = [m.ConsumerGroupDescribeResponseMember("1", assignment=assignment)]
    answer = m.ConsumerGroupDescribeResponse(
        groups=[
            m.ConsumerGroupDescribeResponseDescribedGroup(group_id="a", members=members),
            m.ConsumerGroupDescribeResponseDescribedGroup(69, None, "b"),
        ]
    )

    found = await ask(ConsumerMembers, OneBroker(m.ConsumerGroupDescribeRequest, 1, answer), A, B)

    assert found[A] == Members(1, frozenset({("t", 0), ("t", 1)}))
    assert found[B].error_code == 69


def assignment(*topics: tuple[str, list[int]]) -> bytes:
    """Write an assignment as Java's consumer does."""
    data = struct.pack(">hi", 3, len(topics))
    for name, partitions in topics:
        data += (
            struct.pack(">h", len(name))
            + name.encode()
            + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        )
    return data + struct.pack(">i", -1)  # no user data


async def test_members_of_classic_groups() -> None:
    """A member whose assignment is no consumer's counts as a member."""
    members = [
        m.DescribeGroupsResponseDescribedGroupMember("1", member_assignment=assignment(("t", [2]))),
        m.DescribeGroupsResponseDescribedGroupMember("2", member_assignment=b"connect"),
    ]
    answer = m.DescribeGroupsResponse(
        groups=[
            m.DescribeGroupsResponseDescribedGroup(group_id="a", members=members),
            m.DescribeGroupsResponseDescribedGroup(30, group_id="b"),
        ]
    )

    found = await ask(ClassicMembers, OneBroker(m.DescribeGroupsRequest, 5, answer), A, B)

    assert found[A] == Members(2, frozenset({("t", 2)}))
    assert found[B].error_code == 30


def test_assignments_of_classic_members() -> None:
    """Topics with their partitions; an empty one is none."""
    assert assigned_partitions(assignment(("t", [0, 3]), ("other", []))) == [("t", 0), ("t", 3)]
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize("cut", range(1, 18))
def test_cut_assignments_are_none(cut: int) -> None:
    """At any byte of the topics."""
    data = assignment(("t", [0, 3]))[:-4]

    assert assigned_partitions(data[: len(data) - cut] if cut < len(data) else b"") == []


@given(st.binary(max_size=64))
def test_any_bytes_are_survived(data: bytes) -> None:
    """They come from clients of every make."""
    assert isinstance(assigned_partitions(data), list)
