"""Worker processes, and the proxy that some of them go through: started, broken, started again.

In: servers and names. Out: processes and their files. Must never: leave a process behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from benchmarks.serving import wait_for_port
from shareproxy.testing.ports import ports_side_by_side

# the bootstrap port, and one for each id from 0 to 3
PORTS = 5


class Crew:
    """All processes that drain.

    Args:
        servers: the brokers.
        group: share group.
        topic: to drain.
        directory: for files.
        size: how many workers; every second one goes through the proxy.
    """

    def __init__(self, servers: str, group: str, topic: str, directory: Path, size: int) -> None:
        self._servers, self._group, self._topic, self._directory = servers, group, topic, directory
        self._ports = ports_side_by_side(PORTS)
        self._started = 0
        self._proxy: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes] | None] = [None] * size
        self._logs: dict[int, Path] = {}
        self.last_words: list[str] = []
        """What workers that ended by themselves said last."""

    def __enter__(self) -> Self:
        self.start_proxy()
        for place in range(len(self.workers)):
            self.start(place)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self._proxy):
            if process is not None:
                _end(process, signal.SIGKILL)

    @property
    def files(self) -> list[Path]:
        """What all workers wrote, also those that are gone."""
        return sorted(self._directory.glob("finished-*"))

    def start_proxy(self) -> None:
        """Start the proxy; its ports stay the same."""
        arguments = ["serve", "--bootstrap-server", self._servers, "--listen", f"127.0.0.1:{self._ports[0]}"]
        arguments += ["--node-ports", f"{self._ports[1]}-{self._ports[-1]}"]
        self._proxy = self._run(["-m", "shareproxy", *arguments], "proxy")
        wait_for_port(self._ports[0])

    def cut_lines(self) -> None:
        """Kill the proxy, and with it every connection that goes through it; start it again."""
        if self._proxy is not None:
            _end(self._proxy, signal.SIGKILL)
        self.start_proxy()

    def start(self, place: int) -> None:
        """Start a worker in a place."""
        self._started += 1
        servers = f"127.0.0.1:{self._ports[0]}" if place % 2 else self._servers
        file = self._directory / f"finished-{self._started:04}"
        arguments = ["-m", "benchmarks.drain_chaos.worker", servers, self._group, self._topic, str(file)]
        self._logs[place] = self._directory / f"worker-{self._started:04}.log"
        self.workers[place] = self._run(arguments, f"worker-{self._started:04}")

    def kill(self, place: int, number: signal.Signals = signal.SIGKILL) -> None:
        """End a worker, with `SIGTERM` as people do, or as a crash does; start another in its place."""
        process = self.workers[place]
        if process is not None:
            _end(process, number)
        self.start(place)

    def freeze(self, place: int, *, thaw: bool = False) -> None:
        """Stop a worker without ending it, or let it go on."""
        process = self.workers[place]
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT if thaw else signal.SIGSTOP)

    def replace_ended(self) -> int:
        """Start workers again that ended by themselves, as a supervisor does; return how many."""
        ended = [place for place, process in enumerate(self.workers) if process is None or process.poll() is not None]
        for place in ended:
            process = self.workers[place]
            self.last_words.append("" if process is None else f"exit code {process.returncode}: {self._words(place)}")
            self.start(place)
        return len(ended)

    def stop(self) -> None:
        """End all workers with `SIGTERM`."""
        for place, process in enumerate(self.workers):
            if process is not None:
                _end(process, signal.SIGTERM)
                self.workers[place] = None

    def _words(self, place: int) -> str:
        return self._logs[place].read_text(errors="replace").strip().rpartition("\n")[2]

    def _run(self, arguments: list[str], name: str) -> subprocess.Popen[bytes]:
        with open(self._directory / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ)
            )


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
