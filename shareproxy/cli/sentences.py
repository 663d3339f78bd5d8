"""Put numbers, ages and reasons into words for a person.

In: reports. Out: short texts for cells, and sentences for stderr. Must never: turn what is unknown into a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from shareproxy.lag.model import GroupLag, PartitionLag
from shareproxy.lag.visible_model import PartitionVisible

if TYPE_CHECKING:
    from shareproxy.lag.consumer_model import ConsumerGroupLag

PHANTOM_KINDS: Final = "transaction markers, aborted, compacted or deleted offsets that no consumer will see"
NAMED: Final = 3  # partitions that a sentence names before it only counts the others
REASONS: Final[Mapping[str, str]] = {
    "no_start_offset": "nothing was acknowledged here yet; lag is known from the first acknowledgement on",
    "no_committed_offset": "the group committed no offset here yet",
    "lag_unset": "the brokers store no count of completed records here yet",
    "start_beyond_end": "the start offset lies beyond the end of the log",
    "committed_beyond_end": "the committed offset lies beyond the end of the log",
    "no_leader": "the partition has no leader at the moment; look at the brokers",
    "not_authorized": "a right is missing; `shareproxy doctor` says which",
    "topic_missing": "the topic does not exist (any more, or yet)",
    "partition_missing": "the topic has no partition of this number",
    "timeout": "no answer in time; give --timeout more seconds, or look at the brokers",
    "unsupported": "the brokers are too old to say; `shareproxy doctor` shows what they offer",
    "error": "the brokers answered with an error",
    "stale": "the numbers are too old",
}


class Row(Protocol):
    """A partition of a group of any type, with a reason for what it has or has not."""

    @property
    def topic(self) -> str:
        """Return the topic's name."""

    @property
    def partition(self) -> int:
        """Return the partition's index."""

    @property
    def status(self) -> StrEnum:
        """Return why its lag is what it is."""

    @property
    def message(self) -> str | None:
        """Return a sentence of the layer that found out."""


class Bounds(NamedTuple):
    """A sum of which each part may be a number, a range or unknown.

    Attributes:
        unknown: how many parts are not known at all; the bounds leave them out.
    """

    low: int
    high: int
    unknown: int = 0

    @property
    def exact(self) -> bool:
        """Whether it is one number, and the whole truth."""
        return self.low == self.high and not self.unknown

    def text(self) -> str:
        """Return such as `12`, `3–12` or `at least 3`."""
        if self.unknown:
            return f"at least {self.low}" if self.low else "an unknown number"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


Bounded = Callable[[PartitionVisible], tuple[int | None, int | None, int | None]]


def consumable(visible: PartitionVisible) -> tuple[int | None, int | None, int | None]:
    """Return the number, or its bounds, of offsets that a member can still be given."""
    return visible.consumable_lag, visible.consumable_lag_min, visible.consumable_lag_max


def phantom(visible: PartitionVisible) -> tuple[int | None, int | None, int | None]:
    """Return the number, or its bounds, of offsets that no member will see."""
    return visible.phantom_offsets, visible.phantom_offsets_min, visible.phantom_offsets_max


def added_up(rows: Iterable[PartitionLag], of: Bounded) -> Bounds:
    """Add up one quantity of a closer look over partitions."""
    low = high = unknown = 0
    for row in rows:
        number, least, most = of(row.visible) if row.visible is not None else (None, None, None)
        if number is not None:
            least = most = number
        if least is None or most is None:
            unknown += 1
            continue
        low, high = low + least, high + most
    return Bounds(low, high, unknown)


def total(rows: Iterable[PartitionLag], of: Callable[[PartitionVisible], int | None]) -> int | None:
    """Add up a quantity that is a number or unknown; `None` unless all are known."""
    numbers = [None if row.visible is None else of(row.visible) for row in rows]
    return sum(number for number in numbers if number is not None) if None not in numbers else None


def lag_sentence(group: GroupLag) -> str:
    """Say what the lag of a group is, how complete it is, and with a closer look what it consists of."""
    if group.partitions and not group.partitions_known:
        return f"{group.group}: lag is unknown in {_all(group.partitions_total)}{_projected(group)}"
    known = [row for row in group.partitions if row.lag is not None]
    looked_closer = any(row.visible is not None for row in known)
    head = f"{group.group}: lag {group.lag}"
    missing = group.partitions_total - group.partitions_known
    if missing:
        head += f" in {group.partitions_known} of {group.partitions_total} partitions; unknown for {missing}"
        head += _projected(group)
    elif not looked_closer:
        head += f" in {count(group.partitions_total, 'partition')}"
    if looked_closer:
        parts = _consists_of(group, known, alone=not missing)
        head += ("; of the known lag " if missing else ", ") + ", ".join(parts)
    return head


def _consists_of(group: GroupLag, rows: Sequence[PartitionLag], *, alone: bool) -> list[str]:
    which = "of which " if alone else ""
    waiting, unseen = added_up(rows, consumable), added_up(rows, phantom)
    held, open_tail = total(rows, lambda of: of.in_flight), total(rows, lambda of: of.open_transaction_offsets)
    if held is None and group.state == "Empty":
        held = 0  # a member that leaves gives back what it holds
    parts = []
    if waiting.exact and held is not None:
        parts.append(f"{which}{max(0, waiting.low - held)} waiting")
        if held:
            parts.append(f"{held} held by members")
    else:
        or_held = " or held by members" if waiting.high or waiting.unknown else ""
        parts.append(f"{which}{waiting.text()} waiting{or_held}")
    if unseen.high or unseen.unknown:
        parts.append(f"{unseen.text()} phantom ({PHANTOM_KINDS})")
    if open_tail:
        parts.append(f"{open_tail} in an open transaction")
    return parts


def _projected(group: GroupLag) -> str:
    """Say what the lag of the partitions without one will be once a member starts."""
    numbers = [
        row.visible.projected_lag
        for row in group.partitions
        if row.lag is None and row.visible is not None and row.visible.projected_lag is not None
    ]
    if not numbers:
        return ""
    missing = group.partitions_total - group.partitions_known
    some = "" if len(numbers) == missing else f" in {len(numbers)} of these"
    return f" ({sum(numbers)}{some} once a first member starts)"


def reason(row: Row) -> str:
    """Say why a partition has no lag, or an odd one."""
    return row.message or REASONS.get(row.status.value, f"its status is {row.status.value}")


def reasons(rows: Iterable[Row]) -> list[str]:
    """Return one sentence for each distinct reason, naming the partitions of one group that it holds for."""
    return _reasons((row, f"{row.topic}-{row.partition}") for row in rows)


def group_reasons(groups: Iterable[GroupLag] | Iterable[ConsumerGroupLag]) -> list[str]:
    """Return the same over groups; where there are several, each partition is named with its group."""
    rows = [(group.group, row) for group in groups for row in group.partitions]
    if len({group for group, _ in rows}) < 2:
        return reasons(row for _, row in rows)
    return _reasons((row, f"{row.topic}-{row.partition} of {group}") for group, row in rows)


def _reasons(rows: Iterable[tuple[Row, str]]) -> list[str]:
    places: dict[str, list[str]] = {}
    for row, name in rows:
        if row.status.value != "ok":
            places.setdefault(reason(row), []).append(name)
    return [f"{_names(where)}: {why}" for why, where in places.items()]


def consumer_notes(groups: Iterable[ConsumerGroupLag]) -> list[str]:
    """Return what a closer look at consumer groups could not find out, one sentence for each distinct note."""
    places: dict[str, list[str]] = {}
    for group in groups:
        for row in group.partitions:
            for note in row.notes:
                places.setdefault(note, []).append(f"{row.topic}-{row.partition}")
    return [f"{_names(where)}: {note}" for note, where in places.items()]


def consumer_sentence(group: ConsumerGroupLag) -> str:
    """Say what the lag of a consumer group is, how complete it is, and with a closer look what it consists of."""
    head = f"{group.group} (a {group.type or 'consumer'} group)"
    if group.partitions and not group.partitions_known:
        return f"{head}: lag is unknown in {_all(group.partitions_total)}"
    missing = group.partitions_total - group.partitions_known
    known = f"{group.partitions_known} of {group.partitions_total} partitions; unknown for {missing}"
    text = f"{head}: lag {group.lag} in {known if missing else count(group.partitions_total, 'partition')}"
    if (seen := group.visible_lag) is not None:
        text += f", of which {seen} to consume"
        if group.lag > seen:
            text += f", the others phantom ({PHANTOM_KINDS}) or in an open transaction"
    return text


def notes(groups: Iterable[GroupLag]) -> list[str]:
    """Return what a closer look could not find out, one sentence for each distinct note."""
    places: dict[str, list[str]] = {}
    for group in groups:
        for note in () if group.visible is None else group.visible.notes:
            places.setdefault(note, []).append(group.group)
        for row in group.partitions:
            for note in () if row.visible is None else row.visible.notes:
                # why there is no lag is said with the lag
                if row.message is None or not note.endswith(row.message):
                    places.setdefault(note, []).append(f"{row.topic}-{row.partition}")
    return [f"{_names(list(dict.fromkeys(where)))}: {note}" for note, where in places.items()]


def _names(places: Sequence[str]) -> str:
    more = len(places) - NAMED
    return ", ".join(places[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _all(partitions: int) -> str:
    return "its one partition" if partitions == 1 else f"all {partitions} partitions"


def count(number: int, noun: str) -> str:
    """Write a number and what it counts."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def age(seconds: float | None) -> str:
    """Write a time span in two units at most, such as `3m 12s`; empty if it is not known."""
    if seconds is None:
        return ""
    whole = int(seconds)
    if whole < 1:
        return "<1s"
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"


def number(value: int | None) -> str:
    """Write a number; empty if it is not known."""
    return "" if value is None else str(value)


def bounded(number: int | None, least: int | None, most: int | None) -> str:
    """Write a number, or a range such as `3–12`; empty if neither is known."""
    if number is not None:
        return str(number)
    if least is None or most is None:
        return ""
    return f"{least}–{most}"
