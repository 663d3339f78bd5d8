"""Write to stdout without holding up the event loop: a reader that is slow must not cost a member its locks.

In: bytes. Out: the same on stdout, and the news that they are there. Must never: say that bytes were written that
were not, or keep the process from ending while a reader does not read.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import select
import sys
import threading
from typing import IO, Final, TypeAlias

_Piece: TypeAlias = tuple[bytes, asyncio.AbstractEventLoop, "asyncio.Future[None]"]
# a pipe takes so much at once
PIECE_BYTES: Final = 64 * 1024


class RecordOutput:
    """A stream, written by a thread of its own.

    Args:
        stream: standard output if it is none.

    Raises:
        OSError: standard output was closed by who started us (`>&-`): what stands in for it takes all, keeps nothing.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        # Python calls the one that it opened "<stdout>", also where it is a `> /dev/null` that somebody asked for
        if stream is None and getattr(sys.stdout, "name", None) in (1, os.devnull):
            raise OSError(errno.EBADF, "stdout is closed")
        self._stream = sys.stdout if stream is None else stream
        self._pieces: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def write(self, data: bytes) -> None:
        """Return when all of it has been taken by the system.

        Raises:
            OSError: it was not, or not all; `BrokenPipeError` where nobody reads any more.
        """
        if not data:
            return
        if self._thread is None:
            # a daemon: whoever reads us may never read on, and that must not keep us from ending
            self._thread = threading.Thread(target=self._run, name="stdout", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._pieces.put((data, loop, written))
        await written

    def close(self) -> None:
        """Let the thread end; what is under way is not waited for."""
        self._pieces.put(None)

    def _run(self) -> None:
        while (piece := self._pieces.get()) is not None:
            data, loop, written = piece
            error: OSError | None = None
            try:
                write_all(self._stream, data)
            except OSError as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, written, error)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
                return


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def write_all(stream: IO[str], data: bytes) -> None:
    """Write all bytes, past Python's own buffers: at the end of the process they would be flushed once more."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a real one, as in tests
        stream.buffer.write(data)  # type: ignore[attr-defined]
        stream.flush()
        return
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # somebody else who has the same terminal made it so
            select.select([], [descriptor], [])
