"""`shareproxy top` over a cluster that is a file: run as a program on a terminal.

In: a JSON file that a test writes anew whenever the cluster is to change. Out: the real screen.
Must never: need a broker.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shareproxy.admin.errors import AccessDenied, CannotReach
from shareproxy.cli.failures import ExitCode, with_exit_code
from shareproxy.cli.top import run_top
from shareproxy.cli.top_looks import ClusterLooks
from shareproxy.cli.top_state import State, View
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.listings import GroupListing
from shareproxy.lag.model import GroupError, GroupLag, LagReport, PartitionLag, Status
from shareproxy.lag.visible_model import Want
from shareproxy.protocol.ids import GroupId, TopicId

POLL_SECONDS = 0.01
TOPIC_ID = TopicId(bytes(15) + b"\x01")


class ScriptedAdmin:
    """Answers what the file says at the time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        """Nothing is open."""

    async def list_groups(self) -> GroupListing:
        raise NotImplementedError

    async def lag(self, groups: Sequence[str] | None, *, want: Want | None) -> LagReport:
        """Return the groups of the file, fail, or wait until the file says something else."""
        script = self._read()
        while script.get("hang"):
            await asyncio.sleep(POLL_SECONDS)
            script = self._read()
        if "denied" in script:
            raise AccessDenied(script["denied"])
        if "bug" in script:
            raise RuntimeError(script["bug"])
        if "talk" in script:
            sys.stderr.write(script["talk"] + "\n")
        if "failure" in script:
            raise CannotReach(script["failure"])
        rows = tuple(group_of(name, group) for name, group in script["groups"].items())
        return LagReport(script.get("cluster_id", "test-cluster"), datetime.now(UTC), rows)

    async def describe_groups(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        """Return as many members as the file says."""
        member = Member("m", "c", "/127.0.0.1", None, 1, (), ())
        scripted = self._read().get("groups", {})
        return {
            name: GroupDescription(GroupId(name), members=(member,) * scripted.get(name, {}).get("members", 0))
            for name in groups
        }

    def _read(self) -> dict[str, Any]:
        script: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return script


def group_of(name: str, script: Mapping[str, Any]) -> GroupLag:
    """Make a group from a script: `lags` of its partitions, `null` for an unknown one; `state`; `error`."""
    rows = tuple(
        PartitionLag("orders", TOPIC_ID, number, start_offset=0, end_offset=lag, lag=lag)
        if lag is not None
        else PartitionLag("orders", TOPIC_ID, number, status=Status.NO_LEADER, message="there is no leader")
        for number, lag in enumerate(script.get("lags", []))
    )
    error = GroupError(0, "NOTHING_INITIALIZED", script["error"]) if "error" in script else None
    return GroupLag(GroupId(name), script.get("state", "Stable"), error, rows)


def write(file: Path, script: Mapping[str, object]) -> None:
    """Let the cluster be what the script says from now on."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(script), encoding="utf-8")
    os.replace(new, file)


@with_exit_code
def main() -> ExitCode:
    """Run `top` with a file as the cluster; a second argument is the interval."""
    file, interval = Path(sys.argv[1]), float(sys.argv[2])
    state = State(View("lag"), cluster="127.0.0.1:9092", interval=interval)
    looks = ClusterLooks(lambda: ScriptedAdmin(file), None, None)
    iterations = int(sys.argv[3]) if len(sys.argv) > 3 else None
    return run_top(looks, state, batch="--batch" in sys.argv, iterations=iterations)


if __name__ == "__main__":
    main()
