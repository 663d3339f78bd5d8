"""Bodies of the JSON API, piece by piece."""

from __future__ import annotations

import json

from shareproxy.lag.model import GroupError
from shareproxy.observe.json_api import STEP_ROWS, group_pieces, groups_pieces
from shareproxy.observe.snapshot import Snapshot
from shareproxy.protocol.ids import GroupId
from tests.observe.watching import Watched, an_exporter, row


async def look(watched: Watched) -> Snapshot:
    """Look once."""
    exporter = an_exporter(watched)
    await exporter.collector.look()
    snapshot = exporter.collector.fresh
    assert snapshot is not None
    return snapshot


async def test_a_large_group_is_written_in_pieces() -> None:
    """None of which takes long."""
    watched = Watched()
    watched.put("g", *(row(partition=number) for number in range(STEP_ROWS * 2 + 1)))
    snapshot = await look(watched)
    pieces = list(group_pieces(snapshot, snapshot.groups[GroupId("g")], 1.0))
    assert len(pieces) == 5
    assert len(json.loads(b"".join(pieces))["partitions"]) == STEP_ROWS * 2 + 1


async def test_a_group_without_an_answer_has_its_error_and_no_lag() -> None:
    """The sentence says what to try."""
    watched = Watched()
    watched.put("g", state=None, error=GroupError(30, "GROUP_AUTHORIZATION_FAILED", "grant DESCRIBE on the group"))
    snapshot = await look(watched)
    one = json.loads(b"".join(group_pieces(snapshot, snapshot.groups[GroupId("g")], 1.0)))
    every = json.loads(b"".join(groups_pieces(snapshot, 1.0)))

    assert (one["lag"], one["complete"], one["error"]["code"]) == (None, False, 30)
    assert (every["groups"][0]["lag"], every["partial"]) == (None, True)
    assert every["problems"] == ["grant DESCRIBE on the group"]


async def test_no_groups_is_an_empty_list() -> None:
    """Also that is JSON."""
    assert json.loads(b"".join(groups_pieces(await look(Watched()), 0.0)))["groups"] == []


async def test_a_group_with_nothing_to_wait_for_has_lag_0() -> None:
    """That is known, unlike the others."""
    watched = Watched()
    watched.put("g", row(lag=0))
    snapshot = await look(watched)
    body = json.loads(b"".join(group_pieces(snapshot, snapshot.groups[GroupId("g")], 0.0)))
    assert (body["lag"], body["complete"]) == (0, True)
