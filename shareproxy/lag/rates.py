"""Work out rates from two looks at the same groups.

In: two reports. Out: offsets per second that were produced and completed, and the time until the lag is gone.
Must never: do I/O, or call a rate what a reset of offsets made.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shareproxy.lag.model import GroupLag, LagReport, PartitionLag
from shareproxy.protocol.ids import GroupId


class PartitionRates(msgspec.Struct, frozen=True, gc=False):
    """Rates of one share partition in offsets per second, the unit of lag.

    Attributes:
        produced_per_second: by which the end moved; `None` if it is not known, or went back.
        completed_per_second: by which start offset + delivery-complete count moved; `None` if it is not known, or
            went back.
        reset: whether one of them went back: offsets were set, or the topic was created anew.
    """

    produced_per_second: float | None = None
    completed_per_second: float | None = None
    reset: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "produced_per_second": self.produced_per_second,
            "completed_per_second": self.completed_per_second,
            "reset": self.reset,
        }


class GroupRates(msgspec.Struct, frozen=True):
    """Rates of one share group in offsets per second.

    Attributes:
        seconds: between the two looks.
        produced_per_second: over the partitions whose rate is known; `None` if there are none.
        completed_per_second: the same.
        seconds_to_drain: until the lag is gone at these rates; 0 without a lag, `None` if it does not shrink or is
            not wholly known.
        partitions: by topic name and partition.
    """

    seconds: float
    produced_per_second: float | None
    completed_per_second: float | None
    seconds_to_drain: float | None
    partitions: Mapping[tuple[str, int], PartitionRates]

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "seconds": self.seconds,
            "produced_per_second": self.produced_per_second,
            "completed_per_second": self.completed_per_second,
            "seconds_to_drain": self.seconds_to_drain,
            "partitions": [
                {"topic": topic, "partition": partition, **rates.to_dict()}
                for (topic, partition), rates in self.partitions.items()
            ],
        }


def rates(earlier: LagReport, later: LagReport) -> dict[GroupId, GroupRates]:
    """Return the rates of the groups that both reports have.

    Args:
        earlier: the first look; rates are known only of rows that have an end offset in both (`Want.LOG_END`).
        later: the second look at the same cluster; nothing is returned unless it is later.

    Source: KIP-1226 (what is complete), KAFKA-20711 (one unit for lag and rates).
    """
    seconds = (later.time - earlier.time).total_seconds()
    if seconds <= 0 or earlier.cluster_id != later.cluster_id:
        return {}
    before = {group.group: group for group in earlier.groups}
    return {
        group.group: _group_rates(before[group.group], group, seconds)
        for group in later.groups
        if group.group in before
    }


def _group_rates(earlier: GroupLag, later: GroupLag, seconds: float) -> GroupRates:
    before = {(row.topic_id, row.partition): row for row in earlier.partitions}
    names = {(row.topic, row.partition) for row in earlier.partitions}
    found: dict[tuple[str, int], PartitionRates] = {}
    for row in later.partitions:
        old = before.get((row.topic_id, row.partition))
        if old is not None:
            found[row.topic, row.partition] = _partition_rates(old, row, seconds)
        elif (row.topic, row.partition) in names:
            found[row.topic, row.partition] = PartitionRates(reset=True)
    produced = _sum([rate.produced_per_second for rate in found.values()])
    completed = _sum([rate.completed_per_second for rate in found.values()])
    return GroupRates(seconds, produced, completed, _seconds_to_drain(later, found), found)


def _partition_rates(earlier: PartitionLag, later: PartitionLag, seconds: float) -> PartitionRates:
    produced = _moved(earlier.end_offset, later.end_offset)
    completed = _moved(_completed(earlier), _completed(later))
    moves = [produced, _moved(earlier.start_offset, later.start_offset)]
    if earlier.delivery_complete_count is not None and later.delivery_complete_count is not None:
        moves.append(completed)
    elif completed is not None:
        # the end beside a broker's own lag may be a moment younger than the lag
        completed = max(0, completed)
    if any(moved is not None and moved < 0 for moved in moves):
        return PartitionRates(_rate(produced, seconds), None, reset=True)
    return PartitionRates(_rate(produced, seconds), _rate(completed, seconds))


def _completed(row: PartitionLag) -> int | None:
    """Return how far the group is: end offset − lag, which is start offset + delivery-complete count."""
    if row.start_offset is None:
        return None
    if row.delivery_complete_count is not None:
        return row.start_offset + row.delivery_complete_count
    if row.end_offset is not None and row.lag is not None and row.exact and row.end_offset >= row.start_offset:
        return row.end_offset - row.lag
    return None


def _seconds_to_drain(later: GroupLag, found: Mapping[tuple[str, int], PartitionRates]) -> float | None:
    """Return lag ÷ (completed − produced) over the partitions that have a lag; all of them have to be known."""
    if not later.complete:
        return None
    if later.lag == 0:
        return 0.0
    behind = [found.get((row.topic, row.partition)) for row in later.partitions if row.lag]
    gain = 0.0
    for rate in behind:
        if rate is None or rate.completed_per_second is None or rate.produced_per_second is None:
            return None
        gain += rate.completed_per_second - rate.produced_per_second
    return later.lag / gain if gain > 0 else None


def _moved(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _rate(moved: int | None, seconds: float) -> float | None:
    return None if moved is None or moved < 0 else moved / seconds


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
