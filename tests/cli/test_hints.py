"""What is pointed out about a group."""

from __future__ import annotations

from shareproxy.cli.hints import backlog, backlogs, hints, member_names, serving
from shareproxy.lag.balance import balance
from shareproxy.lag.descriptions import AssignedTopic, GroupDescription, Member
from shareproxy.lag.model import GroupLag, PartitionLag
from shareproxy.lag.visible_model import DeliveryCount, GroupVisible, PartitionVisible, StateRun
from shareproxy.protocol.ids import GroupId, TopicId

TOPIC_ID = TopicId(bytes(16))


def member(name: str, *partitions: int, epoch: int = 3, client: str = "") -> Member:
    """A member that subscribes to `orders` and serves some of its partitions."""
    assignment = (AssignedTopic("orders", TOPIC_ID, partitions),) if partitions else ()
    return Member(f"{name}-0123456789", client or name, "/10.0.0.1", None, epoch, ("orders",), assignment)


def row(number: int, lag: int | None, visible: PartitionVisible | None = None) -> PartitionLag:
    """One partition of `orders`."""
    return PartitionLag("orders", TOPIC_ID, number, 0, lag, lag=lag, visible=visible)


def pointed_out(members: tuple[Member, ...], *rows: PartitionLag, limit: int | None = 5) -> list[str]:
    """Return the hints on a group."""
    description = GroupDescription(GroupId("workers"), "Stable", 3, 3, "simple", members=members)
    group = GroupLag(GroupId("workers"), "Stable", None, rows, GroupVisible(delivery_count_limit=limit))
    return hints(description, group, balance(serving(members), backlogs(group)))


def test_a_healthy_group_has_none() -> None:
    """Hints that always come are read by nobody."""
    visible = PartitionVisible(
        delivery_counts=(DeliveryCount(1, 3),), runs=(StateRun(0, 2, "available", 1),), unavailable_offsets=0
    )
    assert pointed_out((member("a", 0), member("b", 1)), row(0, 3, visible), row(1, 3)) == []


def test_records_one_failure_from_the_end_are_named() -> None:
    """Where the first of them lies, and what comes next."""
    runs = (StateRun(0, 0, "acknowledged", 4), StateRun(1, 1, "available", 1), StateRun(2, 2, "available", 4))
    visible = PartitionVisible(delivery_counts=(DeliveryCount(1, 1), DeliveryCount(4, 1)), runs=runs)
    assert pointed_out((member("a", 0),), row(0, 3, visible)) == [
        "orders-0: 1 offset delivered 4 times or more of 5 (from 2 on); the next failure archives it"
    ]


def test_without_a_known_limit_nothing_is_called_poison() -> None:
    """How many deliveries are many depends on the group's configuration."""
    visible = PartitionVisible(delivery_counts=(DeliveryCount(4, 1),))
    assert pointed_out((member("a", 0),), row(0, 3, visible), limit=None) == []


def test_a_record_that_holds_the_start_back_is_named() -> None:
    """The start offset looks stuck although work goes on behind it."""
    runs = (StateRun(2, 2, "acquired", 3), StateRun(3, 9, "acknowledged", 1))
    one = PartitionLag("orders", TOPIC_ID, 0, 2, 10, lag=1, visible=PartitionVisible(runs=runs))
    assert pointed_out((member("a", 0),), one) == [
        "orders-0: offset 2 was delivered 3 times and holds the start offset back; 7 later offsets are done"
    ]


def test_lost_records_are_named() -> None:
    """Retention was faster than the group."""
    rows = (row(0, 3, PartitionVisible(unavailable_offsets=3)), row(1, 1, PartitionVisible(unavailable_offsets=1)))
    assert pointed_out((member("a", 0, 1),), *rows) == [
        "orders-0, orders-1: retention deleted 4 offsets before they were done"
    ]


def test_partitions_and_members_without_one_another() -> None:
    """Both are named."""
    members = (member("a", 0), member("b"))
    assert pointed_out(members, row(0, 0), row(1, 5)) == [
        "orders-1: has a backlog, but no member serves it",
        "b: in the group, but serves no partition",
    ]
    other = PartitionLag("refunds", TOPIC_ID, 0, 0, 4, lag=4)
    assert pointed_out((member("a", 0),), row(0, 0), other) == [
        "refunds-0: has a backlog, but no member subscribes to its topic"
    ]


def test_an_empty_group_with_a_backlog() -> None:
    """One sentence, not one per partition."""
    assert pointed_out((), row(0, 4), row(1, 4)) == ["nobody is in the group, and 2 partitions have a backlog"]
    assert pointed_out((), row(0, 0)) == []


def test_a_member_behind_the_assignment_is_named() -> None:
    """It may just be slow; the sentence says when to worry."""
    found = pointed_out((member("a", 0), member("b", 1, epoch=2)), row(0, 1), row(1, 1))
    assert len(found) == 1
    assert found[0].startswith("b: not at the newest assignment (epoch 3) yet")


def test_an_uneven_load_is_named() -> None:
    """With the way to more."""
    found = pointed_out((member("a", 0), member("b", 1)), row(0, 90), row(1, 10))
    assert found == ["a has 1.8 times the mean share of the backlog; --balance shows what would even it out"]


def test_members_of_one_client_id_are_told_apart() -> None:
    """By the beginning of the member id."""
    members = (member("a", client="worker"), member("b", client="worker"), member("c"))
    assert list(member_names(members).values()) == ["worker/a-012345", "worker/b-012345", "c"]


def test_backlog_is_what_can_be_consumed_where_that_is_known() -> None:
    """Phantom offsets are nobody's work."""
    assert backlog(row(0, 12, PartitionVisible(consumable_lag=0))) == 0
    assert backlog(row(0, 12, PartitionVisible())) == 12
    assert backlog(row(0, None)) is None
