"""Say how the worker processes are doing.

In: their states. Out: the `shareproxy_worker_*` metrics. Must never: know how workers are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as Source


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """One worker.

    Attributes:
        worker: its number, from 1 on.
        pid: of its process, None between two.
        listening: whether it lets clients in.
        ready: whether it serves them.
        restarts: how often its process ended and had to be replaced.
    """

    worker: int
    pid: int | None
    listening: bool
    ready: bool
    restarts: int


class WorkerMetrics(Source):
    """The metrics about all workers.

    Args:
        read: returns their states.
    """

    def __init__(self, read: Callable[[], Sequence[WorkerState]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        up = GaugeMetricFamily("shareproxy_worker_up", "Whether the worker lets clients in.", labels=["worker"])
        ready = GaugeMetricFamily("shareproxy_worker_ready", "Whether the worker serves clients.", labels=["worker"])
        pid = GaugeMetricFamily("shareproxy_worker_pid", "Process id of the worker.", labels=["worker"])
        restarts = CounterMetricFamily(
            "shareproxy_worker_restarts",
            "Processes of the worker that ended.",
            labels=["worker"],
        )
        for state in self._read():
            labels = [str(state.worker)]
            up.add_metric(labels, int(state.listening))
            ready.add_metric(labels, int(state.ready))
            restarts.add_metric(labels, state.restarts)
            if state.pid is not None:
                pid.add_metric(labels, state.pid)
        yield from (up, ready, pid, restarts)
