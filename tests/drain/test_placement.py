"""Which broker leads what: from assignments, metadata and hints of brokers to partitions by broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.cluster import Cluster, ClusterMetadata
from shareproxy.cluster.errors import Unreachable
from shareproxy.cluster.metadata import Node, PartitionMetadata, TopicMetadata
from shareproxy.drain.events import ConsumerEvent, LeaderMoved
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.placement import DOUBTS, LONGEST_PAUSE, METADATA_SECONDS, Placed, Placement
from shareproxy.drain.session import PartitionTrouble, SharePartition
from shareproxy.drain.session_outcomes import LeaderHint, Remedy
from shareproxy.protocol.ids import NodeId, TopicId
from tests.support.virtual_time import in_virtual_time, turns

ORDERS = TopicId(b"o" * 16)
PARTITION = SharePartition("orders", 0, ORDERS)
NAME = TopicPartition("orders", 0)
ONE, TWO = NodeId(1), NodeId(2)


def metadata(leader: int | None, leader_epoch: int | None = 0, *, error_code: int = 0) -> ClusterMetadata:
    """Return a cluster of two brokers and one partition."""
    nodes = {node_id: Node(node_id, f"b{node_id}", 9092) for node_id in (ONE, TWO)}
    row = PartitionMetadata(0, None if leader is None else NodeId(leader), leader_epoch)
    topic = TopicMetadata("orders", ORDERS, error_code, partitions={0: row})
    return ClusterMetadata("cluster", ONE, nodes, {"orders": topic})


class Stage:
    """A placement, the answers that its cluster gives, and all that it said.

    The last answer is given again and again; an error is raised.
    """

    def __init__(self, *answers: ClusterMetadata | Unreachable) -> None:
        self.answers, self.asked_at = list(answers), list[float]()
        self.placed: list[Placed] = []
        self.events: list[ConsumerEvent] = []
        cluster = cast("Cluster", SimpleNamespace(metadata=self._metadata))
        self.placement = Placement(cluster, ["orders"], self.placed.append, self.events.append)

    async def _metadata(self, topics: Sequence[str], *, deadline: float) -> ClusterMetadata:
        now = asyncio.get_running_loop().time()
        assert (topics, deadline) == (["orders"], now + METADATA_SECONDS)
        self.asked_at.append(now)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    async def run(self, seconds: float = 60.0) -> None:
        """Let it ask for so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.placement.run(), seconds)

    async def assigned(self) -> None:
        """Assign the partition, and let it be found."""
        self.placement.assign({ORDERS: (0,)})
        await self.run()

    @property
    def last(self) -> Placed:
        """What was published last."""
        return self.placed[-1]


def denied(hint: LeaderHint | None = None, partition: SharePartition = PARTITION) -> PartitionTrouble:
    """A broker says that it does not lead the partition."""
    return PartitionTrouble(partition, 6, None, Remedy.MOVE, hint)


def test_assignment_is_published_when_its_leader_is_known() -> None:
    """Nothing at first, then the partition at its broker; a first leader is no move."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1))
        await stage.assigned()
        return stage

    stage = in_virtual_time(scenario())
    assert (stage.placed, stage.events) == ([{}, {ONE: [PARTITION]}], [])


def test_nobody_is_asked_where_all_is_known() -> None:
    """An assignment that stays costs no request."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1))
        await stage.assigned()
        await stage.assigned()
        return stage

    stage = in_virtual_time(scenario())
    assert len(stage.asked_at) == 1
    assert stage.last == {ONE: [PARTITION]}


def test_partition_that_is_assigned_no_more_is_left_out() -> None:
    """At once."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1))
        await stage.assigned()
        stage.placement.assign({})
        return stage

    assert in_virtual_time(scenario()).last == {}


def test_partitions_are_named_once_metadata_told_their_topic() -> None:
    """An assignment has ids only."""

    async def scenario() -> tuple[list[SharePartition], list[SharePartition]]:
        stage = Stage(metadata(1))
        stage.placement.assign({ORDERS: (0,)})
        before = stage.placement.named()
        await stage.run()
        return before, stage.placement.named()

    assert in_virtual_time(scenario()) == ([], [PARTITION])


@pytest.mark.parametrize("answer", [metadata(None), metadata(1, error_code=3), Unreachable("b1:9092: gone")])
def test_missing_leader_is_asked_for_with_growing_pauses(answer: ClusterMetadata | Unreachable) -> None:
    """Whatever is missing: the leader, the topic, or an answer."""

    async def scenario() -> Stage:
        stage = Stage(*[answer] * 8, metadata(2))
        await stage.assigned()
        return stage

    stage = in_virtual_time(scenario())
    pauses = [after - before for before, after in zip(stage.asked_at, stage.asked_at[1:], strict=False)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE])
    assert stage.last == {TWO: [PARTITION]}


def test_hint_moves_a_partition_without_a_question() -> None:
    """The old leader names the new one and where it is."""

    async def scenario() -> tuple[Stage, Address]:
        stage = Stage(metadata(1))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied(LeaderHint(NodeId(3), 1, "b3", 9093)))
        return stage, await stage.placement.address_of(NodeId(3), 0.0)

    stage, address = in_virtual_time(scenario())
    assert stage.last == {3: [PARTITION]}
    assert stage.events == [LeaderMoved(NAME, ONE, 3)]
    assert (address, len(stage.asked_at)) == (Address("b3", 9093), 1)


def test_metadata_older_than_a_hint_changes_nothing() -> None:
    """Brokers learn of a new leader one after the other."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied(LeaderHint(TWO, 5, None, None)))
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert len(stage.asked_at) == 2
    assert stage.last == {TWO: [PARTITION]}


@pytest.mark.parametrize("hint", [LeaderHint(TWO, 3, None, None), LeaderHint(ONE, 9, None, None)])
def test_hint_that_cannot_be_right_is_not_followed(hint: LeaderHint) -> None:
    """It is older than what is known, or names the broker that denies it."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied(hint))
        return stage

    stage = in_virtual_time(scenario())
    assert (stage.last, stage.events) == ({ONE: [PARTITION]}, [])


def test_new_epoch_is_believed_at_once_after_a_denial() -> None:
    """And told as one move."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4), metadata(2, 5))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied())
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert len(stage.asked_at) == 2
    assert (stage.last, stage.events) == ({TWO: [PARTITION]}, [LeaderMoved(NAME, ONE, TWO)])


def test_same_leader_in_the_same_epoch_has_to_be_named_again_and_again() -> None:
    """The answer may be older than the denial; when it stays so the broker is asked again, and nothing has moved."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied())
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert len(stage.asked_at) == 1 + DOUBTS
    assert (stage.last, stage.events) == ({ONE: [PARTITION]}, [])


def test_trouble_with_a_partition_that_is_not_assigned_is_nothing() -> None:
    """It was given up meanwhile."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied(partition=SharePartition("orders", 7, ORDERS)))
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert (len(stage.asked_at), stage.last, stage.events) == (1, {ONE: [PARTITION]}, [])


def test_partition_that_is_given_up_while_it_moves_is_no_move() -> None:
    """Who leads it now is nobody's business."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4), metadata(2, 5))
        await stage.assigned()
        stage.placement.misplaced(ONE, denied())
        stage.placement.assign({})
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert (stage.last, stage.events) == ({}, [])


def test_move_that_metadata_tells_first_is_told() -> None:
    """A broker that does not answer makes us look, and the partition has moved."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, 4), metadata(2, 5))
        await stage.assigned()
        stage.placement.look_again()
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert (stage.last, stage.events) == ({TWO: [PARTITION]}, [LeaderMoved(NAME, ONE, TWO)])


def test_what_did_not_change_is_not_published_again() -> None:
    """Whoever reads it would begin anew."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1))
        await stage.assigned()
        stage.placement.look_again()
        await stage.run()
        return stage

    stage = in_virtual_time(scenario())
    assert (len(stage.asked_at), len(stage.placed)) == (2, 2)


def test_unknown_leader_epoch_is_taken_as_the_one_that_is_known() -> None:
    """Old brokers do not tell it."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1, None), metadata(2, None))
        await stage.assigned()
        stage.placement.look_again()
        await stage.run()
        return stage

    assert in_virtual_time(scenario()).last == {TWO: [PARTITION]}


def test_address_is_asked_for_once() -> None:
    """Then it is known."""

    async def scenario() -> tuple[Stage, list[Any]]:
        stage = Stage(metadata(1))
        return stage, [await stage.placement.address_of(TWO, METADATA_SECONDS) for _ in range(2)]

    stage, addresses = in_virtual_time(scenario())
    assert (addresses, len(stage.asked_at)) == ([Address("b2", 9092)] * 2, 1)


def test_broker_that_left_has_no_address() -> None:
    """The error names it."""

    async def scenario() -> None:
        await Stage(metadata(1)).placement.address_of(NodeId(9), METADATA_SECONDS)

    with pytest.raises(Unreachable, match="node 9 is not in the cluster now"):
        in_virtual_time(scenario())


def test_failed_question_does_not_end_the_search() -> None:
    """It is asked again when the next thing is not known."""

    async def scenario() -> Stage:
        stage = Stage(metadata(1), Unreachable("b1:9092: gone"), metadata(2, 1))
        await stage.assigned()
        searching = asyncio.create_task(stage.placement.run())
        for _ in range(2):
            stage.placement.look_again()
            await asyncio.sleep(LONGEST_PAUSE)
            await turns()
        searching.cancel()
        return stage

    assert in_virtual_time(scenario()).last == {TWO: [PARTITION]}
