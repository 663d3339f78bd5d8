"""Say what the lag of share groups is, in frozen values.

In: what the sources read. Out: reports that the command line, the library and the exporter show, and their JSON.
Must never: hold a sentinel; what is unknown is `None` and has a status that says why.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shareproxy.lag.visible_model import GroupVisible, PartitionVisible
from shareproxy.protocol.ids import GroupId, TopicId, topic_id_text


class Status(StrEnum):
    """Why a lag is what it is, or why there is none; the labels of metrics and JSON."""

    OK = "ok"
    NO_START_OFFSET = "no_start_offset"
    LAG_UNSET = "lag_unset"
    START_BEYOND_END = "start_beyond_end"
    NO_LEADER = "no_leader"
    NOT_AUTHORIZED = "not_authorized"
    TOPIC_MISSING = "topic_missing"
    PARTITION_MISSING = "partition_missing"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    STALE = "stale"


class Source(StrEnum):
    """Where a lag was taken from."""

    BROKER = "broker"
    SUMMARY = "summary"
    BATCHES = "batches"


class SourceChoice(StrEnum):
    """Which source to use: the first that can answer each partition, or one only."""

    AUTO = "auto"
    BROKER = "broker"
    SUMMARY = "summary"
    BATCHES = "batches"


class AskedRow(NamedTuple):
    """One partition as a broker answered the asking client, numbers as on the wire (−1 is unknown)."""

    topic: str
    topic_id: TopicId
    partition: int
    start_offset: int
    leader_epoch: int
    lag: int


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """The lag of one share partition.

    Attributes:
        lag: offsets from the start offset to the end that are not delivery-complete; 0 where the start offset lies
            beyond the end (`start_beyond_end`).
        end_offset: high watermark, read after the state; `None` where nobody asked for it and the lag is known without.
        delivery_complete_count: only if it belongs to the same moment as the other numbers.
        exact: `False` where `lag` is an upper bound.
        error_code: Kafka's code if one is behind the status.
        message: one sentence for a person, saying what to try.
        visible: what a closer look found, where one was asked for.
    """

    topic: str
    topic_id: TopicId
    partition: int
    start_offset: int | None = None
    end_offset: int | None = None
    leader_epoch: int | None = None
    delivery_complete_count: int | None = None
    lag: int | None = None
    source: Source | None = None
    exact: bool | None = None
    status: Status = Status.OK
    error_code: int | None = None
    message: str | None = None
    visible: PartitionVisible | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object; every key is always there, those of a closer look if there was one."""
        return {
            "topic": self.topic,
            "topic_id": topic_id_text(self.topic_id),
            "partition": self.partition,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "leader_epoch": self.leader_epoch,
            "delivery_complete_count": self.delivery_complete_count,
            "lag": self.lag,
            "source": None if self.source is None else self.source.value,
            "exact": self.exact,
            "status": self.status.value,
            **({} if self.visible is None else self.visible.to_dict()),
        }


class GroupError(msgspec.Struct, frozen=True):
    """Why a group has no answer, or not a whole one.

    Attributes:
        code: Kafka's error code, 0 where Kafka sees no error.
        name: Kafka's name of the code, or `NOT_A_SHARE_GROUP`, `NOTHING_INITIALIZED` where Kafka has none.
        message: one sentence for a person, saying what to try.
    """

    code: int
    name: str
    message: str

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {"code": self.code, "name": self.name, "message": self.message}


class GroupLag(msgspec.Struct, frozen=True):
    """The lag of one share group.

    Attributes:
        state: Kafka's word for it (Empty, Stable, Dead), `None` if nobody told.
        partitions: sorted by topic and partition.
        visible: what a closer look found about the group itself, where one was asked for.
    """

    group: GroupId
    state: str | None = None
    error: GroupError | None = None
    partitions: tuple[PartitionLag, ...] = ()
    visible: GroupVisible | None = None

    @property
    def lag(self) -> int:
        """Sum over the partitions whose lag is known; look at `complete` before using it."""
        return sum(row.lag for row in self.partitions if row.lag is not None)

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
        """Return the documented JSON object; every key is always there, `visible` if there was a closer look."""
        return {
            "group": self.group,
            "state": self.state,
            "error": None if self.error is None else self.error.to_dict(),
            "lag": self.lag,
            "complete": self.complete,
            "partitions_known": self.partitions_known,
            "partitions_total": self.partitions_total,
            "partitions": [row.to_dict() for row in self.partitions],
            **({} if self.visible is None else {"visible": self.visible.to_dict()}),
        }


class LagReport(msgspec.Struct, frozen=True):
    """What the engine found out about some groups.

    Attributes:
        time: when the report was finished, UTC.
        problems: sentences on what could not be looked at, e.g. brokers that did not list their groups.
    """

    cluster_id: str
    time: datetime
    groups: tuple[GroupLag, ...] = ()
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object: numbers, strings, lists and `None` only."""
        return {
            "cluster_id": self.cluster_id,
            "time": rfc3339(self.time),
            "groups": [group.to_dict() for group in self.groups],
        }


def rfc3339(time: datetime) -> str:
    """Write a moment in UTC with milliseconds, as in `2026-11-30T05:40:00.123Z`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
