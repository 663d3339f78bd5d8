"""What one look leaves for the next: bounded, aged, replaced by newer answers."""

from __future__ import annotations

import pytest

from shareproxy.lag import memory as memory_module
from shareproxy.lag.groups import FoundGroup
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.memory import Memory
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import N1, N2, T1, T2

A, B = GroupId("a"), GroupId("b")


async def test_partitions_are_those_of_the_last_answer() -> None:
    """A topic that was made again has another id, and the old one is gone."""
    memory = Memory()
    memory.keep_partitions(A, {("t", T1): [0, 1]})

    memory.keep_partitions(A, {("t", T2): [0]})

    assert memory.partitions(A) == [Wanted("t", T2, 0)]
    assert memory.rows(A) == 1


async def test_an_unknown_group_has_no_partitions() -> None:
    """Which is not the same as a group whose coordinator lists none."""
    memory = Memory()
    memory.keep_partitions(B, {})

    assert (memory.partitions(A), memory.rows(A)) == ([], None)
    assert (memory.partitions(B), memory.rows(B)) == ([], 0)


async def test_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many are forgotten; replaced ones do not count."""
    monkeypatch.setattr(memory_module, "MOST_REMEMBERED", 4)
    memory = Memory()
    for _ in range(10):
        memory.keep_partitions(A, {("t", T1): [0, 1, 2]})
    assert memory.rows(A) == 3

    memory.keep_partitions(B, {("u", T2): [0, 1]})

    assert (memory.rows(A), memory.rows(B)) == (None, 2)


async def test_old_partitions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After their time."""
    monkeypatch.setattr(memory_module, "PARTITIONS_SECONDS", 0.0)
    memory = Memory()

    memory.keep_partitions(A, {("t", T1): [0]})

    assert memory.partitions(A) == []


async def test_the_oldest_group_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many of them."""
    monkeypatch.setattr(memory_module, "MOST_GROUPS", 1)
    memory = Memory()

    memory.keep_partitions(A, {("t", T1): [0]})
    memory.keep_partitions(B, {("t", T1): [0]})

    assert (memory.rows(A), memory.rows(B)) == (None, 1)


async def test_ends_count_only_from_before_the_question() -> None:
    """An end that another look reads meanwhile brackets nothing."""
    memory = Memory()

    memory.keep_ends(T1, {0: 11})

    assert memory.ends_before(T1, float("inf")) == {0: 11}
    assert memory.ends_before(T1, 0.0) == {}
    assert memory.ends_before(T2, float("inf")) == {}


async def test_ends_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the same topic again adds nothing; too many topics start anew."""
    monkeypatch.setattr(memory_module, "MOST_REMEMBERED", 3)
    memory = Memory()
    for end in range(5):
        memory.keep_ends(T1, {0: end, 1: end})
    assert memory.ends_before(T1, float("inf")) == {0: 4, 1: 4}

    memory.keep_ends(T2, {0: 1, 1: 1})

    assert memory.ends_before(T1, float("inf")) == {}
    assert memory.ends_before(T2, float("inf")) == {0: 1, 1: 1}


async def test_nodes_groups_and_hanging_groups() -> None:
    """Each has a place of its own."""
    memory = Memory()
    found = FoundGroup(A, "Empty", N1)

    memory.keep_groups({N1: [found]})
    memory.ask_alone(N1)
    memory.note_hanging(A, hangs=True)

    assert (list(memory.groups(N1)), list(memory.groups(N2))) == ([found], [])
    assert (memory.asks_alone(N1), memory.asks_alone(N2)) == (True, False)
    assert (memory.hangs(A), memory.hangs(B)) == (True, False)
    memory.note_hanging(A, hangs=False)
    assert not memory.hangs(A)
