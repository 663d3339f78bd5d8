"""Read with an aiokafka consumer and commit what is finished: one poll or commit at a time, for its one owner.

In: an aiokafka consumer, records as they are finished. Out: batches, and results of commits.
Must never: look up a position at commit time, or raise because a commit failed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import Any, Final

import structlog
from aiokafka.errors import IllegalStateError, KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from shareproxy.drain.aiokafka_errors import sentence
from shareproxy.drain.commit_results import CommitResult, CommitStats
from shareproxy.drain.handed_on import HandedOn
from shareproxy.drain.model import TopicPartition
from shareproxy.drain.reconcile import Checkpoint

# aiokafka has no types: lists of its `ConsumerRecord`s
Batch = dict[TopicPartition, list[Any]]

_NOWHERE: Final = KafkaPartition("", 0)

_log = structlog.get_logger(__name__)


class GroupReader:
    """One consumer, with what it handed on.

    Args:
        consumer: an `AIOKafkaConsumer` that does not commit by itself.
        state: what was handed on and is finished.
        commit_timeout: seconds for one commit.
        on_commit: called with each result.
    """

    def __init__(
        self,
        consumer: Any,
        state: HandedOn,
        *,
        commit_timeout: float,
        on_commit: Callable[[CommitResult], None] | None = None,
    ) -> None:
        self.state = state
        self.between_assignments = False  # from a revocation to the assignment that follows
        self.polling = False
        self._consumer, self._commit_timeout, self._on_commit = consumer, commit_timeout, on_commit
        self._sending = asyncio.Lock()
        self._confirmed: dict[TopicPartition, int] = {}
        self._commits = self._failures = self._empty = 0
        self._last_error: str | None = None

    def stats(self, late: int) -> CommitStats:
        """Return what became of all commits; `late` are records that were finished too late."""
        committed = {partition: self._confirmed[partition] for partition in sorted(self._confirmed)}
        return CommitStats(
            committed, self._commits, self._failures, self._empty, self.state.waiting, late, self._last_error
        )

    async def poll(self, max_records: int | None, seconds: float) -> Batch:
        """Return what comes, and note how far reading got; being cancelled loses nothing.

        Raises:
            KafkaError: what aiokafka found.
        """
        self.polling = True
        try:
            found = await self._consumer.getmany(timeout_ms=math.ceil(seconds * 1000), max_records=max_records)
        finally:
            self.polling = False
        # Nothing waits from here on, so no commit or rebalance comes between records and positions (F1, F2).
        if not found and self.between_assignments:
            return {}  # aiokafka still shows the assignment that is over
        # records come of a new assignment only, also where its callback is still to be called
        self.take_assignment()
        batch = {}
        for partition, records in found.items():
            ours = TopicPartition(*partition)
            kept = self._before_stop(ours, records)
            self.state.hand_on(ours, [record.offset for record in kept])
            if kept:
                batch[ours] = kept
        for partition in self.state.assignment:
            position = self._position(partition)
            if position is not None:
                self.state.at(partition, position)
                if self.state.stopped(partition):
                    self._consumer.pause(KafkaPartition(*partition))
        return batch

    async def stay(self) -> Batch:
        """Poll for nothing, so that the group does not take us for stuck."""
        self.polling = True
        try:
            # aiokafka looks for records of these partitions only, and there are none of such a name
            await self._consumer.getmany(_NOWHERE, timeout_ms=0)
        finally:
            self.polling = False
        return {}

    def take_assignment(self) -> None:
        """Begin with the partitions that aiokafka has now, and drop those that it has not."""
        self.between_assignments = False
        now = {TopicPartition(*partition) for partition in self._consumer.assignment()}
        self.drop(self.state.assignment - now)
        self.state.assign(now)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all about partitions that went away (F10)."""
        self.state.revoke(partitions)
        for partition in partitions:
            self._confirmed.pop(partition, None)

    async def commit(self, checkpoint: Checkpoint | None) -> CommitResult:
        """Commit what is finished now, or was at a checkpoint; one commit at a time."""
        async with self._sending:
            planned = self.state.plan(self.state.checkpoint() if checkpoint is None else checkpoint)
            assigned = {TopicPartition(*partition) for partition in self._consumer.assignment()}
            offsets = {
                partition: offset
                for partition, offset in planned.offsets.items()
                if partition in assigned and self._confirmed.get(partition) != offset
            }
            if not offsets:
                self._empty += 1
                result = CommitResult(unassigned=planned.unassigned)
            else:
                self.state.sent(offsets)
                error = await self._send(offsets)
                result = CommitResult(offsets, _confirmed(offsets, error), planned.unassigned, error)
                self._count(result)
        if self._on_commit is not None:
            try:
                self._on_commit(result)
            except Exception:  # a metric of the caller must not stop the reading (F16)
                _log.exception("on_commit failed")
        return result

    async def _send(self, offsets: dict[TopicPartition, int]) -> Exception | None:
        asked = {KafkaPartition(*partition): OffsetAndMetadata(offset, "") for partition, offset in offsets.items()}
        try:
            async with asyncio.timeout(self._commit_timeout):
                await self._consumer.commit(asked)
        except TimeoutError:
            return TimeoutError(f"the group's coordinator did not answer within {self._commit_timeout:g} s")
        except KafkaError as error:
            failure: Exception = error
            return failure
        return None

    def _count(self, result: CommitResult) -> None:
        # partitions may have gone while the answer was on its way
        ours = self.state.assignment
        self._confirmed.update({p: offset for p, offset in result.confirmed.items() if p in ours})
        if result.error is None:
            self._commits += 1
            self._last_error = None
            return
        self._failures += 1
        self._last_error = sentence(result.error)
        _log.warning("offsets were not committed", error=self._last_error, partitions=len(result.sent))

    def _before_stop(self, partition: TopicPartition, records: list[Any]) -> list[Any]:
        stop = self.state.stop_of(partition)
        return records if stop is None or stop < 0 else [record for record in records if record.offset < stop]

    def _position(self, partition: TopicPartition) -> int | None:
        """Return a position if aiokafka knows it now.

        Its `position` waits where it does not, which must not happen here: the call is made up to where it would wait.
        """
        asking = self._consumer.position(KafkaPartition(*partition))
        try:
            asking.send(None)
        except StopIteration as answer:
            return int(answer.value)
        except IllegalStateError:
            return None
        asking.close()
        return None


def _confirmed(offsets: dict[TopicPartition, int], error: Exception | None) -> dict[TopicPartition, int]:
    """Return what the broker took (F14): aiokafka tells it where nothing failed, or a topic's rights alone."""
    if error is None:
        return offsets
    if isinstance(error, TopicAuthorizationFailedError) and error.args and isinstance(error.args[0], set | frozenset):
        return {partition: offset for partition, offset in offsets.items() if partition.topic not in error.args[0]}
    return {}
