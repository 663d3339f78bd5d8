"""Say what happened to a share consumer besides records and acknowledgements.

In: nothing. Out: frozen events; `str(event)` is a sentence for a log. A consumer hands them to `on_event` and to
`events()`. Must never: ask anything of the caller: the consumer has dealt with each already.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shareproxy.drain.model import OffsetRange, TopicPartition
from shareproxy.protocol.errors import error_name


class ConsumerEvent(msgspec.Struct, frozen=True):
    """Base of all events."""

    def __str__(self) -> str:
        return type(self).__name__


class AssignmentChanged(ConsumerEvent, frozen=True):
    """The coordinator gave this member other partitions.

    Attributes:
        assignment: all partitions from now on.
        added: those that are new.
        removed: those that are gone; what is held of them can still be acknowledged.
    """

    assignment: frozenset[TopicPartition]
    added: frozenset[TopicPartition]
    removed: frozenset[TopicPartition]

    def __str__(self) -> str:
        count = len(self.assignment)
        assigned = "1 partition is" if count == 1 else f"{count} partitions are"
        return f"{assigned} assigned now: {len(self.added)} new, {len(self.removed)} gone"


class LeaderMoved(ConsumerEvent, frozen=True):
    """A partition is led by another broker now; what was held of it is lost and comes again (facts: attempt 1).

    Attributes:
        node_id: who led it.
        leader: who leads it now; `None` while nobody knows.
    """

    partition: TopicPartition
    node_id: int
    leader: int | None

    def __str__(self) -> str:
        now = "it is not known yet who does" if self.leader is None else f"node {self.leader} does"
        return f"{_name(self.partition)}: node {self.node_id} leads it no more, {now}"


class SessionReopened(ConsumerEvent, frozen=True):
    """The share session with a broker was opened again; records held before are lost to this member and come again.

    Attributes:
        node_id: the broker.
        reason: why, in words.
        error_code: Kafka's, where the broker said it (122, 123, …).
    """

    node_id: int
    reason: str
    error_code: int | None = None

    def __str__(self) -> str:
        return f"node {self.node_id}: the share session was opened again: {self.reason}"


class AcknowledgementsLost(ConsumerEvent, frozen=True):
    """The broker did not take acknowledgements, or its answer never came; the records may come again.

    Attributes:
        ranges: the offsets.
        error_code: Kafka's; `None` where no answer came: it is not known whether they count.
        message: the broker's words, or ours.
    """

    partition: TopicPartition
    ranges: Sequence[OffsetRange]
    error_code: int | None
    message: str | None = None

    def __str__(self) -> str:
        why = self.message or ("no answer came" if self.error_code is None else error_name(self.error_code))
        return f"{_name(self.partition)}: acknowledgements of {_offsets(self.ranges)} are lost: {why}"


class LockLost(ConsumerEvent, frozen=True):
    """Records are not locked for this member any more: too much time went by, or session or leader are gone.

    Attributes:
        ranges: the offsets.
        delivered: whether the caller had them already; else they were dropped unseen.
    """

    partition: TopicPartition
    ranges: Sequence[OffsetRange]
    delivered: bool

    def __str__(self) -> str:
        what = "are still being worked on" if self.delivered else "were dropped before anybody saw them"
        return f"{_name(self.partition)}: the locks of {_offsets(self.ranges)} are lost; they {what}"


class RecordsGivenBack(ConsumerEvent, frozen=True):
    """Records waited here for longer than a lock, and nobody asked for them: they were released for others.

    Only records that came for the first time are: each release spends a delivery attempt.

    Attributes:
        ranges: the offsets.
    """

    partition: TopicPartition
    ranges: Sequence[OffsetRange]

    def __str__(self) -> str:
        return f"{_name(self.partition)}: nobody asked for {_offsets(self.ranges)}, so they were given back"


class MemberFenced(ConsumerEvent, frozen=True):
    """The coordinator had forgotten this member; it joins again, and what it holds stays its own."""

    error_code: int
    message: str | None = None

    def __str__(self) -> str:
        return f"the member was fenced ({error_name(self.error_code)}) and joins again"


class GroupFull(ConsumerEvent, frozen=True):
    """The group has as many members as the brokers allow; joining is tried again."""

    message: str

    def __str__(self) -> str:
        return self.message


class BrokerLost(ConsumerEvent, frozen=True):
    """A connection to a broker broke or could not be made; it is tried again.

    Attributes:
        node_id: the broker; `None` for the group's coordinator when it is not known who that is.
        reason: why, in words.
    """

    node_id: int | None
    reason: str

    def __str__(self) -> str:
        who = "the group's coordinator" if self.node_id is None else f"node {self.node_id}"
        return f"{who}: {self.reason}"


class PartitionRefused(ConsumerEvent, frozen=True):
    """A broker gives no records of a partition for now.

    Attributes:
        error_code: Kafka's.
        message: the broker's words.
    """

    partition: TopicPartition
    error_code: int
    message: str | None = None

    def __str__(self) -> str:
        return f"{_name(self.partition)}: {error_name(self.error_code)}{f': {self.message}' if self.message else ''}"


class GapsAcknowledged(ConsumerEvent, frozen=True):
    """Offsets without a record (transaction markers, holes of compaction) were acknowledged, so that lag reaches 0."""

    partition: TopicPartition
    ranges: Sequence[OffsetRange]

    def __str__(self) -> str:
        return f"{_name(self.partition)}: no records at {_offsets(self.ranges)}"


class RecordsSkipped(ConsumerEvent, frozen=True):
    """Records could not be read and were not handed out; they were released or rejected, as `rejected` says.

    Attributes:
        ranges: the offsets.
        reason: what is wrong with the bytes.
        rejected: whether they were rejected; else released, to be read again.
    """

    partition: TopicPartition
    ranges: Sequence[OffsetRange]
    reason: str
    rejected: bool

    def __str__(self) -> str:
        done = "rejected" if self.rejected else "released"
        return f"{_name(self.partition)}: {_offsets(self.ranges)} cannot be read and were {done}: {self.reason}"


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _offsets(ranges: Sequence[OffsetRange]) -> str:
    shown = ", ".join(f"{r.first}" if r.first == r.last else f"{r.first}–{r.last}" for r in ranges[:5])
    return shown + (f" and {len(ranges) - 5} more" if len(ranges) > 5 else "")
