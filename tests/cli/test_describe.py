"""`shareproxy describe`: the page for a given group."""

from __future__ import annotations

import json

import pytest

from shareproxy.lag.descriptions import AssignedTopic, GroupDescription, Member
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Source, Status
from shareproxy.lag.visible_model import DeadLetter, DeliveryCount, GroupVisible, PartitionVisible, StateRun, Want
from shareproxy.protocol.ids import GroupId, NodeId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report, run

GROUP = GroupId("workers")


def member(name: str, *partitions: int) -> Member:
    """A member that serves partitions of `orders`."""
    assignment = (AssignedTopic("orders", TOPIC_ID, partitions),)
    return Member(f"{name}-id", name, "/10.0.0.7", None, 4, ("orders",), assignment)


DESCRIPTION = GroupDescription(
    GROUP, "Stable", 4, 4, "simple", NodeId(1), (member("worker-1", 0, 1, 2, 4), member("worker-2", 3))
)
DRAWN = PartitionLag(
    *("orders", TOPIC_ID, 0, 0, 11, 5, 4, 7, Source.SUMMARY, True),
    visible=PartitionVisible(
        log_start_offset=0,
        last_stable_offset=11,
        consumable_lag=7,
        phantom_offsets=0,
        open_transaction_offsets=0,
        unavailable_offsets=0,
        in_flight=0,
        oldest_record_age_seconds=75,
        delivery_counts=(DeliveryCount(1, 2), DeliveryCount(4, 1), DeliveryCount(0, 4)),
        runs=(
            StateRun(0, 1, "acknowledged", 1),
            StateRun(2, 3, "available", 1),
            StateRun(4, 4, "available", 4),
            StateRun(5, 5, "acknowledged", 1),
            StateRun(6, 6, "archived", 1),
        ),
    ),
)
UNKNOWN = PartitionLag(
    "orders", TOPIC_ID, 3, end_offset=5, status=Status.NO_START_OFFSET, visible=PartitionVisible(projected_lag=5)
)
SETTINGS = GroupVisible(
    "read_uncommitted", "earliest", 5, 30000, 2000, DeadLetter("orders-dlq", 3), ("the age is not known",)
)
FOUND = report(GroupLag(GROUP, "Stable", None, (DRAWN, UNKNOWN), SETTINGS))
PAGE = """\
share group workers: Stable, 2 members
lag 7 in 1 of 2 partitions; unknown for 1 (5 once a first member starts); of the known lag 7 waiting
coordinator   broker 1
assignment    simple, group epoch 4, assignment epoch 4
reads         read_uncommitted, new ones from earliest
records       held for 30 s, 2000 at a time in a partition, 5 delivery attempts
dead letters  orders-dlq, holds 3 offsets

MEMBER    HOST      EPOCH  SUBSCRIBED  PARTITIONS    BACKLOG  SHARE
worker-1  10.0.0.7      4  orders      orders:0-2,4       7+     7+
worker-2  10.0.0.7      4  orders      orders:3           0+     0+

orders-0  0 ██▒▒▒█■░░░░ 11
  lag 7, 7 to consume, oldest 1m 15s
  3 acknowledged, 3 given back, 4 without stored state, 1 archived
  deliveries: 2 offsets once, 1 offset 4 times
orders-3  - .. 5
  lag unknown (no_start_offset), 5 once a first member starts

█ acknowledged
▒ given back, to be delivered again
░ nothing stored yet: not delivered, or delivered and not answered
■ archived: rejected, or tried too often

! orders-0: 1 offset delivered 4 times or more of 5 (from 4 on); the next failure archives it
! worker-1 has 2.0 times the mean share of the backlog; --balance shows what would even it out
"""


def cluster(found: LagReport = FOUND, description: GroupDescription = DESCRIPTION) -> FakeAdmin:
    """One group."""
    return FakeAdmin(found, descriptions=[description])


def test_the_whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Header, members, pictures, legend, hints; what is not known is on stderr."""
    admin = cluster()
    result = run(monkeypatch, admin, "describe", "workers")
    assert result.exit_code == 0
    assert result.stdout == PAGE
    assert result.stderr == (
        "shareproxy: orders-3: nothing was acknowledged here yet; lag is known from the first acknowledgement on\n"
        "shareproxy: workers: the age is not known\n"
    )
    assert admin.asked("lag")[0]["want"] == Want.ALL


def test_plain_signs_where_nothing_else_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII terminal gets an ASCII picture."""
    monkeypatch.setattr("shareproxy.cli.tables.speaks_unicode", lambda: False)
    result = run(monkeypatch, cluster(), "describe", "workers")
    assert "orders-0  0 ##===#x.... 11\n" in result.stdout
    assert result.stdout.isascii()


def test_balance_shows_what_an_assignor_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves in words, loads before and after, and what they assume."""
    rows = tuple(PartitionLag("orders", TOPIC_ID, number, 0, 40, lag=lag) for number, lag in enumerate([40, 40, 0, 0]))
    result = run(
        monkeypatch, cluster(report(GroupLag(GROUP, "Stable", None, rows))), "describe", "workers", "--balance"
    )
    section = result.stdout[result.stdout.index("balance:") :]
    assert section.startswith(
        "balance: the heaviest share is 2.00 times the mean (1 is even)\n"
        "1 partition with an unknown backlog left out\n"
        "what an assignor that knows the backlog would change (advice only, Kafka assigns):\n"
        "  worker-2 serves orders-0 instead of worker-1\n"
        "\n"
        "MEMBER    PARTITIONS  SHARE  PARTITIONS-AFTER  SHARE-AFTER\n"
        "worker-1           4     80                 3           40\n"
        "worker-2           1      0                 2           40\n"
    )


def test_an_empty_group_has_a_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is when nobody works that people look."""
    description = GroupDescription(GROUP, "Empty", 5, 5, None, NodeId(1))
    result = run(monkeypatch, cluster(description=description), "describe", "workers", "--balance")
    assert result.stdout.startswith("share group workers: Empty, 0 members\n")
    assert "assignment    none yet, group epoch 5" in result.stdout
    assert "balance: nothing to compare, nobody is in the group\n" in result.stdout


def test_partitions_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header stays that of the whole group; a choice of nothing is said."""
    result = run(monkeypatch, cluster(), "describe", "workers", "--topic", "orders:3")
    assert "orders-0  " not in result.stdout
    assert "orders-3  - .. 5\n" in result.stdout
    result = run(monkeypatch, cluster(), "describe", "workers", "--topic", "refunds")
    assert "workers: none of its partitions is among those named with --topic\n" in result.stderr
    assert result.exit_code == 1
    assert run(monkeypatch, cluster(), "describe", "workers", "--topic", "orders:x").exit_code == 2


def test_without_the_right_to_read_state_there_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is left out, the reason is said."""
    note = "its states are not known: grant CLUSTER_ACTION on the cluster"
    row = PartitionLag("orders", TOPIC_ID, 0, 2, 11, lag=7, visible=PartitionVisible(notes=(note,)))
    result = run(monkeypatch, cluster(report(GroupLag(GROUP, "Stable", None, (row,)))), "describe", "workers")
    assert result.exit_code == 0
    assert "orders-0  2 .. 11\n  lag 7\n" in result.stdout
    assert result.stderr == f"shareproxy: orders-0: {note}\n"


def test_a_group_without_partitions_has_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a sentence on why there are no partitions."""
    error = GroupError(0, "NOTHING_INITIALIZED", "share group 'workers' has no initialized partition")
    result = run(monkeypatch, cluster(report(GroupLag(GROUP, "Stable", error))), "describe", "workers")
    assert result.exit_code == 0
    assert "worker-1" in result.stdout
    assert "has no initialized partition" in result.stderr


@pytest.mark.parametrize(("code", "exit_code"), [(69, 1), (30, 4)])
def test_a_group_that_cannot_be_described(monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int) -> None:
    """Missing and hidden have different exit codes."""
    description = GroupDescription(GROUP, error=GroupError(code, "NAME", "not to be seen"))
    result = run(monkeypatch, cluster(description=description), "describe", "workers")
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", "shareproxy: not to be seen\n")


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balance only where it was asked for."""
    document = json.loads(run(monkeypatch, cluster(), "describe", "workers", "-o", "json").stdout)
    assert set(document) == {"cluster_id", "time", "description", "lag", "hints"}
    assert document["lag"]["partitions"][0]["runs"][2]["delivery_count"] == 4
    assert document["description"]["members"][0]["client_id"] == "worker-1"
    document = json.loads(run(monkeypatch, cluster(), "describe", "workers", "--balance", "-o", "json").stdout)
    assert document["balance"]["before"][0]["reach"] == 7


def test_exactly_one_group_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is a page."""
    assert run(monkeypatch, cluster(), "describe").exit_code == 2
    assert run(monkeypatch, cluster(), "describe", "a", "b").exit_code == 2
