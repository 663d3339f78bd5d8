"""Let a sink task take its records from a consumer group, with commits that follow the sink.

In: an aiokafka consumer. Out: `RecordSource`. There is no release and no reject in a consumer group: what is released
is kept here and comes again first, and what is rejected is stepped over.
Must never: hand on new records while released ones wait, or commit an offset whose record was not settled.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Final

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener

from shareproxy.admin.arguments import addresses as bootstrap_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.drain.aiokafka_errors import sentence, translated
from shareproxy.drain.aiokafka_settings import consumer_arguments, protocol_note
from shareproxy.drain.commit_results import CommitResult, CommitStats
from shareproxy.drain.committer import ReconcilingCommitter
from shareproxy.drain.consumer_group_check import check_consumer_group
from shareproxy.drain.consumer_keys import ConsumeSettings
from shareproxy.drain.deferred import Converting
from shareproxy.drain.deserializers import Deserializer
from shareproxy.drain.kept_errors import without_frames
from shareproxy.drain.model import Headers, TimestampType, TopicPartition
from shareproxy.drain.record_words import where
from shareproxy.drain.sink import Outcome
from shareproxy.drain.source import NotSettled, Settled, SourceRecord

_WENT_AWAY: Final = "the partition went to another member before the commit"
# how long records wait before their schemas are asked about again; a poll in between keeps the member in the group
_SCHEMA_SECONDS: Final = 0.05
_TIMESTAMP_TYPES: Final = (TimestampType.CREATE, TimestampType.LOG_APPEND)


# gc=False: a record refers to nothing of ours, so that there is no circle to look for
class GroupRecord(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record of a consumer group; see `SourceRecord`.

    Attributes:
        delivery_count: how often it was handed out by this task, this time included; a restart begins at 1 again.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: Headers
    raw_key: bytes | None
    raw_value: bytes | None
    error: Exception | None = None
    delivery_count: int = 1

    def __repr__(self) -> str:
        return f"GroupRecord({self.topic}-{self.partition}, offset {self.offset}, delivery {self.delivery_count})"

    @property
    def lock_deadline(self) -> None:
        """There are no locks."""
        return


class _Unconfirmed:
    """Settled records of one partition that no commit has covered yet."""

    __slots__ = ("accepted", "rejected")

    def __init__(self) -> None:
        self.accepted: list[int] = []
        self.rejected: list[int] = []

    def __len__(self) -> int:
        return len(self.accepted) + len(self.rejected)

    def below(self, offset: int) -> tuple[int, int]:
        """Take out what a commit covers, and return how many were accepted and rejected."""
        before = len(self.accepted), len(self.rejected)
        self.accepted = [found for found in self.accepted if found >= offset]
        self.rejected = [found for found in self.rejected if found >= offset]
        return before[0] - len(self.accepted), before[1] - len(self.rejected)


class ConsumerGroupSource:
    """Records of a consumer group; see `RecordSource`.

    Args:
        settings: how the connector consumes.
        topics: by name.
        security: of the connections.
        client_id: our name, where the settings have none.
        task: number of the task.
        key_deserializer: makes keys of bytes; `None` leaves them as they are.
        value_deserializer: the same for values.
        make_consumer: makes the consumer of aiokafka's arguments.
        check: whether to look at the group and the topics before joining; what is wrong is told better then.
    """

    def __init__(
        self,
        settings: ConsumeSettings,
        topics: Sequence[str],
        *,
        security: Security = PLAINTEXT,
        client_id: str = "shareproxy",
        task: int = 0,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        make_consumer: Callable[..., Any] = AIOKafkaConsumer,
        check: bool = True,
    ) -> None:
        self._settings, self._topics = settings, tuple(topics)
        self._security, self._client_id, self._task = security, client_id, task
        self._key, self._value = key_deserializer, value_deserializer
        self._converting = Converting(key_deserializer, value_deserializer)
        self._trouble: str | None = None
        self._make, self._check = make_consumer, check
        self._committer: ReconcilingCommitter | None = None
        self._again: deque[GroupRecord] = deque()  # released: they come first, in their order
        self._again_at = 0.0
        self._unconfirmed: dict[TopicPartition, _Unconfirmed] = {}
        self._counts = [0, 0, 0]  # accepted, rejected, released since the last `commit`
        self._lost: list[NotSettled] = []
        self._closed = False

    @property
    def group(self) -> str:
        """Name of the consumer group."""
        return self._settings.group

    @property
    def topics(self) -> Sequence[str]:
        """Topics by name."""
        return self._topics

    @property
    def share_group(self) -> bool:
        """It is none."""
        return False

    @property
    def lock_duration(self) -> float | None:
        """There are no locks."""
        return None

    @property
    def can_renew(self) -> bool:
        """There is nothing that could run out."""
        return True

    @property
    def partition_count(self) -> int:
        """Partitions that this member is assigned now."""
        return 0 if self._committer is None else len(self._committer.assignment)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is not quite as the settings have it."""
        note = protocol_note(self._settings.protocol)
        return () if note is None else (note,)

    @property
    def stats(self) -> CommitStats | None:
        """What became of the commits; `None` before the group was joined."""
        return None if self._committer is None else self._committer.stats

    @property
    def denied(self) -> Set[str]:
        """It is not known by topic."""
        return frozenset()

    def why_not_ready(self) -> str | None:
        """Return why no records can come now, in a sentence; `None` if all is well."""
        if self._committer is None or self._closed:
            return f"group {self.group!r} is not joined"
        if not self._committer.assignment:
            return (
                f"group {self.group!r} has assigned no partition to this member; a consumer group gives each partition "
                "to one member, and none to those beyond their number"
            )
        if self._trouble is not None:
            return f"records of group {self.group!r} wait: {self._trouble}"
        return None

    async def start(self) -> None:
        """Join the group; return when it has been joined.

        Raises:
            UnknownTopic: a topic does not exist.
            DrainError: the group cannot be joined.
            AccessDenied: the login or a right is missing.
            CannotReach: no broker answers.
            WrongArgument: the addresses, the group or the security cannot be used.
        """
        if self._check:
            await self._look()
        arguments = consumer_arguments(self._settings, self._security, client_id=self._client_id, task=self._task)
        committer = ReconcilingCommitter(
            self._make(**arguments),
            self._topics,
            listener=_Listener(self._revoked, self._assigned),
            finish_timeout=min(3.0, arguments["session_timeout_ms"] / 3000),
            commit_timeout=self._settings.request_timeout,
            on_commit=self._committed,
        )
        await self._converting.start()
        try:
            with translated(self.group, self._topics):
                await committer.start()
        except BaseException:
            await self._converting.close()
            raise
        self._committer = committer

    async def _look(self) -> None:
        addresses = bootstrap_addresses(self._settings.bootstrap_servers)
        seconds = self._settings.request_timeout
        async with Cluster(addresses, self._security, client_id=self._client_id) as cluster:
            deadline = asyncio.get_running_loop().time() + seconds
            await check_consumer_group(cluster, self.group, self._topics, deadline=deadline)

    async def get_batch(self, max_records: int, timeout: float) -> Sequence[SourceRecord]:
        """Wait for records; released ones come first, and nothing else comes before they are due."""
        committer = self._joined()
        with translated(self.group, self._topics):
            if self._again:
                again = await self._get_again(committer, max_records, timeout)
                return await self._converted(again, timeout) if self._converting.needed else again
            found = await committer.getmany(timeout_ms=int(timeout * 1000), max_records=max_records)
        fresh = [self._record(record) for records in found.values() for record in records]
        return await self._converted(fresh, timeout) if self._converting.needed else fresh

    def settle(self, records: Sequence[SourceRecord], outcome: Outcome, *, delay: float = 0.0) -> None:
        """Note what became of records; see `RecordSource`."""
        committer = self._joined()
        if outcome is Outcome.RELEASE:
            again = [_handed_out_again(record) for record in records if self._is_ours(record)]
            self._counts[2] += len(again)
            self._keep(again, delay)
            return
        late: Counter[TopicPartition] = Counter()
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if not committer.finished(record):
                late[partition] += 1
                continue
            waiting = self._unconfirmed.setdefault(partition, _Unconfirmed())
            (waiting.rejected if outcome is Outcome.REJECT else waiting.accepted).append(record.offset)
        self._lost += [NotSettled(partition, number, None, _WENT_AWAY) for partition, number in late.items()]

    async def commit(self) -> Settled:
        """Commit what was settled up to the first record that was not; what was refused is told, not raised."""
        result = await self._joined().commit()
        failures, self._lost = self._lost, []
        if result.error is not None:
            code, text = getattr(result.error, "errno", None), sentence(result.error)
            failures.extend(
                NotSettled(partition, len(self._unconfirmed[partition]), code, text)
                for partition in result.sent
                if partition not in result.confirmed and self._unconfirmed.get(partition)
            )
        accepted, rejected, released = self._counts
        self._counts = [0, 0, 0]
        return Settled(accepted, released, rejected, tuple(failures))

    async def renew(self, records: Sequence[SourceRecord]) -> None:
        """Do nothing: there are no locks."""

    async def close(self, timeout: float) -> None:
        """Commit what was settled, leave the group, and close the connections; may be called twice.

        Args:
            timeout: seconds for all of it.
        """
        if self._committer is None or self._closed:
            return
        self._closed = True
        self._again.clear()
        closing = asyncio.ensure_future(self._committer.close(finish_timeout=0.0))
        # the steps have limits of their own; this is the one for a coordinator that hangs
        await asyncio.wait({closing}, timeout=timeout)
        if not closing.done():
            closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await self._converting.close()

    async def _converted(self, records: Sequence[SourceRecord], timeout: float) -> Sequence[SourceRecord]:
        """Hand on what can be read; what waits for its schema comes again first."""
        ready, waiting = await self._converting.convert_soon(records, len(records), timeout)
        if waiting:
            self._keep([_group_record(record) for record in waiting if self._is_ours(record)], _SCHEMA_SECONDS)
        trouble = self._converting.trouble if waiting else None
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is not None:
                structlog.get_logger().warning("records wait for their schemas", records=where(waiting), why=trouble)
        # a rebalance may have taken some meanwhile
        return [record for record in ready if self._is_ours(record)]

    def _keep(self, records: Sequence[GroupRecord], delay: float) -> None:
        """Let records come again, before all others."""
        merged = [*self._again, *records]
        self._again = deque(sorted(merged, key=lambda record: (record.topic, record.partition, record.offset)))
        self._again_at = max(self._again_at, asyncio.get_running_loop().time() + delay)

    async def _get_again(
        self, committer: ReconcilingCommitter, max_records: int, timeout: float
    ) -> Sequence[SourceRecord]:
        seconds = self._again_at - asyncio.get_running_loop().time()
        if seconds > 0:
            await committer.stay()
            await asyncio.sleep(min(seconds, timeout))
            if seconds > timeout:
                return []
        # a rebalance may have taken them meanwhile
        return [self._again.popleft() for _ in range(min(max_records, len(self._again)))]

    def _record(self, record: Any) -> GroupRecord:
        key, value, error = record.key, record.value, None
        try:
            key = key if key is None or self._key is None else self._key(key)
            value = value if value is None or self._value is None else self._value(value)
        except Exception as problem:  # a converter may raise anything: one record must not stop the others
            key, value, error = None, None, without_frames(problem)
        return GroupRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            _TIMESTAMP_TYPES[record.timestamp_type or 0],
            key,
            value,
            record.headers,
            record.key,
            record.value,
            error,
        )

    def _committed(self, result: CommitResult) -> None:
        """Count what a commit covers; those at an interval and at a rebalance count as well."""
        for partition, offset in result.confirmed.items():
            waiting = self._unconfirmed.get(partition)
            if waiting is not None:
                accepted, rejected = waiting.below(offset)
                self._counts[0] += accepted
                self._counts[1] += rejected

    def _revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Let go of released records of partitions that go: whoever gets the partition gets them."""
        gone = set(partitions)
        self._again = deque(record for record in self._again if (record.topic, record.partition) not in gone)
        if not self._again:
            self._again_at = 0.0

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Name what no commit covered before its partition went, or went and came again."""
        for partition, waiting in self._unconfirmed.items():
            if waiting:
                self._lost.append(NotSettled(partition, len(waiting), None, _WENT_AWAY))
        self._unconfirmed.clear()

    def _is_ours(self, record: SourceRecord) -> bool:
        return TopicPartition(record.topic, record.partition) in self._joined().assignment

    def _joined(self) -> ReconcilingCommitter:
        assert self._committer is not None, "start comes first"
        return self._committer


def _group_record(record: SourceRecord) -> GroupRecord:
    assert isinstance(record, GroupRecord)
    return record


def _handed_out_again(record: SourceRecord) -> GroupRecord:
    return msgspec.structs.replace(_group_record(record), delivery_count=record.delivery_count + 1)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Bring aiokafka's callbacks to the source."""

    def __init__(
        self,
        revoked: Callable[[Iterable[tuple[str, int]]], None],
        assigned: Callable[[Iterable[tuple[str, int]]], None],
    ) -> None:
        self._revoked, self._assigned = revoked, assigned

    def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
        """Partitions go."""
        self._revoked(revoked)

    def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
        """Partitions have come."""
        self._assigned(assigned)
