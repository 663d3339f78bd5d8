"""Keep what was read of each partition, what was handed on, and what is finished.

In: positions after polls, records handed on, records finished in any order. Out: readings and checkpoints.
Must never: count a record as finished while an earlier one of its partition is not (F3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from shareproxy.drain.model import TopicPartition
from shareproxy.drain.reconcile import BoundedRead, Checkpoint, Reading, Reconciled, reconcile


class _Partition:
    """One assigned partition."""

    __slots__ = ("done", "finished", "last", "order", "position", "waiting")

    def __init__(self) -> None:
        self.position: int | None = None
        self.last: int | None = None
        self.done: int | None = None
        # next offset that is not finished; the first record's own offset before it is, so that a commit pins where
        # a new group began: were it lost, `latest` would begin behind that record
        self.finished: int | None = None
        self.order: deque[int] = deque()  # handed on and not yet part of the finished prefix, as they came
        self.waiting: set[int] = set()  # those of them that are not finished


class HandedOn:
    """The partitions that are assigned now; all methods are quick, none waits.

    Args:
        stops: first offset that is not read, by partition; the others are read without an end.
    """

    def __init__(self, stops: Mapping[TopicPartition, int] | None = None) -> None:
        self._stops = dict(stops or {})
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._waiting = 0

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are ours."""
        return frozenset(self._partitions)

    @property
    def waiting(self) -> int:
        """Return how many records were handed on and are not finished, over all partitions."""
        return self._waiting

    def waiting_in(self, partitions: Collection[TopicPartition]) -> int:
        """Return how many records of some partitions were handed on and are not finished."""
        found = (self._partitions.get(partition) for partition in partitions)
        return sum(len(state.waiting) for state in found if state is not None)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin with partitions as at the start; those that are known already stay as they are."""
        for partition in partitions:
            self._partitions.setdefault(partition, _Partition())

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop all that is known of partitions (F10)."""
        for partition in partitions:
            state = self._partitions.pop(partition, None)
            if state is not None:
                self._waiting -= len(state.waiting)

    def at(self, partition: TopicPartition, position: int) -> None:
        """Note a position at the end of a poll (F1)."""
        state = self._partitions.get(partition)
        if state is not None:
            state.position = position

    def hand_on(self, partition: TopicPartition, offsets: Iterable[int]) -> None:
        """Note records that leave the consumer, in their order (F2)."""
        state = self._partitions.get(partition)
        if state is None:
            return
        new = list(offsets)
        if not new:
            return
        before = len(state.waiting)
        # a log that was made anew, or a seek, can bring offsets again: they are finished once, and nothing is lost
        state.order.extend(new)
        state.waiting.update(new)
        self._waiting += len(state.waiting) - before
        state.last = new[-1]
        if state.finished is None:
            state.finished = new[0]

    def finish(self, partition: TopicPartition, offset: int) -> bool:
        """Note that a record is finished; false where it was not waiting, for instance as its partition went away."""
        state = self._partitions.get(partition)
        if state is None or offset not in state.waiting:
            return False
        order, waiting = state.order, state.waiting
        waiting.discard(offset)
        self._waiting -= 1
        while order and order[0] not in waiting:
            state.finished = order.popleft() + 1
        return True

    def stopped(self, partition: TopicPartition) -> bool:
        """Return whether reading has got to the partition's stop offset."""
        return self._bounded(partition).finished if partition in self._stops else False

    def stop_of(self, partition: TopicPartition) -> int | None:
        """Return the first offset that is not read, `None` where reading has no end."""
        return self._stops.get(partition)

    def reading(self, partition: TopicPartition) -> Reading:
        """Return what is known of an assigned partition."""
        state = self._partitions[partition]
        return Reading(state.position, state.last, state.done)

    def checkpoint(self) -> Checkpoint:
        """Return what is finished now."""
        known = {
            partition: state.finished for partition, state in self._partitions.items() if state.finished is not None
        }
        return Checkpoint(known, frozenset(self._partitions.keys() - known.keys()))

    def plan(self, checkpoint: Checkpoint) -> Reconciled:
        """Return what to commit for a checkpoint now; nothing is noted."""
        readings = {partition: self.reading(partition) for partition in self._partitions}
        bounded = {partition: self._bounded(partition) for partition in self._stops if partition in self._partitions}
        return reconcile(readings, checkpoint, self._partitions.keys(), bounded)

    def sent(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note offsets as committed, at the moment when they are sent (F9)."""
        for partition, offset in offsets.items():
            state = self._partitions.get(partition)
            if state is not None:
                state.done = offset

    def _bounded(self, partition: TopicPartition) -> BoundedRead:
        stop = self._stops[partition]
        state = self._partitions.get(partition)
        position = None if state is None else state.position
        return BoundedRead(stop, finished=position is not None and 0 <= stop <= position)
