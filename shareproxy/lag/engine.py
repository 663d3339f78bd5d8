"""Answer what the lag of share groups is, from whichever source can tell.

In: groups, or the rows a broker gave to an asking client. Out: reports, or numbers for the wire.
Must never: write, create a topic, outlast the deadline, or show a row that the asker was not granted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.shared_calls import SharedCalls
from shareproxy.lag.arithmetic import UNKNOWN
from shareproxy.lag.brokers import Brokers
from shareproxy.lag.groups import FoundGroup, find_share_groups
from shareproxy.lag.leaders import METADATA_MAX_AGE, Wanted
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import AskedRow, LagReport, SourceChoice
from shareproxy.lag.partition_counts import out_of_range
from shareproxy.lag.report import Reporter
from shareproxy.lag.rounds import share_of_time
from shareproxy.lag.sources import FirstThatCan, Reading, StateBatches, StateSummary
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId

if TYPE_CHECKING:
    from shareproxy.lag.doctor import Explanation

# what was found until then must still reach the client when its own deadline comes
FILL_MARGIN: Final = 0.05
FINDING_SHARE: Final = 0.4


class LagEngine:
    """Lag of share groups on one cluster.

    Args:
        cluster: where to ask; such as `cluster.Cluster`.
        source: where lag may be taken from.
        timeout: seconds for one report where the caller gives none.
    """

    def __init__(self, cluster: Brokers, *, source: SourceChoice = SourceChoice.AUTO, timeout: float = 3.0) -> None:
        self._cluster, self._source, self._timeout = cluster, source, timeout
        self.rows_filled: dict[str, int] = {}
        """Rows that `fill` found the lag of, by the source that knew it."""
        self._memory = Memory()
        self._reporter = Reporter(cluster, source, self._memory)
        self._fills: SharedCalls[object, Mapping[Wanted, Reading]] = SharedCalls()
        self._reports: SharedCalls[object, LagReport] = SharedCalls()

    async def fill(self, group: GroupId, rows: Sequence[AskedRow], *, deadline: float) -> Mapping[tuple[str, int], int]:
        """Return the lag of rows that a broker granted to an asking client.

        With `auto` only rows are computed whose start offset is known and whose lag is not; a pinned source computes
        all, `broker` none. The same question in flight is asked once.

        Args:
            group: share group.
            rows: without error, as the broker answered; their leader epochs are the stored ones.
            deadline: `loop.time()` seconds; what is not known then is −1.

        Returns:
            Lag for the wire by topic name and partition: −1 is unknown, other negative numbers are real.

        Source: KIP-1226.
        """
        lags = {(row.topic, row.partition): row.lag for row in rows}
        if self._source is SourceChoice.BROKER:
            return lags
        if self._source is SourceChoice.AUTO:
            rows = [row for row in rows if row.lag == UNKNOWN and row.start_offset >= 0 and row.topic_id != NO_TOPIC_ID]
            if not rows:
                return lags
        else:
            rows = [row for row in rows if row.topic_id != NO_TOPIC_ID]
        for row in rows:
            lags[row.topic, row.partition] = UNKNOWN
        now = asyncio.get_running_loop().time()
        if deadline <= now:
            return lags
        inner = max(deadline - FILL_MARGIN, now + (deadline - now) / 2)

        async def find(until: float) -> Mapping[Wanted, Reading]:
            return await self._read(group, rows, until)

        try:
            found = await self._fills.run((group, tuple(rows)), find, inner, f"the lag of group {group!r}")
        except ClusterError:
            return lags
        for item, reading in found.items():
            lags[item.topic, item.partition] = reading.lag
            if reading.lag != UNKNOWN:
                self.rows_filled[reading.source.value] = self.rows_filled.get(reading.source.value, 0) + 1
        return lags

    async def out_of_range(
        self, asked: Mapping[str, Collection[int]], *, deadline: float
    ) -> Mapping[str, Collection[int]]:
        """Return which named partitions certainly do not exist although their topics do.

        Raises:
            ClusterError: no Metadata in time.
        """
        return await out_of_range(self._cluster, asked, deadline=deadline)

    async def _read(self, group: GroupId, rows: Sequence[AskedRow], deadline: float) -> Mapping[Wanted, Reading]:
        # the epoch of a row without a start offset may be a filler, not the stored one
        epochs = {
            Wanted(row.topic, row.topic_id, row.partition): row.leader_epoch if row.start_offset >= 0 else UNKNOWN
            for row in rows
        }
        items = list(epochs)
        if UNKNOWN in epochs.values():
            epochs = {item: epoch for item, epoch in epochs.items() if epoch >= 0}
        if self._source is SourceChoice.SUMMARY:
            return await StateSummary(self._cluster).read(group, items, deadline=deadline)
        if self._source is SourceChoice.BATCHES:
            return await StateBatches(self._cluster).read(group, items, deadline=deadline, epochs=epochs)
        return await FirstThatCan(self._cluster).read(group, items, deadline=deadline, epochs=epochs)

    async def report(
        self,
        groups: Sequence[str] | None,
        *,
        topics: Collection[str] | None = None,
        ends: bool = True,
        timeout: float | None = None,
    ) -> LagReport:
        """Return the lag of groups, partition by partition.

        One bad group, partition or broker never hides the others: it has an error or a status of its own.

        Args:
            groups: names; `None` is every share group that can be seen.
            topics: only these.
            ends: also read end offsets that are not needed for the lag, because the broker has told it.
            timeout: seconds; what is not known then has the status `timeout`.

        Raises:
            ClusterError: nobody answered at all, or nobody accepted our credentials.

        Source: KIP-932, KIP-1226.
        """
        names = None if groups is None else tuple(dict.fromkeys(map(GroupId, groups)))
        wanted = None if topics is None else frozenset(topics)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._timeout if timeout is None else timeout)

        async def make(until: float) -> LagReport:
            return await self._report(names, wanted, until, ends=ends)

        return await self._reports.run((names, wanted, ends), make, deadline, "the lag report")

    async def _report(
        self, names: tuple[GroupId, ...] | None, topics: frozenset[str] | None, deadline: float, *, ends: bool
    ) -> LagReport:
        cluster_id = (await self._cluster.metadata((), deadline=deadline, max_age=METADATA_MAX_AGE)).cluster_id
        problems: list[str] = []
        if names is None:
            # a broker that hangs here must leave time for the groups of the others
            until = share_of_time(deadline, FINDING_SHARE)
            found, problems = await find_share_groups(self._cluster, deadline=until, memory=self._memory)
            groups = await self._reporter.found(found, topics, deadline, ends=ends)
        else:
            groups = await self._reporter.named(names, topics, deadline, ends=ends)
        return LagReport(cluster_id or "", datetime.now(UTC), tuple(groups), tuple(problems))

    async def explain(self, group: str | None = None, *, timeout: float | None = None) -> Explanation:
        """Return which sources work on this cluster, and what to do about those that do not.

        Args:
            group: in whose name to ask; the right to DESCRIBE may be limited to some groups.
            timeout: seconds.

        Raises:
            ClusterError: nobody answered at all, or nobody accepted our credentials.
        """
        # imported here: only the doctor needs it
        from shareproxy.lag.doctor import NOBODYS_GROUP, explain

        deadline = asyncio.get_running_loop().time() + (self._timeout if timeout is None else timeout)
        return await explain(self._cluster, deadline=deadline, group=NOBODYS_GROUP if group is None else GroupId(group))

    async def find_groups(self, deadline: float) -> Sequence[FoundGroup]:
        """Return the share groups that can be seen, by name.

        Raises:
            ClusterError: no broker told.
        """
        found, _ = await find_share_groups(self._cluster, deadline=deadline)
        return found
