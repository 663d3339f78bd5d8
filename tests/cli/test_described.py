"""Parts of the page on a group that its golden page does not show."""

from __future__ import annotations

import pytest

from shareproxy.cli.described import assigned, balance_lines, header, members, partitions
from shareproxy.cli.hints import backlogs, serving
from shareproxy.cli.picture import ASCII
from shareproxy.lag.balance import Balance, balance
from shareproxy.lag.descriptions import AssignedTopic, GroupDescription, Member
from shareproxy.lag.model import GroupLag, PartitionLag, Status
from shareproxy.lag.visible_model import DeadLetter, GroupVisible, PartitionVisible, StateRun
from shareproxy.protocol.ids import GroupId, TopicId

TOPIC_ID = TopicId(bytes(16))
GROUP = GroupId("workers")


def member(name: str, **served: tuple[int, ...]) -> Member:
    """A member that subscribes to what it serves."""
    assignment = tuple(AssignedTopic(topic, TOPIC_ID, numbers) for topic, numbers in served.items())
    return Member(f"{name}-id", name, "/10.0.0.7", None, 4, tuple(served), assignment)


def row(number: int, lag: int | None, visible: PartitionVisible | None = None, topic: str = "orders") -> PartitionLag:
    """One partition."""
    status = Status.OK if lag is not None else Status.NO_LEADER
    return PartitionLag(topic, TOPIC_ID, number, 0, lag, lag=lag, status=status, visible=visible)


def group(*rows: PartitionLag, visible: GroupVisible | None = None) -> GroupLag:
    """The group `workers`."""
    return GroupLag(GROUP, "Stable", None, rows, visible)


def judged(described: GroupDescription, of: GroupLag) -> Balance:
    """The balance of a group."""
    return balance(serving(described.members), backlogs(of))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((0,), "orders:0"), ((0, 1), "orders:0-1"), ((0, 1, 2, 5, 7, 8), "orders:0-2,5,7-8"), ((), "")],
)
def test_partitions_are_written_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    """A member of a wide topic fits into a cell."""
    assert assigned(member("a", orders=numbers)) == text


def test_every_topic_of_a_member_is_named() -> None:
    """One after the other."""
    assert assigned(member("a", orders=(0,), payments=(1, 2))) == "orders:0 payments:1-2"


def test_a_header_leaves_out_what_is_not_known() -> None:
    """Settings that may not be read are no settings."""
    description = GroupDescription(GROUP, None, 1, 1)
    assert header(description, group()) == [
        "share group workers: state unknown, 0 members",
        "assignment    none yet, group epoch 1, assignment epoch 1",
    ]
    assert header(description, group(visible=GroupVisible()))[2:] == []
    some = GroupVisible(auto_offset_reset="latest", delivery_count_limit=1, dead_letter=DeadLetter("dlq", None, "why"))
    assert header(description, group(visible=some))[2:] == [
        "reads         new ones from latest",
        "records       1 delivery attempt",
        "dead letters  dlq, depth unknown",
    ]


def test_the_numbers_below_a_picture() -> None:
    """Everything that a closer look found, and nothing that it did not."""
    visible = PartitionVisible(
        log_start_offset=2,
        last_stable_offset=10,
        consumable_lag_min=3,
        consumable_lag_max=6,
        phantom_offsets_min=1,
        phantom_offsets_max=4,
        in_flight=2,
        open_transaction_offsets=2,
        unavailable_offsets=2,
        runs=(StateRun(3, 4, "acquired", 2),),
    )
    assert partitions(group(row(0, 12, visible)), None, ASCII, "~")[:3] == [
        "orders-0  0 !!.>>.....-- 12",
        "  lag 12, 3–6 to consume, 1–4 phantom, 2 held, 2 in an open transaction, 2 deleted by retention",
        "  2 held, 6 without stored state, 2 in an open transaction, 2 deleted",
    ]


def test_long_stretches_and_narrow_terminals() -> None:
    """Nothing wraps, and that the picture is not to scale is said."""
    visible = PartitionVisible(runs=(StateRun(0, 0, "available", 1), StateRun(1, 899, "acknowledged", 1)))
    lines = partitions(group(row(0, 1000, visible), row(1, 0)), 40, ASCII, "~")
    assert lines[0] == "orders-0  0 =" + "#" * 19 + "..." + " 1000"
    assert lines[3] == "orders-1  0 .. 0"
    assert all(len(line) <= 40 for line in lines[:-1])
    assert lines[-1].startswith("long stretches are drawn shorter")


def test_members_fit_the_terminal() -> None:
    """The least important columns go first."""
    description = GroupDescription(GROUP, "Stable", members=(member("worker-with-a-rather-long-name", orders=(0, 1)),))
    of = group(row(0, 5), row(1, 5))
    lines = members(description, judged(description, of), 50, "~")
    assert all(len(line) <= 50 for line in lines)
    assert lines[0].split() == ["MEMBER", "PARTITIONS", "BACKLOG", "SHARE"]
    assert lines[1].split()[1:] == ["orders:0-1", "10", "10"]


def test_each_kind_of_move_in_words() -> None:
    """And what nobody can serve."""
    description = GroupDescription(GROUP, "Stable", members=(member("a", orders=(0,)), member("b", orders=(1,))))
    of = group(row(0, 100), row(1, 0), row(2, 30), row(0, 5, topic="refunds"))
    lines = balance_lines(description, of, judged(description, of), None, "~")
    assert "no member subscribes to refunds, so nobody can serve refunds-0" in lines
    assert "  b serves orders-2, which nobody does now" in lines
    assert "  b serves orders-0 too" in lines


def test_nothing_to_move_is_said() -> None:
    """An even group is told so."""
    description = GroupDescription(GROUP, "Stable", members=(member("a", orders=(0,)), member("b", orders=(1,))))
    of = group(row(0, 10), row(1, 10))
    assert balance_lines(description, of, judged(description, of), None, "~") == [
        "balance: the heaviest share is 1.00 times the mean (1 is even)",
        "no move would make it clearly more even",
    ]
    idle = group(row(0, 0), row(1, 0))
    assert balance_lines(description, idle, judged(description, idle), None, "~")[0] == (
        "balance: nothing to compare, no member serves a partition with a backlog"
    )
