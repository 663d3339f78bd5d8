"""Look after the workers: start them, replace those that end, add up what they count.

In: settings. Out: the front of the service, made of several processes. Must never: listen on a Kafka port itself, leave
a worker behind, or stop those that serve because of one that does not.

    a worker ends ...                             then
    after it was told to, or by SIGTERM           it is replaced at once, unless the service stops
    some time after it began to listen            it is replaced at once, and the log says how it ended
    before it listened, or right after            it is replaced after a pause that doubles, up to `LAST_PAUSE`
    so `EARLY_ENDS` times in a row, and no        the service ends with a sentence
      other worker listens
    never, but says nothing for `SILENT`          it is killed, and replaced
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from shareproxy.config import CannotListen, ConfigError, Settings
from shareproxy.proxy.client_tls import TlsPorts
from shareproxy.proxy.listening import hold
from shareproxy.proxy.meter import MeterDict, merge, retired
from shareproxy.proxy.server import ProxySettings
from shareproxy.workers.messages import (
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
    ToWorker,
)
from shareproxy.workers.process import WorkerProcess
from shareproxy.workers.shares import share_of

if TYPE_CHECKING:
    from prometheus_client.registry import Collector as Source

    from shareproxy.observe.worker_metrics import WorkerState

# A worker that ends sooner than this after it began to listen has not served anybody.
EARLY_SECONDS: Final = 1.0
EARLY_ENDS: Final = 5
FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 5.0
# Workers report every second; one that was silent for so long serves nobody, but the kernel still sends it clients.
SILENT_SECONDS: Final = 30.0
# What a scrape waits for counters of this moment; then it shows those of the last second.
REFRESH_SECONDS: Final = 0.5
# What is waited for certificates to be read, and for a worker that was told to end beyond the time that it has for it.
ANSWER_SECONDS: Final = 5.0


class WorkersError(Exception):
    """No worker stays alive; the text says what happened and what to try."""


class Slot:
    """A worker's place: the process that holds it now, and what came before.

    Args:
        number: from 1 on.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: WorkerProcess | None = None
        self.listening = False
        self.why_not_ready = "the worker has not started yet"
        self.failed, self.cannot_listen = "", False
        self.meter: MeterDict | None = None
        self.reported = 0
        self.reload_error: str | None = None
        self.late = False  # it was not waited for any more
        self.early_ends = self.restarts = 0

    def begin(self, process: WorkerProcess) -> None:
        """Take a new process."""
        self.process, self.failed, self.cannot_listen = process, "", False

    def end(self) -> MeterDict | None:
        """Forget the process; return what it has counted."""
        counted = None if self.meter is None else retired(self.meter)
        self.process, self.listening, self.meter, self.reported = None, False, None, 0
        self.why_not_ready = "the worker is being replaced"
        self.reload_error, self.late = "", False  # its successor begins with the newest settings
        return counted

    def send(self, message: ToWorker) -> None:
        """Tell its process something, if there is one."""
        if self.process is not None:
            self.process.send(message)

    def take(self, message: FromWorker) -> None:
        """Note what its process says."""
        match message:
            case Listening():
                self.listening = True
            case Failed(why, cannot_listen):
                self.failed, self.cannot_listen = why, cannot_listen
            case Reported(number, why_not_ready, meter):
                self.reported, self.why_not_ready, self.meter = number, why_not_ready, meter
            case Reloaded(error):
                self.reload_error = error


class Supervisor:
    """The workers as one front.

    Args:
        settings: of the whole service; `workers` of them are started.
        proxy_settings: the same, translated; they say which ports there are.
    """

    def __init__(self, settings: Settings, proxy_settings: ProxySettings) -> None:
        self._settings, self._proxy_settings = settings, proxy_settings
        self._slots = [Slot(number) for number in range(1, settings.workers + 1)]
        self._keepers: list[asyncio.Task[None]] = []
        self._held: list[socket.socket] = []
        self._state = "not started"
        self._started = False
        self._past = merge(())
        self._number = 0
        self._failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()
        self._log = structlog.get_logger()

    # -- the front ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all workers and wait until each listens.

        Raises:
            OSError: a port is taken; then no worker was started.
            PropertiesError: the certificates cannot be used; then no worker was started.
            CannotListen: a worker cannot bind a port; its text names it.
            ConfigError: a worker cannot start.
            WorkersError: they end as soon as they have started.
        """
        self._check_certificates()
        # until the end: between two workers, too, nobody else shall come to serve our clients
        self._held = hold(address for address, _ in self._proxy_settings.addresses())
        self._state = ""
        self._keepers = [asyncio.create_task(self._keep(slot)) for slot in self._slots]
        for keeper in self._keepers:
            keeper.add_done_callback(self._kept)
        await self._until(lambda: self._failure.done() or all(slot.listening for slot in self._slots))
        if self._failure.done():
            raise self._failure.result()
        self._started = True

    def why_not_ready(self) -> str | None:
        """Return why no client is served; one worker that is ready is enough.

        A worker that is gone has no port any more, so the kernel leads all clients to those that are left.
        """
        if self._state:
            return self._state
        reasons = [slot.why_not_ready for slot in self._slots]
        return None if "" in reasons else reasons[0]

    async def reload(self, settings: Settings) -> None:
        """Hand new limits to all workers and have them read the certificates, after they were read here.

        One that does not answer in time has been told and follows, or is replaced by one that begins with the new ones.

        Raises:
            PropertiesError: they cannot be used; no worker was told.
            ConfigError: a worker cannot use what this process could; the others do.
        """
        self._check_certificates()
        self._settings = settings
        told = [slot for slot in self._slots if slot.listening]
        for slot in self._slots:  # also to those that have begun with the old ones and do not listen yet
            slot.reload_error, slot.late = None, False
            slot.send(Reload(share_of(settings)))
        await self._until(lambda: all(slot.reload_error is not None for slot in told), ANSWER_SECONDS)
        for slot in told:
            if slot.reload_error is None and slot.process is not None:
                slot.late = True
                self._log.warning("worker reloads later", worker=slot.number, pid=slot.process.pid)
        for slot in told:
            if slot.reload_error:
                raise ConfigError(f"worker {slot.number}: {slot.reload_error}")

    async def stop(self, delay: float, grace: float) -> None:
        """Have all workers stop side by side; those that take too long are killed."""
        self._state = "stopping"
        self._changed.set()
        for slot in self._slots:
            if slot.listening:
                slot.send(Drain(delay, grace))
            elif slot.process is not None:  # it has no clients yet
                slot.process.kill()
        if self._keepers:
            await asyncio.wait(self._keepers, timeout=delay + grace + ANSWER_SECONDS)
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for held in self._held:
            held.close()
        self._held.clear()
        self._state = "stopped"

    def hurry(self) -> None:
        """Have all workers end now."""
        for slot in self._slots:
            slot.send(Hurry())

    def meter(self) -> MeterDict:
        """Return what all workers have counted, those that are gone included."""
        return merge((self._past, *(slot.meter for slot in self._slots if slot.meter is not None)))

    async def refresh(self) -> None:
        """Ask all workers for their counters."""
        self._number += 1
        asked, number = [slot for slot in self._slots if slot.listening], self._number
        for slot in asked:
            slot.send(Report(number))
        await self._until(lambda: all(slot.reported >= number or not slot.listening for slot in asked), REFRESH_SECONDS)

    def metrics(self) -> Sequence[Source]:
        """Return metrics about the workers."""
        from shareproxy.observe.worker_metrics import WorkerMetrics

        return (WorkerMetrics(self.states),)

    def states(self) -> list[WorkerState]:
        """Return how each worker is doing."""
        from shareproxy.observe.worker_metrics import WorkerState

        return [
            WorkerState(
                worker=slot.number,
                pid=None if slot.process is None else slot.process.pid,
                listening=slot.listening,
                ready=slot.listening and not slot.why_not_ready,
                restarts=slot.restarts,
            )
            for slot in self._slots
        ]

    async def failed(self) -> Exception:
        """Return when no worker stays alive."""
        return await asyncio.shield(self._failure)

    def _over(self) -> bool:
        return bool(self._state)

    # -- one worker ---------------------------------------------------------------------------------------------------

    async def _keep(self, slot: Slot) -> None:
        """Keep a worker running in a slot until all is over."""
        while not self._over() and not self._failure.done():
            if slot.early_ends:
                pause = FIRST_PAUSE * 2 ** min(slot.early_ends, EARLY_ENDS)
                if await self._until(self._over, min(pause, LAST_PAUSE)):
                    return
            try:
                await self._live(slot)
            except OSError as error:  # no more processes, no memory
                slot.early_ends += 1
                self._log.error("worker not started", worker=slot.number, error=error.strerror or str(error))
            slot.restarts += 1
            hopeless = slot.early_ends >= EARLY_ENDS and not any(other.listening for other in self._slots)
            if not self._over() and (hopeless or (slot.failed and not self._started)):
                self._give_up(slot)

    def _kept(self, keeper: asyncio.Task[None]) -> None:
        """Take a bug: without its keeper a worker would be gone for good."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def _give_up(self, slot: Slot) -> None:
        if slot.failed:
            self._fail(CannotListen(slot.failed) if slot.cannot_listen else ConfigError(slot.failed))
        else:
            self._fail(
                WorkersError(
                    f"worker {slot.number} ended {slot.early_ends} times as soon as it had started, and no other one "
                    "serves; the log lines above say how. Try --workers 1, which shows the error itself"
                )
            )

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_result(error)
            self._changed.set()

    async def _live(self, slot: Slot) -> None:
        """Start one process, hear it to its end, and say how it ended."""
        loop = asyncio.get_running_loop()
        process = await WorkerProcess.start(Start(slot.number, share_of(self._settings)))
        slot.begin(process)
        if self._over():  # it was started too late to be told with the others
            process.kill()
        listening_since: float | None = None
        try:
            while (message := await self._hear(slot, process)) is not None:
                slot.take(message)
                if slot.late and isinstance(message, Reloaded):
                    slot.late = False
                    if message.error:
                        self._log.error("worker not reloaded", worker=slot.number, pid=process.pid, error=message.error)
                if slot.listening and listening_since is None:
                    listening_since = loop.time()
                    if slot.restarts:
                        self._log.info("worker replaced", worker=slot.number, pid=process.pid)
                self._changed.set()
            code = await process.end()
        except BaseException:
            process.kill()
            await process.end()
            raise
        finally:
            if (counted := slot.end()) is not None:
                self._past = merge((self._past, counted))
            self._changed.set()
        lived = 0.0 if listening_since is None else loop.time() - listening_since
        if self._over():
            if code and listening_since is not None:
                self._log.warning("worker ended", worker=slot.number, pid=process.pid, **_how(code))
        elif code == 0:
            slot.early_ends = 0
            self._log.info("worker ended", worker=slot.number, pid=process.pid, **_how(code))
        else:
            slot.early_ends = slot.early_ends + 1 if lived < EARLY_SECONDS else 0
            why = {"why": slot.failed} if slot.failed else {}
            self._log.error("worker ended", worker=slot.number, pid=process.pid, **_how(code), **why)

    async def _hear(self, slot: Slot, process: WorkerProcess) -> FromWorker | None:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                return await process.receive()
        except TimeoutError:
            self._log.error("worker hangs", worker=slot.number, pid=process.pid, silent_seconds=SILENT_SECONDS)
            process.kill()
            return None

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for something that messages or ends of workers bring about; return whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        return condition()

    def _check_certificates(self) -> None:
        """Read the certificates, so that what is wrong with them is said once and not by each worker."""
        if self._proxy_settings.client_tls is not None:
            TlsPorts(self._proxy_settings.client_tls)


def _how(code: int) -> dict[str, object]:
    """Return how a process ended, for its log line."""
    if code >= 0:
        return {"exit_code": code}
    try:
        return {"signal": signal.Signals(-code).name}
    except ValueError:
        return {"signal": -code}
