"""Write what the JSON API answers from a snapshot.

In: a snapshot, a group's name. Out: pieces of JSON. Must never: write a number for something unknown, or hold the
event loop for a group with very many partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from shareproxy.lag.model import GroupLag, rfc3339
from shareproxy.observe.snapshot import GroupView, Snapshot

STEP_ROWS: Final = 200


def group_pieces(snapshot: Snapshot, view: GroupView, age: float) -> Iterator[bytes]:
    """Yield the body for one group: an element of `groups` of the command line's JSON, and when it was read.

    Args:
        snapshot: what the group belongs to.
        view: the group.
        age: of the snapshot, in seconds.
    """
    lag = view.lag
    rows = lag.partitions
    body = _told(msgspec.structs.replace(lag, partitions=()).to_dict(), lag)
    del body["partitions"]
    body |= _when(snapshot, age)
    yield msgspec.json.encode(body)[:-1] + b',"partitions":['
    for begin in range(0, len(rows), STEP_ROWS):
        encoded = msgspec.json.encode([row.to_dict() for row in rows[begin : begin + STEP_ROWS]])
        yield (b"," if begin else b"") + encoded[1:-1]
    yield b"]}\n"


def groups_pieces(snapshot: Snapshot, age: float) -> Iterator[bytes]:
    """Yield the body for all groups, without their partitions."""
    body = _when(snapshot, age)
    body |= {"partial": snapshot.partial, "problems": [error.message for error in snapshot.errors]}
    yield msgspec.json.encode(body)[:-1] + b',"groups":['
    for number, view in enumerate(snapshot.groups.values()):
        row: dict[str, object] = {
            "group": view.lag.group,
            "state": view.state,
            "members": view.members,
            "error": None if view.lag.error is None else view.lag.error.to_dict(),
        }
        yield (b"," if number else b"") + msgspec.json.encode(_told(row, view.lag))
    yield b"]}\n"


def _told(body: dict[str, object], lag: GroupLag) -> dict[str, object]:
    """Put in what is known; a scaler must not take "nothing is known" for 0."""
    known = lag.partitions_known
    sums = {
        "lag": lag.lag if known else None,
        "complete": lag.complete,
        "partitions_known": known,
        "partitions_total": lag.partitions_total,
    }
    return body | sums


def _when(snapshot: Snapshot, age: float) -> dict[str, object]:
    return {
        "cluster_id": snapshot.report.cluster_id,
        "time": rfc3339(snapshot.time),
        "age_seconds": round(age, 3),
    }
