"""What sink tasks count and what Prometheus sees of it (R26, R27)."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from shareproxy.drain.events import GapsAcknowledged, LockLost, RecordsSkipped, SessionReopened
from shareproxy.drain.model import OffsetRange, TopicPartition
from shareproxy.drain.sink_metrics import PREFIX, SINK_METRICS, SinkMetrics, TaskMeter, TaskState
from shareproxy.drain.source import NotSettled, Settled

PARTITION = TopicPartition("orders", 0)


def shown(*meters: TaskMeter) -> dict[tuple[str, str], float]:
    """Return each sample by name and connector, as a scrape shows it; those with further labels by their name."""
    registry = CollectorRegistry()
    registry.register(SinkMetrics(meters))
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            more = "".join(value for name, value in sample.labels.items() if name not in ("connector", "task"))
            found[sample.name.removeprefix(PREFIX), sample.labels["connector"] + more] = sample.value
    return found


def names(*meters: TaskMeter) -> set[str]:
    """Return the names of all families that a scrape shows."""
    registry = CollectorRegistry()
    registry.register(SinkMetrics(meters))
    return {family.name.removeprefix(PREFIX) for family in registry.collect()}


def share(connector: str = "orders") -> TaskMeter:
    """Return a meter of share mode."""
    return TaskMeter(connector, 0, share_group=True)


def group(connector: str = "plain") -> TaskMeter:
    """Return a meter of a consumer group."""
    return TaskMeter(connector, 0, share_group=False)


def test_r26_the_names_of_share_mode_are_exactly_these() -> None:
    """K's metrics in snake case, those that both modes have, and the further ones of the facts."""
    assert names(share()) == {
        "record_acquire", "record_acknowledge", "record_release", "record_reject", "record_redelivery",
        "acknowledge_seconds", "acknowledge_max_seconds",
        "ack_errors", "lock_lost", "gap_offsets", "session_reopened",
        "reject_without_dlq", "last_delivery_records", "last_delivery_lost",
        "record_read", "record_send", "record_skip", "record_unreadable",
        "put_batch_seconds", "put_batch_max_seconds", "put_errors", "task_failures", "task_state",
    }  # fmt: skip


def test_r27_what_only_a_consumer_group_has_does_not_exist_in_share_mode() -> None:
    """Its absence tells the mode; neither does a consumer group show acquired or released records."""
    assert names(group()) - names(share()) == {
        "partition_count", "offset_commit_seq_no", "offset_commit_completion", "offset_commit_errors",
        "record_step_over",
    }  # fmt: skip
    assert not {"record_acquire", "record_acknowledge", "record_release", "record_reject"} & names(group())


def test_r27_side_by_side_each_connector_has_the_metrics_of_its_own_mode() -> None:
    """No series of the other's."""
    both = shown(share(), group())

    assert ("partition_count", "plain") in both
    assert ("partition_count", "orders") not in both
    assert ("record_acquire_total", "orders") in both
    assert ("record_acquire_total", "plain") not in both


def test_r26_metrics_of_a_task_that_is_gone_are_gone() -> None:
    """They are removed on stop."""
    meters = [share()]
    registry = CollectorRegistry()
    registry.register(SinkMetrics(meters))
    assert b"orders" in generate_latest(registry)

    meters.clear()

    assert generate_latest(registry) == b""


def test_r26_only_what_the_broker_confirmed_is_counted() -> None:
    """Refused ones are errors by Kafka's name, those without an answer are named so."""
    meter = share()
    meter.settled(
        Settled(5, 3, 2, (NotSettled(PARTITION, 4, 121, "lock lost"), NotSettled(PARTITION, 1, None))), seconds=0.5
    )

    found = shown(meter)

    assert found["record_acknowledge_total", "orders"] == 5
    assert found["record_release_total", "orders"] == 3
    assert found["record_reject_total", "orders"] == 2
    assert found["ack_errors_total", "ordersINVALID_RECORD_STATE"] == 4
    assert found["ack_errors_total", "ordersNO_ANSWER"] == 1
    assert found["acknowledge_seconds_sum", "orders"] == 0.5
    assert found["acknowledge_max_seconds", "orders"] == 0.5


def test_r26_polls_and_redeliveries_are_counted() -> None:
    """Per record."""
    meter = share()
    meter.polled(10, 4)

    found = shown(meter)

    assert (found["record_acquire_total", "orders"], found["record_redelivery_total", "orders"]) == (10, 4)
    assert found["record_read_total", "orders"] == 10


def test_puts_are_timed() -> None:
    """Sum, count and the longest."""
    meter = share()
    meter.put(3, 0.25)
    meter.put(3, 0.5)

    found = shown(meter)

    assert (found["put_batch_seconds_count", "orders"], found["put_batch_seconds_sum", "orders"]) == (2, 0.75)
    assert (found["put_batch_max_seconds", "orders"], found["record_send_total", "orders"]) == (0.5, 6)


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (GapsAcknowledged(PARTITION, [OffsetRange(1, 3)]), "gap_offsets_total"),
        (LockLost(PARTITION, [OffsetRange(1, 3)], True), "lock_lost_total"),
        (RecordsSkipped(PARTITION, [OffsetRange(1, 3)], "crc", False), "record_unreadable_total"),
    ],
)
def test_events_of_the_consumer_are_counted_by_offsets(event: object, name: str) -> None:
    """Three offsets are three."""
    meter = share()
    meter.on_event(event)  # type: ignore[arg-type]

    assert shown(meter)[name, "orders"] == 3


def test_reopened_sessions_are_counted() -> None:
    """Once each."""
    meter = share()
    meter.on_event(SessionReopened(1, "restart"))

    assert shown(meter)["session_reopened_total", "orders"] == 1


def test_commits_of_a_consumer_group_are_counted_where_the_broker_confirmed_them() -> None:
    """F14; failures by Kafka's name."""
    meter = group()
    meter.settled(Settled(5, 0, 1), 0.1)
    meter.settled(Settled(failures=(NotSettled(PARTITION, 4, 25),)), 0.1)
    meter.set("partition_count", 2)

    found = shown(meter)

    assert (found["offset_commit_completion_total", "plain"], found["offset_commit_seq_no", "plain"]) == (1, 1)
    assert (found["record_step_over_total", "plain"], found["partition_count", "plain"]) == (1, 2)
    assert found["offset_commit_errors_total", "plainUNKNOWN_MEMBER_ID"] == 1


def test_exactly_one_state_is_1() -> None:
    """The one that the task is in."""
    meter = share()
    meter.be(TaskState.STUCK, "why")

    found = {state: shown(meter)["task_state", f"orders{state.value}"] for state in TaskState}

    assert [state for state, value in found.items() if value] == [TaskState.STUCK]


def test_each_metric_says_what_it_is() -> None:
    """A scrape's HELP."""
    assert all(metric.about.endswith(".") for metric in SINK_METRICS)
    assert len({metric.name for metric in SINK_METRICS}) == len(SINK_METRICS)
