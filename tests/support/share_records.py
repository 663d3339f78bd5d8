"""Waiting for what a share consumer of ours gets, against brokers that take their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from shareproxy import ConsumerEvent, ShareAdmin, ShareConsumer, ShareRecord
from shareproxy.cluster.connection import Connection
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.simulated import SimulatedCluster

PATIENCE = 60.0
E = TypeVar("E", bound=ConsumerEvent)


def prepare(driver: ShareDriver, topic: str, group: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic, and let the group begin at its start; more of its configs as `record_lock_duration_ms="1000"`."""
    driver.create_topic(topic, partitions)
    more = {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest", **more})


def consumer_of(
    kafka: LocalKafka | SimulatedCluster,
    group: str,
    topic: str,
    events: list[ConsumerEvent] | None = None,
    **settings: Any,
) -> ShareConsumer:
    """Return a consumer that notes its events."""
    return ShareConsumer(
        kafka.bootstrap_servers, group, [topic], on_event=None if events is None else events.append, **settings
    )


async def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Return so many records, none of them acknowledged."""
    found: list[ShareRecord] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await consumer.get_batch(count - len(found))
    return found


async def lag_is_zero(kafka: LocalKafka, group: str, consumer: ShareConsumer) -> None:
    """Wait until the brokers say that nothing is left to do; the consumer asks for records meanwhile, and gets none."""

    async def lag() -> bool:
        report = await admin.lag(group)
        [row] = report.groups
        return bool(row.partitions) and all(partition.lag == 0 for partition in row.partitions)

    async with ShareAdmin(kafka.bootstrap_servers, timeout=15.0) as admin, asyncio.timeout(PATIENCE):
        while not await lag():
            assert not await consumer.get_batch(timeout=0.1)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that happens on this event loop."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it did not come about that {what}") from None


def of_type(events: Sequence[ConsumerEvent], kind: type[E]) -> list[E]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def watched_connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """Return a list that connections are put into as they are opened; those of share sessions come last."""
    connections: list[Connection] = []
    opening = Connection.open

    async def opened(*arguments: Any, **named: Any) -> Connection:
        connection = await opening(*arguments, **named)
        connections.append(connection)
        return connection

    monkeypatch.setattr(Connection, "open", opened)
    return connections


def cut(connection: Connection) -> None:
    """End a connection as a broken line does."""
    connection._pipeline._transport.abort()
