"""Each command has one deadline, however many questions it asks and however late they are answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from shareproxy.admin.results import AlteredOffset, AlterResult, DeletedTopic, DeleteResult, OffsetPlan, ShareOffset
from shareproxy.admin.results import PlannedOffset as Planned
from shareproxy.cli.main import app
from shareproxy.lag.consumer_model import ConsumerGroupLag
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.listings import GroupListing, ListedGroup
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.testing import SimulatedCluster
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report, run

G, OTHER = GroupId("g"), GroupId("other")
ROW = PartitionLag("t", TOPIC_ID, 0, 0, 10, lag=10)


def hanging() -> FakeAdmin:
    """A share group and a consumer group of a cluster that answers everything at the last moment."""
    return FakeAdmin(
        report(
            GroupLag(G, "Empty", None, (ROW,)),
            GroupLag(OTHER, None, GroupError(69, "NOT_A_SHARE_GROUP", "other is a consumer group")),
        ),
        consumer_groups=[ConsumerGroupLag(OTHER, "consumer", "Empty")],
        descriptions=[GroupDescription(G, "Empty"), GroupDescription(OTHER, "Empty")],
        listing=GroupListing(
            (ListedGroup(G, "share", "Empty", NodeId(1)), ListedGroup(OTHER, "consumer", "Empty", NodeId(1)))
        ),
        offsets=[ShareOffset("t", TOPIC_ID, 0, 0)],
        plan=OffsetPlan(G, "Empty", False, (Planned("t", TOPIC_ID, 0, 0, 10, 0, 10, lag=10),)),
        altered=AlterResult(G, False, (AlteredOffset("t", 0, 10),)),
        deleted=DeleteResult(G, (DeletedTopic("t"),)),
        hangs=True,
    )


@pytest.mark.parametrize(
    ("command", "questions"),
    [
        ("groups", 4),
        ("groups --state empty", 4),
        ("groups --type all", 4),
        ("describe g", 2),
        ("lag g", 2),
        ("lag g other --visible", 2),
        ("lag --all-groups", 2),
        ("wait g --timeout 0", 2),
        ("wait g --timeout 0 --visible", 2),
        ("offsets reset g --to-latest", 1),
        ("offsets reset g --to-latest --execute", 2),
        ("offsets delete g --topic t", 3),
        ("offsets delete g --topic t --execute", 4),
    ],
)
def test_no_question_outlasts_the_command(command: str, questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come later have what is left of the 3 s of `--timeout`."""
    admin = hanging()
    monkeypatch.delenv("SHAREPROXY_TIMEOUT", raising=False)

    result = run(monkeypatch, admin, *command.split())

    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert len(admin.deadlines) == questions
    assert max(admin.deadlines) <= 3.0 + 0.1  # a question that comes too late has a moment to say so


def test_a_change_has_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes no more than half of it."""
    for command in ("offsets reset g --to-latest --execute", "offsets delete g --topic t --execute"):
        admin = hanging()
        run(monkeypatch, admin, *command.split())
        assert sorted({round(deadline, 6) for deadline in admin.deadlines}) == [1.5, 3.0]


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Three nodes, group `a` on node 1 and group `b` on node 3; node 2 hangs."""
    with SimulatedCluster(nodes=3) as cluster:
        cluster.create_topic("t", 1)
        cluster.produce("t", [0], 10)
        cluster.move_leader("t", 0, 1)
        for group, node in (("a", 1), ("b", 3)):
            cluster.set_share_state(group, "t", 0, start_offset=4, delivery_complete_count=0)
            cluster.move_group_coordinator(group, node)
            cluster.move_share_coordinator(group, "t", 0, node)
        cluster.commit_offsets("c", {"t": {0: 4}})
        cluster.move_group_coordinator("c", 1)
        cluster.freeze_node(2)
        yield cluster


def run_on(cluster: SimulatedCluster, *arguments: str) -> Result:
    """Run a command of little patience on the cluster."""
    return CliRunner().invoke(
        app, [*arguments, "--bootstrap-server", cluster.bootstrap_servers, "--timeout", "1"], catch_exceptions=False
    )


def test_groups_of_living_nodes_have_their_lag(cluster: SimulatedCluster) -> None:
    """The node that hangs takes its part of the time, not that of the others."""
    result = run_on(cluster, "groups", "--type", "all", "--output", "csv")

    assert result.exit_code == 1
    assert [line.split(",")[0:7] for line in result.stdout.splitlines()[1:]] == [
        ["a", "share", "Empty", "0", "1", "1", "6"],
        ["b", "share", "Empty", "0", "1", "1", "6"],
        ["c", "classic", "Empty", "0", "1", "1", "6"],
    ]
    assert result.stderr.count("the groups of broker 2 are missing") == 1


def test_a_consumer_group_that_is_named_has_its_lag(cluster: SimulatedCluster) -> None:
    """It is the second question of the command."""
    result = run_on(cluster, "lag", "c", "-o", "csv")

    assert result.stdout.splitlines()[1:] == ["c,t,0,4,10,6,ok"]
