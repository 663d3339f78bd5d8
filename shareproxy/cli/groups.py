"""`shareproxy groups`: which groups there are, and how far behind each is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import OUTPUTS, Connection, connection_options, timeout_option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from shareproxy.admin import ShareAdmin
    from shareproxy.cli.time_left import TimeLeft
    from shareproxy.lag.consumer_model import ConsumerGroupLag
    from shareproxy.lag.listings import GroupListing, ListedGroup
    from shareproxy.lag.model import GroupLag

TYPES: Final = ("share", "consumer", "classic")
STATES: Final = (
    *("Empty", "Stable", "Dead", "Assigning", "Reconciling"),
    *("PreparingRebalance", "CompletingRebalance", "NotReady", "Unknown"),
)
KEYS: Final = (
    *("group", "type", "state", "members", "partitions"),
    *("partitions_known", "lag", "complete", "coordinator", "error"),
)
LAG: Final = KEYS.index("lag")
# members, partitions, partitions known, lag, completeness and error of a group of which nothing is known
NOTHING: Final[tuple[object, ...]] = (None,) * 6
LISTING_PART: Final = 0.4  # of the time: a broker that hangs leaves some for the groups of the others


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
    connection: Connection,
    timeout: float | None,
) -> ExitCode:
    """List groups with their state, members, partitions and lag.

    A lag that is not wholly known has a "+" behind it: at least so much. One that is not known at all is "-".
    Exit code 0: answered; 1: a broker did not tell its groups, or no lag is known; 3: no broker answers;
    4: not authorised.
    """
    settings = connection.settings({"timeout": timeout})
    from shareproxy.cli.connect import ask_admin

    wanted = TYPES if kind == "all" else (kind,)
    rows, problems = ask_admin(
        settings, lambda admin: _overview(admin, wanted, states, settings.timeout, every=kind == "all")
    )
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
        for sentence in _errors(rows):
            say(sentence)
    if not rows and not problems:
        what = "group" if kind == "all" else f"{kind} group"
        say(f"there is no {what}{' in this state' if states else ''} on this cluster that you may see")
    nothing_known = all(row[LAG] is None for row in rows) and any(row[-1] for row in rows)
    return ExitCode.NO if problems or nothing_known else ExitCode.DONE


# one group: the values of KEYS, or a part of them
Row = tuple[object, ...]


async def _overview(
    admin: ShareAdmin, types: Sequence[str], states: Sequence[str], timeout: float, *, every: bool
) -> tuple[list[Row], list[str]]:
    """Return a row for each group, and sentences on what could not be asked."""
    from shareproxy.cli.time_left import TimeLeft

    left = TimeLeft(timeout)
    listing = await _listing(admin, () if every else types, states, left)
    share = [listed.group for listed in listing.groups if listed.type == "share"]
    others = [listed.group for listed in listing.groups if listed.type in ("consumer", "classic")]
    problems = list(listing.problems)
    shared, consumed = await asyncio.gather(
        # of all of them lag is found out faster than of as many names
        _if_reached(_share(admin, share, problems, left.seconds(), every=not states), problems),
        _if_reached(_consumer(admin, others, problems, left.seconds()), problems),
    )
    found = {**shared, **consumed}
    return [_row(listed, found.get(listed.group, NOTHING)) for listed in listing.groups], problems


async def _listing(admin: ShareAdmin, types: Sequence[str], states: Sequence[str], left: TimeLeft) -> GroupListing:
    from shareproxy.admin.errors import CannotReach

    try:
        return await admin.list_groups(types=types, states=states, timeout=left.seconds(LISTING_PART))
    except CannotReach:
        # all of them are slow: their groups without a lag are better than nothing
        return await admin.list_groups(types=types, states=states, timeout=left.seconds())


async def _if_reached(question: Awaitable[Mapping[str, Row]], problems: list[str]) -> Mapping[str, Row]:
    """Return the answer, or none and one problem more: what was listed is shown in any case."""
    from shareproxy.admin.errors import CannotReach

    try:
        return await question
    except CannotReach as error:
        problems.append(str(error))
        return {}


def _row(listed: ListedGroup, part: Row) -> Row:
    members, partitions, known, lag, complete, error = part
    state = (listed.group, listed.type, listed.state)
    return (*state, members, partitions, known, lag, complete, listed.coordinator, error)


async def _share(
    admin: ShareAdmin, names: Sequence[str], problems: list[str], seconds: float, *, every: bool
) -> Mapping[str, Row]:
    """Return members, partitions, known partitions, lag, completeness and error of share groups."""
    if not names:
        return {}
    all_listed = not problems
    described, report = await asyncio.gather(
        admin.describe_groups(names, timeout=seconds), admin.lag(None if every else names, timeout=seconds)
    )
    if all_listed:  # else it is named already who does not list its groups
        problems += report.problems
    members = {name: len(found.members) for name, found in described.items() if found.error is None}
    lags: dict[str, Row] = {group.group: _lag_cells(group) for group in report.groups}
    return {name: (members.get(name), *lags.get(name, NOTHING[1:])) for name in names}


async def _consumer(admin: ShareAdmin, names: Sequence[str], problems: list[str], seconds: float) -> Mapping[str, Row]:
    """Return the same of consumer and classic groups."""
    if not names:
        return {}
    report = await admin.consumer_lag(names, timeout=seconds)
    problems += (problem for problem in report.problems if problem not in problems)
    return {group.group: (group.members, *_lag_cells(group)) for group in report.groups}


def _lag_cells(group: GroupLag | ConsumerGroupLag) -> Row:
    return (
        group.partitions_total,
        group.partitions_known,
        group.lag if group.partitions_known else None,
        group.complete,
        None if group.error is None else group.error.to_dict(),
    )


def _errors(rows: Sequence[Row]) -> Iterator[str]:
    """Return what is wrong with groups, the same of many groups in one sentence."""
    from shareproxy.cli.sentences import count

    alike: dict[str, list[str]] = {}
    for row in rows:
        if isinstance(error := row[-1], dict):
            message = str(error["message"])
            alike.setdefault(message.replace(repr(row[0]), ""), []).append(message)
    for first, *others in alike.values():
        yield first + (f" (and so for {count(len(others), 'more group')})" if others else "")


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
