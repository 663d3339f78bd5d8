"""`shareproxy doctor`: how findings are printed and judged."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from shareproxy.cli import connect
from shareproxy.cli.main import app
from shareproxy.lag.doctor import BrokerCheck, Explanation, SourceCheck
from shareproxy.lag.model import Source
from shareproxy.lag.rights import TopicRights
from shareproxy.protocol.ids import NodeId

BROKER = BrokerCheck(NodeId(1), "kafka", 9092, {"DescribeShareGroupOffsets": 1, "ShareGroupDescribe": None})
HEALTHY = Explanation("cluster", (BROKER,), 1, True, True, (SourceCheck(Source.BROKER, True, "works"),))
NO_RIGHT = Explanation(
    "cluster", (BROKER,), None, True, False, (SourceCheck(Source.SUMMARY, False, "grant CLUSTER_ACTION"),), ("a note",)
)


def run(
    monkeypatch: pytest.MonkeyPatch, found: Explanation, *arguments: str, rights: tuple[TopicRights, ...] = ()
) -> Result:
    """Run the command on given findings."""
    monkeypatch.setattr(connect, "ask_cluster", lambda settings, question: (found, rights))
    return CliRunner().invoke(app, ["doctor", "--bootstrap-server", "b:9092", *arguments])


def test_a_healthy_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line is good, and the exit code says so."""
    result = run(monkeypatch, HEALTHY)
    assert result.exit_code == 0
    assert "[no]" not in result.stdout
    assert "  [ok] broker 1 at kafka:9092: DescribeShareGroupOffsets v1, ShareGroupDescribe -\n" in result.stdout
    assert result.stdout.endswith("lag can be known here\n")


def test_a_missing_right_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right, and what to do about it, are named; the exit code is "no"."""
    result = run(monkeypatch, NO_RIGHT)
    assert result.exit_code == 1
    assert "  [no] the right to read share-group state (CLUSTER_ACTION) is missing\n" in result.stdout
    assert "  [no] --lag-source summary: grant CLUSTER_ACTION\n" in result.stdout
    assert "  [??] a note\n" in result.stdout
    assert "the brokers do not say" in result.stdout


def test_a_broker_out_of_reach_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lag can still be known, but not of everything."""
    gone = BrokerCheck(NodeId(2), "kafka", 9093, problem="kafka:9093 cannot be reached")
    found = Explanation("cluster", (BROKER, gone), 1, True, None, HEALTHY.sources)
    result = run(monkeypatch, found)
    assert result.exit_code == 1
    assert "  [no] broker 2 at kafka:9093: kafka:9093 cannot be reached\n" in result.stdout
    assert "(CLUSTER_ACTION) is unknown" in result.stdout


def test_json_has_the_same_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script reads names, not sentences."""
    document = json.loads(run(monkeypatch, NO_RIGHT, "--output", "json").stdout)
    assert document["cluster_action"] is False
    assert document["sources"][0] == {"source": "summary", "works": False, "sentence": "grant CLUSTER_ACTION"}
    assert document["topics"] == []


@pytest.mark.parametrize(
    ("right", "line", "code"),
    [
        (TopicRights("orders", True, True, True), "  [ok] topic orders: can be read, so a closer look", 0),
        (TopicRights("orders", True, True, False), "  [no] topic orders: can be seen, but not read; for a closer", 0),
        (TopicRights("orders", True, True, None), "  [??] topic orders: can be seen; the brokers do not tell", 0),
        (TopicRights("orders", True, False, False), "  [no] topic orders: hidden; grant DESCRIBE on it", 1),
        (TopicRights("orders", False), "  [no] topic orders: does not exist; check its name", 1),
    ],
)
def test_rights_on_topics(monkeypatch: pytest.MonkeyPatch, right: TopicRights, line: str, code: int) -> None:
    """What a closer look needs is said; only a topic of which nothing can be seen is unhealthy."""
    result = run(monkeypatch, HEALTHY, "--topic", "orders", rights=(right,))
    assert line in result.stdout
    assert result.exit_code == code


def test_rights_are_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """As names and values."""
    right = TopicRights("orders", True, True, False)
    document = json.loads(run(monkeypatch, HEALTHY, "--topic", "orders", "-o", "json", rights=(right,)).stdout)
    assert document["topics"] == [{"topic": "orders", "exists": True, "describe": True, "read": False}]
