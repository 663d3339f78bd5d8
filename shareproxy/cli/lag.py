"""`shareproxy lag`: how far behind share groups are, straight from the brokers."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import OUTPUTS, connection_options, lag_source_option, settings_from, timeout_option
from shareproxy.config import ConfigError
from shareproxy.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from shareproxy.lag.model import GroupLag, LagReport

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "END-OFFSET", "LAG", "STATUS")


@click.command()
@click.argument("groups", nargs=-1, metavar="GROUP...")
@click.option("--all-groups", is_flag=True, help="Look at every share group.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this topic; may be repeated.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", help="Form of the answer.")
@connection_options
@lag_source_option
@timeout_option
@with_exit_code
def lag(
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    output: str,
    bootstrap_server: str | None,
    command_config: str | None,
    config: str | None,
    lag_source: str | None,
    timeout: float | None,
) -> ExitCode:
    """Show the lag of share groups, one row per partition.

    An unknown lag is "-" with its reason (null in JSON, empty in CSV), never a number.
    Exit code 0: answered; 1: a group has no answer, the reason is on stderr; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    if bool(groups) == all_groups:
        raise ConfigError("name the groups to look at, or give --all-groups (one of the two)")
    settings = settings_from(
        config,
        {
            "bootstrap_server": bootstrap_server,
            "command_config": command_config,
            "lag_source": lag_source,
            "timeout": timeout,
        },
    )
    # the layers below are imported when the flags are known to be right: usage errors answer at once
    from shareproxy.cli.connect import ask_engine

    report = ask_engine(
        settings, lambda engine, _: engine.report(None if all_groups else groups, topics=topics or None)
    )
    if output == "json":
        print_json(report)
    elif output == "csv":
        print_csv(report)
    else:
        print_table(report)
    return _judge(report, all_groups=all_groups)


def _judge(report: LagReport, *, all_groups: bool) -> ExitCode:
    """Say what is wrong with each group that has no answer, and choose the exit code."""
    code = ExitCode.DONE
    if all_groups and not report.groups:
        say("there is no share group on this cluster that you may see")
    for group in report.groups:
        if group.error is None:
            if group.partitions and not group.partitions_known:
                say(f"{group.group}: lag is unknown in all {group.partitions_total} partitions; {_reason(group)}")
                code = max(code, ExitCode.NO)
            continue
        say(group.error.message)
        denied = group.error.code in (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
        code = max(code, ExitCode.NOT_AUTHORIZED if denied else ExitCode.NO)
    return code


def _reason(group: GroupLag) -> str:
    """Return why the first partition has no lag."""
    row = group.partitions[0]
    return row.message or f"{row.topic}-{row.partition} has the status {row.status.value}"


def print_json(report: LagReport) -> None:
    """Print the documented JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report.to_dict()), indent=2).decode() + "\n")


def rows(report: LagReport) -> list[tuple[str, str, str, str, str, str, str]]:
    """Turn the report into cells; what is unknown is an empty cell."""
    return [
        (
            group.group,
            row.topic,
            str(row.partition),
            _number(row.start_offset),
            _number(row.end_offset),
            _number(row.lag),
            row.status.value,
        )
        for group in report.groups
        for row in group.partitions
    ]


def print_csv(report: LagReport) -> None:
    """Print comma-separated values with a heading in small letters."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([column.lower().replace("-", "_") for column in COLUMNS])
    writer.writerows(rows(report))


def print_table(report: LagReport) -> None:
    """Print aligned columns, and under each group the sum with its completeness."""
    cells = rows(report)
    if not cells:
        return
    from shareproxy.cli.tables import print_columns

    print_columns(COLUMNS, [tuple(cell or "-" for cell in row) for row in cells], right=range(2, 6))
    for group in report.groups:
        if group.partitions_known:
            known = f"{group.partitions_known} of {group.partitions_total} partitions"
            note = "" if group.complete else f"; unknown for {group.partitions_total - group.partitions_known}"
            say(f"{group.group}: lag {group.lag} in {known}{note}")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
