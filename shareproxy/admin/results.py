"""Hold what `ShareAdmin` answers, in frozen values.

In: what the brokers said. Out: results and their JSON. Must never: hold a sentinel; what is unknown is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from shareproxy.lag.listings import GroupListing, ListedGroup
from shareproxy.lag.model import GroupError, LagReport
from shareproxy.protocol.ids import GroupId, TopicId, topic_id_text

if TYPE_CHECKING:
    from shareproxy.lag.rates import GroupRates

__all__ = [
    "AlterResult",
    "AlteredOffset",
    "DeleteResult",
    "DeletedTopic",
    "GroupListing",
    "ListedGroup",
    "OffsetPlan",
    "PlannedOffset",
    "ShareOffset",
    "Snapshot",
]


class ShareOffset(msgspec.Struct, frozen=True, gc=False):
    """The start offset of one share partition, as the broker answers it.

    Attributes:
        start_offset: first offset that is not delivery-complete; `None` where nothing was stored yet.
        leader_epoch: of the leader that stored it.
        error: why there is no answer for this partition.
    """

    topic: str
    topic_id: TopicId
    partition: int
    start_offset: int | None = None
    leader_epoch: int | None = None
    error: GroupError | None = None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "topic": self.topic,
            "topic_id": topic_id_text(self.topic_id),
            "partition": self.partition,
            "start_offset": self.start_offset,
            "leader_epoch": self.leader_epoch,
            "error": None if self.error is None else self.error.to_dict(),
        }


class PlannedOffset(msgspec.Struct, frozen=True):
    """What would become of one share partition.

    Attributes:
        start_offset: where it is now; `None` where nothing was stored yet.
        new_offset: where it would be put; `None` where that cannot be said.
        log_start: first offset that still exists.
        end: high watermark, one past the last record.
        note: a sentence on how the new offset came about, where it is not plain.
        refusal: why this partition cannot be changed so; `None` if it can.
        lag: offsets that are not delivery-complete now; `None` where that is not known.
    """

    topic: str
    topic_id: TopicId
    partition: int
    start_offset: int | None = None
    new_offset: int | None = None
    log_start: int | None = None
    end: int | None = None
    note: str | None = None
    refusal: str | None = None

    lag: int | None = None

    @property
    def new_lag(self) -> int | None:
        """Return the offsets from the new offset to the end, all of them delivered then; `None` if not known."""
        return None if self.new_offset is None or self.end is None else max(0, self.end - self.new_offset)

    @property
    def skips_min(self) -> int | None:
        """Return how many waiting offsets are skipped at least, never to be delivered."""
        return None if (found := self._effect()) is None else found[0]

    @property
    def skips_max(self) -> int | None:
        """Return how many waiting offsets are skipped at most."""
        return None if (found := self._effect()) is None else found[1]

    @property
    def skips(self) -> int | None:
        """Return how many waiting offsets are skipped; `None` if only its bounds are known, or not even these."""
        return self.skips_min if self.skips_min == self.skips_max else None

    @property
    def delivers_again_min(self) -> int | None:
        """Return how many offsets that are done or passed are delivered again at least."""
        return None if (found := self._effect()) is None else found[2]

    @property
    def delivers_again_max(self) -> int | None:
        """Return how many offsets that are done or passed are delivered again at most."""
        return None if (found := self._effect()) is None else found[3]

    @property
    def delivers_again(self) -> int | None:
        """Return how many offsets that are done or passed are delivered again; `None` if that is not known exactly."""
        return self.delivers_again_min if self.delivers_again_min == self.delivers_again_max else None

    def _effect(self) -> tuple[int, int, int, int] | None:
        """Return least and most of what is skipped, and of what is delivered again; `None` without a start offset.

        Behind the start offset some offsets are done and some wait: how many is known, which ones is not. So what lies
        on either side of the new offset has bounds, which are narrow where the log is.
        """
        start, new, end = self.start_offset, self.new_offset, self.end
        if start is None or new is None or end is None or new > end:
            return None
        # what retention deleted is neither skipped by the change nor done
        begin = min(max(start, self.log_start or 0), end)
        left, behind = end - begin, end - new
        if self.lag is None:
            waits_min, waits_max = 0, left
        else:
            waits_min, waits_max = max(0, min(self.lag - (begin - start), left)), min(self.lag, left)
        if new <= begin:
            return 0, 0, behind - waits_max, behind - waits_min
        return (
            *(max(0, waits_min - behind), min(waits_max, new - begin)),
            *(max(0, behind - waits_max), min(behind, left - waits_min)),
        )

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "topic": self.topic,
            "topic_id": topic_id_text(self.topic_id),
            "partition": self.partition,
            "start_offset": self.start_offset,
            "new_offset": self.new_offset,
            "log_start": self.log_start,
            "end": self.end,
            "lag": self.lag,
            "new_lag": self.new_lag,
            "skips_min": self.skips_min,
            "skips_max": self.skips_max,
            "delivers_again_min": self.delivers_again_min,
            "delivers_again_max": self.delivers_again_max,
            "note": self.note,
            "refusal": self.refusal,
        }


class OffsetPlan(msgspec.Struct, frozen=True):
    """What a change of start offsets would do; nothing has been changed.

    Attributes:
        state: of the group, in Kafka's words; `None` if there is no such group.
        creates_group: whether Kafka would make the group, because there is none of that name.
        rows: sorted by topic and partition.
        refusals: sentences on why the plan as a whole cannot be carried out, such as members in the group.
    """

    group: GroupId
    state: str | None
    creates_group: bool
    rows: tuple[PlannedOffset, ...]
    refusals: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the plan."""
        return bool(self.rows) and not self.all_refusals

    @property
    def all_refusals(self) -> tuple[str, ...]:
        """Every reason against the plan, those of the whole first."""
        return (*self.refusals, *(row.refusal for row in self.rows if row.refusal is not None))

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """New offset by topic and partition, for `alter_offsets`; without the rows that are refused."""
        return {
            (row.topic, row.partition): row.new_offset
            for row in self.rows
            if row.new_offset is not None and row.refusal is None
        }

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "group": self.group,
            "state": self.state,
            "creates_group": self.creates_group,
            "accepted": self.accepted,
            "rows": [row.to_dict() for row in self.rows],
            "refusals": list(self.refusals),
        }


class AlteredOffset(msgspec.Struct, frozen=True):
    """What the broker answered about one share partition.

    Attributes:
        start_offset: the offset that was asked for; it is in force where `error` is `None`.
        error: why it is not.
    """

    topic: str
    partition: int
    start_offset: int
    error: GroupError | None = None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "start_offset": self.start_offset,
            "error": None if self.error is None else self.error.to_dict(),
        }


class AlterResult(msgspec.Struct, frozen=True):
    """What a change of start offsets did.

    Attributes:
        created_group: whether there was no such group before.
        rows: sorted by topic and partition, one for each that was asked for.
    """

    group: GroupId
    created_group: bool
    rows: tuple[AlteredOffset, ...]

    @property
    def done(self) -> bool:
        """Whether every offset was changed."""
        return all(row.error is None for row in self.rows)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "group": self.group,
            "created_group": self.created_group,
            "done": self.done,
            "rows": [row.to_dict() for row in self.rows],
        }


class DeletedTopic(msgspec.Struct, frozen=True):
    """What became of the offsets of one topic; deleted where `error` is `None`."""

    topic: str
    error: GroupError | None = None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {"topic": self.topic, "error": None if self.error is None else self.error.to_dict()}


class DeleteResult(msgspec.Struct, frozen=True):
    """What a deletion of offsets did.

    Attributes:
        rows: sorted by topic, one for each that was asked for.
    """

    group: GroupId
    rows: tuple[DeletedTopic, ...]

    @property
    def done(self) -> bool:
        """Whether the offsets of every topic were deleted."""
        return all(row.error is None for row in self.rows)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {"group": self.group, "done": self.done, "rows": [row.to_dict() for row in self.rows]}


class Snapshot(msgspec.Struct, frozen=True):
    """One look of `watch`.

    Attributes:
        report: what was found; where the look failed, the last good report with the reason in its `problems`.
        rates: between the last good report and this one; `None` for the first, and where the look failed.
        seconds: between these two reports; `None` likewise.
        fresh: whether `report` is of this look.
    """

    report: LagReport
    rates: Mapping[GroupId, GroupRates] | None = None
    seconds: float | None = None
    fresh: bool = True
