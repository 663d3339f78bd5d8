"""Read what a process has used: processor time in nanoseconds, resident memory.

In: process ids. Out: sums over them and their threads. Must never: count in ticks of 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def processor_seconds(processes: Iterable[int]) -> float:
    """Return the time on a processor so far, in user and kernel mode, of all threads that live.

    Raises:
        OSError: this kernel does not tell (`CONFIG_SCHED_INFO`), or a process is gone.
    """
    spent = 0
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e9


def resident_bytes(processes: Iterable[int]) -> int:
    """Return the resident memory; what processes share counts for each of them."""
    total = 0
    for process in processes:
        status = Path(f"/proc/{process}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        total += int(line.split()[1]) * 1024
    return total


def family(pid: int) -> list[int]:
    """Return a process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # the name in brackets may hold blanks
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
    found = [pid]
    for process in found:
        found.extend(child for child, parent in parents.items() if parent == process)
    return found
