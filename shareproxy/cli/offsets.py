"""`shareproxy offsets`: move or delete the start offsets of a share group, after showing what that would do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.changing import DRY_RUN, change_options, first_part
from shareproxy.cli.failures import ExitCode, is_denied, say, with_exit_code
from shareproxy.cli.migrate import migrate, rollback
from shareproxy.cli.options import Connection, complete_groups, topic_selection
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.admin.errors import AdminError
    from shareproxy.admin.results import AlterResult, DeleteResult, OffsetPlan, PlannedOffset, ShareOffset
    from shareproxy.admin.targets import Target
    from shareproxy.cli.sentences import Bounds
    from shareproxy.lag.descriptions import GroupDescription
    from shareproxy.lag.model import LagReport

PLAN_KEYS: Final = (
    *("topic", "partition", "start_offset", "new_offset", "log_start", "end"),
    *("lag", "new_lag", "refusal"),
)


@click.group()
def offsets() -> None:
    """Move, take over or delete the start offsets of a share group.

    Shows what would happen, and does it only with --execute. The group must have no members.
    """


offsets.add_command(migrate)
offsets.add_command(rollback)


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
@change_options
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
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """Move the start offsets of GROUP, which must have no members.

    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    target = _target(to_earliest, to_latest, to_offset, to_datetime, shift_by)
    selection = topic_selection(topics)
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_admin
    from shareproxy.cli.time_left import TimeLeft

    async def change(admin: ShareAdmin) -> tuple[OffsetPlan, AlterResult | None]:
        left = TimeLeft(settings.timeout)
        plan = await admin.plan_offsets(group, target, topics=selection, timeout=left.seconds(first_part(execute)))
        if not execute or not plan.accepted:
            return plan, None
        return plan, await admin.alter_offsets(group, plan.offsets, timeout=left.seconds())

    plan, result = ask_admin(settings, change)
    _show_plan(plan, result, output)
    return _judge_reset(plan, result)


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


def _show_plan(plan: OffsetPlan, result: AlterResult | None, output: str) -> None:
    if output == "json":
        from shareproxy.cli.documents import print_json

        done = None if result is None else result.to_dict()
        print_json({**plan.to_dict(), "executed": result is not None and result.done, "result": done})
        return
    values = [[row.to_dict()[key] for key in PLAN_KEYS] for row in plan.rows]
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


def _judge_reset(plan: OffsetPlan, result: AlterResult | None) -> ExitCode:
    for row in plan.rows:
        if row.note is not None:
            say(f"{row.topic}-{row.partition}: {row.note}")
    if not plan.accepted:
        for refusal in plan.all_refusals or ("there is no partition to change",):
            say(refusal)
        say(f"{plan.group}: nothing was changed")
        return ExitCode.NO
    if result is None:
        say(_effect(plan))
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


def _effect(plan: OffsetPlan) -> str:
    """Say what becomes of the lag, and of waiting and done offsets."""
    now, then = [row.lag for row in plan.rows], [row.new_lag for row in plan.rows]
    before = "unknown" if None in now else str(sum(lag for lag in now if lag is not None))
    after = "unknown" if None in then else str(sum(lag for lag in then if lag is not None))
    parts = [f"{plan.group}: lag here would go from {before} to {after}"]
    if plan.creates_group:
        parts.append("there is no group of this name, Kafka would make it")
    else:
        parts += _moved_over(plan.rows)
    return "; ".join(parts)


def _moved_over(rows: Sequence[PlannedOffset]) -> Iterator[str]:
    """Say how many offsets no consumer will be given any more, and how many a second time."""
    from shareproxy.cli.sentences import Bounds, count

    known = [row for row in rows if row.skips_max is not None]
    skipped = Bounds(sum(row.skips_min or 0 for row in known), sum(row.skips_max or 0 for row in known))
    again = Bounds(sum(row.delivers_again_min or 0 for row in known), sum(row.delivers_again_max or 0 for row in known))
    if skipped.high:
        yield f"{_offsets(skipped, 'waiting')} skipped and never delivered"
    if again.high:
        yield f"{_offsets(again, 'done or passed')} delivered again"
    if unknown := len(rows) - len(known):
        yield f"what is skipped in {count(unknown, 'partition')} without a start offset is not known"


def _offsets(number: Bounds, which: str) -> str:
    amount = number.text() if number.low else f"up to {number.high}"
    return f"{amount} {which} offset is" if number.high == 1 else f"{amount} {which} offsets are"


@offsets.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic", "topics", multiple=True, required=True, metavar="T", help="Forget this topic; may be repeated."
)
@change_options
@with_exit_code
def delete(
    group: str,
    topics: tuple[str, ...],
    execute: bool,
    output: str,
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """Make GROUP, which must have no members, forget its state of a topic.

    A consumer that subscribes to the topic again begins where share.auto.offset.reset says.
    Exit code 0: done, or it could be done; 1: refused, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_admin
    from shareproxy.cli.time_left import TimeLeft

    names = tuple(dict.fromkeys(topics))

    async def change(
        admin: ShareAdmin,
    ) -> tuple[GroupDescription, tuple[ShareOffset, ...], Mapping[tuple[str, int], int], DeleteResult | None]:
        left = TimeLeft(settings.timeout)
        seconds = left.seconds(first_part(execute))
        # all at once: a broker that hangs takes the time of one question only
        descriptions, state = await asyncio.gather(
            admin.describe_groups([group], timeout=seconds), _state(admin, group, seconds)
        )
        described = descriptions[group]
        if described.error is not None:
            return described, (), {}, None
        if isinstance(state, Exception):
            raise state
        offsets, report = state
        has = tuple(row for row in offsets if row.topic in names)
        possible = not described.members and {row.topic for row in has} == set(names)
        result = await admin.delete_offsets(group, names, timeout=left.seconds()) if execute and possible else None
        return described, has, _lags(report), result

    described, has, lags, result = ask_admin(settings, change)
    _show_deletion(group, has, lags, result, output)
    return _judge_deletion(described, names, has, lags, result)


async def _state(admin: ShareAdmin, group: str, seconds: float) -> tuple[Sequence[ShareOffset], LagReport] | AdminError:
    """Return start offsets and lag of a group, or why there are none: its description may say that better."""
    from shareproxy.admin.errors import AdminError

    try:
        return await asyncio.gather(admin.offsets(group, timeout=seconds), admin.lag(group, timeout=seconds))
    except AdminError as error:
        return error


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
        from shareproxy.admin.failures import group_exception

        raise group_exception(described.error, group)
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
