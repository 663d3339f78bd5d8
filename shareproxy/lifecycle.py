"""Run a service from its start to its end: signals, the service manager, the event loop.

In: something that starts, reloads and stops. Out: its life, until SIGTERM or SIGINT or until it cannot go on.
Must never: know what it runs, or let a second signal wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from shareproxy import early_hangup
from shareproxy.config import ConfigError, Settings
from shareproxy.service_log import configure_log, flush_log, libraries_logged
from shareproxy.systemd import ALIVE, READY, STOPPING, Systemd

# objects of a service live on; these thresholds keep the collector from walking them on every large answer
GC_THRESHOLDS: Final = (50_000, 20, 100)
# how often readiness is looked at for `systemctl status`
STATUS_SECONDS: Final = 1.0
# whatever still waits after a second signal is left as it is
HURRY_SECONDS: Final = 5.0

NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Living(Protocol):
    """What can be run."""

    async def start(self) -> None:
        """Begin to serve; what fails leaves nothing behind."""

    def why_not_ready(self) -> str | None:
        """Return why nobody is served now, as a sentence; None if all is well."""

    async def reload(self) -> None:
        """Read the settings again; log what came of it."""

    async def stop(self) -> None:
        """End in order: what is under way may finish."""

    def hurry(self) -> None:
        """Let `stop` wait for nothing any more."""

    async def failed(self) -> Exception:
        """Return when it cannot go on, with the reason."""


async def live(living: Living, about: Callable[[], None] = lambda: None) -> None:
    """Run something until SIGTERM or SIGINT; a second one ends what the first began at once. SIGHUP reloads.

    Args:
        living: what runs.
        about: called once when it serves.

    Raises:
        ConfigError: it could not start; nothing keeps running.
        Exception: what `living.failed` returned.
    """
    systemd = Systemd(os.environ)
    try:
        await _Life(living, systemd).run(about)
    finally:
        systemd.close()


class _Life:
    def __init__(self, living: Living, systemd: Systemd) -> None:
        self._living, self._systemd = living, systemd
        self._stopped, self._hurried, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, about: Callable[[], None]) -> None:
        self._listen_to_signals()
        start, stopped = asyncio.create_task(self._start(about)), asyncio.create_task(self._stopped.wait())
        beside: list[asyncio.Task[Any]] = [stopped]
        failed: asyncio.Task[Exception] | None = None
        await asyncio.wait({start, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():  # told to stop before it served
            start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        if not start.cancelled() and (error := start.exception()) is not None:
            stopped.cancel()
            raise error
        try:
            beside += [asyncio.create_task(work()) for work in (self._keep_telling, self._keep_reloading)]
            failed = asyncio.create_task(self._living.failed())
            await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest = [task for task in (*beside, failed) if task is not None]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self._stop()
        if failed.done() and not failed.cancelled():
            raise failed.result()

    async def _start(self, about: Callable[[], None]) -> None:
        await self._living.start()
        about()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        self._systemd.tell(READY, status=self._status())

    async def _stop(self) -> None:
        self._systemd.tell(STOPPING, status="stopping")
        stopping = asyncio.create_task(self._living.stop())
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not stopping.done():
            structlog.get_logger().warning("stopping at once", why="a second signal")
            self._living.hurry()
            await asyncio.wait({stopping}, timeout=HURRY_SECONDS)
            stopping.cancel()
        await asyncio.gather(stopping, hurried, return_exceptions=True)
        if not stopping.cancelled() and (error := stopping.exception()) is not None:
            raise error

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
                loop.add_signal_handler(number, self._told_to_stop)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._reload.set)
            if early_hangup.came():
                self._reload.set()

    def _told_to_stop(self) -> None:
        (self._hurried if self._stopped.is_set() else self._stopped).set()

    async def _keep_reloading(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            self._systemd.tell_reloading()
            await self._living.reload()
            self._systemd.tell(READY)

    async def _keep_telling(self) -> None:
        systemd = self._systemd
        while systemd.listens:
            systemd.tell(*([ALIVE] if systemd.watchdog_seconds else []), status=self._status())
            await asyncio.sleep(min(STATUS_SECONDS, (systemd.watchdog_seconds or STATUS_SECONDS) / 3))

    def _status(self) -> str:
        return self._living.why_not_ready() or "ready"


def allow_open_files() -> None:
    """Raise the limit of open files to what the system allows: each client needs two, and the usual limit is 1024."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit; macOS may refuse
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(settings: Settings, main: Callable[[], Coroutine[Any, Any, None]], *, worker: int | None = None) -> None:
    """Set up a process for a service and run it in the event loop that the settings name.

    Args:
        settings: their log, and their event loop.
        main: what runs.
        worker: number of this process among several, for its log lines.

    Raises:
        ConfigError: there is no such event loop here, or what `main` raises.
    """
    configure_log(settings.log, worker=worker)
    allow_open_files()
    try:
        with libraries_logged(), asyncio.Runner(loop_factory=event_loop(settings.event_loop)) as runner:
            runner.run(main())
    finally:
        flush_log()  # what is said about its end comes behind


def event_loop(name: str) -> NewLoop:
    """Return what makes an event loop: uvloop saves a tenth of the CPU per forwarded frame.

    Args:
        name: `asyncio`, `uvloop`, or `auto` for uvloop where it is installed.

    Raises:
        ConfigError: uvloop is wanted and not installed.
    """
    if name != "asyncio" and (name == "uvloop" or sys.platform != "win32"):
        try:
            import uvloop
        except ImportError:
            if name == "uvloop":
                raise ConfigError(
                    "event_loop: uvloop is not installed here; install it, or write asyncio (auto takes what there is)"
                ) from None
        else:
            made: NewLoop = uvloop.new_event_loop
            return made
    return asyncio.new_event_loop
