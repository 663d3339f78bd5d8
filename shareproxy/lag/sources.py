"""Read lag from one of three places behind one interface.

In: partitions of one group. Out: a reading for each: the numbers, or the trouble.
Must never: read end offsets before the state they are compared with (lag could come out too low), or write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from shareproxy.lag.arithmetic import UNKNOWN, known, wire_lag
from shareproxy.lag.brokers import Brokers, Offered, Trouble, trouble_from_code
from shareproxy.lag.leaders import EndOffsets, Wanted, fill_in
from shareproxy.lag.model import Source, Status
from shareproxy.lag.rounds import all_versions, ask_all, route_all, share_of_time
from shareproxy.lag.state import FENCED, Batches, Coordinators, StoredState, Summaries
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)

Routes = Mapping[Wanted, NodeId | Trouble]

Epochs = Mapping[Wanted, int]
NO_EPOCHS: Final[Epochs] = {}

# Parts of the time that is left: a broker that hangs must not take all of it from the others.
STATE_SHARE: Final = 0.7
VERSIONS_SHARE: Final = 0.3

BY_NAME: Final = "rows by name"
"""Purpose of a connection."""
WITH_LAG: Final = 1
"""First version of API 90 that has Lag."""
NEEDS_BATCHES: Final = "ReadShareGroupState (Kafka 4.1)"
WITH_COUNT: Final = 1
"""First version of API 87 that has DeliveryCompleteCount."""


class Reading(msgspec.Struct, gc=False):
    """What a source found out about one partition.

    Attributes:
        lag: as on the wire: −1 is unknown, other negative numbers are real.
        trouble: why there is no lag, if the source can say.
    """

    source: Source
    start_offset: int | None = None
    end_offset: int | None = None
    leader_epoch: int | None = None
    delivery_complete_count: int | None = None
    lag: int = UNKNOWN
    trouble: Trouble | None = None

    @property
    def leaves_open(self) -> bool:
        """Whether another source may know more: this one cannot be asked here, or its count is not set."""
        if self.trouble is not None:
            return self.trouble.status is Status.UNSUPPORTED
        return self.start_offset is not None and self.lag == UNKNOWN and self.delivery_complete_count is None


class LagSource(Protocol):
    """A place to read lag from."""

    source: ClassVar[Source]

    def supports(self, api_versions: Offered) -> bool:
        """Return whether a broker (the one that keeps the state) speaks what this source needs."""
        ...

    async def read(
        self,
        group: GroupId,
        partitions: Sequence[Wanted],
        *,
        deadline: float,
        routes: Routes | None = None,
        epochs: Epochs = NO_EPOCHS,
    ) -> dict[Wanted, Reading]:
        """Read all partitions, at the latest at the deadline.

        Args:
            routes: brokers to ask first where they are already known.
            epochs: stored leader epochs that a broker has just told; saves a round where they are needed.
        """
        ...


class BrokerAnswer:
    """The broker's own answer: DescribeShareGroupOffsets from version 1 (KIP-1226)."""

    source: ClassVar[Source] = Source.BROKER

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def supports(self, api_versions: Offered) -> bool:
        """Return whether the broker's answer has Lag."""
        return (api_versions.highest(DescribeShareGroupOffsetsRequest) or 0) >= WITH_LAG

    async def read(
        self,
        group: GroupId,
        partitions: Sequence[Wanted],
        *,
        deadline: float,
        routes: Routes | None = None,
        epochs: Epochs = NO_EPOCHS,
    ) -> dict[Wanted, Reading]:
        """Ask for named partitions; any broker answers.

        Partitions that Metadata cannot place are not sent: the broker would hold the whole answer back for half a
        minute.
        """
        answers = await ask_all(_Described(self._brokers, group), partitions, deadline=deadline, routes=routes)
        return {
            item: Reading(Source.BROKER, trouble=answer) if isinstance(answer, Trouble) else answer
            for item, answer in answers.items()
        }


def broker_reading(row: DescribeShareGroupOffsetsResponsePartition) -> Reading:
    """Turn a row of API 90 into a reading; start offset and epoch of an error row mean nothing."""
    if row.error_code:
        return Reading(Source.BROKER, trouble=trouble_from_code(row.error_code, row.error_message))
    start = known(row.start_offset)
    return Reading(
        Source.BROKER,
        start_offset=start,
        leader_epoch=known(row.leader_epoch) if start is not None else None,
        lag=row.lag if start is not None else UNKNOWN,
    )


class _Described:
    """The `Question` that API 90 answers for named partitions."""

    def __init__(self, brokers: Brokers, group: GroupId) -> None:
        self._brokers, self._group = brokers, group
        self._leaders = EndOffsets(brokers)

    async def route(self, items: Sequence[Wanted], *, fresh: bool, deadline: float) -> Routes:
        """Send every partition to the leader of its data: a broker that is certainly alive."""
        return await self._leaders.route(items, fresh=fresh, deadline=deadline)

    async def ask(
        self, node_id: NodeId, items: Sequence[Wanted], *, deadline: float
    ) -> Mapping[Wanted, Reading | Trouble]:
        by_topic: dict[str, dict[int, Wanted]] = {}
        for item in items:
            by_topic.setdefault(item.topic, {})[item.partition] = item
        topics = [DescribeShareGroupOffsetsRequestTopic(name, list(asked)) for name, asked in by_topic.items()]
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(self._group, topics)])
        # apart from what is fast: the broker may hold this answer back
        response = await self._brokers.request(node_id, request, deadline=deadline, purpose=BY_NAME)
        readings: dict[Wanted, Reading | Trouble] = {}
        for group in response.groups:
            if group.error_code:
                return dict.fromkeys(items, trouble_from_code(group.error_code, group.error_message))
            for topic in group.topics:
                asked = by_topic.get(topic.topic_name, {})
                for row in topic.partitions:
                    found = asked.get(row.partition_index)
                    if found is not None:
                        reading = broker_reading(row)
                        readings[found] = reading if reading.trouble is None else reading.trouble
        return fill_in(readings, items, "DescribeShareGroupOffsets")


class _StateSource:
    """Base of the two sources that combine stored state with end offsets."""

    source: ClassVar[Source]

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def _states(
        self, group: GroupId, items: Sequence[Wanted], deadline: float, routes: Routes | None, epochs: Epochs
    ) -> Mapping[Wanted, StoredState | Trouble]:
        raise NotImplementedError

    async def states(
        self,
        group: GroupId,
        partitions: Sequence[Wanted],
        *,
        deadline: float,
        ends: EndOffsets,
        routes: Routes | None = None,
        epochs: Epochs = NO_EPOCHS,
    ) -> dict[Wanted, Reading]:
        """Read the state alone, at the latest at the deadline; partitions that cannot be placed are not sent.

        Args:
            ends: knows the leaders, and is to be asked afterwards; see `add_ends`.
        """
        readings: dict[Wanted, Reading] = {}
        placed: list[Wanted] = []
        for item, leader in (await route_all(ends, partitions, deadline=deadline)).items():
            if isinstance(leader, Trouble) and not leader.again:
                readings[item] = Reading(self.source, trouble=leader)
            else:
                placed.append(item)
        for item, state in (await self._states(group, placed, deadline, routes, epochs)).items():
            readings[item] = (
                Reading(self.source, trouble=state)
                if isinstance(state, Trouble)
                else Reading(self.source, state.start_offset, None, state.leader_epoch, state.delivery_complete_count)
            )
        return readings

    async def read(
        self,
        group: GroupId,
        partitions: Sequence[Wanted],
        *,
        deadline: float,
        routes: Routes | None = None,
        epochs: Epochs = NO_EPOCHS,
    ) -> dict[Wanted, Reading]:
        """Read the state, then the end offsets of the partitions that need one."""
        ends = EndOffsets(self._brokers)
        until = share_of_time(deadline, STATE_SHARE)
        readings = await self.states(group, partitions, deadline=until, ends=ends, routes=routes, epochs=epochs)
        await add_ends(ends, [readings], deadline=deadline)
        return readings


async def add_ends(ends: EndOffsets, groups: Sequence[Mapping[Wanted, Reading]], *, deadline: float) -> None:
    """Complete what was read from states by end offsets; each partition is asked for once, for all groups together.

    Args:
        ends: whom to ask.
        groups: readings of each group, changed in place.
        deadline: `loop.time()` seconds.
    """
    started = {
        item: None
        for readings in groups
        for item, reading in readings.items()
        if reading.trouble is None and reading.start_offset is not None
    }
    found = await ask_all(ends, list(started), deadline=deadline)
    for readings in groups:
        for item, reading in readings.items():
            if reading.trouble is not None or reading.start_offset is None:
                continue
            end = found[item]
            if isinstance(end, Trouble):
                reading.trouble = end
            else:
                reading.end_offset = end
                reading.lag = wire_lag(end, reading.start_offset, reading.delivery_complete_count)


class StateSummary(_StateSource):
    """ReadShareGroupStateSummary from version 1, then ListOffsets: what a broker does itself (KIP-1226)."""

    source: ClassVar[Source] = Source.SUMMARY

    def supports(self, api_versions: Offered) -> bool:
        """Return whether the share coordinator's summary has the count of completed records."""
        return (api_versions.highest(ReadShareGroupStateSummaryRequest) or 0) >= WITH_COUNT

    async def _states(
        self, group: GroupId, items: Sequence[Wanted], deadline: float, routes: Routes | None, epochs: Epochs
    ) -> Mapping[Wanted, StoredState | Trouble]:
        question = Summaries(self._brokers, group, self.supports, "ReadShareGroupStateSummary version 1 (Kafka 4.2)")
        return await ask_all(question, items, deadline=deadline, routes=routes)


class StateBatches(_StateSource):
    """ReadShareGroupState with exactly the stored leader epoch, then ListOffsets; all that Kafka 4.1 offers."""

    source: ClassVar[Source] = Source.BATCHES

    def supports(self, api_versions: Offered) -> bool:
        """Return whether the share coordinator lets the state be read."""
        return (
            api_versions.highest(ReadShareGroupStateRequest) is not None
            and api_versions.highest(ReadShareGroupStateSummaryRequest) is not None
        )

    async def _states(
        self, group: GroupId, items: Sequence[Wanted], deadline: float, routes: Routes | None, epochs: Epochs
    ) -> Mapping[Wanted, StoredState | Trouble]:
        """Read the batches with the epochs given, and where there is none or an old one, with that of API 87."""
        unknown = [item for item in items if item not in epochs]
        # a coordinator that hangs does so here already, and must leave time for the batches of the others
        states, read_now = await self._summaries(group, unknown, share_of_time(deadline, 0.5), routes)
        first = {item: epoch for item in items if (epoch := epochs.get(item, read_now.get(item))) is not None}
        states.update(await self._batches(group, first, deadline, routes))
        fenced = [item for item in first if states[item] is FENCED]
        if not fenced:
            return states
        again, second = await self._summaries(group, fenced, deadline, None)
        for item, state in (await self._batches(group, second, deadline, None)).items():
            summary = again[item]
            if state is FENCED and second[item] == 0 and isinstance(summary, StoredState):
                # offsets set by hand: stored epoch 0, while the fence keeps an older maximum; there are no batches
                state = StoredState(summary.start_offset, 0, 0)
            again[item] = state
        states.update(again)
        return states

    async def _summaries(
        self, group: GroupId, items: Sequence[Wanted], deadline: float, routes: Routes | None
    ) -> tuple[dict[Wanted, StoredState | Trouble], dict[Wanted, int]]:
        """Return states without a count, and the stored epochs of those that have batches to read."""
        question = Summaries(self._brokers, group, self.supports, NEEDS_BATCHES)
        states = await ask_all(question, items, deadline=deadline, routes=routes)
        epochs: dict[Wanted, int] = {}
        for item, state in states.items():
            if isinstance(state, Trouble):
                continue
            state.delivery_complete_count = None
            if state.start_offset is not None and state.leader_epoch is not None:
                epochs[item] = state.leader_epoch
        return states, epochs

    async def _batches(
        self, group: GroupId, epochs: Epochs, deadline: float, routes: Routes | None
    ) -> dict[Wanted, StoredState | Trouble]:
        question = Batches(self._brokers, group, self.supports, NEEDS_BATCHES, epochs)
        return await ask_all(question, list(epochs), deadline=deadline, routes=routes)


class FirstThatCan:
    """Read each partition from its summary, or from its batches where the summary cannot answer.

    Share coordinators of one group may run different Kafka versions, so the choice is made per partition.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._summary, self._batches = StateSummary(brokers), StateBatches(brokers)

    async def states(
        self,
        group: GroupId,
        partitions: Sequence[Wanted],
        *,
        deadline: float,
        ends: EndOffsets,
        epochs: Epochs = NO_EPOCHS,
    ) -> dict[Wanted, Reading]:
        """Read the state alone, at the latest at the deadline."""
        routes = await route_all(Coordinators(self._brokers, group), partitions, deadline=deadline)
        nodes = {node_id for node_id in routes.values() if not isinstance(node_id, Trouble)}
        offers = await all_versions(self._brokers, nodes, deadline=share_of_time(deadline, VERSIONS_SHARE))
        old = {
            node_id
            for node_id, offered in offers.items()
            if not isinstance(offered, Trouble) and not self._summary.supports(offered)
        }
        # what is wrong with a coordinator that was not found or does not answer is wrong for both sources
        batches = [item for item, node_id in routes.items() if node_id in old] if old else []
        summary = [item for item, node_id in routes.items() if node_id not in old] if old else partitions
        first, other = await asyncio.gather(
            self._summary.states(group, summary, deadline=deadline, ends=ends, routes=routes),
            self._batches.states(group, batches, deadline=deadline, ends=ends, routes=routes, epochs=epochs),
        )
        unset = {item: reading for item, reading in first.items() if reading.leaves_open}
        readings = {**first, **other}
        if unset:
            stored = {item: found.leader_epoch for item, found in unset.items() if found.leader_epoch is not None}
            better = await self._batches.states(group, list(unset), deadline=deadline, ends=ends, epochs=stored)
            # a summary without a count still knows the start: keep it where the batches bring nothing
            readings.update(
                (item, found)
                for item, found in better.items()
                if found.trouble is None or unset[item].trouble is not None
            )
        return readings

    async def read(
        self, group: GroupId, partitions: Sequence[Wanted], *, deadline: float, epochs: Epochs = NO_EPOCHS
    ) -> dict[Wanted, Reading]:
        """Read the state, then the end offsets of the partitions that need one."""
        ends = EndOffsets(self._brokers)
        until = share_of_time(deadline, STATE_SHARE)
        readings = await self.states(group, partitions, deadline=until, ends=ends, epochs=epochs)
        await add_ends(ends, [readings], deadline=deadline)
        return readings
