"""An aiokafka consumer for tests: logs in memory, commits noted, rebalances and failures when a test wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka.errors import ConsumerStoppedError, IllegalStateError
from aiokafka.structs import TopicPartition

MARKER = None  # in a log: an offset that no consumer is ever given


class FakeRecord(NamedTuple):
    """What aiokafka's records have, as far as it is looked at here."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 1_700_000_000_000
    timestamp_type: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


class FakeGroupConsumer:
    """The part of `AIOKafkaConsumer` that a committer uses.

    Args:
        logs: values by partition; `MARKER` for what is stepped over.
        committed: what the group committed before.

    Attributes:
        commits: offsets of each request, in order.
        failures: raised by the next commits, one each; `None` lets one pass.
        tasks: who called what touches the consumer, by method.
    """

    def __init__(
        self,
        logs: Mapping[tuple[str, int], Iterable[str | None]],
        committed: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._enable_auto_commit = False
        self._group_id: str | None = "group"
        self.logs = {TopicPartition(*partition): list(values) for partition, values in logs.items()}
        self.committed = {TopicPartition(*partition): offset for partition, offset in (committed or {}).items()}
        self.commits: list[dict[tuple[str, int], int]] = []
        self.failures: list[Exception | None] = []
        self.poll_failures: list[Exception] = []
        self.tasks: dict[str, set[str]] = {}
        self.order: list[str] = []
        self.most: int | None = None  # per poll, below what is asked for
        self.commit_gate = asyncio.Event()
        self.commit_gate.set()
        self._listener: Any = None
        self._topics: set[str] = set()
        self._assigned: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._stopped = False

    # -- what the committer calls ------------------------------------------------------------------------------------

    def subscription(self) -> set[str]:
        """Return the topics."""
        return self._topics

    def subscribe(self, topics: Iterable[str] = (), *, listener: Any = None) -> None:
        """Keep topics and listener."""
        self._topics, self._listener = set(topics), listener

    async def start(self) -> None:
        """Join: everything that is subscribed to is assigned."""
        self._note("start")
        if self._topics:
            await self.rebalance([partition for partition in self.logs if partition.topic in self._topics])

    async def stop(self) -> None:
        """Leave."""
        self._note("stop")
        self._stopped = True
        self._arrived.set()

    def assignment(self) -> set[TopicPartition]:
        """Return what is assigned; during a rebalance what was, as aiokafka does."""
        return set(self._assigned)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Assign by hand."""
        self._take({TopicPartition(*partition) for partition in partitions})

    def pause(self, *partitions: TopicPartition) -> None:
        """Give no records of these any more."""
        assert all(type(partition) is TopicPartition for partition in partitions)
        self._paused.update(partitions)

    async def position(self, partition: TopicPartition) -> int:
        """Return the next offset; waits where it is not known yet."""
        self._note("position")
        if partition not in self._assigned:
            raise IllegalStateError(f"{partition} is not assigned")
        while partition not in self._positions:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=30)
        return self._positions[partition]

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """Return records; steps over markers."""
        self._note("getmany")
        if partitions:
            assert not self._assigned.intersection(partitions)
            return {}
        if self._stopped:
            raise ConsumerStoppedError
        if self.poll_failures:
            raise self.poll_failures.pop(0)
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            await self._settled.wait()  # without an end, as in aiokafka
            found = self._drain(min(max_records or 1000, self.most or 1000))
            if found or self._stopped:
                return found
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return {}

    async def commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        """Note a commit, or fail."""
        self._note("commit")
        assert all(type(partition) is TopicPartition for partition in offsets)
        if missing := offsets.keys() - self._assigned:
            raise IllegalStateError(f"{missing} not assigned")
        await self.commit_gate.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.commits.append({tuple(partition): row.offset for partition, row in offsets.items()})
        self.committed.update({partition: row.offset for partition, row in offsets.items()})

    # -- what a test does --------------------------------------------------------------------------------------------

    def append(self, partition: tuple[str, int], *values: str | None) -> None:
        """Write to a log."""
        self.logs[TopicPartition(*partition)].extend(values)
        self._arrived.set()

    async def rebalance(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Revoke all and assign these; polls wait meanwhile, whatever their time-out."""
        self._settled.clear()
        await self._listener.on_partitions_revoked(set(self._assigned))
        self._take({TopicPartition(*partition) for partition in partitions})
        self._settled.set()
        self._arrived.set()
        await self._listener.on_partitions_assigned(set(self._assigned))

    def forget_position(self, partition: tuple[str, int]) -> None:
        """Make a position unknown, as before Kafka has told where reading begins."""
        self._positions.pop(TopicPartition(*partition))

    def _take(self, partitions: set[TopicPartition]) -> None:
        self._assigned = partitions
        self._positions = {partition: self.committed.get(partition, 0) for partition in partitions}
        self._paused.clear()

    def _drain(self, most: int) -> dict[TopicPartition, list[Any]]:
        found: dict[TopicPartition, list[Any]] = {}
        for partition in sorted(self._positions.keys() - self._paused):
            log, position, records = self.logs[partition], self._positions[partition], []
            while position < len(log) and most:
                value = log[position]
                if value is not MARKER:
                    records.append(FakeRecord(partition.topic, partition.partition, position, value=value.encode()))
                    most -= 1
                position += 1
            while position < len(log) and log[position] is MARKER:
                position += 1
            self._positions[partition] = position
            if records:
                found[partition] = records
        return found

    def _note(self, method: str) -> None:
        task = asyncio.current_task()
        self.tasks.setdefault(method, set()).add("" if task is None else task.get_name())
        self.order.append(method)
