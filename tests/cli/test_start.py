"""The first moments of the command: standard streams that are closed, and signals that come early."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import STOP_SECONDS, clean_environment
from tests.support.command import Served as Running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell, and there are no signals")

CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all of them": "<&- >&- 2>&-"}


def started(redirection: str, *arguments: str, log: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start the command as a shell does."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "shareproxy", *arguments]
    return subprocess.Popen(command, stdout=log, stderr=log, env=clean_environment())


def serve_arguments(ports: range) -> list[str]:
    """Return arguments for a proxy whose cluster is not there."""
    listen = ["--listen", f"127.0.0.1:{ports[0]}", "--node-ports", f"{ports[2]}-{ports[-1]}"]
    return ["serve", "--bootstrap-server", "127.0.0.1:1", *listen]


@pytest.mark.parametrize(("closed", "workers"), [("stdin", "1"), ("stderr", "1"), ("all of them", "2")])
def test_service_without_a_standard_stream_serves_and_stops(closed: str, workers: str, tmp_path: Path) -> None:
    """As those that start daemons leave it."""
    ports = ports_side_by_side(10)
    with (tmp_path / "log").open("w+b") as log:
        process = started(CLOSED[closed], *serve_arguments(ports), "--workers", workers, log=log.fileno())
        try:
            running = Running(process, ports, log)
            running.wait_until_listening()
            assert running.terminate() == 0, running.log()
        finally:
            process.kill()
            process.wait(STOP_SECONDS)


@pytest.mark.parametrize("closed", CLOSED)
def test_command_without_a_standard_stream_does_its_work(closed: str) -> None:
    """Its exit code is that of its work."""
    assert started(CLOSED[closed], "--version").wait(60) == 0
    assert started(CLOSED[closed], "lag", "g", "--bootstrap-server", "nonsense").wait(60) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows file descriptors")
def test_closed_streams_are_taken_by_nothing_else() -> None:
    """And a process that it starts has them too."""
    child = "import os; print([os.readlink(f'/proc/self/fd/{number}') for number in (0, 2)])"
    code = f"import subprocess, sys; from shareproxy.cli import start; start._open_closed_streams(); assert sys.stdin.read() == ''; sys.stderr.write('x'); subprocess.run([sys.executable, '-c', {child!r}])"  # noqa: E501
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "['/dev/null', '/dev/null']\n"


@pytest.mark.parametrize(
    ("command", "code"), [("serve", 0), ("exporter", 0), ("lag", -signal.SIGHUP)], ids=["serve", "exporter", "lag"]
)
def test_hangup_does_not_end_a_service_that_starts(command: str, code: int) -> None:
    """To it the signal means something else; any other command ends, as its terminal is gone."""
    program = "import os, signal, shareproxy.cli.start; os.kill(os.getpid(), signal.SIGHUP)"
    assert subprocess.run([sys.executable, "-c", program, command], check=False, timeout=60).returncode == code


def writing_end(pipe: Path) -> int | None:
    """Open a named pipe to write, None if nobody reads it yet."""
    with contextlib.suppress(OSError):
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    return None


def test_hangup_while_settings_are_read_is_remembered(tmp_path: Path) -> None:
    """From the first moment on until the service listens to signals itself: they may have changed since."""
    ports, config = ports_side_by_side(10), tmp_path / "shareproxy.toml"
    os.mkfifo(config)
    with (tmp_path / "log").open("w+b") as log:
        process = started("", *serve_arguments(ports), "--config", str(config), log=log.fileno())
        try:
            ends: list[int | None] = [None]

            def is_read() -> bool:
                ends[0] = writing_end(config)
                return ends[0] is not None

            wait_until(is_read, "it reads its settings")
            assert ends[0] is not None
            config.unlink()
            config.write_text("stop_timeout = 2.0\n")  # what is there to be read the second time
            with open(ends[0], "wb") as settings:
                process.send_signal(signal.SIGHUP)
                settings.write(b"stop_timeout = 1.0\n")
            running = Running(process, ports, log)
            running.wait_until_listening()
            wait_until(lambda: "settings reloaded" in running.log(), "it has read its settings again")
            assert '"changed":["stop_timeout"]' in running.log()
            assert running.terminate() == 0, running.log()
        finally:
            process.kill()
            process.wait(STOP_SECONDS)
