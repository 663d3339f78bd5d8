"""`shareproxy lag`: what it prints and which code it ends with, for a given report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from shareproxy.cli import connect
from shareproxy.cli.main import app
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Source, Status
from shareproxy.protocol.ids import GroupId, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
KNOWN = PartitionLag("orders", TOPIC_ID, 0, 2, 11, 5, 2, 7, Source.SUMMARY, True)
UNKNOWN = PartitionLag("orders", TOPIC_ID, 1, status=Status.NO_START_OFFSET)
HALF_KNOWN = GroupLag(GroupId("workers"), "Stable", None, (KNOWN, UNKNOWN))


def run(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], *groups: GroupLag) -> tuple[int, str, str]:
    """Run the command on a report; returns exit code, stdout and stderr."""
    report = LagReport("cluster", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), groups)
    monkeypatch.setattr(connect, "ask_engine", lambda settings, question: report)
    result = CliRunner().invoke(app, ["lag", "--bootstrap-server", "b:9092", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_table_shows_unknown_as_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows on stdout; the sum with its completeness on stderr."""
    code, out, err = run(monkeypatch, ["workers"], HALF_KNOWN)
    assert code == 0
    assert out == (
        "GROUP    TOPIC   PARTITION  START-OFFSET  END-OFFSET  LAG  STATUS\n"
        "workers  orders          0             2          11    7  ok\n"
        "workers  orders          1             -           -    -  no_start_offset\n"
    )
    assert err == "shareproxy: workers: lag 7 in 1 of 2 partitions; unknown for 1\n"


def test_json_is_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is null, and the documented keys are all there."""
    code, out, _ = run(monkeypatch, ["workers", "--output", "json"], HALF_KNOWN)
    assert code == 0
    document = json.loads(out)
    assert document["groups"][0]["lag"] == 7
    assert document["groups"][0]["complete"] is False
    assert [row["lag"] for row in document["groups"][0]["partitions"]] == [7, None]
    assert document["time"].startswith("2026-01-02T03:04:05")


def test_csv_leaves_unknown_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spreadsheet sees no number where there is none."""
    _, out, _ = run(monkeypatch, ["workers", "-o", "csv"], HALF_KNOWN)
    assert out.splitlines() == [
        "group,topic,partition,start_offset,end_offset,lag,status",
        "workers,orders,0,2,11,7,ok",
        "workers,orders,1,,,,no_start_offset",
    ]


@pytest.mark.parametrize(("error_code", "exit_code"), [(69, 1), (30, 4), (29, 4)])
def test_a_group_without_an_answer_is_said(monkeypatch: pytest.MonkeyPatch, error_code: int, exit_code: int) -> None:
    """The sentence goes to stderr and the exit code tells a missing right from a missing group."""
    group = GroupLag(GroupId("nope"), None, GroupError(error_code, "NAME", "nope is not there"))
    assert run(monkeypatch, ["nope"], group) == (exit_code, "", "shareproxy: nope is not there\n")


def test_a_group_of_which_nothing_is_known_has_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is said as unknown, never as lag 0, and the exit code is "no"."""
    group = GroupLag(GroupId("workers"), "Empty", None, (UNKNOWN,))
    code, _, err = run(monkeypatch, ["workers"], group)
    assert code == 1
    assert err == "shareproxy: workers: lag is unknown in all 1 partitions; orders-1 has the status no_start_offset\n"


def test_no_share_group_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cluster is an answer."""
    code, out, err = run(monkeypatch, ["--all-groups"])
    assert (code, out) == (0, "")
    assert "no share group" in err


@pytest.mark.parametrize("arguments", [[], ["workers", "--all-groups"]])
def test_groups_or_all_of_them(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """One of the two has to be said, and not both."""
    code, _, err = run(monkeypatch, arguments)
    assert code == 2
    assert "--all-groups" in err


def test_no_broker_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the three ways to name one."""
    monkeypatch.delenv("SHAREPROXY_BOOTSTRAP_SERVER", raising=False)
    result = CliRunner().invoke(app, ["lag", "workers"])
    assert result.exit_code == 2
    for way in ("--bootstrap-server", "SHAREPROXY_BOOTSTRAP_SERVER", "bootstrap_server"):
        assert way in result.stderr
