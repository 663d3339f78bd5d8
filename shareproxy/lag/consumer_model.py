"""Say what the lag of classic and consumer groups is, in frozen values.

In: what was read. Out: reports and their JSON. Must never: hold a sentinel; what is unknown is `None` and has a status.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from shareproxy.lag.model import GroupError, rfc3339
from shareproxy.protocol.ids import GroupId, TopicId, topic_id_text


class ConsumerStatus(StrEnum):
    """Why a lag is what it is, or why there is none; the words of `Status`, and two of consumer groups."""

    OK = "ok"
    NO_COMMITTED_OFFSET = "no_committed_offset"
    COMMITTED_BEYOND_END = "committed_beyond_end"
    NO_LEADER = "no_leader"
    NOT_AUTHORIZED = "not_authorized"
    TOPIC_MISSING = "topic_missing"
    PARTITION_MISSING = "partition_missing"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    ERROR = "error"


class ConsumerPartitionLag(msgspec.Struct, frozen=True, gc=False):
    """The lag of one partition of a classic or consumer group.

    Attributes:
        committed_offset: next offset the group would read; `None` where it committed none.
        committed_leader_epoch: that went with the commit.
        end_offset: high watermark, read after the committed offset.
        last_stable_offset: where a `read_committed` consumer has to stop.
        lag: end offset − committed offset, as Kafka's own tools say it; 0 where the commit lies beyond the end.
        visible_lag: records that a `read_committed` consumer can still be given now; `None` without a closer look, or
            where only the bounds are known.
        visible_lag_min: at least so many.
        visible_lag_max: at most so many.
        phantom_offsets: offsets of `lag` that such a consumer never gets: transaction markers, aborted and compacted
            records; `None` like `visible_lag`.
        aborted_offsets: of those, records of aborted transactions, which only `read_uncommitted` consumers get.
        open_transaction_offsets: end offset − last stable offset.
        error_code: Kafka's code if one is behind the status.
        message: one sentence for a person, saying what to try.
        notes: sentences on what the closer look could not find out.
    """

    topic: str
    topic_id: TopicId
    partition: int
    committed_offset: int | None = None
    committed_leader_epoch: int | None = None
    end_offset: int | None = None
    last_stable_offset: int | None = None
    lag: int | None = None
    visible_lag: int | None = None
    visible_lag_min: int | None = None
    visible_lag_max: int | None = None
    phantom_offsets: int | None = None
    aborted_offsets: int | None = None
    open_transaction_offsets: int | None = None
    status: ConsumerStatus = ConsumerStatus.OK
    error_code: int | None = None
    message: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "topic": self.topic,
            "topic_id": topic_id_text(self.topic_id),
            "partition": self.partition,
            "committed_offset": self.committed_offset,
            "committed_leader_epoch": self.committed_leader_epoch,
            "end_offset": self.end_offset,
            "last_stable_offset": self.last_stable_offset,
            "lag": self.lag,
            "visible_lag": self.visible_lag,
            "visible_lag_min": self.visible_lag_min,
            "visible_lag_max": self.visible_lag_max,
            "phantom_offsets": self.phantom_offsets,
            "aborted_offsets": self.aborted_offsets,
            "open_transaction_offsets": self.open_transaction_offsets,
            "status": self.status.value,
            "message": self.message,
            "notes": list(self.notes),
        }


class ConsumerGroupLag(msgspec.Struct, frozen=True):
    """The lag of one classic or consumer group.

    Attributes:
        type: `consumer` or `classic`; `None` with an error.
        state: Kafka's word, such as `Stable`; `None` if nobody told.
        members: how many consumers the group has; `None` if that was not found out.
        partitions: sorted by topic and partition: those with a committed offset, those that members are assigned,
            and those of topics that were named.
    """

    group: GroupId
    type: str | None = None
    state: str | None = None
    members: int | None = None
    error: GroupError | None = None
    partitions: tuple[ConsumerPartitionLag, ...] = ()

    @property
    def lag(self) -> int:
        """Sum over the partitions whose lag is known; look at `complete` before using it."""
        return sum(row.lag for row in self.partitions if row.lag is not None)

    @property
    def visible_lag(self) -> int | None:
        """Sum of what a `read_committed` consumer can still be given; `None` unless it is known of each partition."""
        found = [row.visible_lag for row in self.partitions]
        return None if not found or None in found else sum(count for count in found if count is not None)

    @property
    def partitions_known(self) -> int:
        """Number of partitions whose lag is known."""
        return sum(row.lag is not None for row in self.partitions)

    @property
    def partitions_total(self) -> int:
        """Number of partitions of the group that were found."""
        return len(self.partitions)

    @property
    def complete(self) -> bool:
        """Whether `lag` is the whole truth: no error, and no partition is unknown."""
        return self.error is None and self.partitions_known == self.partitions_total

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "group": self.group,
            "type": self.type,
            "state": self.state,
            "members": self.members,
            "error": None if self.error is None else self.error.to_dict(),
            "lag": self.lag,
            "visible_lag": self.visible_lag,
            "complete": self.complete,
            "partitions_known": self.partitions_known,
            "partitions_total": self.partitions_total,
            "partitions": [row.to_dict() for row in self.partitions],
        }


class ConsumerLagReport(msgspec.Struct, frozen=True):
    """What was found out about some classic and consumer groups.

    Attributes:
        time: when the report was finished, UTC.
        problems: sentences on what could not be looked at, e.g. brokers that did not list their groups.
    """

    cluster_id: str
    time: datetime
    groups: tuple[ConsumerGroupLag, ...] = ()
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object: numbers, strings, lists and `None` only."""
        return {
            "cluster_id": self.cluster_id,
            "time": rfc3339(self.time),
            "groups": [group.to_dict() for group in self.groups],
            "problems": list(self.problems),
        }
