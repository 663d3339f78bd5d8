"""`shareproxy offsets`: shown first, done only with --execute, refused with the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import pytest

from shareproxy.admin.errors import AdminError, GroupNotEmpty, NotAShareGroup
from shareproxy.admin.results import (
    AlteredOffset,
    AlterResult,
    DeletedTopic,
    DeleteResult,
    OffsetPlan,
    PlannedOffset,
    ShareOffset,
)
from shareproxy.admin.targets import Earliest, Latest, Shift, Target, ToOffset, ToTime
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import TOPIC_ID, FakeAdmin, report, run

GROUP: Final = GroupId("workers")
ROWS: Final = (
    PlannedOffset("orders", TOPIC_ID, 0, start_offset=7, new_offset=2, log_start=2, end=11, lag=4),
    PlannedOffset("orders", TOPIC_ID, 1, new_offset=0, log_start=0, end=4, note="there is no start offset yet"),
)
PLAN: Final = OffsetPlan(GROUP, "Empty", False, ROWS)
LAG: Final = report(GroupLag(GROUP, "Empty", None, (PartitionLag("orders", TOPIC_ID, 0, 7, 11, lag=4),)))
ALTERED: Final = AlterResult(GROUP, False, (AlteredOffset("orders", 0, 2), AlteredOffset("orders", 1, 0)))
EMPTY: Final = GroupDescription(GROUP, "Empty")
BUSY: Final = GroupDescription(GROUP, "Stable", members=(Member("m", "c", "/h", None, 1, ("orders",), ()),))
STATE: Final = (ShareOffset("orders", TOPIC_ID, 0, 7), ShareOffset("payments", TOPIC_ID, 0, 1))


def test_a_reset_is_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after, per partition and for the lag; nothing is changed."""
    admin = FakeAdmin(LAG, plan=PLAN)
    result = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-earliest")
    assert result.exit_code == 0
    assert result.stdout == (
        "TOPIC   PARTITION  START-OFFSET  NEW-OFFSET  LOG-START  END-OFFSET  LAG  NEW-LAG\n"
        "orders          0             7           2          2          11    4        9\n"
        "orders          1             -           0          0           4    -        4\n"
    )
    assert result.stderr == (
        "shareproxy: orders-1: there is no start offset yet\n"
        "shareproxy: workers: lag here would go from unknown to 13; 5 done or passed offsets are delivered again; "
        "what is skipped in 1 partition without a start offset is not known\n"
        "shareproxy: nothing was changed; add --execute to do it\n"
    )
    assert admin.asked("alter_offsets") == []


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        # forward over what waits, back over what is done, and where it stands
        ([(0, 5, 5)], "lag here would go from 5 to 0; 5 waiting offsets are skipped and never delivered"),
        ([(4, 1, 5)], "lag here would go from 1 to 0; 1 waiting offset is skipped and never delivered"),
        ([(4, 1, 0)], "lag here would go from 1 to 5; 4 done or passed offsets are delivered again"),
        ([(4, 1, 4)], "lag here would go from 1 to 1"),
        # the stored start lags behind: which offsets behind it are done is not known
        (
            [(0, 4, 4)],
            "lag here would go from 4 to 1; 3–4 waiting offsets are skipped and never delivered; "
            "up to 1 done or passed offset is delivered again",
        ),
        # several partitions are added up
        (
            [(0, 5, 5), (0, 5, 3), (3, 2, 1)],
            "lag here would go from 12 to 6; 8 waiting offsets are skipped and never "
            "delivered; 2 done or passed offsets are delivered again",
        ),
    ],
)
def test_the_effect_is_counted(monkeypatch: pytest.MonkeyPatch, moves: list[tuple[int, int, int]], words: str) -> None:
    """How much no consumer will be given any more, and how much a second time; each log ends at 5."""
    rows = tuple(
        PlannedOffset("orders", TOPIC_ID, partition, start, new, 0, 5, lag=lag)
        for partition, (start, lag, new) in enumerate(moves)
    )
    admin = FakeAdmin(LAG, plan=OffsetPlan(GROUP, "Empty", False, rows))
    result = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-latest")
    assert result.stderr.splitlines()[0] == f"shareproxy: workers: {words}"


def test_execute_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the very offsets that were shown."""
    admin = FakeAdmin(LAG, plan=PLAN, altered=ALTERED)
    result = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-earliest", "--execute")
    assert result.exit_code == 0
    assert admin.asked("alter_offsets") == [{("orders", 0): 2, ("orders", 1): 0}]
    assert result.stderr.endswith("workers: 2 of 2 start offsets moved\n")


def test_a_plan_with_a_refusal_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the part of it that would be possible; every reason is said."""
    refused = PlannedOffset(
        "orders", TOPIC_ID, 1, new_offset=9, log_start=0, end=4, refusal="orders-1: 9 is past the end"
    )
    plan = OffsetPlan(GROUP, "Stable", False, (ROWS[0], refused), ("the group has 1 member; stop it first",))
    admin = FakeAdmin(LAG, plan=plan)
    result = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-offset", "9", "--execute")
    assert result.exit_code == 1
    assert result.stderr == (
        "shareproxy: the group has 1 member; stop it first\n"
        "shareproxy: orders-1: 9 is past the end\n"
        "shareproxy: workers: nothing was changed\n"
    )
    assert admin.asked("alter_offsets") == []


@pytest.mark.parametrize(("code", "exit_code"), [(7, 1), (29, 4)])
def test_a_broker_may_still_refuse(monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int) -> None:
    """Row by row; the count says how far it went."""
    rows = (ALTERED.rows[0], AlteredOffset("orders", 1, 0, GroupError(code, "NAME", "the broker said no")))
    admin = FakeAdmin(LAG, plan=PLAN, altered=AlterResult(GROUP, True, rows))
    result = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-earliest", "--execute")
    assert result.exit_code == exit_code
    assert "orders-1: the broker said no\n" in result.stderr
    assert result.stderr.endswith("workers: 1 of 2 start offsets moved; the group is new\n")


@pytest.mark.parametrize("error", [GroupNotEmpty("stop it first"), NotAShareGroup("use Kafka's own tool")])
def test_a_refusal_of_the_whole_is_a_sentence(monkeypatch: pytest.MonkeyPatch, error: AdminError) -> None:
    """And exit code 1."""
    result = run(monkeypatch, FakeAdmin(LAG, plan=error), "offsets", "reset", "workers", "--to-latest")
    assert (result.exit_code, result.stderr) == (1, f"shareproxy: {error}\n")


def test_a_new_group_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in the name must not pass unnoticed."""
    plan = OffsetPlan(GROUP, None, True, ROWS[:1])
    result = run(monkeypatch, FakeAdmin(LAG, plan=plan), "offsets", "reset", "workers", "--to-earliest")
    assert "there is no group of this name, Kafka would make it\n" in result.stderr


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        (["--to-earliest"], Earliest()),
        (["--to-latest"], Latest()),
        (["--to-offset", "5"], ToOffset(5)),
        (["--shift-by", "-5"], Shift(-5)),
        (["--to-datetime", "2026-01-31T08:00"], ToTime(datetime(2026, 1, 31, 8, tzinfo=UTC))),
        (
            ["--to-datetime", "2026-01-31T08:00:00+01:00"],
            ToTime(datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=1)))),
        ),
    ],
)
def test_where_to(monkeypatch: pytest.MonkeyPatch, flags: list[str], target: Target) -> None:
    """Each flag is one target; a time without a zone is UTC."""
    admin = FakeAdmin(LAG, plan=PLAN)
    run(monkeypatch, admin, "offsets", "reset", "workers", *flags)
    assert admin.asked("plan_offsets") == [(target, None)]


def test_topics_and_partitions_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same topic may be named twice; without a list it is all of it."""
    admin = FakeAdmin(LAG, plan=PLAN)
    flags = ["--topic", "orders:1", "--topic", "orders:0,1", "--topic", "payments:2", "--topic", "payments"]
    run(monkeypatch, admin, "offsets", "reset", "workers", "--to-latest", *flags)
    assert admin.asked("plan_offsets")[0][1] == {"orders": [0, 1], "payments": None}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give one of --to-earliest"),
        (["--to-earliest", "--to-latest"], "give one of --to-earliest"),
        (["--to-offset", "0", "--shift-by", "1"], "give one of --to-earliest"),
        (["--to-offset", "-1"], "--shift-by goes back"),
        (["--to-offset", "first"], "'first' is not a valid integer"),
        (["--to-datetime", "yesterday"], "2026-01-31T08:00:00+01:00"),
        (["--to-latest", "--topic", "orders:"], "orders:0,1 for two partitions"),
        (["--to-latest", "--topic", ":0"], "orders:0,1 for two partitions"),
        (["--to-latest", "--topic", "orders:one"], "orders:0,1 for two partitions"),
        (["--to-latest", "--topic", "orders:-1"], "orders:0,1 for two partitions"),
    ],
)
def test_wrong_usage(monkeypatch: pytest.MonkeyPatch, flags: list[str], words: str) -> None:
    """Said before anything is asked."""
    admin = FakeAdmin(LAG, plan=PLAN)
    result = run(monkeypatch, admin, "offsets", "reset", "workers", *flags)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not admin.calls


def test_a_plan_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON says whether it was done; CSV has the table's columns."""
    admin = FakeAdmin(LAG, plan=PLAN, altered=ALTERED)
    dry = json.loads(run(monkeypatch, admin, "offsets", "reset", "workers", "--to-earliest", "-o", "json").stdout)
    assert (dry["accepted"], dry["executed"], dry["result"]) == (True, False, None)
    assert (dry["rows"][0]["lag"], dry["rows"][0]["new_lag"], dry["rows"][1]["lag"]) == (4, 9, None)
    flags = ["--to-earliest", "--execute", "-o", "json"]
    done = json.loads(run(monkeypatch, admin, "offsets", "reset", "workers", *flags).stdout)
    assert done["executed"] is True
    lines = run(monkeypatch, admin, "offsets", "reset", "workers", "--to-earliest", "-o", "csv").stdout.splitlines()
    assert lines[0] == "topic,partition,start_offset,new_offset,log_start,end,lag,new_lag,refusal"
    assert lines[2] == "orders,1,,0,0,4,,4,"


def deletion(*looks: object, described: GroupDescription = EMPTY, code: int = 0) -> FakeAdmin:
    """A group with state of two topics."""
    error = GroupError(code, "NAME", "the broker said no") if code else None
    return FakeAdmin(
        LAG, descriptions=[described], offsets=STATE, deleted=DeleteResult(GROUP, (DeletedTopic("orders", error),))
    )


def test_a_deletion_is_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what would be lost."""
    admin = deletion()
    result = run(monkeypatch, admin, "offsets", "delete", "workers", "--topic", "orders")
    assert result.exit_code == 0
    assert result.stdout == "TOPIC   PARTITION  START-OFFSET  LAG\norders          0             7    4\n"
    assert "would forget 1 partition with 4 waiting offsets" in result.stderr
    assert result.stderr.endswith("nothing was changed; add --execute to do it\n")
    assert admin.asked("delete_offsets") == []


def test_execute_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic once."""
    admin = deletion()
    flags = ["--topic", "orders", "--topic", "orders", "--execute"]
    result = run(monkeypatch, admin, "offsets", "delete", "workers", *flags)
    assert (result.exit_code, result.stderr) == (0, "shareproxy: workers: 1 of 1 topics forgotten\n")
    assert admin.asked("delete_offsets") == [("orders",)]


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_a_group_with_members_is_refused(monkeypatch: pytest.MonkeyPatch, execute: list[str]) -> None:
    """Also by the dry run, which would promise too much otherwise."""
    admin = deletion(described=BUSY)
    result = run(monkeypatch, admin, "offsets", "delete", "workers", "--topic", "orders", *execute)
    assert result.exit_code == 1
    assert "workers: has 1 member, and Kafka changes only groups without" in result.stderr
    assert admin.asked("delete_offsets") == []


def test_a_topic_without_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka would say nothing; the name may be wrong."""
    admin = deletion()
    flags = ["--topic", "orders", "--topic", "refunds", "--execute"]
    result = run(monkeypatch, admin, "offsets", "delete", "workers", *flags)
    assert result.exit_code == 1
    assert "workers: has no state of 'refunds'" in result.stderr
    assert admin.asked("delete_offsets") == []


@pytest.mark.parametrize(("code", "exit_code"), [(69, 1), (30, 4)])
def test_a_group_that_cannot_be_seen(monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int) -> None:
    """Missing and hidden have different exit codes."""
    described = GroupDescription(GROUP, error=GroupError(code, "NAME", "no such group"))
    result = run(monkeypatch, deletion(described=described), "offsets", "delete", "workers", "--topic", "orders")
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", "shareproxy: no such group\n")


def test_nobody_who_answers_for_a_group_is_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a reset; what to try is said."""
    described = GroupDescription(GROUP, error=GroupError(7, "REQUEST_TIMED_OUT", "b:9092: connection refused"))
    result = run(monkeypatch, deletion(described=described), "offsets", "delete", "workers", "--topic", "orders")
    assert result.exit_code == 3
    assert result.stderr == (
        "shareproxy: b:9092: connection refused; check that the brokers run, and --bootstrap-server\n"
    )


def test_a_broker_may_refuse_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are passed on."""
    result = run(monkeypatch, deletion(code=29), "offsets", "delete", "workers", "--topic", "orders", "--execute")
    assert result.exit_code == 4
    assert result.stderr == "shareproxy: orders: the broker said no\nshareproxy: workers: 0 of 1 topics forgotten\n"


def test_a_deletion_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON says whether it was done."""
    call = ("offsets", "delete", "workers", "--topic", "orders", "-o")
    document = json.loads(run(monkeypatch, deletion(), *call, "json").stdout)
    assert document["rows"] == [{"topic": "orders", "partition": 0, "start_offset": 7, "lag": 4}]
    assert document["executed"] is False
    lines = run(monkeypatch, deletion(), *call, "csv").stdout.splitlines()
    assert lines == ["topic,partition,start_offset,lag", "orders,0,7,4"]


def test_the_topic_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody deletes everything by forgetting a flag."""
    assert run(monkeypatch, deletion(), "offsets", "delete", "workers", "--execute").exit_code == 2
