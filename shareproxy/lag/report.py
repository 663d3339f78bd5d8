"""Make the report on groups: rows from their coordinators, what is missing from other sources, errors in our words.

In: group names or groups found. Out: one `GroupLag` each. Must never: raise for one group, or let a slow broker take
the time in which the others answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from shareproxy.lag.arithmetic import UNKNOWN
from shareproxy.lag.broker_rows import (
    NO_ENDS,
    Ends,
    TopicKey,
    TopicRows,
    has_lag,
    read_ends,
    report_rows,
    with_lag,
)
from shareproxy.lag.brokers import TIMED_OUT, Brokers, Trouble
from shareproxy.lag.group_errors import (
    explain_missing,
    group_error,
    held_back,
    missing_topics,
    no_rows,
    nothing_initialized,
)
from shareproxy.lag.group_rows import GroupRows
from shareproxy.lag.groups import Descriptions, FoundGroup, Listing, Listings, reads_uncommitted
from shareproxy.lag.leaders import EndOffsets, Wanted, partitions_of, prefetch
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import GroupError, GroupLag, PartitionLag, Source, SourceChoice, Status
from shareproxy.lag.rounds import ask_all, give_up, route_all, share_of_time
from shareproxy.lag.rows import partition_lag
from shareproxy.lag.slices import STEP_ROWS, Slices
from shareproxy.lag.sources import (
    BrokerAnswer,
    FirstThatCan,
    Reading,
    StateBatches,
    StateSummary,
    add_ends,
    broker_reading,
)
from shareproxy.lag.unlisted import StateProbe
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsResponsePartition,
    ShareGroupDescribeResponseDescribedGroup,
)

# Parts of the time that is left at each step: whoever hangs in one leaves some for the next. See `group_rows` for how
# early a coordinator that holds its answer back is worked around.
ROUTING_SHARE: Final = 0.4
LISTING_SHARE: Final = 0.9
DESCRIBING_SHARE: Final = 0.6
STATE_SHARE: Final = 0.7
READING_SHARE: Final = 0.85
# Reading state costs this process 70 µs per partition, its request included, and that is not all of its work. Where a
# broker hangs, so many groups may have to be read that the deadline would pass over it: what does not fit is unknown.
ROWS_PER_SECOND: Final = 5_000
STATES_AT_A_TIME: Final = 16

Described = ShareGroupDescribeResponseDescribedGroup
Row = DescribeShareGroupOffsetsResponsePartition
TopicFilter = frozenset[str] | None

NO_LAG_IN_ANSWER: Final = Trouble(
    Status.UNSUPPORTED,
    ErrorCode.UNSUPPORTED_VERSION,
    "the broker's own answer has no lag before Kafka 4.2; use the lag source auto or batches",
)


class _Work:
    """One group on its way through a report."""

    __slots__ = (
        "coordinator",
        "described",
        "ends",
        "error",
        "given_up",
        "group",
        "has_lag",
        "listed",
        "read_uncommitted",
        "readings",
        "rows",
        "state",
    )

    def __init__(self, group: GroupId, state: str | None, *, listed: bool = False) -> None:
        self.group, self.state, self.listed = group, state, listed
        self.coordinator: NodeId | None = None
        self.described: Described | Trouble | None = None
        self.error: GroupError | None = None
        self.has_lag = False
        # whether its state is not read, because there is no time for all groups
        self.given_up = False
        # what the broker knows all about, and what is left to be found out
        self.rows: list[TopicRows] = []
        self.readings: dict[Wanted, Reading] = {}
        self.ends: Mapping[Wanted, int] = {}
        self.read_uncommitted = True

    @property
    def alive(self) -> NodeId | None:
        """The coordinator, if it answered anything in this look."""
        return self.coordinator if self.listed or isinstance(self.described, Described) else None

    @property
    def empty(self) -> bool:
        """Whether no partition was found."""
        return not self.readings and not self.rows

    def topics(self) -> set[str]:
        """Return the topics of the partitions found."""
        return {item.topic for item in self.readings} | {topic.key[0] for topic in self.rows}


class Reporter:
    """Report on groups, and remember what makes the next report better.

    Args:
        brokers: where to ask.
        choice: where lag may be taken from.
        memory: of this cluster.
    """

    def __init__(self, brokers: Brokers, choice: SourceChoice, memory: Memory | None = None) -> None:
        self._brokers, self._choice = brokers, choice
        self._memory = Memory() if memory is None else memory

    async def named(
        self, names: Sequence[GroupId], topics: TopicFilter, deadline: float, *, ends: bool = True
    ) -> list[GroupLag]:
        """Report on groups that somebody named, in that order; each is there, at least with an error.

        Args:
            names: of the groups.
            topics: only these.
            deadline: `loop.time()` seconds.
            ends: read end offsets, too, where the broker has told the lag.
        """
        routes = await route_all(Listings(self._brokers), names, deadline=share_of_time(deadline, ROUTING_SHARE))
        works = [_Work(name, None) for name in names]
        look = _Look(self._brokers, self._choice, self._memory, topics, deadline, named=True, ends=ends)
        return await look.run(works, routes)

    async def found(
        self, groups: Sequence[FoundGroup], topics: TopicFilter, deadline: float, *, ends: bool = True
    ) -> list[GroupLag]:
        """Report on groups that the brokers listed; with a filter only on those that have one of the topics.

        Args:
            groups: what was listed.
            topics: only these.
            deadline: `loop.time()` seconds.
            ends: as for `named`.
        """
        routes: dict[GroupId, NodeId | Trouble] = {found.group: found.coordinator for found in groups}
        works = [_Work(found.group, found.state, listed=found.listed) for found in groups]
        look = _Look(self._brokers, self._choice, self._memory, topics, deadline, named=False, ends=ends)
        rows = await look.run(works, routes)
        return rows if topics is None else [row for row in rows if row.partitions or row.error]


class _Look:
    """One look at some groups."""

    def __init__(
        self,
        brokers: Brokers,
        choice: SourceChoice,
        memory: Memory,
        topics: TopicFilter,
        deadline: float,
        *,
        named: bool,
        ends: bool,
    ) -> None:
        self._brokers, self._choice, self._memory = brokers, choice, memory
        self._topics, self._deadline, self._named, self._wants_ends = topics, deadline, named, ends
        self._ends = EndOffsets(brokers)
        self._row_ends: Ends = {}
        self._affordable: int | None = None
        self._probe = StateProbe(brokers, self._ends, self._affords)
        self._started = asyncio.get_running_loop().time()

    async def run(self, works: Sequence[_Work], routes: Mapping[GroupId, NodeId | Trouble]) -> list[GroupLag]:
        """Take all groups from nothing to rows."""
        names = [work.group for work in works]
        by_name = {work.group: work for work in works}
        for work in works:
            route = routes[work.group]
            work.coordinator = None if isinstance(route, Trouble) else route
        listing_deadline = share_of_time(self._deadline, LISTING_SHARE)
        async with GroupRows(self._brokers, self._memory, names, routes, listing_deadline) as rows:
            # on another connection, so that a listing that is held back does not hold it back too
            describing = asyncio.ensure_future(self._describe(works, routes))
            try:
                await asyncio.sleep(0)  # its request is written before the rows are read
                late = {name: by_name[name] for name in await rows.settle()}
                ready = [work for work in works if work.group not in late]
                await self._take_all(ready, rows)
                async with asyncio.TaskGroup() as tasks:
                    if late:
                        tasks.create_task(self._finish_late(late, rows, describing))
                    await self._finish(ready, describing)
            finally:
                await give_up([describing])
        slices = Slices()
        return [await _finished(work, self._row_ends, slices) for work in works]

    async def _describe(self, works: Sequence[_Work], routes: Mapping[GroupId, NodeId | Trouble]) -> None:
        """Ask for the state of the groups where it is not known yet; members come along."""
        unknown = [work for work in works if work.state is None]
        until = share_of_time(self._deadline, DESCRIBING_SHARE)
        question = Descriptions(self._brokers)
        found = await ask_all(question, [work.group for work in unknown], deadline=until, routes=routes)
        for work in unknown:
            work.described = described = found[work.group]
            if isinstance(described, Described):
                work.state = described.group_state or None

    async def _take_all(self, works: Sequence[_Work], rows: GroupRows) -> None:
        slices = Slices()
        for work in works:
            self._take(work, rows)
            await slices.turn()

    def _take(self, work: _Work, rows: GroupRows) -> None:
        """Take the coordinator's answer: rows, or what is wrong with the group."""
        listing = rows.answer(work.group)
        if not isinstance(listing, Listing):
            work.error = no_rows(work.group, TIMED_OUT if listing is None else listing, work.alive)
            return
        work.has_lag, work.error, work.given_up = listing.has_lag, None, False
        wanted = self._topics
        readings, rows_with_lag = dict[Wanted, Reading](), list[TopicRows]()
        pinned = not work.has_lag or self._choice in _FROM_STATE
        everything: dict[TopicKey, list[int]] = {}
        for topic in listing.topics:
            name, topic_id = topic.topic_name, TopicId(topic.topic_id)
            everything[name, topic_id] = [row.partition_index for row in topic.partitions]
            if wanted is not None and name not in wanted:
                continue
            whole: Sequence[Row] = [] if pinned else with_lag(topic.partitions)
            if whole:
                before = self._memory.ends_before(topic_id, self._started)
                rows_with_lag.append(TopicRows((name, topic_id), whole, before))
            if len(whole) < len(topic.partitions):
                for row in topic.partitions:
                    if pinned or not has_lag(row):
                        readings[Wanted(name, topic_id, row.partition_index)] = broker_reading(row)
        work.readings, work.rows = readings, rows_with_lag
        self._memory.keep_partitions(work.group, everything)

    async def _finish_late(
        self, late: Mapping[GroupId, _Work], rows: GroupRows, describing: asyncio.Future[None]
    ) -> None:
        """Go on with groups whose answer is held back: asked for alone, or without their coordinator."""
        hanging = frozenset(await rows.settle_alone(list(late)))
        answered = [work for name, work in late.items() if name not in hanging]
        await self._take_all(answered, rows)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._finish(answered, describing))
            if hanging:
                works = [late[name] for name in hanging]
                tasks.create_task(self._finish_without_coordinator(works, rows, describing))

    async def _finish_without_coordinator(
        self, works: Sequence[_Work], rows: GroupRows, describing: asyncio.Future[None]
    ) -> None:
        patience = share_of_time(self._deadline, LISTING_SHARE)
        if self._choice is not SourceChoice.BROKER:
            async with asyncio.TaskGroup() as tasks:
                for work in works:
                    tasks.create_task(self._find_partitions(work, rows, describing))
            await self._finish([work for work in works if work.readings], describing)
        blind = [work for work in works if not work.readings or _refused(work)]
        if blind:
            # nothing to go by, or no right to read the state: only the coordinator can tell
            await rows.all_answered(patience)
        again = [work for work in works if work in blind or (_holed(work) and _has_rows(rows, work.group))]
        await self._take_all([work for work in again if not work.readings or _has_rows(rows, work.group)], rows)
        if again:
            await self._finish(again, describing)

    async def _find_partitions(self, work: _Work, rows: GroupRows, describing: asyncio.Future[None]) -> None:
        """Find partitions although the coordinator hangs; see `unlisted`."""
        listing = rows.answer(work.group)
        trouble = listing if isinstance(listing, Trouble) else TIMED_OUT
        items: Sequence[Wanted] = self._memory.partitions(work.group)
        if not items:
            # whoever can tell of members does so at once
            await asyncio.wait([describing], timeout=max(self._left() * 0.1, 0))
            if isinstance(work.described, Described):
                subscribed = {name for member in work.described.members for name in member.subscribed_topic_names}
                items = await partitions_of(self._brokers, subscribed, deadline=self._deadline) if subscribed else ()
        if items:
            work.readings = {item: Reading(Source.BROKER, trouble=trouble) for item in items if self._wants(item)}
            work.given_up = not self._affords(len(work.readings))
            return
        until = share_of_time(self._deadline, STATE_SHARE)
        probed = await self._probe.find(work.group, deadline=until)
        work.readings = {item: reading for item, reading in probed.items() if self._wants(item)}
        if work.readings:
            work.error = held_back(work.group, trouble, work.alive)

    def _affords(self, rows: int) -> bool:
        """Tell whether so many partitions more can be read in time, and if so, count them."""
        if self._affordable is None:
            self._affordable = int(self._left() * ROWS_PER_SECOND)
        if rows > self._affordable:
            return False
        self._affordable -= rows
        return True

    def _wants(self, item: Wanted) -> bool:
        return self._topics is None or item.topic in self._topics

    def _left(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    async def _finish(self, works: Sequence[_Work], describing: asyncio.Future[None]) -> None:
        """Take groups from their first rows to the last: other sources, end offsets, reasons."""
        further = self._wants_ends or any(work.readings for work in works)
        if further:
            await self._look_further(works)
        async with asyncio.TaskGroup() as tasks:
            if further:
                tasks.create_task(self._read_late_ends(works))
            for work in works:
                if self._named and self._topics is not None and (work.error is None or not work.empty):
                    tasks.create_task(self._look_for_topics(work, self._topics, describing))
                elif work.error is None and work.empty and (self._named or self._topics is None):
                    tasks.create_task(self._say_why_empty(work, describing))
            if any(work.state is None and work.described is None for work in works):
                await asyncio.wait([describing])

    async def _look_further(self, works: Sequence[_Work]) -> None:
        """Read what the coordinators' rows do not tell."""
        until = share_of_time(self._deadline, READING_SHARE)
        await prefetch(
            self._brokers, _sizes(works, ends=self._wants_ends), deadline=share_of_time(self._deadline, ROUTING_SHARE)
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._complete(works, until))
            tasks.create_task(self._read_ends(works, until))
        await self._read_contradictions_again(works)

    async def _complete(self, works: Sequence[_Work], deadline: float) -> None:
        """Read from other sources what the coordinators' rows leave open, or all of it from a pinned source."""
        until = share_of_time(deadline, STATE_SHARE)
        asked = [work for work in works if work.readings and not work.given_up]
        running: list[asyncio.Task[dict[Wanted, Reading]]] = []
        try:
            for work in asked:
                if len(running) % STATES_AT_A_TIME == STATES_AT_A_TIME - 1:
                    await asyncio.sleep(0)  # each begins with some work before it waits
                running.append(asyncio.ensure_future(self._states(work, until)))
            states = await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
        # the broker's own answers have their lag already
        await add_ends(self._ends, [_without_lag(found) for found in states], deadline=deadline)
        for work, found in zip(asked, states, strict=True):
            for item, reading in found.items():
                if reading.trouble is not None and reading.start_offset is None:
                    # where the start is stays worth knowing
                    before = work.readings[item]
                    reading.start_offset, reading.leader_epoch = before.start_offset, before.leader_epoch
            work.readings.update(found)
        await self._look_up_isolation(asked, deadline)

    async def _states(self, work: _Work, deadline: float) -> dict[Wanted, Reading]:
        """Read one group's states, as far as they are needed, without end offsets."""
        readings, group = work.readings, work.group
        if self._choice is SourceChoice.SUMMARY:
            return await StateSummary(self._brokers).states(group, list(readings), deadline=deadline, ends=self._ends)
        if self._choice is SourceChoice.BATCHES:
            return await StateBatches(self._brokers).states(
                group, list(readings), deadline=deadline, ends=self._ends, epochs=_epochs(readings)
            )
        probed = {item: reading for item, reading in readings.items() if reading.source is not Source.BROKER}
        if probed:
            return probed  # read already, but for the end offsets
        found = await self._complete_from_broker(work, deadline)
        if self._choice is SourceChoice.AUTO:
            merged = {**readings, **found} if found else readings
            open_ = [item for item, reading in merged.items() if _is_open(reading)]
            if open_:
                found.update(
                    await FirstThatCan(self._brokers).states(
                        group, open_, deadline=deadline, ends=self._ends, epochs=_epochs(merged)
                    )
                )
        return found

    async def _complete_from_broker(self, work: _Work, deadline: float) -> dict[Wanted, Reading]:
        """Ask again for rows with an error that may have passed; a broker without lag has no rows that count."""
        readings = work.readings
        if not work.has_lag:
            if self._choice is SourceChoice.BROKER:
                for reading in readings.values():
                    if reading.trouble is None and reading.start_offset is not None:
                        reading.trouble = NO_LAG_IN_ANSWER
            return {}
        again = [item for item, row in readings.items() if row.trouble is not None and row.trouble.again]
        return await BrokerAnswer(self._brokers).read(work.group, again, deadline=deadline) if again else {}

    async def _look_up_isolation(self, works: Sequence[_Work], deadline: float) -> None:
        derived = [
            work
            for work in works
            if any(reading.source is Source.BATCHES and reading.lag > 0 for reading in work.readings.values())
        ]
        if derived:
            groups = [work.group for work in derived]
            uncommitted = await reads_uncommitted(self._brokers, groups, deadline=deadline)
            for work in derived:
                work.read_uncommitted = work.group in uncommitted

    async def _read_ends(self, works: Sequence[_Work], deadline: float) -> None:
        """Read the end offsets beside the brokers' own lags, of all groups together."""
        rows = [topic for work in works for topic in work.rows] if self._wants_ends else []
        unsure = {
            item: None
            for work in works
            if work.has_lag and self._choice not in _FROM_STATE
            for item, reading in work.readings.items()
            if reading.trouble is None and reading.start_offset is not None
        }
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read_ends(self._brokers, self._memory, self._ends, rows, deadline=deadline))
            tasks.create_task(self._take_ends(works, list(unsure), deadline))
        self._row_ends = {**self._row_ends, **reading.result()}

    async def _read_late_ends(self, works: Sequence[_Work]) -> None:
        """Read the end offsets of rows whose start is known but whose state could not be read."""
        items = {
            item: None
            for work in works
            for item, reading in work.readings.items()
            if reading.end_offset is None
            and reading.start_offset is not None
            and item not in work.ends
            and (reading.trouble is None or reading.trouble.status in _MAY_HAVE_AN_END)
        }
        await self._take_ends(works, list(items), self._deadline)

    async def _take_ends(self, works: Sequence[_Work], items: Sequence[Wanted], deadline: float) -> None:
        if not items:
            return
        ends = await ask_all(self._ends, items, deadline=deadline)
        known = {item: end for item, end in ends.items() if not isinstance(end, Trouble)}
        for work in works:
            work.ends = {**work.ends, **known} if work.ends else known

    async def _read_contradictions_again(self, works: Sequence[_Work]) -> None:
        """Read once more where a lag is negative although the start does not lie beyond the end just read.

        State and end offset of different moments look so while a partition's leader changes.
        """
        if self._choice is SourceChoice.BROKER:
            return
        doubtful = [(work, items) for work in works if (items := _contradictions(work))]
        if not doubtful:
            return
        until = share_of_time(self._deadline, STATE_SHARE)
        source = FirstThatCan(self._brokers)
        states = await asyncio.gather(
            *(source.states(work.group, items, deadline=until, ends=self._ends) for work, items in doubtful)
        )
        await add_ends(self._ends, states, deadline=self._deadline)
        for (work, _), found in zip(doubtful, states, strict=True):
            work.readings.update((item, reading) for item, reading in found.items() if reading.trouble is None)

    async def _look_for_topics(self, work: _Work, topics: frozenset[str], describing: asyncio.Future[None]) -> None:
        """Give rows, or an error, for topics that were named but that the group has no state of."""
        await self._say_why_empty(work, describing, only_missing=True)
        absent = topics - work.topics()
        if work.error is None and absent:
            items = await partitions_of(self._brokers, absent, deadline=self._deadline)
            work.readings.update((item, Reading(Source.BROKER)) for item in items)
            work.error = missing_topics(work.group, sorted(absent - {item.topic for item in items}))

    async def _say_why_empty(
        self, work: _Work, describing: asyncio.Future[None], *, only_missing: bool = False
    ) -> None:
        """Tell an unknown group, one of another type, one that may not be seen and one without state apart."""
        if not work.empty:
            return
        await asyncio.wait([describing])
        described = work.described
        if isinstance(described, Trouble):
            if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                work.error = await explain_missing(self._brokers, work.group, described, deadline=self._deadline)
            else:
                work.error = group_error(work.group, described)
        elif not only_missing:
            work.error = nothing_initialized(work.group, work.state)


by_key: Final = attrgetter("key")
by_place: Final = attrgetter("topic", "partition")
_FROM_STATE: Final = frozenset({SourceChoice.SUMMARY, SourceChoice.BATCHES})
_MAY_HAVE_AN_END: Final = frozenset({Status.NOT_AUTHORIZED, Status.UNSUPPORTED, Status.ERROR, Status.LAG_UNSET})
_NO_WAY_TO_STATE: Final = frozenset({Status.NOT_AUTHORIZED, Status.UNSUPPORTED})


def _sizes(works: Iterable[_Work], *, ends: bool) -> dict[str, int]:
    """Return how many partitions each topic has at least whose leaders are to be asked."""
    sizes: dict[str, int] = {}
    for work in works:
        counts = Counter(item.topic for item in work.readings)
        for topic in work.rows if ends else ():
            counts[topic.key[0]] += len(topic.partitions)
        for name, count in counts.items():
            sizes[name] = max(count, sizes.get(name, 0))
    return sizes


def _is_open(reading: Reading) -> bool:
    """Tell whether a row of the broker's answer leaves the lag to be found elsewhere."""
    if reading.trouble is not None:
        return reading.trouble.status is Status.TIMEOUT
    return reading.start_offset is not None and reading.lag == UNKNOWN


def _has_rows(rows: GroupRows, group: GroupId) -> bool:
    return isinstance(rows.answer(group), Listing)


def _refused(work: _Work) -> bool:
    return any(
        reading.trouble is not None and reading.trouble.status in _NO_WAY_TO_STATE for reading in work.readings.values()
    )


def _holed(work: _Work) -> bool:
    return any(reading.trouble is not None for reading in work.readings.values())


def _without_lag(found: Mapping[Wanted, Reading]) -> Mapping[Wanted, Reading]:
    return {item: reading for item, reading in found.items() if reading.source is not Source.BROKER}


def _contradictions(work: _Work) -> list[Wanted]:
    return [
        item
        for item, reading in work.readings.items()
        if reading.lag < UNKNOWN
        and reading.start_offset is not None
        and (end := work.ends.get(item) if reading.end_offset is None else reading.end_offset) is not None
        and reading.start_offset <= end
    ]


def _epochs(readings: Mapping[Wanted, Reading]) -> dict[Wanted, int]:
    return {item: reading.leader_epoch for item, reading in readings.items() if reading.leader_epoch is not None}


async def _finished(work: _Work, ends: Ends, slices: Slices) -> GroupLag:
    rows: list[PartitionLag] = []
    for topic in sorted(work.rows, key=by_key):
        rows += report_rows(topic, ends.get(topic.key, NO_ENDS))
        await slices.turn()
    if work.readings:
        for item, reading in work.readings.items():
            end, uncommitted = work.ends.get(item), work.read_uncommitted
            rows.append(partition_lag(item, reading, end_offset=end, read_uncommitted=uncommitted))
            if len(rows) % STEP_ROWS == 0:
                await slices.turn()
        rows.sort(key=by_place)
    return GroupLag(work.group, work.state, work.error, tuple(rows))
