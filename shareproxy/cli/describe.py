"""`shareproxy describe`: everything about one share group on a page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from shareproxy.cli.failures import ExitCode, is_denied, say, with_exit_code
from shareproxy.cli.options import (
    Connection,
    complete_groups,
    connection_options,
    lag_source_option,
    timeout_option,
    topic_selection,
)

if TYPE_CHECKING:
    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.balance import Balance
    from shareproxy.lag.descriptions import GroupDescription
    from shareproxy.lag.model import GroupLag, LagReport


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option("--balance", "with_balance", is_flag=True, help="Show what an assignor that knows the backlog would do.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="T[:0,1]",
    help="Draw only this topic, or these partitions of it; may be repeated.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@connection_options
@lag_source_option
@timeout_option
@with_exit_code
def describe(
    group: str,
    with_balance: bool,
    topics: tuple[str, ...],
    output: str,
    connection: Connection,
    lag_source: str | None,
    timeout: float | None,
) -> ExitCode:
    """Show one share group: members, who serves what, and a picture of each partition.

    What a missing right hides is left out, and stderr says which right.
    Exit code 0: answered; 1: there is no such share group, or no such partition of it; 2: wrong usage;
    3: no broker answers; 4: not authorised.
    """
    selection = topic_selection(topics)
    settings = connection.settings({"lag_source": lag_source, "timeout": timeout})
    from shareproxy.cli.connect import ask_admin

    description, report = ask_admin(settings, lambda admin: _everything(admin, group))
    if description.error is not None:
        say(description.error.message)
        return ExitCode.NOT_AUTHORIZED if is_denied(description.error.code) else ExitCode.NO
    from shareproxy.cli.hints import backlogs, hints, serving
    from shareproxy.cli.sentences import notes, reasons
    from shareproxy.lag.balance import balance

    found = report.groups[0]
    result = balance(serving(description.members), backlogs(found))
    advice = hints(description, found, result)
    shown = _only(found, selection)
    if output == "json":
        _print_json(report, description, shown, advice, result if with_balance else None)
    else:
        _print_text(description, found, shown, advice, result, with_balance=with_balance)
    for sentence in report.problems:
        say(sentence)
    if found.error is not None:
        say(found.error.message)
    for sentence in (*reasons(shown.partitions), *notes([shown])):
        say(sentence)
    return ExitCode.NO if selection and not shown.partitions else ExitCode.DONE


async def _everything(admin: ShareAdmin, group: str) -> tuple[GroupDescription, LagReport]:
    from shareproxy.lag.visible_model import Want

    described, report = await asyncio.gather(admin.describe_groups([group]), admin.lag(group, want=Want.ALL))
    return described[group], report


def _only(group: GroupLag, selection: dict[str, list[int] | None] | None) -> GroupLag:
    """Keep the partitions that were asked for."""
    if selection is None:
        return group
    import msgspec

    kept = tuple(
        row
        for row in group.partitions
        if row.topic in selection and ((wanted := selection[row.topic]) is None or row.partition in wanted)
    )
    if not kept:
        say(f"{group.group}: none of its partitions is among those named with --topic")
    return msgspec.structs.replace(group, partitions=kept)


def _print_json(
    report: LagReport, description: GroupDescription, shown: GroupLag, advice: list[str], result: Balance | None
) -> None:
    from shareproxy.cli.documents import print_json
    from shareproxy.lag.model import rfc3339

    document = {
        "cluster_id": report.cluster_id,
        "time": rfc3339(report.time),
        "description": description.to_dict(),
        "lag": shown.to_dict(),
        "hints": advice,
    }
    print_json(document if result is None else {**document, "balance": result})


def _print_text(
    description: GroupDescription,
    found: GroupLag,
    shown: GroupLag,
    advice: list[str],
    result: Balance,
    *,
    with_balance: bool,
) -> None:
    from shareproxy.cli import described
    from shareproxy.cli.picture import ASCII, BLOCKS
    from shareproxy.cli.tables import ellipsis_sign, printable, speaks_unicode, terminal_width

    width, ellipsis = terminal_width(), ellipsis_sign()
    blocks = [
        described.header(description, found),
        described.members(description, result, width, ellipsis),
        described.partitions(shown, width, BLOCKS if speaks_unicode() else ASCII, ellipsis),
        described.balance_lines(description, found, result, width, ellipsis) if with_balance else [],
        [f"! {hint}" for hint in advice],
    ]
    print("\n\n".join("\n".join(map(printable, lines)) for lines in blocks if lines))
