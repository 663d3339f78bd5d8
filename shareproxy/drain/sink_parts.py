"""Give a sink worker its parts: sinks by name, sources over real brokers, and what brokers tell before and meanwhile.

In: connectors. Out: what `worker.Parts` says. Must never: let a connector start that cannot work as it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from shareproxy.admin.errors import AccessDenied, NotSupported
from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.own_connection import OwnConnection, connection_from_file
from shareproxy.config import ConfigError
from shareproxy.drain.announce import announcement
from shareproxy.drain.checks import check_share_group
from shareproxy.drain.consumer import ShareConsumer
from shareproxy.drain.consumer_group_check import check_consumer_group
from shareproxy.drain.consumer_group_source import ConsumerGroupSource
from shareproxy.drain.dead_letter_check import DeadLetterQueue, dead_letter_queue, delivery_limit
from shareproxy.drain.errors import DrainError
from shareproxy.drain.events import ConsumerEvent
from shareproxy.drain.migration import compacted_topics
from shareproxy.drain.model import AcquireMode
from shareproxy.drain.record_words import sentence
from shareproxy.drain.rights_check import check_rights
from shareproxy.drain.share_source import ShareSource
from shareproxy.drain.sink import Sink
from shareproxy.drain.sink_config import ConnectorSettings
from shareproxy.drain.sink_loading import make_converter, make_sink
from shareproxy.drain.sink_metrics import TaskMeter
from shareproxy.drain.source import RecordSource

# for what is asked before the start, and about dead letters meanwhile
ASK_SECONDS: Final = 10.0
# records of one task that are put or wait for it; a task whose sink is slow takes no more than one put does, as its
# consumer fetches ahead for a quick caller only: the rest is for idle members, here and elsewhere
MOST_HELD: Final = 2_000
_ACQUIRE: Final[Mapping[str, AcquireMode]] = {"batch": AcquireMode.BATCH, "record": AcquireMode.RECORD}


class BrokerParts:
    """Parts over real brokers.

    Args:
        exactly_once: the worker's switch, which no broker can serve.
        stop_timeout: seconds that a consumer's close may take.
        ask_timeout: seconds for questions to the brokers.
    """

    def __init__(
        self, *, exactly_once: bool = False, stop_timeout: float = 5.0, ask_timeout: float = ASK_SECONDS
    ) -> None:
        self._exactly_once, self._stop_timeout, self._seconds = exactly_once, stop_timeout, ask_timeout
        self._clusters: dict[tuple[str, str], Cluster] = {}
        self._said: set[str] = set()

    async def check(self, connector: ConnectorSettings) -> Sequence[str]:
        """Check a connector, by itself and against its cluster; return how it will work."""
        make_sink(connector)  # looks at its settings, and is let go: only a started sink holds anything
        make_converter("key.converter", connector.key_converter, connector.where)
        make_converter("value.converter", connector.value_converter, connector.where)
        consumer, cluster, deadline = connector.consumer, self._cluster(connector), self._deadline()
        if connector.keys.exactly_once or self._exactly_once:
            await self._refuse_exactly_once(connector, cluster, deadline)
        if not consumer.share_group:
            await check_consumer_group(cluster, consumer.group, connector.topics, deadline=deadline)
            topics = ", ".join(map(repr, connector.topics))
            lines = [f"consumer group {consumer.group!r}, topics {topics}, {_tasks(connector)}"]
            return [*lines, *self._source(connector, 0).notes]
        standing = await check_share_group(cluster, consumer.group, connector.topics, deadline=deadline)
        mode = _ACQUIRE[consumer.acquire_mode]
        told = await announcement(cluster, consumer.group, connector.topics, acquire_mode=mode, deadline=deadline)
        lines = [f"{told.sentence()}, {_tasks(connector)}", *standing.notes]
        lines += [
            f"topic {topic!r} is compacted, and a share group keeps no order: an older value of a key may be put after "
            "a newer one; let the sink compare offsets or timestamps"
            for topic in await compacted_topics(cluster, connector.topics, deadline)
        ]
        if mode is AcquireMode.RECORD and not standing.can_count_records:
            lines.append("these brokers cannot keep to max.poll.records (Kafka 4.2 can): whole batches are acquired")
        if told.dead_letters is not None and not told.dead_letters.works:
            then = (
                "what is rejected is dropped, as reject.without.dlq=true says"
                if connector.keys.reject_without_dlq
                else "a record that would be rejected is released instead, and its task fails"
            )
            lines.append(f"{told.dead_letters.why}; {then}")
        timeout, lock_ms = connector.put_timeout, told.lock_ms
        if timeout is not None and lock_ms is not None and timeout * 1000 >= lock_ms and not standing.can_count_records:
            lines.append(
                f"put.timeout.ms is {timeout * 1000:.0f} and a record is locked for {lock_ms} ms, which these brokers "
                "cannot prolong: raise the group config share.record.lock.duration.ms"
            )
        return lines

    async def look_ahead(self, connector: ConnectorSettings) -> None:
        """Look at what only the work itself would tell: rights, and what a sink can look at.

        Raises:
            AccessDenied, DrainError, CannotReach: it would not work; names what is missing.
        """
        consumer, sink = connector.consumer, make_sink(connector)
        try:
            await check_rights(self._cluster(connector), consumer.group, connector.topics, deadline=self._deadline())
            if callable(look := getattr(sink, "look_ahead", None)):
                await _look(look, connector.sink)
        except AccessDenied as error:
            text = f"connector {connector.name!r}: {error}"
            raise AccessDenied(text, error.code, operation=error.operation, resource=error.resource) from None
        except DrainError as error:
            raise DrainError(f"connector {connector.name!r}: {error}") from None

    def sink(self, connector: ConnectorSettings) -> Sink:
        """Make a sink."""
        return make_sink(connector)

    def source(self, connector: ConnectorSettings, meter: TaskMeter) -> RecordSource:
        """Make a source of records for one task."""
        if not connector.consumer.share_group:
            return self._source(connector, meter.task_id)
        consumer, way = connector.consumer, self._way(connector)

        def make(on_event: Callable[[ConsumerEvent], None]) -> ShareConsumer:
            return ShareConsumer(
                consumer.bootstrap_servers,
                consumer.group,
                connector.topics,
                security=way.security,
                max_records=consumer.max_records,
                capacity=max(consumer.max_records, MOST_HELD),
                acquire_mode=_ACQUIRE[consumer.acquire_mode],
                max_wait=consumer.max_wait,
                max_bytes=consumer.max_bytes,
                key_deserializer=make_converter("key.converter", connector.key_converter, connector.where),
                value_deserializer=make_converter("value.converter", connector.value_converter, connector.where),
                client_id=consumer.client_id or f"{connector.name}-{meter.task_id}",
                client_rack=consumer.client_rack,
                request_timeout=consumer.request_timeout,
                close_timeout=self._stop_timeout,
                on_event=on_event,
            )

        log = structlog.get_logger().bind(connector=connector.name, task=meter.task_id)
        return ShareSource(make, on_event=meter.on_event, log=log)

    async def dead_letters(self, connector: ConnectorSettings) -> DeadLetterQueue:
        """Find out whether the dead-letter queue of the connector's share group works."""
        return await dead_letter_queue(self._cluster(connector), connector.consumer.group, deadline=self._deadline())

    async def delivery_limit(self, connector: ConnectorSettings) -> int:
        """Return after how many deliveries the brokers give a record up."""
        return await delivery_limit(self._cluster(connector), connector.consumer.group, deadline=self._deadline())

    async def close(self) -> None:
        """Close the connections that ask."""
        clusters, self._clusters = list(self._clusters.values()), {}
        for cluster in clusters:
            await cluster.close()

    def _source(self, connector: ConnectorSettings, task_id: int) -> ConsumerGroupSource:
        way = self._way(connector)
        return ConsumerGroupSource(
            connector.consumer,
            connector.topics,
            security=way.security,
            client_id=connector.consumer.client_id or f"{connector.name}-{task_id}",
            task=task_id,
            key_deserializer=make_converter("key.converter", connector.key_converter, connector.where),
            value_deserializer=make_converter("value.converter", connector.value_converter, connector.where),
        )

    async def _refuse_exactly_once(self, connector: ConnectorSettings, cluster: Cluster, deadline: float) -> None:
        """R24: never serve less than was asked for."""
        try:
            highest = max(await cluster.versions(None, deadline=deadline), default=None)
            offered = f"the highest API key of these brokers is {highest}"
        except ClusterError as error:
            offered = f"what these brokers offer is not known: {error}"
        raise NotSupported(
            f"{connector.where} exactly_once: it needs acknowledgements of a share group within a transaction "
            f"(KIP-1289), which no Kafka has yet ({offered}), and never works into another cluster or another kind "
            "of system; leave it out, and let the sink take a record twice without harm"
        )

    def _cluster(self, connector: ConnectorSettings) -> Cluster:
        consumer = connector.consumer
        way = consumer.bootstrap_servers, consumer.command_config
        if way not in self._clusters:
            try:
                addresses = parse_addresses(consumer.bootstrap_servers)
            except ValueError as error:
                raise ConfigError(f'{connector.where} "bootstrap.servers": {error}') from None
            own = self._way(connector)
            for note in own.notes:
                if note not in self._said:
                    self._said.add(note)
                    structlog.get_logger().warning("settings", what=note)
            self._clusters[way] = Cluster(addresses, own.security, client_id=own.client_id)
        return self._clusters[way]

    def _way(self, connector: ConnectorSettings) -> OwnConnection:
        return connection_from_file(connector.consumer.command_config, "shareproxy")

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._seconds


async def _look(look: Callable[[Mapping[str, Any]], object], settings: Mapping[str, Any]) -> None:
    try:
        await asyncio.to_thread(look, settings)
    except DrainError:
        raise
    except Exception as error:
        raise DrainError(f"the sink's look_ahead failed: {sentence(error)}") from error


def _tasks(connector: ConnectorSettings) -> str:
    count = connector.keys.tasks_max
    return f"{count} task{'' if count == 1 else 's'}"
