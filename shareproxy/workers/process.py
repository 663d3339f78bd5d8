"""One worker process, as its supervisor sees it.

In: settings. Out: a process, and the messages that it sends. Must never: put settings where others can read them
(arguments, environment), or leave a process behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from typing import Final

import msgspec

from shareproxy.workers.messages import MAX_LINE_BYTES, FromWorker, ToWorker, decode_from_worker, line

PROGRAM: Final = ("-m", "shareproxy.workers.child")
# between the end of what a worker says and the end of its process
END_SECONDS: Final = 5.0


class WorkerProcess:
    """A process that was started; made by `WorkerProcess.start`."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self.pid = process.pid

    @classmethod
    async def start(cls, first: ToWorker) -> WorkerProcess:
        """Start a worker and tell it something.

        Raises:
            OSError: no process can be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: ASYNC220 - some milliseconds; no client is served here
                    [sys.executable, *PROGRAM],
                    stdin=theirs.fileno(),
                    env=_environment(),
                    process_group=0,  # Ctrl-C is for the supervisor alone, which tells the workers
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE_BYTES)
        worker = cls(process, reader, writer)
        worker.send(first)
        return worker

    def send(self, message: ToWorker) -> None:
        """Tell it something; if it is gone, nobody hears it."""
        self._writer.write(line(message))

    async def receive(self) -> FromWorker | None:
        """Return the next message, None when there will be no more."""
        with contextlib.suppress(OSError, ValueError, msgspec.ValidationError, msgspec.DecodeError):
            if (text := await self._reader.readline()).endswith(b"\n"):
                return decode_from_worker(text)
        return None

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def end(self) -> int:
        """Wait for its end, which is forced if it does not come.

        Returns:
            Its exit code, or the signal that ended it as a negative number.
        """
        self._writer.close()
        try:
            return await asyncio.to_thread(self._process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return await asyncio.to_thread(self._process.wait)


def _environment() -> dict[str, str]:
    """Return ours without settings, among which are secrets: the worker is told what it needs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHAREPROXY_")}
