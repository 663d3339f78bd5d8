"""Start the share consumers that are compared, each in a process of its own, and give them jobs.

In: the name of a contestant. Out: a process that takes one job at a time. Must never: leave a process behind.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self

from shareproxy.testing.kafka_jars import classpath, find_tool, jars

KAFKA = "4.4.0"
ANSWER_SECONDS = 150.0
NAMES = {
    "ours": "shareproxy.ShareConsumer",
    "ours-prefetch": "the same, prefetch=True",
    "confluent": "confluent-kafka ShareConsumer",
    "java": "Java KafkaShareConsumer",
}


class Member:
    """One contestant's process.

    Args:
        name: a key of `NAMES`.
        command: what to run in its place.
    """

    def __init__(self, name: str, command: Sequence[str] = ()) -> None:
        self.name = name
        self._directory = tempfile.TemporaryDirectory(prefix="drain-bench-")
        self._log = Path(self._directory.name, "stderr")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command or _command(name, Path(self._directory.name)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def start(self, work: str, servers: str, group: str, topic: str, count: int) -> None:
        """Give it a job."""
        assert self._process.stdin
        self._process.stdin.write(f"{work} {servers} {group} {topic} {count}\n".encode())
        self._process.stdin.flush()

    def result(self, count: int) -> dict[str, Any]:
        """Wait for the job's end.

        Raises:
            RuntimeError: it failed, or did not get all records.
        """
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            line = b""
        found: dict[str, Any] = json.loads(line) if line else {"error": "no answer"}
        if "error" in found or found["records"] < count:
            raise RuntimeError(f"{self.name}: {found}; its stderr ends with:\n{self._log.read_text()[-2000:]}")
        return found

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")


def _command(name: str, directory: Path) -> list[str]:
    if name != "java":
        return [sys.executable, "-m", "benchmarks.drain.member", name]
    source = Path(str(resources.files("benchmarks.drain") / "java" / "DrainBench.java"))
    libraries = classpath(jars(KAFKA))
    compiling = [str(find_tool("javac")), "-proc:none", "-nowarn", "-d", str(directory), "-cp", libraries, str(source)]
    subprocess.run(compiling, check=True)
    # the JVM's own defaults: this one is compared, not only used
    options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return [str(find_tool("java")), *options, "-cp", f"{directory}:{libraries}", "DrainBench"]
