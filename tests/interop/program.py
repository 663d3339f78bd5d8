"""What the client programs in Python share: an operation and JSON come in, the answer as JSON goes out.

Must never print anything else to stdout.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Arguments = Mapping[str, Any]
Operation = Callable[[Arguments], dict[str, Any]]

# the largest records of the cases, with room for their batch
MAX_MESSAGE_BYTES = 1_000_000
FLUSH_SECONDS = 60


class Skipped(Exception):  # noqa: N818 - says that nothing failed
    """The library cannot do this; the text says why."""


@dataclass(frozen=True)
class Record:
    """One record; `offset` is None before it was consumed."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int | None = None

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Record:
        """Read a record from JSON."""
        headers = tuple((name, _decoded(value)) for name, value in row.get("headers") or ())
        return cls(row["partition"], _decoded(row["key"]), _decoded(row["value"]), headers, row.get("offset"))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        headers = [[name, _encoded(value)] for name, value in self.headers]
        row = {"partition": self.partition, "key": _encoded(self.key), "value": _encoded(self.value)}
        return row | {"headers": headers} | ({} if self.offset is None else {"offset": self.offset})


def records(rows: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Read records from JSON."""
    return [Record.from_dict(row) for row in rows]


def answer(found: Sequence[Record]) -> dict[str, Any]:
    """Return records that were consumed, as the runner wants them."""
    return {"records": [record.to_dict() for record in found]}


def main(operations: Mapping[str, Operation]) -> None:
    """Run the operation that the command line names."""
    operation = operations.get(sys.argv[1])
    if operation is None:
        result: dict[str, Any] = {"skipped": "not written for this client"}
    else:
        try:
            result = operation(json.load(sys.stdin))
        except Skipped as why:
            result = {"skipped": str(why)}
    json.dump(result, sys.stdout)


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)
