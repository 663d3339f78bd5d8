"""`shareproxy offsets migrate` and `rollback`: shown first, done only with --execute, refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from shareproxy.admin.errors import AccessDenied
from shareproxy.admin.results import AlteredOffset, AlterResult, OffsetPlan, PlannedOffset
from shareproxy.cli import connect
from shareproxy.cli.main import app
from shareproxy.drain import migration
from shareproxy.drain import rollback as rollback_module
from shareproxy.drain.migration import MigrationPlan, MigrationResult
from shareproxy.drain.rollback import RollbackPlan, RollbackRow
from shareproxy.lag.model import GroupError
from shareproxy.protocol.ids import GroupId
from tests.cli.fake_admin import TOPIC_ID

ROW: Final = PlannedOffset("orders", TOPIC_ID, 0, new_offset=6, log_start=6, end=9, note="it begins at 6")
OFFSETS: Final = OffsetPlan(GroupId("s"), None, True, (ROW,))
PLAN: Final = MigrationPlan(
    "s", "c", "earliest", "latest", {("orders", 0): 4}, OFFSETS, (("orders", 1),), ("order is lost",)
)
ALTERED: Final = AlterResult(GroupId("s"), True, (AlteredOffset("orders", 0, 6),))
BACK: Final = RollbackPlan(
    "s",
    "c",
    (RollbackRow("orders", 0, 6, 4, 6, 9, 2), RollbackRow("orders", 1, None, 3, note="the share group has not begun")),
    ("2 offsets come again",),
)

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command whose plan and result are given."""

    def run(*arguments: str, plan: Any = None, result: Any = None) -> Result:
        async def planned(*_: object, **given: object) -> Any:
            run.asked.append(given)  # type: ignore[attr-defined]
            return plan

        async def done(*_: object, **given: object) -> Any:
            if isinstance(result, Exception):
                raise result
            assert result is not None, "it was carried out"
            return result

        def ask(settings: object, question: Any) -> Any:
            import asyncio

            return asyncio.run(question(None))

        monkeypatch.setattr(connect, "ask_cluster", ask)
        monkeypatch.setattr(migration, "plan_migration", planned)
        monkeypatch.setattr(migration, "migrate", done)
        monkeypatch.setattr(rollback_module, "plan_rollback", planned)
        monkeypatch.setattr(rollback_module, "roll_back", done)
        return CliRunner().invoke(app, ["offsets", *arguments, "--bootstrap-server", "localhost:9"])

    run.asked = []  # type: ignore[attr-defined]
    return run


def test_a_migration_is_shown_first(run: Run) -> None:
    """What is taken over, what changes, and what to add to do it."""
    result = run("migrate", "s", "--from-group", "c", "--auto-offset-reset", "earliest", plan=PLAN)
    assert result.exit_code == 0
    assert result.stdout == (
        "TOPIC   PARTITION  COMMITTED  START-OFFSET  NEW-OFFSET  LOG-START  END-OFFSET  NEW-LAG\n"
        "orders          0          4             -           6          6           9        3\n"
    )
    assert result.stderr == (
        "shareproxy: orders-0: it begins at 6\n"
        "shareproxy: warning: order is lost\n"
        "shareproxy: s: would begin where c is, with lag 3; there is no group of this name, Kafka would make it; "
        "share.auto.offset.reset would be earliest, it is latest\n"
        "shareproxy: nothing was changed; add --execute to do it\n"
    )


def test_a_migration_is_done_with_execute(run: Run) -> None:
    """And told row by row."""
    done = MigrationResult("earliest", ALTERED)
    result = run("migrate", "s", "--from-group", "c", "--execute", plan=PLAN, result=done)
    assert result.exit_code == 0
    assert "s: share.auto.offset.reset is earliest\n" in result.stderr
    assert result.stderr.endswith("s: 1 of 1 start offsets taken over from c; the group is new\n")


@pytest.mark.parametrize(("code", "exit_code"), [(7, 1), (29, 4)])
def test_a_row_that_the_brokers_refuse_is_told(run: Run, code: int, exit_code: int) -> None:
    """The exit code says what it was."""
    row = AlteredOffset("orders", 0, 6, GroupError(code, "NAME", "it was refused"))
    done = MigrationResult(None, AlterResult(GroupId("s"), False, (row,)))
    result = run("migrate", "s", "--from-group", "c", "--execute", plan=PLAN, result=done)
    assert result.exit_code == exit_code
    assert "orders-0: it was refused" in result.stderr
    assert "0 of 1 start offsets" in result.stderr


def test_a_refused_migration_changes_nothing(run: Run) -> None:
    """Although --execute was given."""
    plan = MigrationPlan("s", "c", refusals=("Kafka 4.1 cannot",))
    result = run("migrate", "s", "--from-group", "c", "--execute", plan=plan)
    assert result.exit_code == 1
    assert result.stderr == "shareproxy: Kafka 4.1 cannot\nshareproxy: s: nothing was changed\n"


def test_a_migration_as_json_and_csv(run: Run) -> None:
    """Every key is there."""
    result = run("migrate", "s", "--from-group", "c", "-o", "json", plan=PLAN)
    document = json.loads(result.stdout)
    assert (document["executed"], document["result"], document["accepted"]) == (False, None, True)
    assert document["rows"][0]["committed_offset"] == 4
    result = run("migrate", "s", "--from-group", "c", "-o", "csv", plan=PLAN)
    assert result.stdout.splitlines()[1] == "orders,0,4,,6,6,9,3,"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --from-group, --auto-offset-reset, or both"),
        (["--auto-offset-reset", "earliest", "--topic", "t"], "--topic goes with --from-group"),
    ],
)
def test_wrong_usage_of_migrate(run: Run, arguments: list[str], words: str) -> None:
    """Nobody is asked."""
    result = run("migrate", "s", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert run.asked == []  # type: ignore[attr-defined]


def test_a_rollback_is_shown_first(run: Run) -> None:
    """Where the consumer group would go on, and what it is given again."""
    result = run("rollback", "s", "--to-group", "c", plan=BACK)
    assert result.exit_code == 0
    assert result.stdout == (
        "TOPIC   PARTITION  START-OFFSET  COMMITTED  NEW-OFFSET  END-OFFSET  AGAIN\n"
        "orders          0             6          4           6           9      2\n"
        "orders          1             -          3           -           -      -\n"
    )
    assert result.stderr == (
        "shareproxy: orders-1: the share group has not begun\n"
        "shareproxy: warning: 2 offsets come again\n"
        "shareproxy: c: would go on where s is, in 1 of 2 partitions\n"
        "shareproxy: nothing was changed; add --execute to do it\n"
    )


def test_a_rollback_is_done_with_execute(run: Run) -> None:
    """And said in one line."""
    result = run("rollback", "s", "--to-group", "c", "--execute", plan=BACK, result=BACK)
    assert result.exit_code == 0
    assert result.stderr.endswith("c: 1 of 1 offsets committed\n")


def test_a_rollback_that_failed_in_part_says_where(run: Run) -> None:
    """With exit code 1."""
    failed = RollbackPlan("s", "c", (RollbackRow("orders", 0, 6, 4, 6, 9, 2, error="it was refused"),))
    result = run("rollback", "s", "--to-group", "c", "--execute", "-o", "json", plan=BACK, result=failed)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["executed"] is False
    assert "orders-0: it was refused" in result.stderr


def test_a_rollback_without_a_right_on_a_topic_ends_with_not_authorised(run: Run) -> None:
    """As a migration does, and as --help says."""
    row = RollbackRow("orders", 0, 6, 4, 6, 9, 2, error="READ is needed", denied=True)
    failed = RollbackPlan("s", "c", (row,))

    result = run("rollback", "s", "--to-group", "c", "--execute", "-o", "json", plan=BACK, result=failed)

    assert result.exit_code == 4
    assert "denied" not in result.stdout


def test_a_rollback_with_nothing_to_commit_is_done(run: Run) -> None:
    """A script may run it twice."""
    plan = RollbackPlan("s", "c", (RollbackRow("orders", 0, 6, 6, None, 9, 0, "the consumer group is there already"),))
    result = run("rollback", "s", "--to-group", "c", "--execute", plan=plan, result=plan)
    assert result.exit_code == 0
    assert result.stderr.endswith("shareproxy: c: there is nothing to commit\n")


def test_a_refused_rollback_changes_nothing(run: Run) -> None:
    """The reason is said."""
    plan = RollbackPlan("s", "c", (), refusals=("the group has a member",))
    result = run("rollback", "s", "--to-group", "c", "--execute", plan=plan)
    assert result.exit_code == 1
    assert result.stderr == "shareproxy: the group has a member\nshareproxy: c: nothing was changed\n"


def test_a_missing_right_has_its_exit_code(run: Run) -> None:
    """As with every command."""
    result = run("rollback", "s", "--to-group", "c", "--execute", plan=BACK, result=AccessDenied("READ is needed", 30))
    assert result.exit_code == 4
    assert "READ is needed" in result.stderr
