"""A sink that writes one line for each record into a file of its own, for tests that need a sink of another process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from shareproxy.drain.sink import SinkRecord, TaskContext


class LineSink:
    """Append `topic partition offset delivery_count` for each record to `directory/PID-TASK-NUMBER`.

    Settings: `directory`; `seconds_each`: how long a record takes.
    """

    def __init__(self) -> None:
        self._file: IO[str] | None = None
        self._seconds = 0.0

    @staticmethod
    def check(config: Any) -> None:
        """Say what is missing."""
        if "directory" not in config:
            raise ValueError("directory: is missing; name one")

    def start(self, context: TaskContext) -> None:
        """Open the file."""
        directory = Path(context.config["directory"])
        self._seconds = float(context.config.get("seconds_each", 0.0))
        name = f"{os.getpid()}-{context.connector}-{context.task_id}"
        self._file = (directory / name).open("a")

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """Write."""
        assert self._file is not None
        if self._seconds:
            time.sleep(self._seconds * len(batch))
        self._file.writelines(f"{r.topic} {r.partition} {r.offset} {r.delivery_count}\n" for r in batch)
        self._file.flush()

    def stop(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class FailingSink(LineSink):
    """A sink that fails in the method that `fails` names."""

    def __init__(self) -> None:
        super().__init__()
        self._fails = ""

    def start(self, context: TaskContext) -> None:
        """Fail, or note."""
        self._fails = context.config["fails"]
        self._fail("start")
        super().start(context)

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """Fail, or write."""
        self._fail("put")
        super().put(batch)

    def stop(self) -> None:
        """Fail, or close."""
        super().stop()
        self._fail("stop")

    def _fail(self, method: str) -> None:
        if self._fails == method:
            raise RuntimeError(f"{method} does not work")


def lines(directory: Path) -> list[tuple[str, int, int, int]]:
    """Return what was written: topic, partition, offset, delivery count."""
    found = []
    for file in sorted(directory.iterdir()):
        for line in file.read_text().splitlines():
            topic, partition, offset, delivery = line.split()
            found.append((topic, int(partition), int(offset), int(delivery)))
    return found
