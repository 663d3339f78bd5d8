"""Count what a process holds: file descriptors, tasks, connections, memory."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import NamedTuple

from shareproxy.proxy.connection import Connection
from shareproxy.proxy.session import Session


class Held(NamedTuple):
    """What this process holds now."""

    descriptors: int
    tasks: int

    def within(self, before: Held) -> bool:
        """Tell whether it is no more than before; what somebody else has given back meanwhile does not count."""
        return self.descriptors <= before.descriptors and self.tasks <= before.tasks


def held() -> Held:
    """Count this process's open files and the running loop's tasks."""
    return Held(len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()))


def living_connections() -> int:
    """Count connections and sessions that something still refers to, once garbage is gone."""
    gc.collect()
    return connections_and_sessions()


def connections_and_sessions() -> int:
    """Count connections and sessions, garbage that was not collected yet included."""
    return sum(isinstance(thing, Connection | Session) for thing in gc.get_objects())


def descriptors_of(pid: int) -> int:
    """Count another process's open files."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int) -> int:
    """Return another process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory: it ended")


def children_of(pid: int) -> set[int]:
    """Return the processes that a process has started and that have not ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in children}
