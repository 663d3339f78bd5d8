"""Count what sink tasks do, and show it to Prometheus (R26, R27).

In: what tasks and their consumers report. Out: the `shareproxy_sink_*` metrics, labelled by connector and task.
Must never: show in share mode what only a consumer group has (R27: its absence tells the mode), or count an
acknowledgement before the broker confirmed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from shareproxy.drain.events import ConsumerEvent, GapsAcknowledged, LockLost, RecordsSkipped, SessionReopened
from shareproxy.drain.source import Settled
from shareproxy.protocol.errors import error_name

PREFIX: Final = "shareproxy_sink_"
INVALID_RECORD_STATE: Final = 121
NO_ANSWER: Final = "NO_ANSWER"


class TaskState(StrEnum):
    """What a task is doing."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    STUCK = "stuck"
    FAILED = "failed"
    STOPPED = "stopped"


class SinkMetric(NamedTuple):
    """One metric: its name without prefix and without `_total`, its kind, the mode it is for, and what it is."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    mode: Literal["share", "group", "both"]
    about: str


SINK_METRICS: Final = (
    SinkMetric("record_acquire", "counter", "share", "Records that the brokers handed to the task."),
    SinkMetric("record_acknowledge", "counter", "share", "Records whose ACCEPT a broker confirmed."),
    SinkMetric("record_release", "counter", "share", "Records whose RELEASE a broker confirmed; they come again."),
    SinkMetric("record_reject", "counter", "share", "Records whose REJECT a broker confirmed; they never come again."),
    SinkMetric("record_redelivery", "counter", "share", "Records that had been delivered before."),
    SinkMetric(
        "acknowledge_seconds", "summary", "share", "Time from a poll's return to the confirmed acknowledgement."
    ),
    SinkMetric("acknowledge_max_seconds", "gauge", "share", "Longest such time since the task started."),
    SinkMetric("ack_errors", "counter", "share", "Records whose acknowledgement a broker refused, by Kafka's error."),
    SinkMetric("lock_lost", "counter", "share", "Records held for longer than their lock; they come again."),
    SinkMetric("gap_offsets", "counter", "share", "Offsets without a record that were acknowledged."),
    SinkMetric("session_reopened", "counter", "share", "Share sessions that had to be opened again."),
    SinkMetric("reject_without_dlq", "counter", "share", "Rejected records that no dead-letter queue kept."),
    SinkMetric("last_delivery_records", "gauge", "share", "Records on their last delivery that are held here."),
    SinkMetric("last_delivery_lost", "counter", "share", "Records on their last delivery that had to be let go."),
    SinkMetric("partition_count", "gauge", "group", "Partitions assigned to the task."),
    SinkMetric("offset_commit_seq_no", "gauge", "group", "Number of the task's newest commit of offsets."),
    SinkMetric("offset_commit_completion", "counter", "group", "Commits of offsets that a broker confirmed."),
    SinkMetric("offset_commit_errors", "counter", "group", "Commits of offsets that failed, by Kafka's error."),
    SinkMetric("record_step_over", "counter", "group", "Records that were stepped over because they will never work."),
    SinkMetric("record_read", "counter", "both", "Records that polls returned."),
    SinkMetric("record_send", "counter", "both", "Records that were given to put, each try counted."),
    SinkMetric("record_skip", "counter", "both", "Records that no converter could read and that were let pass."),
    SinkMetric("record_unreadable", "counter", "both", "Records that no converter could read."),
    SinkMetric("put_batch_seconds", "summary", "both", "Time that puts took."),
    SinkMetric("put_batch_max_seconds", "gauge", "both", "Longest put since the task started."),
    SinkMetric(
        "put_errors", "counter", "both", "Puts that raised, by what it means: retriable, fatal, timeout, unknown."
    ),
    SinkMetric("task_failures", "counter", "both", "How often the task failed and was started again."),
    SinkMetric("task_state", "gauge", "both", "1 for the state that the task is in."),
)
LABELLED: Final = {
    "ack_errors": "code",
    "offset_commit_errors": "code",
    "put_errors": "kind",
    "task_state": "state",
}


class TaskMeter:
    """What one task counts; its names are those of `SINK_METRICS`.

    It outlives the task's restarts: counters only grow.

    Args:
        connector: name of the connector.
        task_id: number of the task.
        share_group: in which mode it runs.
    """

    def __init__(self, connector: str, task_id: int, *, share_group: bool) -> None:
        self.connector, self.task_id, self.share_group = connector, task_id, share_group
        self.state = TaskState.STARTING
        self.why: str | None = None
        self.counts: dict[str, float] = {
            metric.name: 0
            for metric in SINK_METRICS
            if metric.kind != "summary" and metric.name not in LABELLED and self.shows(metric)
        }
        self.labelled: dict[str, dict[str, int]] = {name: {} for name in LABELLED}
        self.summaries: dict[str, list[float]] = {"put_batch_seconds": [0, 0.0], "acknowledge_seconds": [0, 0.0]}

    def shows(self, metric: SinkMetric) -> bool:
        """Return whether a metric exists in the task's mode."""
        return metric.mode in ("both", "share" if self.share_group else "group")

    def add(self, name: str, count: float = 1) -> None:
        """Add to a counter; one of the other mode is left out."""
        if name in self.counts:
            self.counts[name] += count

    def add_labelled(self, name: str, label: str, count: int = 1) -> None:
        """Add to a counter with a label of its own."""
        by_label = self.labelled[name]
        by_label[label] = by_label.get(label, 0) + count

    def set(self, name: str, value: float) -> None:
        """Set a gauge; one of the other mode is left out."""
        if name in self.counts:
            self.counts[name] = value

    def be(self, state: TaskState, why: str | None = None) -> None:
        """Note what the task is doing, and why it is not running, as a sentence."""
        self.state, self.why = state, why

    def polled(self, records: int, redelivered: int) -> None:
        """Count what a poll returned."""
        self.add("record_read", records)
        self.add("record_acquire", records)
        self.add("record_redelivery", redelivered)

    def put(self, records: int, seconds: float) -> None:
        """Count one put."""
        self.add("record_send", records)
        self._time("put_batch_seconds", "put_batch_max_seconds", seconds)

    def settled(self, settled: Settled, seconds: float) -> None:
        """Count what the broker confirmed.

        Args:
            settled: its answers.
            seconds: since the poll that returned the records.
        """
        if self.share_group:
            self.add("record_acknowledge", settled.accepted)
            self.add("record_release", settled.released)
            self.add("record_reject", settled.rejected)
            if settled.accepted:
                self._time("acknowledge_seconds", "acknowledge_max_seconds", seconds)
        elif settled.accepted or settled.rejected:
            self.add("offset_commit_seq_no")
            self.add("offset_commit_completion")
            self.add("record_step_over", settled.rejected)
        for failure in settled.failures:
            code = NO_ANSWER if failure.error_code is None else error_name(failure.error_code)
            if self.share_group:
                self.add_labelled("ack_errors", code, failure.records)
            else:
                self.add_labelled("offset_commit_errors", code)

    def on_event(self, event: ConsumerEvent) -> None:
        """Count what happened to the consumer."""
        if isinstance(event, GapsAcknowledged):
            self.add("gap_offsets", sum(r.last - r.first + 1 for r in event.ranges))
        elif isinstance(event, LockLost):
            self.add("lock_lost", sum(r.last - r.first + 1 for r in event.ranges))
        elif isinstance(event, SessionReopened):
            self.add("session_reopened")
        elif isinstance(event, RecordsSkipped):
            self.add("record_unreadable", sum(r.last - r.first + 1 for r in event.ranges))

    def _time(self, name: str, highest: str, seconds: float) -> None:
        summary = self.summaries[name]
        summary[0] += 1
        summary[1] += seconds
        if seconds > self.counts[highest]:
            self.counts[highest] = seconds


class SinkMetrics(Collector):
    """The metrics of all tasks of a worker.

    Args:
        meters: those of the tasks that live; asked on each scrape, so that one that ended is gone.
    """

    def __init__(self, meters: Iterable[TaskMeter]) -> None:
        self._meters = meters

    def describe(self) -> Iterable[Metric]:
        """Return nothing: which metrics exist depends on the tasks."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that the mode of some task has; one without such a task does not exist."""
        meters = list(self._meters)
        for metric in SINK_METRICS:
            shown = [meter for meter in meters if meter.shows(metric)]
            if shown:
                yield _family(metric, shown)


def _family(metric: SinkMetric, meters: list[TaskMeter]) -> Metric:
    name, labels = PREFIX + metric.name, ["connector", "task"]
    if metric.kind == "summary":
        summary = SummaryMetricFamily(name, metric.about, labels=labels)
        for meter in meters:
            count, total = meter.summaries[metric.name]
            summary.add_metric(_labels(meter), int(count), total)
        return summary
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    own = LABELLED.get(metric.name)
    family = kind(name, metric.about, labels=labels if own is None else [*labels, own])
    for meter in meters:
        if metric.name == "task_state":
            for state in TaskState:
                family.add_metric([*_labels(meter), state.value], float(meter.state is state))
        elif own is not None:
            for label, count in sorted(meter.labelled[metric.name].items()):
                family.add_metric([*_labels(meter), label], count)
        else:
            family.add_metric(_labels(meter), meter.counts[metric.name])
    return family


def _labels(meter: TaskMeter) -> list[str]:
    return [meter.connector, str(meter.task_id)]
