"""Run all tasks of all sink connectors in one process, and start those again that fail (KIP-1302).

In: what `sink.toml` says. Out: tasks, each with a consumer of its own; their state in metrics and probes.
Must never: let one task's failure touch another, or coordinate with other processes: the group does that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import structlog
from prometheus_client import CollectorRegistry

from shareproxy.admin.errors import AccessDenied, AdminError
from shareproxy.cluster.addresses import parse_own_address
from shareproxy.config import CannotListen, ConfigError
from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.errors import DrainError
from shareproxy.drain.health import HealthServer
from shareproxy.drain.record_words import sentence
from shareproxy.drain.rejecting import GroupRejecting, ShareRejecting
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.sink import Sink
from shareproxy.drain.sink_calls import SinkCalls
from shareproxy.drain.sink_config import ConnectorSettings, SinkSettings
from shareproxy.drain.sink_metrics import SinkMetrics, TaskMeter, TaskState
from shareproxy.drain.sink_task import SinkTask, TaskFailed
from shareproxy.drain.source import RecordSource
from shareproxy.drain.task_options import TaskOptions

FIRST_RESTART_SECONDS: Final = 1.0
LAST_RESTART_SECONDS: Final = 60.0
# after so long without a failure the next one counts as the first
HEALTHY_SECONDS: Final = 60.0
# a right that is missing so often in a row is not on its way any more
DENIALS: Final = 3
# what the error names where [worker] http has none; the examples have it
USUAL_PORT: Final = 9_465


class Parts(Protocol):
    """Where a worker's parts come from: from brokers and installed sinks, or from a test."""

    async def check(self, connector: ConnectorSettings) -> Sequence[str]:
        """Check a connector against its cluster; return lines that tell how it will work (R25).

        Raises:
            ConfigError, AdminError, DrainError, ClusterError: it cannot work; the text says what to do.
        """

    def sink(self, connector: ConnectorSettings) -> Sink:
        """Make a sink.

        Raises:
            ConfigError: there is no such sink, or it cannot be made.
        """

    def source(self, connector: ConnectorSettings, meter: TaskMeter) -> RecordSource:
        """Make a source of records for one task; it counts its events."""

    async def dead_letters(self, connector: ConnectorSettings) -> DeadLetterQueue:
        """Find out whether the dead-letter queue of the connector's share group works."""

    async def delivery_limit(self, connector: ConnectorSettings) -> int:
        """Return after how many deliveries the brokers give a record of the connector's share group up."""

    async def close(self) -> None:
        """Let go of everything."""


class SinkWorker:
    """A worker; `start` it, `stop` it.

    Args:
        settings: what `sink.toml` says.
        parts: where sinks and sources come from.

    Attributes:
        unclean: sentences on what did not end in order.
    """

    def __init__(self, settings: SinkSettings, parts: Parts) -> None:
        self._settings, self._parts = settings, parts
        self._stop = asyncio.Event()
        self._slots: list[_Slot] = []
        self._health: HealthServer | None = None
        self._denied: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.unclean: list[str] = []

    @property
    def meters(self) -> list[TaskMeter]:
        """What each task counts."""
        return [slot.meter for slot in self._slots]

    @property
    def port(self) -> int | None:
        """Port of /metrics and the probes, if there is one."""
        return None if self._health is None else self._health.port

    async def check(self) -> list[str]:
        """Check everything that can be before a record is taken; return a line or more for each connector.

        Raises:
            ConfigError, AdminError, DrainError, ClusterError: the first connector, in the file's order, that cannot
                work.
        """
        lines: list[str] = []
        for connector in self._settings.connectors:
            lines += [f"connector {connector.name!r}: {line}" for line in await self._parts.check(connector)]
        return lines

    async def start(self) -> None:
        """Check everything, then start all tasks; return when each has begun, or has failed for the first time.

        Raises:
            ConfigError, AdminError, DrainError, ClusterError: nothing works; nothing is left running.
        """
        log = structlog.get_logger()
        for note in self._settings.notes:
            log.warning("settings", what=note)
        try:
            await self._listen()
            for line in await self.check():
                log.info("announce", what=line)
            for connector in self._settings.connectors:
                limit = await self._parts.delivery_limit(connector) if connector.consumer.share_group else None
                self._slots += [
                    _Slot(connector, task_id, self._parts, self._stop, limit, self._settings.stop_timeout, self._look)
                    for task_id in range(connector.keys.tasks_max)
                ]
            for slot in self._slots:
                slot.start()
            await asyncio.gather(*(slot.first for slot in self._slots))
            failures = [slot.first.result() for slot in self._slots]
            if all(failure is not None for failure in failures):
                assert failures[0] is not None
                raise failures[0]
        except BaseException:
            await self.stop()
            raise

    def why_not_ready(self) -> str | None:
        """Return why records are not taken now, as a sentence; of the first task that is not well."""
        if self._stop.is_set():
            return "stopping"
        if not self._slots:
            return "starting"
        return next((reason for slot in self._slots if (reason := slot.why_not_ready()) is not None), None)

    async def reload(self) -> None:
        """Say that settings are read at the start only."""
        structlog.get_logger().warning("settings are read at the start only: stop this worker and start it again")

    async def stop(self) -> None:
        """Stop all tasks: what is being put may finish, the rest is released, members leave their groups (R13)."""
        self._stop.set()
        for slot in self._slots:
            await slot.ended()
            if slot.unclean is not None and slot.unclean not in self.unclean:  # it may be stopped twice
                self.unclean.append(slot.unclean)
        await self._parts.close()
        if self._health is not None:
            await self._health.stop()

    def hurry(self) -> None:
        """Cancel what is under way; brokers release what was held when the connections end."""
        for slot in self._slots:
            slot.cancel()

    async def failed(self) -> Exception:
        """Return why no task can work: each is denied what it needs, and stays so; others are started again."""
        return await self._denied

    def _look(self) -> None:
        """Look whether any task can still work."""
        denials = [slot.denial for slot in self._slots]
        if denials and denials[0] is not None and None not in denials and not self._denied.done():
            self._denied.set_result(denials[0])

    async def _listen(self) -> None:
        if not self._settings.worker.http:
            return
        try:
            address = parse_own_address(self._settings.worker.http, USUAL_PORT)
        except ValueError as error:
            raise ConfigError(f'{self._settings.file}: [worker] "http": {error}') from None
        registry = CollectorRegistry()
        registry.register(SinkMetrics(_Meters(lambda: self.meters)))
        self._health = HealthServer(address.host, address.port, readiness=[self.why_not_ready], registry=registry)
        try:
            await self._health.start()
        except OSError as error:
            self._health = None
            raise CannotListen(f'{self._settings.file}: [worker] "http": {error.strerror}') from None


class _Meters:
    """The meters that there are now."""

    def __init__(self, read: Callable[[], list[TaskMeter]]) -> None:
        self._read = read

    def __iter__(self) -> Any:
        return iter(self._read())


class _Slot:
    """One task, which is made anew whenever it failed."""

    def __init__(
        self,
        connector: ConnectorSettings,
        task_id: int,
        parts: Parts,
        stop: asyncio.Event,
        delivery_limit: int | None,
        stop_timeout: float,
        denied: Callable[[], None],
    ) -> None:
        self._connector, self._parts, self._stop = connector, parts, stop
        self.meter = TaskMeter(connector.name, task_id, share_group=connector.consumer.share_group)
        # how the first start ended: None if it works
        self.first: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.unclean: str | None = None
        # what this user lacks, once it is certain that this is not about to change
        self.denial: AccessDenied | None = None
        self._denials, self._told = 0, denied
        self._source: RecordSource | None = None
        self._task: asyncio.Task[None] | None = None
        keys, (first, longest) = connector.keys, connector.retry_delays
        self._options = TaskOptions(
            connector=connector.name,
            task_id=task_id,
            config=connector.sink,
            max_records=connector.consumer.max_records,
            delivery_limit=delivery_limit,
            tolerate_unreadable=keys.tolerance == "all",
            reject_unknown=keys.unknown_errors == "reject",
            implicit=connector.consumer.acknowledgement == "implicit",
            retry=Retry(first_s=first, max_s=longest, in_place=0),
            put_timeout=connector.put_timeout,
            stop_timeout=stop_timeout,
        )
        self._log = structlog.get_logger().bind(connector=connector.name, task=task_id)

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"{self._connector.name}-{self._options.task_id}")

    def cancel(self) -> None:
        """End at once."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait for the end."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self.meter.be(TaskState.STOPPED)

    def why_not_ready(self) -> str | None:
        """Return why it takes no records, as a sentence."""
        if self.meter.state is not TaskState.RUNNING:
            return f"{self._options.name}: {self.meter.why or self.meter.state.value}"
        reason = None if self._source is None else self._source.why_not_ready()
        return None if reason is None else f"{self._options.name}: {reason}"

    async def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            began = asyncio.get_running_loop().time()
            self.meter.be(TaskState.STARTING)
            try:
                await self._run_once()
            except Exception as error:
                now = asyncio.get_running_loop().time()
                failures = 1 if now - began > HEALTHY_SECONDS else failures + 1
                self._note_denial(error, first=failures == 1)
                await self._failed(error, failures)
        if not self.first.done():
            self.first.set_result(None)

    async def _run_once(self) -> None:
        name = f"sink-{self._connector.name}-{self._options.task_id}"
        self._source = source = self._parts.source(self._connector, self.meter)
        task = SinkTask(
            self._options,
            source,
            lambda: SinkCalls(self._parts.sink(self._connector), name),
            self._rejecting(),
            self.meter,
            self._stop,
            self._joined,
        )
        try:
            await task.run()
        except AccessDenied as error:
            if source.denied and set(self._connector.topics) - source.denied:
                # it comes again for the others
                raise TaskFailed(f"{self._options.name}: {error}") from error
            raise
        finally:
            self._source = None

    def _rejecting(self) -> ShareRejecting | GroupRejecting:
        anyway = self._connector.keys.reject_without_dlq
        if not self._connector.consumer.share_group:
            return GroupRejecting(anyway=anyway)
        return ShareRejecting(lambda: self._parts.dead_letters(self._connector), anyway=anyway, meter=self.meter)

    def _joined(self) -> None:
        self._log.info("task started", group=self._connector.consumer.group)
        if not self.first.done():
            self.first.set_result(None)

    def _note_denial(self, error: Exception, *, first: bool) -> None:
        self._denials = 0 if not isinstance(error, AccessDenied) else 1 if first else self._denials + 1
        self.denial = None
        if isinstance(error, AccessDenied) and self._denials >= DENIALS:
            text = f"{self._options.name}: {error}"
            self.denial = AccessDenied(text, error.code, operation=error.operation, resource=error.resource)
            self._told()

    async def _failed(self, error: Exception, failures: int) -> None:
        """Tell that the task failed, and wait before it is started again: longer each time."""
        known = isinstance(error, DrainError | AdminError | ConfigError)
        why = str(error) if known else f"{self._options.name}: this is a bug: {sentence(error)}"
        if self._stop.is_set():
            self.unclean = why
            self._log.warning("task did not end in order", why=why)
            return
        self.meter.add("task_failures")
        self.meter.be(TaskState.FAILED, why.removeprefix(f"{self._options.name}: "))
        delay = min(FIRST_RESTART_SECONDS * 2 ** min(failures - 1, 16), LAST_RESTART_SECONDS)
        delay *= 1 - 0.2 * random.random()  # so that tasks do not come back all at once
        self._log.error("task failed", why=why, again_in=round(delay, 1), exc_info=None if known else error)
        if not self.first.done():
            self.first.set_result(error)
        try:
            async with asyncio.timeout(delay):
                await self._stop.wait()
        except TimeoutError:
            pass
