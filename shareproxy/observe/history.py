"""Remember from one look to the next: what was completed, what went back, what has been missing for long.

In: the rows of a group at each look. Out: the rows to show, growing counters, sentences for the log.
Must never: grow without bound, or carry something over to another topic of the same name.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shareproxy.lag.model import GroupLag, PartitionLag, Status
from shareproxy.lag.slices import STEP_ROWS, Slices
from shareproxy.observe.snapshot import INTERNAL_TOPICS, NameFilter
from shareproxy.protocol.ids import GroupId, TopicId

# A topic looks missing for about a second after its creation; only one that stays so is gone.
MISSING_LOOKS: Final = 3
# counters of what is not there any more, or not readable for a while, are kept for so many looks
KEPT_LOOKS: Final = 20


class _Progress(msgspec.Struct, gc=False):
    topic_id: TopicId
    start_offset: int
    reached: int
    counter: int
    look: int


class _OfGroup:
    __slots__ = ("beyond_end", "look", "missing", "partitions", "resets")

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], _Progress] = {}
        self.missing: dict[str, int] = {}
        self.beyond_end: frozenset[tuple[str, int]] = frozenset()
        self.resets = 0
        self.look = 0


class Watched(msgspec.Struct, frozen=True):
    """What is shown of one group.

    Attributes:
        lag: watched partitions only, each once.
        completed: beside `lag.partitions`.
        resets: start offsets that moved back, since we look.
        clamped: partitions whose lag would be negative now.
        newly_beyond_end: those of them that were not so at the last look.
        duplicates: rows that stood twice and were left out.
    """

    lag: GroupLag
    completed: tuple[int | None, ...]
    resets: int
    clamped: int
    newly_beyond_end: tuple[PartitionLag, ...]
    duplicates: int


class History:
    """What is remembered of all groups.

    Args:
        topics: topics to show.
        internal_topics: whether Kafka's own are shown.
    """

    def __init__(self, topics: NameFilter, *, internal_topics: bool) -> None:
        self._topics, self._internal = topics, internal_topics
        self._groups: dict[GroupId, _OfGroup] = {}
        self._look = 0

    def begin(self) -> None:
        """Start a look; forget groups that have not been seen for long."""
        self._look += 1
        for group in [name for name, kept in self._groups.items() if self._look - kept.look > KEPT_LOOKS]:
            del self._groups[group]

    async def take(self, found: GroupLag, slices: Slices) -> Watched:
        """Take what this look found of a group; return what is shown of it."""
        kept = self._groups.setdefault(found.group, _OfGroup())
        kept.look = self._look
        unique = _each_once(found.partitions)
        self._count_missing(kept, unique)
        shown = {row.topic: self._shown(row.topic, kept) for row in unique}
        rows = [row for row in unique if shown[row.topic]]
        completed: list[int | None] = []
        for begin in range(0, len(rows), STEP_ROWS):
            completed += [self._completed(kept, row) for row in rows[begin : begin + STEP_ROWS]]
            await slices.turn()
        self._forget_partitions(kept, len(rows))
        beyond = {(row.topic, row.partition): row for row in rows if row.status is Status.START_BEYOND_END}
        new = tuple(row for key, row in beyond.items() if key not in kept.beyond_end)
        kept.beyond_end = frozenset(beyond)
        lag = found
        if len(rows) != len(found.partitions):
            lag = msgspec.structs.replace(found, partitions=tuple(rows))
        return Watched(lag, tuple(completed), kept.resets, len(beyond), new, len(found.partitions) - len(unique))

    def _shown(self, topic: str, kept: _OfGroup) -> bool:
        if topic in INTERNAL_TOPICS and not self._internal:
            return False
        return self._topics.matches(topic) and kept.missing.get(topic, 0) <= MISSING_LOOKS

    def _count_missing(self, kept: _OfGroup, rows: tuple[PartitionLag, ...]) -> None:
        there = {row.topic for row in rows if row.status is not Status.TOPIC_MISSING}
        absent = {row.topic for row in rows} - there
        kept.missing = {topic: kept.missing.get(topic, 0) + 1 for topic in absent}

    def _completed(self, kept: _OfGroup, row: PartitionLag) -> int | None:
        key = (row.topic, row.partition)
        seen = kept.partitions.get(key)
        if seen is not None and seen.topic_id != row.topic_id:
            seen = None
            del kept.partitions[key]
        start, reached = row.start_offset, _reached(row)
        if start is None or reached is None:
            if seen is not None:
                seen.look = self._look
            return None if seen is None else seen.counter
        if seen is None:
            # not 0: then another exporter beside this one, or a restart of this one, shows the same number
            kept.partitions[key] = _Progress(row.topic_id, start, reached, reached, self._look)
            return reached
        if start < seen.start_offset:  # set back by hand: what follows is completed once more
            kept.resets += 1
            seen.reached = reached
        elif reached > seen.reached:  # before Kafka 4.4 a late write may take the count back for a moment
            seen.counter += reached - seen.reached
            seen.reached = reached
        seen.start_offset = start
        seen.look = self._look
        return seen.counter

    def _forget_partitions(self, kept: _OfGroup, shown: int) -> None:
        if len(kept.partitions) > shown:
            limit = self._look - KEPT_LOOKS
            kept.partitions = {key: seen for key, seen in kept.partitions.items() if seen.look > limit}


def _reached(row: PartitionLag) -> int | None:
    """Return start offset and delivery-complete count together.

    While records are written, the count of a broker's own answer is not known: the end offset was read some
    milliseconds after it. What was produced meanwhile is then taken for completed, which is never more than that,
    however long it goes on; a counter that stood still would look like a group that does nothing.
    """
    if row.status is not Status.OK or row.start_offset is None:
        return None
    if row.delivery_complete_count is not None:
        return row.start_offset + row.delivery_complete_count
    return None if row.end_offset is None or row.lag is None else row.end_offset - row.lag


def _each_once(rows: tuple[PartitionLag, ...]) -> tuple[PartitionLag, ...]:
    """Leave one row for each partition: one with a lag before one without, else the later."""
    best: dict[tuple[str, int], PartitionLag] = {}
    for row in rows:
        before = best.setdefault((row.topic, row.partition), row)
        if before is not row and (row.lag is not None or before.lag is None):
            best[row.topic, row.partition] = row
    return rows if len(best) == len(rows) else tuple(best.values())
