"""Sample what a process and its children hold, and decide whether it grows.

In: a running proxy. Out: samples, a line through them with its error, a verdict. Must never: call noise a leak, or a
leak noise.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# As much in twenty minutes as one large answer takes for a moment; a leak of a hundred bytes per connection is five
# times that at the rate of this soak.
FLAT_KIB_PER_MINUTE: Final = 50.0


@dataclass(frozen=True)
class Sample:
    """What the proxy held at one moment.

    Attributes:
        minute: since the beginning.
        kib: resident memory, of all its processes.
        descriptors: open files.
        tasks: of its event loop; None with several workers.
        objects: that the garbage collector knows; None with several workers.
        blocks: of Python's memory allocator; None with several workers.
        quiet: whether no flood was on or just over.
    """

    minute: float
    kib: int
    descriptors: int
    tasks: int | None
    objects: int | None
    blocks: int | None
    quiet: bool


class Watched:
    """A proxy process that is sampled.

    Args:
        process: started by `counted`, or the supervisor of several workers.
        answers: where `counted` answers; None with several workers.
    """

    def __init__(self, process: subprocess.Popen[str], answers: int | None) -> None:
        self.process = process
        self._answers = None if answers is None else os.fdopen(answers)

    def sample(self, minute: float, *, quiet: bool, collect: bool = False) -> Sample:
        """Look at it now; with `collect` its garbage is collected first."""
        tasks = objects = blocks = None
        if self._answers is not None:
            assert self.process.stdin is not None
            self.process.stdin.write("collect\n" if collect else "count\n")
            self.process.stdin.flush()
            told = json.loads(self._answers.readline())
            tasks, objects, blocks = told["tasks"], told["objects"], told["blocks"]
        family = _family(self.process.pid)
        kib = sum(_resident_kib(pid) for pid in family)
        descriptors = sum(_descriptors(pid) for pid in family)
        return Sample(minute, kib, descriptors, tasks, objects, blocks, quiet)


@dataclass(frozen=True)
class Line:
    """A straight line through samples, by least squares.

    Attributes:
        kib_per_minute: its slope.
        error: two standard errors of the slope; infinite with fewer than three samples.
    """

    kib_per_minute: float
    error: float

    @property
    def verdict(self) -> str:
        """`flat` or `grows` where the error leaves no doubt, else `not clear`."""
        if self.kib_per_minute + self.error <= FLAT_KIB_PER_MINUTE:
            return "flat"
        if self.kib_per_minute - self.error > FLAT_KIB_PER_MINUTE:
            return "grows"
        return "not clear"


def fit(samples: Sequence[Sample]) -> Line:
    """Lay a line through the resident memory of samples."""
    count = len(samples)
    if count < 3:
        return Line(0.0, math.inf)
    x_mean = sum(each.minute for each in samples) / count
    y_mean = sum(each.kib for each in samples) / count
    spread = sum((each.minute - x_mean) ** 2 for each in samples)
    slope = sum((each.minute - x_mean) * (each.kib - y_mean) for each in samples) / spread
    left = sum((each.kib - y_mean - slope * (each.minute - x_mean)) ** 2 for each in samples)
    return Line(slope, 2 * math.sqrt(left / (count - 2) / spread))


def _family(pid: int) -> list[int]:
    """Return a process and its children."""
    with contextlib.suppress(FileNotFoundError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(int(child) for child in children)]
    return []


def _resident_kib(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def _descriptors(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0
