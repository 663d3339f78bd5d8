"""`shareproxy offsets`: move or delete the start offsets of a share group, after showing what that would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, is_denied, say, with_exit_code
from shareproxy.cli.options import (
    OUTPUTS,
    complete_groups,
    connection_options,
    settings_from,
    timeout_option,
    topic_selection,
)
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.admin.results import AlterResult, DeleteResult, OffsetPlan, PlannedOffset, ShareOffset
    from shareproxy.admin.targets import Target
    from shareproxy.lag.descriptions import GroupDescription
    from shareproxy.lag.model import LagReport

DRY_RUN: Final = "nothing was changed; add --execute to do it"
PLAN_KEYS: Final = (
    *("topic", "partition", "start_offset", "new_offset", "log_start", "end"),
    *("lag", "new_lag", "refusal"),
)


@click.group()
def offsets() -> None:
    """Move or delete the start offsets of a share group.

    Shows what would happen, and does it only with --execute. The group must have no members.
    """


_output = click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", help="Form of the answer.")
_execute = click.option("--execute/--dry-run", default=False, help="Do it, or only show it.  [default: --dry-run]")


@offsets.command()
@click.argument("group", shell_complete=complete_groups)
@click.option("--to-earliest", is_flag=True, help="To the first offset that still exists.")
@click.option("--to-latest", is_flag=True, help="To the end: what is there now is skipped.")
@click.option("--to-offset", type=int, metavar="N", help="To this offset in each partition.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record of this time or later, as 2026-01-31T08:00:00+01:00; without a zone it is UTC.",
)
@click.option("--shift-by", type=int, metavar="N", help="So many offsets on; negative goes back.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="T[:0,1]",
    help="Only this topic, or these partitions of it; may be repeated.  [default: all that the group has]",
)
@_execute
@_output
@connection_options
@timeout_option
@with_exit_code
def reset(
    group: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
    topics: tuple[str, ...],
    execute: bool,
    output: str,
    bootstrap_server: str | None,
    command_config: str | None,
    config: str | None,
    timeout: float | None,
) -> ExitCode:
    """Move the start offsets of GROUP, which must have no members.

    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    target = _target(to_earliest, to_latest, to_offset, to_datetime, shift_by)
    selection = topic_selection(topics)
    settings = settings_from(
        config, {"bootstrap_server": bootstrap_server, "command_config": command_config, "timeout": timeout}
    )
    from shareproxy.cli.connect import ask_admin

    async def change(admin: ShareAdmin) -> tuple[OffsetPlan, Mapping[tuple[str, int], int], AlterResult | None]:
        plan = await admin.plan_offsets(group, target, topics=selection)
        lags = {} if plan.creates_group else _lags(await admin.lag(group))
        if not execute or not plan.accepted:
            return plan, lags, None
        return plan, lags, await admin.alter_offsets(group, plan.offsets)

    plan, lags, result = ask_admin(settings, change)
    _show_plan(plan, lags, result, output)
    return _judge_reset(plan, lags, result)


def _target(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None, shift_by: int | None
) -> Target:
    """Return where to, which exactly one flag has to say."""
    given = [to_earliest, to_latest, to_offset is not None, to_datetime is not None, shift_by is not None]
    if sum(given) != 1:
        raise ConfigError("give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by")
    from shareproxy.admin.targets import Earliest, Latest, Shift, ToOffset, ToTime

    if to_earliest:
        return Earliest()
    if to_latest:
        return Latest()
    if to_offset is not None:
        if to_offset < 0:
            raise ConfigError(f"--to-offset: {to_offset} is not an offset; 0 is the first, --shift-by goes back")
        return ToOffset(to_offset)
    if to_datetime is not None:
        return ToTime(_moment(to_datetime))
    assert shift_by is not None
    return Shift(shift_by)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31T08:00:00+01:00"
        raise ConfigError(f"--to-datetime: {text!r} is not a time; write for instance {example}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
        say(f"{text} is taken as UTC")
    return moment


def _lags(report: LagReport) -> dict[tuple[str, int], int]:
    return {
        (row.topic, row.partition): row.lag
        for group in report.groups
        for row in group.partitions
        if row.lag is not None
    }


def _new_lag(row: PlannedOffset) -> int | None:
    return None if row.new_offset is None or row.end is None else max(0, row.end - row.new_offset)


def _show_plan(plan: OffsetPlan, lags: Mapping[tuple[str, int], int], result: AlterResult | None, output: str) -> None:
    values = [
        (
            *(row.topic, row.partition, row.start_offset, row.new_offset, row.log_start, row.end),
            *(lags.get((row.topic, row.partition)), _new_lag(row), row.refusal),
        )
        for row in plan.rows
    ]
    if output == "json":
        from shareproxy.cli.documents import print_json

        rows = [
            {**row.to_dict(), **dict(zip(PLAN_KEYS, value, strict=True))}
            for row, value in zip(plan.rows, values, strict=True)
        ]
        done = None if result is None else result.to_dict()
        print_json({**plan.to_dict(), "rows": rows, "executed": result is not None and result.done, "result": done})
        return
    cells = [["" if cell is None else str(cell) for cell in value] for value in values]
    if output == "csv":
        from shareproxy.cli.documents import print_csv

        print_csv(PLAN_KEYS, cells)
        return
    if not cells:
        return
    from shareproxy.cli.tables import Column, print_table

    columns = (
        Column("TOPIC", shrinks=True),
        Column("PARTITION", right=True),
        Column("START-OFFSET", right=True),
        Column("NEW-OFFSET", right=True),
        Column("LOG-START", right=True, rank=4),
        Column("END-OFFSET", right=True, rank=3),
        Column("LAG", right=True, rank=1),
        Column("NEW-LAG", right=True, rank=1),
    )
    print_table(columns, [[cell or "-" for cell in row[:-1]] for row in cells])


def _judge_reset(plan: OffsetPlan, lags: Mapping[tuple[str, int], int], result: AlterResult | None) -> ExitCode:
    for row in plan.rows:
        if row.note is not None:
            say(f"{row.topic}-{row.partition}: {row.note}")
    if not plan.accepted:
        for refusal in plan.all_refusals or ("there is no partition to change",):
            say(refusal)
        say(f"{plan.group}: nothing was changed")
        return ExitCode.NO
    if result is None:
        say(_effect(plan, lags))
        say(DRY_RUN)
        return ExitCode.DONE
    code = ExitCode.DONE
    for altered in result.rows:
        if altered.error is not None:
            say(f"{altered.topic}-{altered.partition}: {altered.error.message}")
            code = max(code, ExitCode.NOT_AUTHORIZED if is_denied(altered.error.code) else ExitCode.NO)
    moved = sum(altered.error is None for altered in result.rows)
    made = "; the group is new" if result.created_group else ""
    say(f"{plan.group}: {moved} of {len(result.rows)} start offsets moved{made}")
    return code


def _effect(plan: OffsetPlan, lags: Mapping[tuple[str, int], int]) -> str:
    """Say what becomes of the lag."""
    now = [lags.get((row.topic, row.partition)) for row in plan.rows]
    then = [_new_lag(row) for row in plan.rows]
    before = "unknown" if None in now else str(sum(lag for lag in now if lag is not None))
    after = "unknown" if None in then else str(sum(lag for lag in then if lag is not None))
    new = "; there is no group of this name, Kafka would make it" if plan.creates_group else ""
    again = "" if plan.creates_group else "; what was done from the new offsets on is delivered again"
    return f"{plan.group}: lag here would go from {before} to {after}{again}{new}"


@offsets.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic", "topics", multiple=True, required=True, metavar="T", help="Forget this topic; may be repeated."
)
@_execute
@_output
@connection_options
@timeout_option
@with_exit_code
def delete(
    group: str,
    topics: tuple[str, ...],
    execute: bool,
    output: str,
    bootstrap_server: str | None,
    command_config: str | None,
    config: str | None,
    timeout: float | None,
) -> ExitCode:
    """Make GROUP, which must have no members, forget its state of a topic.

    A consumer that subscribes to the topic again begins where share.auto.offset.reset says.
    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    settings = settings_from(
        config, {"bootstrap_server": bootstrap_server, "command_config": command_config, "timeout": timeout}
    )
    from shareproxy.cli.connect import ask_admin

    names = tuple(dict.fromkeys(topics))

    async def change(
        admin: ShareAdmin,
    ) -> tuple[GroupDescription, tuple[ShareOffset, ...], Mapping[tuple[str, int], int], DeleteResult | None]:
        described = (await admin.describe_groups([group]))[group]
        if described.error is not None:
            return described, (), {}, None
        has = tuple(row for row in await admin.offsets(group) if row.topic in names)
        lags = _lags(await admin.lag(group, topics=sorted({row.topic for row in has}))) if has else {}
        possible = not described.members and {row.topic for row in has} == set(names)
        result = await admin.delete_offsets(group, names) if execute and possible else None
        return described, has, lags, result

    described, has, lags, result = ask_admin(settings, change)
    _show_deletion(group, has, lags, result, output)
    return _judge_deletion(described, names, has, lags, result)


def _show_deletion(
    group: str,
    has: Sequence[ShareOffset],
    lags: Mapping[tuple[str, int], int],
    result: DeleteResult | None,
    output: str,
) -> None:
    keys = ("topic", "partition", "start_offset", "lag")
    values = [(row.topic, row.partition, row.start_offset, lags.get((row.topic, row.partition))) for row in has]
    if output == "json":
        from shareproxy.cli.documents import print_json

        rows = [dict(zip(keys, value, strict=True)) for value in values]
        done = None if result is None else result.to_dict()
        executed = result is not None and result.done
        print_json({"group": group, "rows": rows, "executed": executed, "result": done})
        return
    cells = [["" if cell is None else str(cell) for cell in value] for value in values]
    if output == "csv":
        from shareproxy.cli.documents import print_csv

        print_csv(keys, cells)
    elif cells:
        from shareproxy.cli.tables import Column, print_table

        columns = (
            Column("TOPIC", shrinks=True),
            Column("PARTITION", right=True),
            Column("START-OFFSET", right=True),
            Column("LAG", right=True),
        )
        print_table(columns, [[cell or "-" for cell in row] for row in cells])


def _judge_deletion(
    described: GroupDescription,
    names: Sequence[str],
    has: Sequence[ShareOffset],
    lags: Mapping[tuple[str, int], int],
    result: DeleteResult | None,
) -> ExitCode:
    from shareproxy.cli.sentences import count

    group = described.group
    if described.error is not None:
        say(described.error.message)
        return ExitCode.NOT_AUTHORIZED if is_denied(described.error.code) else ExitCode.NO
    missing = [name for name in names if name not in {row.topic for row in has}]
    if missing:
        say(
            f"{group}: has no state of {', '.join(map(repr, missing))}; check the name, and DESCRIBE on the topic. "
            "Nothing was changed"
        )
        return ExitCode.NO
    if described.members:
        say(
            f"{group}: has {count(len(described.members), 'member')}, and Kafka changes only groups without; stop its "
            "consumers first. Nothing was changed"
        )
        return ExitCode.NO
    if result is None:
        known = [lag for row in has if (lag := lags.get((row.topic, row.partition))) is not None]
        lost = f"{sum(known)} waiting offsets" if len(known) == len(has) else "an unknown number of waiting offsets"
        say(f"{group}: would forget {count(len(has), 'partition')} with {lost}, and which records were tried how often")
        say(DRY_RUN)
        return ExitCode.DONE
    code = ExitCode.DONE
    for row in result.rows:
        if row.error is not None:
            say(f"{row.topic}: {row.error.message}")
            code = max(code, ExitCode.NOT_AUTHORIZED if is_denied(row.error.code) else ExitCode.NO)
    forgotten = sum(row.error is None for row in result.rows)
    say(f"{group}: {forgotten} of {len(result.rows)} topics forgotten")
    return code
