"""Run `shareproxy` as a process."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from typing import IO

from shareproxy.testing.ports import ports_side_by_side
from tests.support.waiting import wait_until

NODE_PORTS = 8
STOP_SECONDS = 20.0


def clean_environment() -> dict[str, str]:
    """Return this process's environment without settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHAREPROXY_")}


def run_shareproxy(*arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "shareproxy", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
        timeout=timeout,
    )


class Served:
    """A running `shareproxy serve` or `shareproxy exporter`."""

    def __init__(self, process: subprocess.Popen[bytes], ports: range, log: IO[bytes]) -> None:
        self.process, self._ports, self._log = process, ports, log
        self.http_port = ports[1]
        self.bootstrap_servers = f"127.0.0.1:{ports[0]}"

    def node_port(self, node_id: int) -> int:
        """Return the port that belongs to a node id."""
        return self._ports[2 + node_id]

    def wait_until_listening(self) -> None:
        """Return when the bootstrap port accepts connections."""
        wait_until(lambda: self._alive() and _accepts(self._ports[0]), "shareproxy listens")

    def wait_until_ready(self) -> None:
        """Return when `/readyz` says so."""
        wait_until(lambda: self._alive() and _is_ready(self.http_port), "shareproxy is ready")

    def log(self) -> str:
        """Return what it has logged so far."""
        # not by reading: the process writes where the two of them last were
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def terminate(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)

    def _alive(self) -> bool:
        assert self.process.poll() is None, f"shareproxy ended:\n{self.log()}"
        return True


@contextlib.contextmanager
def serving(bootstrap_servers: str, *flags: str) -> Iterator[Served]:
    """Run `shareproxy serve` in front of a cluster, with health probes, on free ports."""
    ports = ports_side_by_side(NODE_PORTS + 2)
    more = ("--listen", f"127.0.0.1:{ports[0]}", "--node-ports", f"{ports[2]}-{ports[-1]}", *flags)
    with _running("serve", bootstrap_servers, ports, *more) as served:
        yield served


@contextlib.contextmanager
def exporting(bootstrap_servers: str, *flags: str) -> Iterator[Served]:
    """Run `shareproxy exporter` on a free port."""
    with _running("exporter", bootstrap_servers, ports_side_by_side(2), *flags) as served:
        yield served


@contextlib.contextmanager
def _running(name: str, bootstrap_servers: str, ports: range, *flags: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "shareproxy", name, "--bootstrap-server", bootstrap_servers]
    command += ["--http", f"127.0.0.1:{ports[1]}", *flags]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=clean_environment())
        try:
            yield Served(process, ports, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10):
            return True
    except (http.client.HTTPException, OSError):  # URLError is an OSError
        return False
