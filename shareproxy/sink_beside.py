"""Run a sink worker in the process of the service, and show it where the service shows itself.

In: a `sink.toml`. Out: the worker, its metrics, and the state of its tasks as JSON.
Must never: let the worker know of the service, or the service of sinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from aiohttp import web

from shareproxy.drain.sink_config import load_sink_settings
from shareproxy.drain.sink_metrics import SinkMetrics, TaskMeter
from shareproxy.drain.sink_parts import BrokerParts
from shareproxy.drain.worker import SinkWorker

PATH: Final = "/api/v1/sinks"
HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class SinkBeside:
    """A sink worker beside the service.

    Args:
        worker: not started yet.
    """

    def __init__(self, worker: SinkWorker) -> None:
        self.worker = worker
        self.metrics = SinkMetrics(_MetersNow(worker))

    def show(self, application: web.Application) -> None:
        """Add the state of the tasks to what a server answers that is not started yet."""
        application.router.add_get(PATH, self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        body = msgspec.json.encode({"tasks": [_told(meter) for meter in self.worker.meters]}) + b"\n"
        return web.Response(body=body, content_type="application/json", charset="utf-8", headers=HEADERS)


def sink_beside(file: str) -> SinkBeside:
    """Make the worker that a `sink.toml` describes.

    Raises:
        ConfigError: names the file, the table, the key and what to write.
    """
    settings = load_sink_settings(file)
    parts = BrokerParts(exactly_once=settings.worker.exactly_once, stop_timeout=settings.stop_timeout)
    return SinkBeside(SinkWorker(settings, parts))


class _MetersNow:
    """The meters at each look: the worker has none before its start."""

    def __init__(self, worker: SinkWorker) -> None:
        self._worker = worker

    def __iter__(self) -> Iterator[TaskMeter]:
        return iter(self._worker.meters)


def _told(meter: TaskMeter) -> dict[str, object]:
    return {
        "connector": meter.connector,
        "task": meter.task_id,
        "share_group": meter.share_group,
        "state": meter.state.value,
        "why": meter.why,
        "counts": meter.counts,
    }
