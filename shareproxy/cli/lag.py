"""`shareproxy lag`: how far behind groups are, straight from the brokers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, is_denied, say, with_exit_code
from shareproxy.cli.options import (
    OUTPUTS,
    Connection,
    complete_groups,
    connection_options,
    lag_source_option,
    timeout_option,
)
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shareproxy.cli.look import Looked
    from shareproxy.cli.tables import Column
    from shareproxy.lag.consumer_model import ConsumerGroupLag
    from shareproxy.lag.model import GroupLag, PartitionLag

CSV_COLUMNS: Final = ("group", "topic", "partition", "start_offset", "end_offset", "lag", "status")
CSV_CLOSER: Final = (
    *("consumable_lag", "consumable_lag_min", "consumable_lag_max"),
    *("phantom_offsets", "phantom_offsets_min", "phantom_offsets_max"),
    *("open_transaction_offsets", "unavailable_offsets", "projected_lag", "oldest_record_age_seconds"),
)
# consumer groups stand in the same columns of CSV: what they committed is where they go on
_OF_CONSUMER_GROUPS: Final = {
    "start_offset": "committed_offset",
    "consumable_lag": "visible_lag",
    "consumable_lag_min": "visible_lag_min",
    "consumable_lag_max": "visible_lag_max",
}


@click.command()
@click.argument("groups", nargs=-1, metavar="GROUP...", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Look at every share group.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this topic; may be repeated.")
@click.option(
    "--visible",
    is_flag=True,
    help="Look closer: what can still be consumed, phantom offsets, open transactions, age. Needs READ on the topics.",
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", help="Form of the answer.")
@connection_options
@lag_source_option
@timeout_option
@with_exit_code
def lag(
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    visible: bool,
    output: str,
    connection: Connection,
    lag_source: str | None,
    timeout: float | None,
) -> ExitCode:
    """Show the lag of share groups, one row per partition.

    A GROUP that is a consumer group is shown as well. An unknown lag is "-" (null in JSON, empty in CSV), never a
    number; its reason is on stderr.
    Exit code 0: answered; 1: a group has no answer; 2: wrong usage; 3: no broker answers; 4: not authorised.
    """
    if bool(groups) == all_groups:
        raise ConfigError("name the groups to look at, or give --all-groups (one of the two)")
    settings = connection.settings({"lag_source": lag_source, "timeout": timeout})
    # the layers below are imported when the flags are known to be right: usage errors answer at once
    from shareproxy.cli.connect import ask_admin
    from shareproxy.cli.look import look
    from shareproxy.lag.visible_model import Want

    want = Want.ALL if visible else Want.LOG_END
    named = None if all_groups else groups
    looked = ask_admin(
        settings, lambda admin: look(admin, named, topics=topics or None, want=want, timeout=settings.timeout)
    )
    if output == "json":
        _print_json(looked)
    elif output == "csv":
        _print_csv(looked, closer=visible)
    else:
        _print_tables(looked, closer=visible)
    code = _judge(looked, all_groups=all_groups, sums=output == "table")
    if output == "table" and not visible and sys.stdout.isatty():
        _point_to_visible(looked.report.groups)
    return code


def _point_to_visible(groups: Sequence[GroupLag]) -> None:
    """Name the closer look where a lag has nobody to work it off: who reads it is about to start somebody."""
    left = [group.group for group in groups if group.state == "Empty" and group.lag > 0]
    if not left:
        return
    if len(left) == 1:
        say(f"nobody is in {left[0]}: --visible tells what of its lag a consumer can still be given")
    else:
        say(
            f"nobody is in {len(left)} of these groups: --visible tells what of their lag a consumer can still be given"
        )


def _judge(looked: Looked, *, all_groups: bool, sums: bool) -> ExitCode:
    """Say what each group comes to and what is wrong with it, and choose the exit code."""
    from shareproxy.cli.sentences import group_reasons, lag_sentence, notes

    code = ExitCode.DONE
    for problem in looked.report.problems:
        say(problem)
    if all_groups and not looked.report.groups:
        say("there is no share group on this cluster that you may see")
    for group in looked.report.groups:
        if group.error is not None:
            say(group.error.message)
            code = max(code, ExitCode.NOT_AUTHORIZED if is_denied(group.error.code) else ExitCode.NO)
        if not group.partitions:
            continue
        if sums or not group.partitions_known:
            say(lag_sentence(group))
        if not group.partitions_known:
            code = max(code, ExitCode.NOT_AUTHORIZED if _all_denied(group) else ExitCode.NO)
    for sentence in group_reasons(looked.report.groups):
        say(sentence)
    for sentence in notes(looked.report.groups):
        say(sentence)
    return max(code, _judge_consumer_groups(looked.consumer_groups, sums=sums))


def _all_denied(group: GroupLag) -> bool:
    """Return whether a missing right is all that hides the group's lag."""
    from shareproxy.lag.model import Status

    return all(row.status is Status.NOT_AUTHORIZED for row in group.partitions)


def _judge_consumer_groups(groups: Sequence[ConsumerGroupLag], *, sums: bool) -> ExitCode:
    from shareproxy.cli.sentences import consumer_notes, consumer_sentence, group_reasons

    code = ExitCode.DONE
    for group in groups:
        if group.error is not None:
            say(group.error.message)
            code = max(code, ExitCode.NOT_AUTHORIZED if is_denied(group.error.code) else ExitCode.NO)
        elif not group.partitions:
            say(f"{group.group} (a {group.type or 'consumer'} group): has no partition with a committed offset")
        elif sums or not group.partitions_known:
            say(consumer_sentence(group))
        if group.partitions and not group.partitions_known:
            code = max(code, ExitCode.NO)
    for sentence in (*group_reasons(groups), *consumer_notes(groups)):
        say(sentence)
    return code


def _print_json(looked: Looked) -> None:
    """Print the documented JSON."""
    from shareproxy.cli.documents import print_json

    document = looked.report.to_dict()
    if looked.consumer_groups:
        document["consumer_groups"] = [group.to_dict() for group in looked.consumer_groups]
    print_json(document)


def _print_csv(looked: Looked, *, closer: bool) -> None:
    """Print one line per partition."""
    from shareproxy.cli.documents import print_csv

    rows, more = [], CSV_CLOSER if closer else ()
    for group in looked.report.groups:
        for row in group.partitions:
            cells = row.to_dict()
            values = [cells.get(key) for key in (*CSV_COLUMNS[1:], *more)]
            rows.append([group.group, *("" if value is None else str(value) for value in values)])
    for other in looked.consumer_groups:
        for seen in other.partitions:
            cells = seen.to_dict()
            values = [cells.get(_OF_CONSUMER_GROUPS.get(key, key)) for key in (*CSV_COLUMNS[1:], *more)]
            rows.append([other.group, *("" if value is None else str(value) for value in values)])
    print_csv((*CSV_COLUMNS, *more), rows)


def _print_tables(looked: Looked, *, closer: bool) -> None:
    """Print share groups, then consumer groups, each in columns of their own."""
    from shareproxy.cli.tables import Column, print_table

    columns = _columns(
        "START-OFFSET",
        Column("GONE", right=True, rank=6),
        Column("PROJECTED", right=True, rank=7),
        Column("OLDEST", right=True, rank=4),
        closer=closer,
    )
    rows = [
        [cell or "-" for cell in _cells(group, row, closer=closer)]
        for group in looked.report.groups
        for row in group.partitions
    ]
    if rows:
        print_table(columns, rows)
    if looked.consumer_groups:
        _print_consumer_table(looked.consumer_groups, closer=closer, after_another=bool(rows))


def _columns(offset: str, *closer_still: Column, closer: bool) -> list[Column]:
    """Return the columns of a group's partitions; `offset` names the one that its lag is counted from."""
    from shareproxy.cli.tables import Column

    columns = [
        Column("GROUP", shrinks=True, rank=1),
        Column("TOPIC", shrinks=True),
        Column("PARTITION", right=True),
        Column(offset, right=True, rank=9),
        Column("END-OFFSET", right=True, rank=8),
        Column("LAG", right=True),
    ]
    if closer:
        columns += [
            Column("CONSUMABLE", right=True),
            Column("PHANTOM", right=True, rank=2),
            Column("OPEN", right=True, rank=5),
            *closer_still,
        ]
    return [*columns, Column("STATUS", rank=3)]


def _print_consumer_table(groups: Sequence[ConsumerGroupLag], *, closer: bool, after_another: bool) -> None:
    from shareproxy.cli.sentences import bounded, number
    from shareproxy.cli.tables import print_table

    columns = _columns("COMMITTED-OFFSET", closer=closer)
    rows = []
    for group in groups:
        for row in group.partitions:
            cells = [group.group, row.topic, str(row.partition), number(row.committed_offset), number(row.end_offset)]
            cells.append(number(row.lag))
            if closer:
                cells.append(bounded(row.visible_lag, row.visible_lag_min, row.visible_lag_max))
                cells += [number(row.phantom_offsets), number(row.open_transaction_offsets)]
            cells.append(row.status.value)
            rows.append([cell or "-" for cell in cells])
    if rows:
        if after_another:
            print()
        print_table(columns, rows)


def _cells(group: GroupLag, row: PartitionLag, *, closer: bool) -> list[str]:
    """Return the cells of one partition; what is unknown is an empty one."""
    from shareproxy.cli.sentences import age, bounded, consumable, number, phantom

    cells = [group.group, row.topic, str(row.partition), number(row.start_offset), number(row.end_offset)]
    cells.append(number(row.lag))
    if closer:
        visible = row.visible
        if visible is None:
            cells += [""] * 6
        else:
            cells += [bounded(*consumable(visible)), bounded(*phantom(visible))]
            cells += [number(visible.open_transaction_offsets), number(visible.unavailable_offsets)]
            cells += [number(visible.projected_lag), age(visible.oldest_record_age_seconds)]
    cells.append(row.status.value)
    return cells
