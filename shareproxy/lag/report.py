"""Make the report on groups: rows from their coordinators, what is missing from other sources, errors in our words.

In: group names or groups found. Out: one `GroupLag` each. Must never: raise for one group, or let a slow broker take
the time in which the others answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from shareproxy.lag.arithmetic import UNKNOWN
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.group_errors import explain_missing, group_error, missing_topics, nothing_initialized
from shareproxy.lag.groups import Descriptions, FoundGroup, Listing, Listings, reads_uncommitted
from shareproxy.lag.leaders import EndOffsets, Wanted, partitions_of
from shareproxy.lag.model import GroupError, GroupLag, Source, SourceChoice, Status
from shareproxy.lag.rounds import ask_all, route_all, share_of_time
from shareproxy.lag.rows import partition_lag
from shareproxy.lag.sources import BrokerAnswer, FirstThatCan, Reading, StateBatches, StateSummary, broker_reading
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.messages import ShareGroupDescribeResponseDescribedGroup

# How the time is shared out: whoever hangs in one step leaves some for the next. A coordinator that has to try
# again inside needs up to 2.4 s of the usual 3 s, and is worth waiting for unless there is another way to go on.
ROUTING_SHARE: Final = 0.5
LISTING_SHARE: Final = 0.85
LISTING_SHARE_IF_KNOWN: Final = 0.6
READING_SHARE: Final = 0.8
# remembered from one report to the next, some hundred bytes each
MOST_REMEMBERED: Final = 100_000

Described = ShareGroupDescribeResponseDescribedGroup
TopicFilter = frozenset[str] | None

NO_LAG_IN_ANSWER: Final = Trouble(
    Status.UNSUPPORTED,
    ErrorCode.UNSUPPORTED_VERSION,
    "the broker's own answer has no lag before Kafka 4.2; use --lag-source auto or batches",
)


class _Work:
    """One group on its way through a report."""

    __slots__ = ("before", "described", "ends", "error", "group", "has_lag", "read_uncommitted", "readings", "state")

    def __init__(self, group: GroupId, state: str | None) -> None:
        self.group, self.state = group, state
        self.described: Described | Trouble | None = None
        self.error: GroupError | None = None
        self.has_lag = False
        self.readings: dict[Wanted, Reading] = {}
        self.before: dict[Wanted, int] = {}
        self.ends: dict[Wanted, int] = {}
        self.read_uncommitted = True


class Reporter:
    """Report on groups, and remember what makes the next report better.

    Args:
        brokers: where to ask.
        choice: where lag may be taken from.
    """

    def __init__(self, brokers: Brokers, choice: SourceChoice) -> None:
        self._brokers, self._choice = brokers, choice
        self._ends: dict[Wanted, tuple[float, int]] = {}
        self._partitions: dict[GroupId, tuple[Wanted, ...]] = {}

    async def named(self, names: Sequence[GroupId], topics: TopicFilter, deadline: float) -> list[GroupLag]:
        """Report on groups that somebody named, in that order; each is there, at least with an error."""
        routes = await route_all(Listings(self._brokers), names, deadline=share_of_time(deadline, ROUTING_SHARE))
        return await self._all([_Work(name, None) for name in names], routes, topics, deadline, named=True)

    async def found(self, groups: Sequence[FoundGroup], topics: TopicFilter, deadline: float) -> list[GroupLag]:
        """Report on groups that the brokers listed; with a filter only on those that have one of the topics."""
        routes: dict[GroupId, NodeId | Trouble] = {found.group: found.coordinator for found in groups}
        works = [_Work(found.group, found.state) for found in groups]
        rows = await self._all(works, routes, topics, deadline, named=False)
        return rows if topics is None else [row for row in rows if row.partitions or row.error]

    async def _all(
        self,
        works: Sequence[_Work],
        routes: Mapping[GroupId, NodeId | Trouble],
        topics: TopicFilter,
        deadline: float,
        *,
        named: bool,
    ) -> list[GroupLag]:
        # groups of different coordinators share nothing, so that one of these may be as slow as it likes
        batches: dict[NodeId | None, list[_Work]] = {}
        for work in works:
            node_id = routes[work.group]
            batches.setdefault(None if isinstance(node_id, Trouble) else node_id, []).append(work)
        async with asyncio.TaskGroup() as tasks:
            for batch in batches.values():
                tasks.create_task(self._batch(batch, routes, topics, deadline, named=named))
        return [_finished(work) for work in works]

    async def _batch(
        self,
        works: Sequence[_Work],
        routes: Mapping[GroupId, NodeId | Trouble],
        topics: TopicFilter,
        deadline: float,
        *,
        named: bool,
    ) -> None:
        """Take the groups of one coordinator from nothing to readings and errors."""
        started = asyncio.get_running_loop().time()
        await self._list(works, routes, topics, deadline)
        for work in works:
            for item in work.readings:
                seen = self._ends.get(item)
                if seen is not None and seen[0] <= started:
                    work.before[item] = seen[1]
        reading_deadline = share_of_time(deadline, READING_SHARE)
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(self._complete(work, topics, reading_deadline))
            tasks.create_task(self._read_ends(works, reading_deadline))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_late_ends(works, deadline))
            for work in works:
                if named and topics is not None and work.error is None:
                    tasks.create_task(self._look_for_topics(work, topics, deadline))
                elif work.error is None and not work.readings and (named or topics is None):
                    tasks.create_task(self._say_why_empty(work, deadline))

    async def _list(
        self,
        works: Sequence[_Work],
        routes: Mapping[GroupId, NodeId | Trouble],
        topics: TopicFilter,
        deadline: float,
    ) -> None:
        """Ask the coordinator for rows, and for the state of the groups where it is not known yet."""
        names = [work.group for work in works]
        unknown = [work.group for work in works if work.state is None]
        known = all(work.group in self._partitions for work in works)
        until = share_of_time(deadline, LISTING_SHARE_IF_KNOWN if known else LISTING_SHARE)
        listings, descriptions = await asyncio.gather(
            ask_all(Listings(self._brokers), names, deadline=until, routes=routes),
            ask_all(Descriptions(self._brokers), unknown, deadline=until, routes=routes),
        )
        for work in works:
            work.described = descriptions.get(work.group)
            if isinstance(work.described, Described):
                work.state = work.described.group_state or None
            listing = listings[work.group]
            if isinstance(listing, Listing):
                work.has_lag = listing.has_lag
                for topic in listing.topics:
                    if topics is None or topic.topic_name in topics:
                        topic_id = TopicId(topic.topic_id)
                        for row in topic.partitions:
                            item = Wanted(topic.topic_name, topic_id, row.partition_index)
                            work.readings[item] = broker_reading(row)
                if topics is None:
                    self._remember_partitions(work)
            elif listing.status is Status.TIMEOUT:
                await self._list_without_coordinator(work, listing, topics, deadline)
            else:
                work.error = group_error(work.group, listing)

    async def _list_without_coordinator(
        self, work: _Work, listing: Trouble, topics: TopicFilter, deadline: float
    ) -> None:
        """Find partitions although the coordinator hangs, as it does while it waits for a broker that hangs.

        They are those of the last report, or those of the topics that members subscribe to.
        """
        items: Sequence[Wanted] = self._partitions.get(work.group, ())
        if not items and isinstance(work.described, Described):
            subscribed = {name for member in work.described.members for name in member.subscribed_topic_names}
            items = await partitions_of(self._brokers, subscribed, deadline=deadline)
        work.readings = {
            item: Reading(Source.BROKER, trouble=listing) for item in items if topics is None or item.topic in topics
        }
        if not work.readings:
            work.error = group_error(work.group, listing)

    def _remember_partitions(self, work: _Work) -> None:
        if len(self._partitions) >= MOST_REMEMBERED:
            self._partitions.clear()
        self._partitions[work.group] = tuple(work.readings)

    async def _complete(self, work: _Work, topics: TopicFilter, deadline: float) -> None:
        """Read from other sources what the coordinator's rows leave open, or all of it from a pinned source."""
        readings, group = work.readings, work.group
        if not readings:
            return
        if self._choice is SourceChoice.SUMMARY:
            found = await StateSummary(self._brokers).read(group, list(readings), deadline=deadline)
        elif self._choice is SourceChoice.BATCHES:
            source = StateBatches(self._brokers)
            found = await source.read(group, list(readings), deadline=deadline, epochs=_epochs(readings))
        else:
            found = await self._complete_from_broker(work, deadline)
            if self._choice is SourceChoice.AUTO:
                merged = {**readings, **found}
                open_ = [item for item, reading in merged.items() if _is_open(reading)]
                found.update(
                    await FirstThatCan(self._brokers).read(group, open_, deadline=deadline, epochs=_epochs(merged))
                )
        for item, reading in found.items():
            if reading.trouble is not None and reading.start_offset is None:
                # where the start is stays worth knowing
                reading.start_offset, reading.leader_epoch = readings[item].start_offset, readings[item].leader_epoch
        readings.update(found)
        if any(reading.source is Source.BATCHES and reading.lag > 0 for reading in readings.values()):
            work.read_uncommitted = await reads_uncommitted(self._brokers, group, deadline=deadline)

    async def _complete_from_broker(self, work: _Work, deadline: float) -> dict[Wanted, Reading]:
        """Ask again for rows with an error that may have passed; a broker without lag has no rows that count."""
        if not work.has_lag:
            if self._choice is not SourceChoice.BROKER:
                return {}
            for reading in work.readings.values():
                if reading.trouble is None and reading.start_offset is not None:
                    reading.trouble = NO_LAG_IN_ANSWER
            return {}
        again = [item for item, row in work.readings.items() if row.trouble is not None and row.trouble.again]
        return await BrokerAnswer(self._brokers).read(work.group, again, deadline=deadline) if again else {}

    async def _read_ends(self, works: Sequence[_Work], deadline: float) -> None:
        """Read the end offsets beside the brokers' own lags, of all groups together."""
        if self._choice in (SourceChoice.SUMMARY, SourceChoice.BATCHES):
            return
        items = {
            item: None
            for work in works
            if work.has_lag
            for item, reading in work.readings.items()
            if reading.trouble is None and reading.start_offset is not None
        }
        await self._take_ends(works, list(items), deadline)

    async def _read_late_ends(self, works: Sequence[_Work], deadline: float) -> None:
        """Read the end offsets of rows whose start is known but whose state could not be read."""
        items = {
            item: None
            for work in works
            for item, reading in work.readings.items()
            if reading.start_offset is not None
            and reading.end_offset is None
            and item not in work.ends
            and (reading.trouble is None or reading.trouble.status in _MAY_HAVE_AN_END)
        }
        await self._take_ends(works, list(items), deadline)

    async def _take_ends(self, works: Sequence[_Work], items: Sequence[Wanted], deadline: float) -> None:
        ends = await ask_all(EndOffsets(self._brokers), items, deadline=deadline)
        now = asyncio.get_running_loop().time()
        if len(self._ends) > MOST_REMEMBERED:
            self._ends.clear()
        known = {item: end for item, end in ends.items() if not isinstance(end, Trouble)}
        self._ends.update((item, (now, end)) for item, end in known.items())
        for work in works:
            work.ends.update((item, known[item]) for item in work.readings if item in known)

    async def _look_for_topics(self, work: _Work, topics: frozenset[str], deadline: float) -> None:
        """Give rows, or an error, for topics that were named but that the group has no state of."""
        await self._say_why_empty(work, deadline, only_missing=True)
        absent = topics - {item.topic for item in work.readings}
        if work.error is None and absent:
            items = await partitions_of(self._brokers, absent, deadline=deadline)
            work.readings.update((item, Reading(Source.BROKER)) for item in items)
            work.error = missing_topics(work.group, sorted(absent - {item.topic for item in items}))

    async def _say_why_empty(self, work: _Work, deadline: float, *, only_missing: bool = False) -> None:
        """Tell an unknown group, one of another type, one that may not be seen and one without state apart."""
        if work.readings:
            return
        described = work.described
        if isinstance(described, Trouble):
            if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                work.error = await explain_missing(self._brokers, work.group, described, deadline=deadline)
            else:
                work.error = group_error(work.group, described)
        elif not only_missing:
            work.error = nothing_initialized(work.group, work.state)


_MAY_HAVE_AN_END: Final = frozenset({Status.NOT_AUTHORIZED, Status.UNSUPPORTED, Status.ERROR, Status.LAG_UNSET})


def _is_open(reading: Reading) -> bool:
    """Tell whether a row of the broker's answer leaves the lag to be found elsewhere."""
    if reading.trouble is not None:
        return reading.trouble.status is Status.TIMEOUT
    return reading.start_offset is not None and reading.lag == UNKNOWN


def _epochs(readings: Mapping[Wanted, Reading]) -> dict[Wanted, int]:
    return {item: reading.leader_epoch for item, reading in readings.items() if reading.leader_epoch is not None}


def _finished(work: _Work) -> GroupLag:
    rows = [
        partition_lag(
            item,
            reading,
            end_offset=work.ends.get(item),
            end_before=work.before.get(item),
            read_uncommitted=work.read_uncommitted,
        )
        for item, reading in sorted(work.readings.items())
    ]
    return GroupLag(work.group, work.state, work.error, tuple(rows))
