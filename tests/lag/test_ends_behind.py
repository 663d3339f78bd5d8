"""End offsets asked for right behind the rows: the same numbers, and never from before the rows."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cluster.errors import ConnectionClosed
from shareproxy.lag import ends_behind
from shareproxy.lag import memory as memory_module
from shareproxy.lag.ends_behind import EndsQuestion
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import GroupLag, SourceChoice
from shareproxy.lag.report import Reporter
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import N1, N2, T1, T2, Group, SimulatedBrokers, Stored, Topic, soon

G, H = GroupId("g"), GroupId("h")


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """Two brokers; group g, whose coordinator leads both partitions of its topic."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics = {"t": Topic(T1, [N1, N1], [11, 5]), "u": Topic(T2, [N2], [9])}
    for name in (G, H):
        brokers.groups[name] = Group(state="Empty")
        brokers.states[name, T1, 0] = Stored(0, 3, 4, [])
        brokers.states[name, T1, 1] = Stored(0, 0, 0, [])
    return brokers


async def look(reporter: Reporter, *groups: GroupId) -> list[GroupLag]:
    """Report on groups."""
    return await reporter.named(groups or (G,), None, soon())


def ends(group: GroupLag) -> list[int | None]:
    """Return the end offsets of its rows."""
    return [row.end_offset for row in group.partitions]


def order(brokers: SimulatedBrokers) -> list[str]:
    """Return what was asked for since the last call."""
    kinds = {m.DescribeShareGroupOffsetsRequest: "rows", m.ListOffsetsRequest: "ends"}
    asked = [kinds[type(message)] for _, message in brokers.asked if type(message) in kinds]
    brokers.asked.clear()
    return asked


async def test_the_second_look_asks_for_both_at_once(brokers: SimulatedBrokers) -> None:
    """One question each, and the end offsets are those after the rows."""
    pairs = 0
    reporter = Reporter(brokers, SourceChoice.AUTO)
    ask_pair = brokers.request_pair

    async def counted(*args: object, **named: object) -> object:
        nonlocal pairs
        pairs += 1
        return await ask_pair(*args, **named)  # type: ignore[arg-type]

    brokers.request_pair = counted  # type: ignore[method-assign, assignment]
    [first] = await look(reporter)
    brokers.topics["t"].ends[0] = 13
    [second] = await look(reporter)

    assert (ends(first), ends(second)) == ([11, 5], [13, 5])
    assert pairs == 1
    assert order(brokers) == ["rows", "ends", "rows", "ends"]


async def test_several_groups_are_asked_as_before(brokers: SimulatedBrokers) -> None:
    """They share partitions, each of which is asked for once."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    order(brokers)

    both = await look(reporter, G, H)

    assert [ends(group) for group in both] == [[11, 5], [11, 5]]
    assert order(brokers) == ["rows", "ends"]


async def test_partitions_led_elsewhere_are_asked_for_afterwards(brokers: SimulatedBrokers) -> None:
    """Another broker's answer has no place in the coordinator's row of answers."""
    brokers.states[G, T2, 0] = Stored(2, 0, 0, [])
    reporter = Reporter(brokers, SourceChoice.AUTO)

    for _ in range(2):
        [group] = await look(reporter)

    assert ends(group) == [11, 5, 9]
    assert order(brokers) == ["rows", "ends", "ends"] * 2


async def test_a_moved_leader_is_asked_instead(brokers: SimulatedBrokers) -> None:
    """The answer of the one before does not count, as Metadata now names another."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    brokers.topics["t"].leaders[0] = N2
    brokers.topics["t"].ends[0] = 12

    [group] = await look(reporter)

    assert ends(group) == [12, 5]
    assert [node_id for node_id, message in brokers.asked if isinstance(message, m.ListOffsetsRequest)][-2:] == [N2, N1]


async def test_a_topic_made_again_has_no_end_for_old_rows(brokers: SimulatedBrokers) -> None:
    """The broker answers by name, but its numbers belong to another log."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    brokers.topics["t"] = Topic(T2, [N1, N1], [99, 99])

    [group] = await look(reporter)

    assert not {99} & set(ends(group))


async def test_a_new_partition_is_asked_for_with_the_others(brokers: SimulatedBrokers) -> None:
    """The question of the last look does not have it."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    brokers.topics["t"] = Topic(T1, [N1, N1, N1], [11, 5, 7])
    brokers.states[G, T1, 2] = Stored(0, 0, 0, [])

    [group] = await look(reporter)
    [again] = await look(reporter)

    assert ends(group) == ends(again) == [11, 5, 7]


async def test_an_answer_that_does_not_come_is_asked_for_again(brokers: SimulatedBrokers) -> None:
    """The connection may end between the two answers."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    brokers.fail_once(m.ListOffsetsRequest, ConnectionClosed("gone"))

    [group] = await look(reporter)

    assert ends(group) == [11, 5]


async def test_rows_with_an_error_leave_no_question_behind(brokers: SimulatedBrokers) -> None:
    """Nobody waits for the second answer then: its task has ended when the report is there."""
    reporter = Reporter(brokers, SourceChoice.AUTO)
    await look(reporter)
    brokers.hidden_groups.add(G)
    before = asyncio.all_tasks()

    [group] = await look(reporter)

    assert group.error is not None
    assert asyncio.all_tasks() == before


async def test_large_and_many_questions_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered has a bound."""
    monkeypatch.setattr(memory_module, "MOST_PARTITIONS", 2)
    monkeypatch.setattr(memory_module, "MOST_QUESTIONS", 1)
    memory = Memory()

    def question(partitions: int) -> EndsQuestion:
        return EndsQuestion(N1, (), {("t", T1): dict.fromkeys(range(partitions))}, {})

    memory.keep_ends_question(G, question(2))
    memory.keep_ends_question(H, question(2))
    assert (memory.ends_question(G), memory.ends_question(H) is not None) == (None, True)
    memory.keep_ends_question(H, question(3))
    assert memory.ends_question(H) is None
    assert ends_behind.MOST_PARTITIONS >= 1_000
