"""Rows of many groups: in one request, and without it where a broker holds it back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shareproxy.lag import group_rows
from shareproxy.lag.group_rows import GroupRows
from shareproxy.lag.groups import Listing
from shareproxy.lag.memory import Memory
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.message import Request
from tests.lag.simulated_brokers import N1, N2, T1, Group, SimulatedBrokers, Stored, Topic, soon

A, B, C = GroupId("a"), GroupId("b"), GroupId("c")
ROUTES = {A: N1, B: N1, C: N2}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is short here: nobody is far away."""
    monkeypatch.setattr(group_rows, "QUIET_SECONDS", 0.03)


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """Groups a and b on one node, c on another."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics["t"] = Topic(T1, [N1], [11])
    for group, node_id in ROUTES.items():
        brokers.groups[group] = Group(node_id)
        brokers.states[group, T1, 0] = Stored(0, 3, 4)
    return brokers


def asked(brokers: SimulatedBrokers) -> list[list[str]]:
    """Return the groups of each request."""
    requests = cast("list[m.DescribeShareGroupOffsetsRequest]", brokers.sent(m.DescribeShareGroupOffsetsRequest))
    return [[group.group_id for group in request.groups] for request in requests]


def several(_: NodeId, message: Request[Any]) -> bool:
    """Hold back what asks for several groups, as brokers do now and then."""
    return isinstance(message, m.DescribeShareGroupOffsetsRequest) and len(message.groups) > 1


async def test_one_request_per_node(brokers: SimulatedBrokers) -> None:
    """However many groups there are."""
    async with GroupRows(brokers, Memory(), [A, B, C], ROUTES, soon()) as rows:
        assert await rows.settle() == []

        assert all(isinstance(rows.answer(group), Listing) for group in (A, B, C))
    assert asked(brokers) == [["a", "b"], ["c"]]


async def test_very_many_partitions_are_several_requests(
    brokers: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the partitions that the groups had the last time."""
    monkeypatch.setattr(group_rows, "MOST_ROWS", 10)
    memory = Memory()
    memory.keep_partitions(A, {("t", T1): range(8)})
    memory.keep_partitions(B, {("t", T1): range(8)})

    async with GroupRows(brokers, memory, [A, B], ROUTES, soon()) as rows:
        assert await rows.settle() == []

    assert asked(brokers) == [["a"], ["b"]]


async def test_what_is_held_back_is_asked_for_alone(brokers: SimulatedBrokers) -> None:
    """On another connection, and the node is remembered."""
    brokers.hangs = several
    memory = Memory()

    async with GroupRows(brokers, memory, [A, B, C], ROUTES, soon()) as rows:
        late = await rows.settle()
        assert late == [A, B]
        assert isinstance(rows.answer(C), Listing)
        assert await rows.settle_alone(late) == []
        assert isinstance(rows.answer(A), Listing)

    assert asked(brokers) == [["a", "b"], ["c"], ["a"], ["b"]]
    assert (memory.asks_alone(N1), memory.asks_alone(N2)) == (True, False)


async def test_a_node_that_stalled_is_asked_for_one_group_per_request(brokers: SimulatedBrokers) -> None:
    """The next look costs no silence."""
    brokers.hangs = several
    memory = Memory()
    memory.ask_alone(N1)

    async with GroupRows(brokers, memory, [A, B, C], ROUTES, soon()) as rows:
        assert await rows.settle() == []

    assert asked(brokers) == [["a"], ["b"], ["c"]]


async def test_a_group_that_hangs_does_not_make_its_node_slow(brokers: SimulatedBrokers) -> None:
    """It waits for a broker that hangs: its node is still asked for many, but for this group last."""
    brokers.hangs = lambda _, message: (
        isinstance(message, m.DescribeShareGroupOffsetsRequest) and message.groups[0].group_id == "c"
    )
    memory = Memory()

    async with GroupRows(brokers, memory, [C, A], ROUTES, soon()) as rows:
        late = await rows.settle()
        assert late == [C]
        assert await rows.settle_alone(late) == [C]
        assert rows.answer(C) is None

    assert not memory.asks_alone(N2)
    assert memory.hangs(C)
    async with GroupRows(brokers, memory, [C, A], ROUTES, soon()) as rows:
        await rows.settle()
    assert asked(brokers)[-2:] == [["a"], ["c"]]


async def test_late_answers_still_count(brokers: SimulatedBrokers) -> None:
    """Whoever has no other way may wait for them."""
    with brokers.held() as gate:
        async with GroupRows(brokers, Memory(), [A], ROUTES, soon()) as rows:
            assert await rows.settle() == [A]
            gate.set()
            await rows.all_answered(soon())

            assert isinstance(rows.answer(A), Listing)
