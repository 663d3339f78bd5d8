"""Remember what `top` saw: the last report, rates between two reports, and how each lag went on.

In: looks, or the reason why there was none. Out: rows for the screen.
Must never: keep more of the past than the screen can show, or turn what is unknown into a number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import msgspec

from shareproxy.lag.model import GroupLag, LagReport, PartitionLag, Status
from shareproxy.lag.rates import GroupRates, PartitionRates
from shareproxy.protocol.ids import GroupId

TREND_SAMPLES: Final = 120


class Look(msgspec.Struct, frozen=True):
    """What one look at the cluster found.

    Attributes:
        rates: since the last look that found something.
        members: number of members by group; a group whose members are not known is absent.
    """

    report: LagReport
    rates: Mapping[GroupId, GroupRates] = {}
    members: Mapping[GroupId, int] = {}


class GroupRow(msgspec.Struct, frozen=True):
    """What `top` shows of one group; unknown is `None`.

    Attributes:
        lag: sum over the partitions whose lag is known; a lower bound unless `complete`.
        produced, completed: offsets per second.
        drain: seconds until the lag is gone at these rates; infinite if it does not shrink.
        consumable: sum of what members can still be given, where a closer look was asked for.
        oldest: age in seconds of the oldest waiting record, likewise.
        trend: the group's lag in the past, oldest first.
        status: why something is unknown, in one word; "" if all is well.
        message: the same as a sentence.
    """

    group: str
    state: str | None
    members: int | None
    known: int
    total: int
    lag: int | None
    complete: bool
    produced: float | None = None
    completed: float | None = None
    drain: float | None = None
    consumable: int | None = None
    oldest: float | None = None
    trend: tuple[int | None, ...] = ()
    status: str = ""
    message: str | None = None

    @property
    def name(self) -> str:
        """What the row is called on the screen."""
        return self.group

    @property
    def natural_order(self) -> tuple[str, int]:
        """Where it stands among rows that are equal otherwise."""
        return self.group, 0


class PartitionRow(msgspec.Struct, frozen=True):
    """What `top` shows of one share partition; unknown is `None`, units as in `GroupRow`."""

    topic: str
    partition: int
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    produced: float | None = None
    completed: float | None = None
    consumable: int | None = None
    phantom: int | None = None
    oldest: float | None = None
    status: str = ""
    message: str | None = None

    @property
    def name(self) -> str:
        """What the row is called on the screen."""
        return f"{self.topic}-{self.partition}"

    @property
    def natural_order(self) -> tuple[str, int]:
        """Where it stands among rows that are equal otherwise."""
        return self.topic, self.partition


class History:
    """Collect looks.

    Args:
        samples: values kept per group for its trend.
    """

    def __init__(self, samples: int = TREND_SAMPLES) -> None:
        self._samples = samples
        self._trends: dict[GroupId, deque[int | None]] = {}
        self._look: Look | None = None
        self._rows: list[GroupRow] | None = None
        self.looks = 0
        self.failure: str | None = None

    @property
    def report(self) -> LagReport | None:
        """The last good report."""
        return None if self._look is None else self._look.report

    def add(self, look: Look) -> None:
        """Take in a look that succeeded."""
        self._look, self._rows, self.failure = look, None, None
        self.looks += 1
        trends: dict[GroupId, deque[int | None]] = {}
        for group in look.report.groups:  # groups that are gone are forgotten
            trends[group.group] = trend = self._trends.get(group.group) or deque(maxlen=self._samples)
            trend.append(_lag_of(group) if group.complete else None)
        self._trends = trends

    def fail(self, reason: str) -> None:
        """Take in that a look failed; what was seen before stays, and the trends get a gap."""
        self.failure, self._rows = reason, None
        self.looks += 1
        for trend in self._trends.values():
            trend.append(None)

    def groups(self) -> list[GroupRow]:
        """Return a row for each group of the last good report."""
        if self._look is None:
            return []
        if self._rows is None:  # every key draws the screen anew, and there may be a hundred thousand partitions
            look = self._look
            self._rows = [
                self._group_row(group, look.rates.get(group.group), look.members.get(group.group))
                for group in look.report.groups
            ]
        return self._rows

    def partitions(self, name: str) -> list[PartitionRow] | None:
        """Return a row for each partition of a group, `None` if there is no such group any more."""
        if self._look is None:
            return None
        for group in self._look.report.groups:
            if group.group == name:
                rates = self._look.rates.get(group.group)
                by_partition = {} if rates is None else rates.partitions
                return [_partition_row(row, by_partition.get((row.topic, row.partition))) for row in group.partitions]
        return None

    def _group_row(self, group: GroupLag, rates: GroupRates | None, members: int | None) -> GroupRow:
        seen = [row.visible for row in group.partitions if row.visible is not None]
        consumable = [visible.consumable_lag for visible in seen if visible.consumable_lag is not None]
        ages = [age for visible in seen if (age := visible.oldest_record_age_seconds) is not None]
        status, message = _status(group)
        return GroupRow(
            group=group.group,
            state=group.state,
            members=members,
            known=group.partitions_known,
            total=group.partitions_total,
            lag=_lag_of(group),
            complete=group.complete,
            produced=None if rates is None else rates.produced_per_second,
            completed=None if rates is None else rates.completed_per_second,
            drain=_drain(group, rates),
            consumable=sum(consumable) if consumable and len(consumable) == len(group.partitions) else None,
            oldest=max(ages, default=None),
            trend=tuple(self._trends.get(group.group, ())),
            status=status,
            message=message,
        )


def _lag_of(group: GroupLag) -> int | None:
    return group.lag if group.partitions_known else None


def _drain(group: GroupLag, rates: GroupRates | None) -> float | None:
    """Return seconds until the lag is gone: infinite if it does not shrink, `None` if nobody can tell."""
    if rates is None or rates.seconds_to_drain is not None or not group.complete:
        return None if rates is None else rates.seconds_to_drain
    behind = [rates.partitions.get((row.topic, row.partition)) for row in group.partitions if row.lag]
    known = [rate for rate in behind if rate and None not in (rate.produced_per_second, rate.completed_per_second)]
    return float("inf") if known and len(known) == len(behind) else None


def _status(group: GroupLag) -> tuple[str, str | None]:
    """Return the most frequent trouble of a group, how many partitions have it, and a sentence."""
    if group.error is not None:
        return group.error.name.lower(), group.error.message
    bad = [row for row in group.partitions if row.status is not Status.OK or row.lag is None]
    if not bad:
        return "", None
    [(status, count)] = Counter(row.status.value for row in bad).most_common(1)
    first = next(row for row in bad if row.status.value == status)
    where = f"{first.topic}-{first.partition}"
    return f"{status} ({count})", f"{where}: {first.message or f'its status is {status}'}"


def _partition_row(row: PartitionLag, rates: PartitionRates | None) -> PartitionRow:
    visible = row.visible
    return PartitionRow(
        topic=row.topic,
        partition=row.partition,
        start_offset=row.start_offset,
        end_offset=row.end_offset,
        lag=row.lag,
        produced=None if rates is None else rates.produced_per_second,
        completed=None if rates is None else rates.completed_per_second,
        consumable=None if visible is None else visible.consumable_lag,
        phantom=None if visible is None else visible.phantom_offsets,
        oldest=None if visible is None else visible.oldest_record_age_seconds,
        status="" if row.status is Status.OK else row.status.value,
        message=row.message,
    )
