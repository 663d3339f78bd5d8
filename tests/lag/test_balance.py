"""What a backlog-aware assignor would decide."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shareproxy.lag.balance import MOST_MOVES, Balance, Move, MoveKind, Partition, Serving, balance

TOPICS = frozenset({"orders"})


def member(name: str, *partitions: int, topics: frozenset[str] = TOPICS) -> Serving:
    """A member that serves some partitions of `orders`."""
    return Serving(name, topics, frozenset(("orders", partition) for partition in partitions))


def backlog(*numbers: int | None) -> dict[Partition, int | None]:
    """Backlogs of the partitions of `orders`, from 0 on."""
    return {("orders", partition): number for partition, number in enumerate(numbers)}


def test_an_even_group_needs_no_move() -> None:
    """Equal shares are left alone."""
    result = balance([member("a", 0), member("b", 1)], backlog(10, 10))
    assert result.moves == ()
    assert result.ratio_before == 1.0
    assert result.before == result.after


def test_a_member_with_two_heavy_partitions_hands_one_over() -> None:
    """The idle member takes one of them; the load is even then."""
    result = balance([member("a", 0, 1), member("b", 2)], backlog(50, 50, 0))
    assert result.moves == (Move(MoveKind.TAKE_OVER, "b", "orders", 0, instead_of="a"),)
    assert [load.share for load in result.after] == [50, 50]
    assert (result.ratio_before, result.ratio_after) == (2.0, 1.0)


def test_one_heavy_partition_gets_a_second_member() -> None:
    """In a share group several members may serve one partition, so handing over is not the only way."""
    result = balance([member("a", 0), member("b", 1)], backlog(100, 0))
    assert result.moves == (Move(MoveKind.HELP, "b", "orders", 0),)
    assert [load.share for load in result.after] == [50, 50]


def test_members_of_one_partition_share_its_backlog() -> None:
    """`reach` is all of it, `share` is what is left to each."""
    first, second = balance([member("a", 0), member("b", 0)], backlog(30)).before
    assert (first.reach, first.share) == (30, 15)
    assert (second.reach, second.share) == (30, 15)


def test_a_partition_that_nobody_serves_is_given_to_the_lightest() -> None:
    """A backlog without a member is worse than an uneven one."""
    result = balance([member("a", 0), member("b", 1)], backlog(100, 10, 90))
    assert result.unserved == (("orders", 2),)
    assert result.moves[0] == Move(MoveKind.SERVE, "b", "orders", 2)


def test_nobody_is_given_a_topic_that_it_does_not_subscribe_to() -> None:
    """An assignor cannot do that either; it is said instead."""
    result = balance([member("a"), member("b", topics=frozenset({"payments"}))], {("refunds", 0): 5})
    assert result.moves == ()
    assert result.unreachable == (("refunds", 0),)


def test_an_unknown_backlog_is_not_zero() -> None:
    """It is neither moved nor counted, but named."""
    result = balance([member("a", 0, 1), member("b", 2)], backlog(None, 40, 0))
    assert result.unknown == (("orders", 0),)
    assert (result.before[0].reach, result.before[0].unknown) == (40, 1)
    assert all(move.partition != 0 for move in result.moves)


def test_a_served_partition_that_the_report_lacks_is_unknown() -> None:
    """Being served does not make a backlog known."""
    assert balance([member("a", 7)], {}).unknown == (("orders", 7),)


@pytest.mark.parametrize("numbers", [(), (0, 0)])
def test_without_backlog_there_is_no_ratio(numbers: tuple[int, ...]) -> None:
    """Nothing waits, so nobody has too much of it."""
    result = balance([member("a", *range(len(numbers)))], backlog(*numbers))
    assert (result.ratio_before, result.ratio_after, result.moves) == (None, None, ())


def test_a_group_without_members_has_no_moves() -> None:
    """There is nobody to move to."""
    result = balance([], backlog(5))
    assert (result.before, result.moves, result.unserved, result.unreachable) == (
        (),
        (),
        (("orders", 0),),
        (("orders", 0),),
    )


PARTITIONS = st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 5))


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Serving], dict[Partition, int | None]]:
    """Members that subscribe to some topics and serve some of their partitions, and backlogs."""
    waiting = draw(st.dictionaries(PARTITIONS, st.none() | st.integers(0, 1000), max_size=10))
    members = []
    for number in range(draw(st.integers(0, 6))):
        topics = draw(st.frozensets(st.sampled_from(["orders", "payments"])))
        served = draw(st.frozensets(PARTITIONS, max_size=6))
        members.append(Serving(f"m{number}", topics, frozenset(p for p in served if p[0] in topics)))
    return members, waiting


def after_moves(members: list[Serving], result: Balance) -> dict[str, set[Partition]]:
    """Carry the moves out."""
    serves = {member.member: set(member.partitions) for member in members}
    for move in result.moves:
        partition = (move.topic, move.partition)
        assert partition not in serves[move.member]
        serves[move.member].add(partition)
        if move.instead_of is not None:
            serves[move.instead_of].remove(partition)
    return serves


def shares(serves: Mapping[str, set[Partition]], waiting: Mapping[Partition, int | None]) -> dict[str, float]:
    """Count the shares without the product's code."""
    servers = [partition for partitions in serves.values() for partition in partitions]
    return {
        name: sum((waiting.get(p) or 0) / servers.count(p) for p in partitions) for name, partitions in serves.items()
    }


@settings(deadline=None, max_examples=60)
@given(groups())
def test_moves_lead_to_what_is_promised(group: tuple[list[Serving], dict[Partition, int | None]]) -> None:
    """Carried out by hand they give the loads of `after`; nobody serves what it does not subscribe to."""
    members, waiting = group
    result = balance(members, waiting)
    serves = after_moves(members, result)
    by_hand = shares(serves, waiting)
    assert {load.member: load.share for load in result.after} == pytest.approx(by_hand)
    assert {load.member: load.partitions for load in result.after} == {name: len(of) for name, of in serves.items()}
    for member_of in members:
        assert {topic for topic, _ in serves[member_of.member]} <= member_of.topics


@settings(deadline=None, max_examples=60)
@given(groups())
def test_moves_take_nothing_away(group: tuple[list[Serving], dict[Partition, int | None]]) -> None:
    """What is served stays served, what has a backlog and a subscriber becomes served, what is unknown stays put."""
    members, waiting = group
    result = balance(members, waiting)
    before = {partition for member_of in members for partition in member_of.partitions}
    after = {partition for partitions in after_moves(members, result).values() for partition in partitions}
    assert before <= after
    assert set(result.unserved) - set(result.unreachable) <= after
    assert not any((move.topic, move.partition) in result.unknown for move in result.moves)


@settings(deadline=None, max_examples=60)
@given(groups())
def test_moves_never_make_it_less_even(group: tuple[list[Serving], dict[Partition, int | None]]) -> None:
    """Each move besides those for unserved partitions relieves the most loaded member."""
    members, waiting = group
    result = balance(members, waiting)
    assert len(result.moves) <= MOST_MOVES + len(waiting)
    first = [move for move in result.moves if move.kind is MoveKind.SERVE]
    assert list(result.moves[: len(first)]) == first
    if not first and members:
        highest = max(load.share for load in result.before)
        assert max(load.share for load in result.after) <= highest * (1 + 1e-9)
