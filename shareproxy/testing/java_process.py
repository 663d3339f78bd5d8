"""A Java main class comes in; a running JVM, tied to the life of this process, goes out.

The JVM gets its own session, so that Ctrl-C reaches Python first. Must never leave a JVM behind, whatever ends Python.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shareproxy.testing.kafka_jars import find_tool

# For JVMs that live for seconds: no optimising compiler, no parallel collector. The JVM's own warnings go to stderr,
# because stdout may carry answers.
QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)

# Reads until the pipe from Python closes, which the kernel does however Python ends; then ends the JVM by its id
# and removes the data that it would have removed.
_WATCHDOG = """\
trap "" INT TERM HUP
while read -r _; do :; done
kill -KILL "$1" 2>/dev/null
if [ -n "$2" ]; then
    rm -rf "$2" || rm -rf "$2"  # a dying JVM can still add a file
    rmdir "${2%/*}" 2>/dev/null
fi
"""


class JavaProcess:
    """One JVM and the small shell process that ends it if this Python process goes away."""

    def __init__(
        self,
        options: Sequence[str],
        class_path: str,
        main: Sequence[str],
        log: Path,
        *,
        archive: Path | None = None,
        data: Path | None = None,
        talk: bool = False,
    ):
        """Start it.

        Args:
            options: JVM options, on top of `QUICK_START`.
            class_path: the class path; with `archive`, of jars only.
            main: the main class and its arguments.
            log: file that gets its stderr, and its stdout unless `talk`; appended to.
            archive: where its loaded classes are kept for the next start, which then takes half the time. The first
                orderly stop writes it, in a few seconds; a JVM that does not like it goes on without.
            data: directory that is removed (and its parent, once empty) if Python ends without calling `stop`.
            talk: keep pipes to its stdin and stdout as `.popen.stdin` and `.popen.stdout`.

        Raises:
            MissingTool: no Java 17 or newer.
        """
        self._archive = archive
        self._new_archive: Path | None = None
        sharing: list[str] = []
        if archive and archive.exists():
            sharing = [f"-XX:SharedArchiveFile={archive}"]
        elif archive:
            self._new_archive = Path(tempfile.mkdtemp(prefix=f".{archive.stem}-", dir=archive.parent), archive.name)
            sharing = [f"-XX:ArchiveClassesAtExit={self._new_archive}"]
        command = [str(find_tool("java")), *QUICK_START, *sharing, *options, "-cp", class_path, *main]
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talk else out,
                stderr=out,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self.popen.pid), str(data or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self.popen.pid

    @property
    def makes_archive(self) -> bool:
        """Whether an orderly stop would write the class archive."""
        return self._new_archive is not None

    def exit_code(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self.popen.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self.popen.send_signal(number)

    def stop(self, grace: float) -> None:
        """End it: SIGTERM and up to `grace` seconds, then SIGKILL. With `grace` 0 it is killed at once."""
        if grace > 0:
            self.popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(grace)
        # The watchdog must not outlive the JVM by more than this moment: the JVM's id could become another process's.
        self._watchdog.kill()
        self._watchdog.wait()
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self._watchdog.stdin, self.popen.stdin, self.popen.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._keep_archive()

    def _keep_archive(self) -> None:
        if self._new_archive and self._archive:
            with contextlib.suppress(FileNotFoundError):
                self._new_archive.replace(self._archive)
            with contextlib.suppress(OSError):  # a JVM that was killed in the midst of writing leaves its half
                self._new_archive.unlink(missing_ok=True)
                self._new_archive.parent.rmdir()
            self._new_archive = None


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented, or a note that it is empty."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.path.getsize(log) - 64 * 1024))
            text = file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        text = []
    return "\n".join(f"    {line}" for line in text) if text else "    (nothing was logged)"
