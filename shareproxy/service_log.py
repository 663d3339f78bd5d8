"""Set up the log: key–value for a person at a terminal, JSON for everything else, on stderr.

In: events. Out: their lines, in order, on the file descriptor of stderr. Must never: keep the service waiting for
whoever reads them, or end a client's connection because nobody does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import select
import sys
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

if TYPE_CHECKING:
    from shareproxy.config import Log

# not sys.stderr: a thread that hangs in its write holds a lock that the interpreter wants at its end
STDERR: Final = 2
# some megabytes: enough for all clients of a broker that end at once, and for a log collector that starts anew
MAX_LINES: Final = 10_000
# what POSIX lets be written to a pipe in one piece, at least on Linux: lines of several workers do not mix
PIECE_BYTES: Final = 4096
# A thread that wakes for each line takes a sixth of what a short connection costs, and the interpreter from the event
# loop in between: the first line after silence waits this long for others. What a `kill -9` takes with it.
GATHER_SECONDS: Final = 0.02
# for the last lines before the end, if they are not read fast enough
FLUSH_SECONDS: Final = 1.0


class _Lost:
    """Stands in the queue where lines are missing."""


class LogWriter:
    """Writes lines in a thread of its own, so that a full pipe holds up nobody else.

    A pipe cannot be asked to refuse what it has no room for: O_NONBLOCK would hold for all processes that share it.

    Args:
        descriptor: where to.
        max_lines: how many may wait; what comes then is lost, and counted, until all of them are written.
    """

    def __init__(self, descriptor: int, max_lines: int = MAX_LINES) -> None:
        self._descriptor, self._max_lines = descriptor, max_lines
        self._queue: SimpleQueue[bytes | _Lost | threading.Event] = SimpleQueue()
        self._lost = 0
        self._hurry = threading.Event()  # somebody waits for what is written
        # one thread may take it twice: the line about lost lines is logged while it is held, a finalizer may log
        self._lock = threading.RLock()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def put(self, line: str | bytes) -> None:
        """Have a line written soon; never waits for that.

        Args:
            line: without its end.
        """
        data = (line if isinstance(line, bytes) else line.encode(errors="backslashreplace")) + b"\n"
        with self._lock:
            if not self._lost and self._queue.qsize() < self._max_lines:
                self._queue.put(data)
                return
            if not self._lost:
                self._queue.put(_Lost())
            self._lost += 1

    # structlog calls a method of the level's name
    debug = info = warning = error = critical = put

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until all lines so far are written.

        Args:
            seconds: how long at most.

        Returns:
            Whether they are.
        """
        written = threading.Event()
        self._queue.put(written)
        self._hurry.set()
        return written.wait(seconds)

    def _run(self) -> None:
        piece = bytearray()
        gathered = True  # nothing is known to wait: the next line is the first of some
        while True:
            try:
                item = self._queue.get(block=gathered)
            except Empty:
                self._write(piece)
                piece.clear()
                gathered = True
                continue
            if gathered:
                gathered = False
                self._hurry.wait(GATHER_SECONDS)
            if piece and not (isinstance(item, bytes) and len(piece) + len(item) <= PIECE_BYTES):
                self._write(piece)
                piece.clear()
            if isinstance(item, bytes):
                piece += item
            elif isinstance(item, _Lost):
                self._tell_lost()
            else:
                self._hurry.clear()
                item.set()

    def _tell_lost(self) -> None:
        with self._lock:  # so that no newer line comes before it
            count, self._lost = self._lost, 0
            structlog.get_logger().warning("log lines lost", count=count)

    def _write(self, piece: bytearray) -> None:
        rest = bytes(piece)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that shares it has set O_NONBLOCK
                select.select((), (self._descriptor,), ())
            except OSError:  # the reader went away, the disk is full
                return


@functools.cache
def _stderr() -> LogWriter:
    writer = LogWriter(STDERR)
    atexit.register(writer.flush)
    return writer


def flush_log() -> None:
    """Wait until what was logged is written, at most one second; for ends of the process that run no exit handlers."""
    _stderr().flush()


def say_behind_log(sentence: str) -> bool:
    """Write a sentence for a person behind the lines so far, and wait for whoever reads no longer than for those.

    Returns:
        False if nothing is logged in this process, or stderr is not what it was: then it is not written.
    """
    if not _stderr.cache_info().currsize or sys.stderr is not sys.__stderr__:
        return False
    _stderr().put(sentence)
    flush_log()
    return True


class _FromLibraries(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        log, error = structlog.get_logger(), record.exc_info
        getattr(log, level)("library message", logger=record.name, message=record.getMessage(), exc_info=error)


@contextlib.contextmanager
def libraries_logged() -> Iterator[None]:
    """Log what libraries say by Python's own logging, asyncio's errors above all; else it goes to stderr by itself."""
    handler, root = _FromLibraries(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _to_json(event: object, **_: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=repr)


def configure_log(settings: Log, *, worker: int | None = None) -> None:
    """Configure structlog for this process.

    Args:
        settings: level and form.
        worker: number of this process among several, shown in each line; None for the only one.
    """
    at_terminal = os.isatty(STDERR)
    as_text = at_terminal if settings.format == "auto" else settings.format == "text"
    renderer: structlog.typing.Processor
    if as_text:
        renderer = structlog.dev.ConsoleRenderer(colors=at_terminal)
    else:
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)

    def add_worker(logger: object, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("worker", worker)
        return event

    structlog.configure(
        processors=[
            *([] if worker is None else [add_worker]),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=lambda *_: _stderr(),
        cache_logger_on_first_use=True,
    )
