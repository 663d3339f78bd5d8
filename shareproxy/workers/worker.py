"""The service of one worker, and its talk with its supervisor.

In: messages of the supervisor. Out: served clients, and messages about them on the same socket. Must never: go on
without the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from typing import Final

import structlog

from shareproxy.cluster.errors import PropertiesError
from shareproxy.config import CannotListen, ConfigError
from shareproxy.lifecycle import GC_THRESHOLDS, run
from shareproxy.service import Service
from shareproxy.service_log import flush_log
from shareproxy.workers.messages import (
    MAX_LINE_BYTES,
    Drain,
    Failed,
    FromWorker,
    Hurry,
    Listening,
    Reload,
    Reloaded,
    Report,
    Reported,
    Start,
    decode_to_worker,
    line,
)

REPORT_SECONDS: Final = 1.0
# how soon the supervisor hears that the cluster was reached, or lost
LOOK_SECONDS: Final = 0.1
# exit codes that the supervisor's log shows
CANNOT_START: Final = 2
SUPERVISOR_GONE: Final = 3


def serve(control: socket.socket) -> int:
    """Serve until the supervisor says that it is enough, or is gone.

    Args:
        control: the socket to the supervisor, blocking.

    Returns:
        The exit code.
    """
    with control.makefile("rb", buffering=0) as stream:  # unbuffered: what follows is read by the event loop
        first = stream.readline(MAX_LINE_BYTES)
    if not first:
        return SUPERVISOR_GONE
    start = decode_to_worker(first)
    assert isinstance(start, Start)
    code = 0

    async def main() -> None:
        nonlocal code
        code = await Worker(start, control).serve()

    run(start.settings, main, worker=start.worker)
    return code


class Worker:
    """The service of one worker, and its talk with the supervisor.

    Args:
        start: what it was told first.
        control: the socket to the supervisor.
    """

    def __init__(self, start: Start, control: socket.socket) -> None:
        self._start, self._control = start, control
        self._drain: Drain | None = None
        self._stopped = asyncio.Event()
        self._number = 0
        self._last = ""

    async def serve(self) -> int:
        """Serve; return the exit code."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._control, limit=MAX_LINE_BYTES)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._told_to_stop)
        hearing = asyncio.create_task(self._hear_end(reader))
        try:
            self._service = Service(self._start.settings, with_proxy=True, with_exporter=False, reuse_port=True)
            await self._service.start()
        except (CannotListen, ConfigError, PropertiesError) as error:
            hearing.cancel()
            await self._send_last(Failed(str(error), isinstance(error, CannotListen)))
            return CANNOT_START
        self._send(Listening())
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        reporting = asyncio.create_task(self._keep_reporting())
        await self._stopped.wait()
        await self._service.stop(*self._times())
        reporting.cancel()
        hearing.cancel()
        await asyncio.gather(reporting, hearing, return_exceptions=True)
        await self._send_last(self._report())
        return 0

    def _times(self) -> tuple[float | None, float | None]:
        return (None, None) if self._drain is None else (self._drain.delay, self._drain.grace)

    def _told_to_stop(self) -> None:
        if self._stopped.is_set():
            self._service.hurry()
        self._stopped.set()

    async def _hear_end(self, reader: asyncio.StreamReader) -> None:
        log, worker = structlog.get_logger(), self._start.worker
        try:
            while text := await reader.readline():
                await self._hear(text)
            log.error("supervisor gone", worker=worker)
        except OSError as error:
            log.error("supervisor gone", worker=worker, error=str(error))
        except Exception as error:
            log.error("bug in a worker", worker=worker, exc_info=error)
        # nobody looks after this process any more: its clients connect again, to those that are left or to nobody
        flush_log()  # no handlers run at this exit
        os._exit(SUPERVISOR_GONE)

    async def _hear(self, text: bytes) -> None:
        match decode_to_worker(text):
            case Report(number):
                self._number = number
                self._send(self._report())
            case Reload(settings):
                try:
                    await self._service.take(settings)
                except (ConfigError, PropertiesError) as error:
                    self._send(Reloaded(str(error)))
                else:
                    self._send(Reloaded(""))
            case Drain() as drain:
                self._drain = drain
                self._stopped.set()
            case Hurry():
                self._stopped.set()
                self._service.hurry()
            case Start():
                pass

    def _report(self) -> Reported:
        front = self._service.front
        assert front is not None
        self._last = front.why_not_ready() or ""
        return Reported(self._number, self._last, front.meter())

    async def _keep_reporting(self) -> None:
        looks = 0
        while True:
            looks += 1
            changed = (self._service.why_not_ready() or "") != self._last
            if looks * LOOK_SECONDS >= REPORT_SECONDS or changed or looks == 1:
                looks = 1
                if not self._writer.transport.get_write_buffer_size():  # else the supervisor does not read now
                    self._send(self._report())
            await asyncio.sleep(LOOK_SECONDS)

    def _send(self, message: FromWorker) -> None:
        self._writer.write(line(message))

    async def _send_last(self, message: FromWorker) -> None:
        self._send(message)
        with contextlib.suppress(OSError):
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
