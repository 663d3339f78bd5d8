"""`shareproxy groups`: which groups there are, and how far behind each is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import OUTPUTS, connection_options, settings_from, timeout_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.lag.listings import GroupListing

TYPES: Final = ("share", "consumer", "classic")
STATES: Final = (
    *("Empty", "Stable", "Dead", "Assigning", "Reconciling"),
    *("PreparingRebalance", "CompletingRebalance", "NotReady", "Unknown"),
)
KEYS: Final = (
    *("group", "type", "state", "members", "partitions"),
    *("partitions_known", "lag", "complete", "coordinator", "error"),
)


@click.command()
@click.option(
    "--type",
    "kind",
    type=click.Choice([*TYPES, "all"]),
    default="share",
    show_default=True,
    help="Only groups of this type.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state, such as Stable or Empty; may be repeated.",
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", help="Form of the answer.")
@connection_options
@timeout_option
@with_exit_code
def groups(
    kind: str,
    states: tuple[str, ...],
    output: str,
    bootstrap_server: str | None,
    command_config: str | None,
    config: str | None,
    timeout: float | None,
) -> ExitCode:
    """List groups with their state, members, partitions and lag.

    A lag that is not wholly known has a "+" behind it: at least so much. One that is not known at all is "-".
    Exit code 0: answered; 1: a broker did not tell its groups; 3: no broker answers; 4: not authorised.
    """
    settings = settings_from(
        config, {"bootstrap_server": bootstrap_server, "command_config": command_config, "timeout": timeout}
    )
    from shareproxy.cli.connect import ask_admin

    wanted = TYPES if kind == "all" else (kind,)
    rows, problems = ask_admin(settings, lambda admin: _overview(admin, wanted, states, every=kind == "all"))
    if output == "json":
        from shareproxy.cli.documents import print_json

        print_json({"groups": [dict(zip(KEYS, row, strict=True)) for row in rows], "problems": problems})
    elif output == "csv":
        from shareproxy.cli.documents import print_csv

        print_csv(KEYS[:-1], [["" if cell is None else _plain(cell) for cell in row[:-1]] for row in rows])
    elif rows:
        _print_table(rows)
    for problem in problems:
        say(problem)
    if output != "json":
        for row in rows:
            if isinstance(error := row[-1], dict):
                say(str(error["message"]))
    if not rows and not problems:
        what = "group" if kind == "all" else f"{kind} group"
        say(f"there is no {what}{' in this state' if states else ''} on this cluster that you may see")
    return ExitCode.NO if problems else ExitCode.DONE


# one group: the values of KEYS
Row = tuple[object, ...]


async def _overview(
    admin: ShareAdmin, types: Sequence[str], states: Sequence[str], *, every: bool
) -> tuple[list[Row], list[str]]:
    """Return a row for each group, and sentences on what could not be asked."""
    listing = await admin.list_groups(types=() if every else types, states=states)
    share = [listed.group for listed in listing.groups if listed.type == "share"]
    others = [listed.group for listed in listing.groups if listed.type in ("consumer", "classic")]
    found: dict[str, Row] = {}
    problems = list(listing.problems)
    shared, consumed = await asyncio.gather(_share(admin, share, problems), _consumer(admin, others, problems))
    for name, part in {**shared, **consumed}.items():
        found[name] = part
    nothing: Row = (None, None, None, None, None, None)
    return [_row(listing, number, found.get(listed.group, nothing)) for number, listed in enumerate(listing.groups)], (
        problems
    )


def _row(listing: GroupListing, number: int, part: Row) -> Row:
    listed = listing.groups[number]
    members, partitions, known, lag, complete, error = part
    state = (listed.group, listed.type, listed.state)
    return (*state, members, partitions, known, lag, complete, listed.coordinator, error)


async def _share(admin: ShareAdmin, names: Sequence[str], problems: list[str]) -> Mapping[str, Row]:
    """Return members, partitions, known partitions, lag, completeness and error of share groups."""
    if not names:
        return {}
    described, report = await asyncio.gather(admin.describe_groups(names), admin.lag(names))
    problems += report.problems
    members = {name: len(found.members) for name, found in described.items() if found.error is None}
    return {
        group.group: (
            members.get(group.group),
            group.partitions_total,
            group.partitions_known,
            group.lag if group.partitions_known else None,
            group.complete,
            None if group.error is None else group.error.to_dict(),
        )
        for group in report.groups
    }


async def _consumer(admin: ShareAdmin, names: Sequence[str], problems: list[str]) -> Mapping[str, Row]:
    """Return the same of consumer and classic groups."""
    if not names:
        return {}
    report = await admin.consumer_lag(names)
    problems += report.problems
    return {
        group.group: (
            group.members,
            group.partitions_total,
            group.partitions_known,
            group.lag if group.partitions_known else None,
            group.complete,
            None if group.error is None else group.error.to_dict(),
        )
        for group in report.groups
    }


def _print_table(rows: Sequence[Row]) -> None:
    from shareproxy.cli.tables import Column, print_table

    columns = (
        Column("GROUP", shrinks=True),
        Column("TYPE", rank=2),
        Column("STATE", rank=1),
        Column("MEMBERS", right=True, rank=3),
        Column("PARTITIONS", right=True, rank=4),
        Column("LAG", right=True),
        Column("COORDINATOR", right=True, rank=5),
    )
    cells = []
    for group, kind, state, members, partitions, _, lag, complete, coordinator, _ in rows:
        behind = None if lag is None else f"{lag}{'' if complete else '+'}"
        cells.append([_cell(value) for value in (group, kind, state, members, partitions, behind, coordinator)])
    print_table(columns, cells)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
