"""Decide which offsets a consumer group commits, so that its lag reaches 0 and no record is lost (FLINK-33484).

In: where reading has got to, what was handed on last, what is finished, what was committed. Out: offsets to commit.
Must never: change what it is given, commit beyond a record that was handed on and is not finished, or go back.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

import msgspec

from shareproxy.drain.model import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1


class Checkpoint(msgspec.Struct, frozen=True):
    """What was finished at one moment; it may be kept for long before it is committed, and is never changed (F18).

    Attributes:
        offsets: the next offset that is not finished, by partition; all records before it are safe (F3). A negative
            one is Kafka's placeholder for a start that was not looked up, and counts as `without_offset`.
        without_offset: partitions that were assigned and of which no record was handed on yet (F6).
    """

    offsets: Mapping[TopicPartition, int] = {}
    without_offset: frozenset[TopicPartition] = frozenset()


class Reading(msgspec.Struct, frozen=True):
    """What is known of one assigned partition.

    Attributes:
        position: next offset to fetch, as it was after the last poll, an empty one too (F1); `None` until Kafka has
            told where reading begins. It steps over transaction markers and aborted records.
        last: offset of the last record that was handed on (F2); `None` before the first.
        done: last offset that a commit was sent with (F9); `None` before the first.
    """

    position: int | None = None
    last: int | None = None
    done: int | None = None


class BoundedRead(msgspec.Struct, frozen=True):
    """A partition that is read up to an offset and no further.

    Attributes:
        stop: first offset that is not read; negative where it is not known yet.
        finished: whether reading has got there.
    """

    stop: int
    finished: bool = False


class Reconciled(msgspec.Struct, frozen=True):
    """What to commit, and what is known once that was sent.

    Attributes:
        offsets: to send; without those that would go back (F8). Empty: there is nothing to send (F13).
        readings: of the assigned partitions, with `done` as it is when the offsets have been sent (F9).
        unassigned: finished offsets of partitions that are not ours any more: exactly as in the checkpoint, for a
            group that still takes them (F10).
    """

    offsets: Mapping[TopicPartition, int]
    readings: Mapping[TopicPartition, Reading]
    unassigned: Mapping[TopicPartition, int]


def reconcile(
    readings: Mapping[TopicPartition, Reading],
    checkpoint: Checkpoint,
    assignment: Set[TopicPartition],
    bounded: Mapping[TopicPartition, BoundedRead] | None = None,
) -> Reconciled:
    """Return the offsets to commit now for what was finished at a checkpoint.

    Args:
        readings: by partition, as they are now.
        checkpoint: taken now or earlier.
        assignment: partitions that are ours now.
        bounded: those that are not read to the end.

    Source: FLINK-33484, flink-connector-kafka pull request 293.
    """
    bounds = bounded or {}
    offsets: dict[TopicPartition, int] = {}
    unassigned: dict[TopicPartition, int] = {}
    kept = {partition: readings.get(partition, Reading()) for partition in assignment}
    for partition in sorted({*checkpoint.offsets, *checkpoint.without_offset}):
        finished = checkpoint.offsets.get(partition)
        if finished is not None and finished < 0:
            finished = None
        reading = kept.get(partition)
        if reading is None:
            if finished is not None:
                unassigned[partition] = finished
            continue
        offset = offset_to_commit(reading, finished, bounds.get(partition))
        if offset is not None:
            offsets[partition] = offset
            kept[partition] = Reading(reading.position, reading.last, offset)
    return Reconciled(offsets, kept, unassigned)


def offset_to_commit(reading: Reading, finished: int | None, bounded: BoundedRead | None = None) -> int | None:
    """Return the offset to commit for one assigned partition, `None` for none.

    Args:
        reading: as it is now.
        finished: next offset that was not finished at the checkpoint; `None` if there was none yet.
        bounded: where reading stops, if it does.
    """
    offset = _end(reading, finished, bounded) if bounded is not None else _reached(reading, finished)
    if offset is None or offset < 0 or (reading.done is not None and offset < reading.done):  # F8
        return None
    return offset


def _reached(reading: Reading, finished: int | None) -> int | None:
    position = reading.position
    if _waits(reading, finished) or position is None:  # F7 where nothing is finished yet
        return finished
    # F4, F5, F6: nothing that was handed on waits, so what the position stepped over was no record
    return position if finished is None else max(position, finished)


def _end(reading: Reading, finished: int | None, bounded: BoundedRead) -> int | None:
    """Return where a bounded read is (F11), or its end (F12)."""
    if not bounded.finished or bounded.stop < 0 or _waits(reading, finished):
        return finished
    never_began = finished is None and reading.position is None
    return None if never_began else bounded.stop


def _waits(reading: Reading, finished: int | None) -> bool:
    """Return whether a record was handed on that was not finished at the checkpoint."""
    return reading.last is not None and finished != reading.last + 1
