"""What the clients did comes in; the page with the tables goes out.

Must never hold anything that differs between two runs in which the same things worked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

_TOP = """\
# Clients that work through shareproxy

Made by `make interop`: each client does each thing at shareproxy, in front of a real Kafka.
{network}

| column | what has to work |
|---|---|
{columns}

✓ works, ✗ fails, – the client cannot do it; numbers lead to the notes under the table.
"""
_COLUMNS = {
    "contents": "produce and consume, compared record by record: null, empty and binary keys and values; null, empty, "
    "binary and repeated headers; order",
    "gzip … zstd": "the same with each codec; the batches on the brokers' disks are looked at",
    "900 KB": "records of that size",
    "acks 0, acks 1": "the same with other acknowledgements; the rest is with `all`",
    "transactions": "one committed, one aborted; read committed and uncommitted",
    "classic, KIP-848 group": "produce and consume with a group; then two members share the partitions, one leaves, "
    "the other takes over",
    "moved leaders": "a consumer goes on when all partitions' leaders move to other nodes (three nodes only)",
    "share group": "a share consumer gets every record once; clients that can ask for lag see what is left",
    "admin": "create, describe, list offsets and groups, delete; the nodes are shareproxy's ports",
    "TLS + SCRAM": "produce and consume over TLS with a login",
}
_SEALED = """\
Clients run in a network namespace in which nothing exists but shareproxy's ports, and traps at the brokers' addresses:
a client that only tries to reach a broker fails."""
_WATCHED = """\
Clients' sockets are looked at while they run: a client that is seen at another address than shareproxy's ports
fails."""


class Mark(Enum):
    """What a cell says."""

    PASSED = "✓"
    FAILED = "✗"
    SKIPPED = "–"


@dataclass(frozen=True)
class Outcome:
    """One cell: what it says, and why unless it passed."""

    mark: Mark
    why: str = ""


@dataclass(frozen=True)
class Table:
    """One cluster: its title, the columns' titles, and the client's name → outcomes in the columns' order."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Outcome]]


def page(tables: Sequence[Table], *, sealed: bool) -> str:
    """Return the page in Markdown.

    Args:
        tables: one per cluster.
        sealed: whether clients ran in network namespaces.
    """
    columns = "\n".join(_row([column, what]) for column, what in _COLUMNS.items())
    parts = [_TOP.format(network=_SEALED if sealed else _WATCHED, columns=columns)]
    return "\n".join([*parts, *map(_section, tables)])


def _section(table: Table) -> str:
    notes: dict[str, int] = {}
    numbers = count(1)

    def cell(outcome: Outcome) -> str:
        if not outcome.why:
            return outcome.mark.value
        if outcome.why not in notes:
            notes[outcome.why] = next(numbers)
        return f"{outcome.mark.value} {notes[outcome.why]}"

    lines = [f"## {table.title}", "", _row(["client", *table.columns]), _row(["---"] * (len(table.columns) + 1))]
    lines += [_row([name, *map(cell, outcomes)]) for name, outcomes in table.rows.items()]
    if notes:
        lines += ["", *(f"{number}. {_escaped(why)}" for why, number in notes.items())]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
