"""`shareproxy offsets migrate` and `rollback`: from a consumer group to a share group, and back.

In: the names of both groups. Out: what would be done, or with --execute what was.
Must never: change anything without --execute, or what it has not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from shareproxy.cli.changing import DRY_RUN, change_options, first_part
from shareproxy.cli.failures import ExitCode, is_denied, say, with_exit_code
from shareproxy.cli.options import Connection, complete_groups
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from shareproxy.cluster.cluster import Cluster
    from shareproxy.drain.migration import MigrationPlan, MigrationResult
    from shareproxy.drain.rollback import RollbackPlan

MIGRATE_KEYS: Final = (
    *("topic", "partition", "committed_offset", "start_offset", "new_offset", "log_start", "end", "new_lag", "refusal"),
)
ROLLBACK_KEYS: Final = (
    *("topic", "partition", "start_offset", "committed_offset", "new_offset", "end_offset", "again", "note", "error"),
)

_topics = click.option(
    "--topic", "topics", multiple=True, metavar="T", help="Only this topic; may be repeated.  [default: all]"
)


@click.command()
@click.argument("share_group", shell_complete=complete_groups)
@click.option("--from-group", metavar="GROUP", help="Begin where this consumer group has committed.")
@click.option(
    "--auto-offset-reset",
    metavar="WHERE",
    help="Set share.auto.offset.reset: earliest, latest or by_duration:PT1H.",
)
@_topics
@change_options
@with_exit_code
def migrate(
    share_group: str,
    from_group: str | None,
    auto_offset_reset: str | None,
    topics: tuple[str, ...],
    execute: bool,
    output: str,
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """Let SHARE_GROUP begin where a consumer group is, or where --auto-offset-reset says.

    The consumer group is only read. SHARE_GROUP must have no members; Kafka makes one that does not exist.
    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    if from_group is None and auto_offset_reset is None:
        raise ConfigError("give --from-group, --auto-offset-reset, or both")
    if topics and from_group is None:
        raise ConfigError("--topic goes with --from-group; share.auto.offset.reset is one for all topics of a group")
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_cluster
    from shareproxy.cli.time_left import TimeLeft
    from shareproxy.drain import migration

    async def change(cluster: Cluster) -> tuple[MigrationPlan, MigrationResult | None]:
        left = TimeLeft(settings.timeout)
        plan = await migration.plan_migration(
            cluster,
            share_group,
            from_group=from_group,
            reset=auto_offset_reset,
            topics=topics or None,
            timeout=left.seconds(first_part(execute)),
        )
        if not execute or not plan.accepted:
            return plan, None
        return plan, await migration.migrate(cluster, plan, timeout=left.seconds())

    plan, result = ask_cluster(settings, change)
    done = None if result is None else result.to_dict()
    document = {**plan.to_dict(), "executed": result is not None and result.done, "result": done}
    _show(document, MIGRATE_KEYS, output, hidden=("refusal",))
    return _judge_migration(plan, result)


@click.command()
@click.argument("share_group", shell_complete=complete_groups)
@click.option("--to-group", metavar="GROUP", required=True, help="The consumer group; it must have no members.")
@_topics
@change_options
@with_exit_code
def rollback(
    share_group: str,
    to_group: str,
    topics: tuple[str, ...],
    execute: bool,
    output: str,
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """Commit the start offsets of SHARE_GROUP for a consumer group, so that it goes on from there.

    A partition where the consumer group is further on is left alone. SHARE_GROUP is only read.
    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_cluster
    from shareproxy.cli.time_left import TimeLeft
    from shareproxy.drain.rollback import plan_rollback, roll_back

    async def change(cluster: Cluster) -> tuple[RollbackPlan, bool]:
        left = TimeLeft(settings.timeout)
        seconds = left.seconds(first_part(execute))
        plan = await plan_rollback(cluster, share_group, to_group, topics=topics or None, timeout=seconds)
        if not execute or not plan.accepted:
            return plan, False
        return await roll_back(cluster, plan, timeout=left.seconds()), True

    plan, executed = ask_cluster(settings, change)
    _show({**plan.to_dict(), "executed": executed and plan.done}, ROLLBACK_KEYS, output, hidden=("note", "error"))
    return _judge_rollback(plan, executed)


def _show(document: dict[str, Any], keys: tuple[str, ...], output: str, *, hidden: tuple[str, ...]) -> None:
    """Print a plan; what is hidden in the table is said below it."""
    if output == "json":
        from shareproxy.cli.documents import print_json

        print_json(document)
        return
    cells = [["" if row[key] is None else str(row[key]) for key in keys] for row in document["rows"]]
    if output == "csv":
        from shareproxy.cli.documents import print_csv

        print_csv(keys, cells)
        return
    if not cells:
        return
    from shareproxy.cli.tables import Column, print_table

    shown = [(place, key) for place, key in enumerate(keys) if key not in hidden]
    names = {"committed_offset": "COMMITTED", "end": "END-OFFSET"}
    columns = [
        Column(names.get(key, key.upper().replace("_", "-")), shrinks=key == "topic", right=key != "topic")
        for _, key in shown
    ]
    print_table(columns, [[row[place] or "-" for place, _ in shown] for row in cells])


def _judge_migration(plan: MigrationPlan, result: MigrationResult | None) -> ExitCode:
    rows = () if plan.offsets is None else plan.offsets.rows
    for row in rows:
        if row.note is not None:
            say(f"{row.topic}-{row.partition}: {row.note}")
    for warning in plan.warnings:
        say(f"warning: {warning}")
    group = plan.share_group
    if not plan.accepted:
        for refusal in plan.all_refusals:
            say(refusal)
        say(f"{group}: nothing was changed")
        return ExitCode.NO
    if result is None:
        say(f"{group}: {'; '.join(_intentions(plan))}")
        say(DRY_RUN)
        return ExitCode.DONE
    if result.reset is not None:
        say(f"{group}: share.auto.offset.reset is {result.reset}")
    code = ExitCode.DONE
    if result.altered is not None:
        for altered in result.altered.rows:
            if altered.error is not None:
                say(f"{altered.topic}-{altered.partition}: {altered.error.message}")
                code = max(code, ExitCode.NOT_AUTHORIZED if is_denied(altered.error.code) else ExitCode.NO)
        moved = sum(altered.error is None for altered in result.altered.rows)
        made = "; the group is new" if result.altered.created_group else ""
        say(f"{group}: {moved} of {len(result.altered.rows)} start offsets taken over from {plan.from_group}{made}")
    return code


def _intentions(plan: MigrationPlan) -> list[str]:
    found = []
    if plan.offsets is not None:
        lags = [row.new_lag for row in plan.offsets.rows]
        lag = "unknown" if None in lags else str(sum(lag for lag in lags if lag is not None))
        found.append(f"would begin where {plan.from_group} is, with lag {lag}")
        if plan.offsets.creates_group:
            found.append("there is no group of this name, Kafka would make it")
    if plan.reset is not None:
        now = "" if plan.reset_now is None else f", it is {plan.reset_now}"
        found.append(f"share.auto.offset.reset would be {plan.reset}{now}")
    return found


def _judge_rollback(plan: RollbackPlan, executed: bool) -> ExitCode:
    for row in plan.rows:
        if row.note is not None:
            say(f"{row.topic}-{row.partition}: {row.note}")
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if not plan.accepted:
        for refusal in plan.refusals:
            say(refusal)
        say(f"{plan.to_group}: nothing was changed")
        return ExitCode.NO
    if not plan.offsets:
        say(f"{plan.to_group}: there is nothing to commit")
        return ExitCode.DONE
    if not executed:
        moved = f"{len(plan.offsets)} of {len(plan.rows)} partitions"
        say(f"{plan.to_group}: would go on where {plan.share_group} is, in {moved}")
        say(DRY_RUN)
        return ExitCode.DONE
    for row in plan.rows:
        if row.error is not None:
            say(f"{row.topic}-{row.partition}: {row.error}")
    committed = sum(row.new_offset is not None and row.error is None for row in plan.rows)
    say(f"{plan.to_group}: {committed} of {len(plan.offsets)} offsets committed")
    if any(row.denied for row in plan.rows):
        return ExitCode.NOT_AUTHORIZED
    return ExitCode.DONE if plan.done else ExitCode.NO
