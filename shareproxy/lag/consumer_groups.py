"""Find out the lag of classic and consumer groups, with the same honesty as that of share groups.

In: group names. Out: a report; unknown lags have a reason. Must never: show a lag where nothing was committed, or call
offsets waiting records that no consumer will ever get, if a closer look was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.metadata import TopicMetadata
from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerLagReport, ConsumerPartitionLag, ConsumerStatus
from shareproxy.lag.consumer_questions import ClassicMembers, Commit, Commits, ConsumerMembers, Members, Partition
from shareproxy.lag.group_errors import group_error
from shareproxy.lag.leaders import LATEST, METADATA_MAX_AGE, Wanted
from shareproxy.lag.listings import CLASSIC, GroupListing, ListedGroup, list_groups
from shareproxy.lag.model import GroupError
from shareproxy.lag.positions import EARLIEST, READ_COMMITTED, Positions
from shareproxy.lag.rounds import ask_all, share_of_time
from shareproxy.lag.scan import Scan, ScanLimits, Scanned, Scanner
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId, NodeId, TopicId

CONSUMER: Final = "consumer"
# streams groups commit like consumers do
KINDS: Final = frozenset({CONSUMER, CLASSIC, "streams"})
# classic groups of consumers, and those of applications that only commit
CONSUMER_PROTOCOLS: Final = frozenset({"consumer", ""})

LISTING_SHARE: Final = 0.4
COMMITS_SHARE: Final = 0.5
ENDS_SHARE: Final = 0.6

_NO_COMMIT: Final = "the group committed no offset here yet; what it reads first depends on its auto.offset.reset"
_BEYOND: Final = (
    "the committed offset lies beyond the end of the log; was the topic made anew, or the offset set by hand?"
)

Answer = int | Trouble
Positions3 = tuple[Mapping[Wanted, Answer], Mapping[Wanted, Answer], Mapping[Wanted, Answer]]


async def consumer_lag(
    brokers: Brokers,
    groups: Sequence[GroupId] | None,
    *,
    topics: Collection[str] | None = None,
    look_closer: bool = False,
    deadline: float,
    limits: ScanLimits | None = None,
) -> ConsumerLagReport:
    """Report on classic and consumer groups.

    One bad group, partition or broker never hides the others: it has an error or a status of its own.

    Args:
        brokers: where to ask.
        groups: names; `None` is every such group that can be seen.
        topics: only these.
        look_closer: count the records that are left in each partition; costs fetches, needs READ on the topics.
        deadline: `loop.time()` seconds.
        limits: how much a closer look may read.

    Raises:
        ClusterError: nobody answered at all, or nobody accepted our credentials.

    Source: KIP-709, KIP-848 (OffsetFetch, API 9), ListOffsets (API 2).
    """
    cluster_id = (await brokers.metadata((), deadline=deadline, max_age=METADATA_MAX_AGE)).cluster_id
    listing = await list_groups(brokers, deadline=share_of_time(deadline, LISTING_SHARE))
    look = _Look(brokers, listing, None if topics is None else frozenset(topics), named=groups is not None)
    names = [row.group for row in listing.groups if _consumes(row)] if groups is None else groups
    found = await look.groups(names, deadline)
    report = await look.rows(found, deadline, limits or ScanLimits() if look_closer else None)
    if groups is None and topics is not None:
        report = [row for row in report if row.partitions or row.error]
    return ConsumerLagReport(cluster_id or "", datetime.now(UTC), tuple(report), listing.problems)


class _Group:
    """One group on its way through a report."""

    __slots__ = ("commits", "error", "group", "listed", "members")

    def __init__(self, group: GroupId, listed: ListedGroup | None) -> None:
        self.group, self.listed = group, listed
        self.commits: Mapping[Partition, Commit] = {}
        self.members: Members | None = None
        self.error: GroupError | None = None


class _Look:
    """One report.

    Args:
        brokers: where to ask.
        listing: all groups that can be seen.
        topics: only these.
        named: whether somebody named the groups; then named topics have rows although nothing was committed.
    """

    def __init__(self, brokers: Brokers, listing: GroupListing, topics: frozenset[str] | None, *, named: bool) -> None:
        self._brokers, self._topics, self._named = brokers, topics, named
        self._listed = {row.group: row for row in listing.groups}
        self._all_listed = not listing.problems

    async def groups(self, names: Sequence[GroupId], deadline: float) -> list[_Group]:
        """Read what groups committed, and who their members are."""
        found = [_Group(name, self._listed.get(name)) for name in dict.fromkeys(names)]
        for work in found:
            if work.listed is not None and not _consumes(work.listed):
                work.error = _other_type(work.listed)
        open_ = [work for work in found if work.error is None]
        routes = await self._routes(open_, deadline)
        until = share_of_time(deadline, COMMITS_SHARE)
        by_type = {
            kind: [w.group for w in open_ if w.listed is not None and w.listed.type == kind]
            for kind in (CONSUMER, CLASSIC)
        }
        commits, consumers, classics = await asyncio.gather(
            ask_all(Commits(self._brokers), [work.group for work in open_], deadline=until, routes=routes),
            ask_all(ConsumerMembers(self._brokers), by_type[CONSUMER], deadline=until, routes=routes),
            ask_all(ClassicMembers(self._brokers), by_type[CLASSIC], deadline=until, routes=routes),
        )
        members = {**consumers, **classics}
        for work in open_:
            described = members.get(work.group)
            work.members = described if isinstance(described, Members) else None
            committed = commits[work.group]
            if isinstance(committed, Trouble):
                work.error = group_error(work.group, committed)
            elif not committed and work.listed is None and self._all_listed:
                work.error = _missing(work.group)
            else:
                work.commits = committed
        return found

    async def _routes(self, works: Sequence[_Group], deadline: float) -> dict[GroupId, NodeId | Trouble]:
        """Return the coordinators: those that listed the groups, without asking again."""
        unlisted = [work.group for work in works if work.listed is None]
        routes: dict[GroupId, NodeId | Trouble] = {
            work.group: work.listed.coordinator for work in works if work.listed is not None
        }
        if unlisted:
            routes.update(await Commits(self._brokers).route(unlisted, fresh=False, deadline=deadline))
        return routes

    async def rows(self, works: Sequence[_Group], deadline: float, limits: ScanLimits | None) -> list[ConsumerGroupLag]:
        """Read where the logs end, after the commits, and make the rows."""
        wanted = {work.group: self._wanted(work) for work in works}
        names = {topic for partitions in wanted.values() for topic, _ in partitions} | (self._topics or frozenset())
        ids: dict[str, TopicId] = {}
        for name, topic in (await self._topics_of(names, deadline)).items():
            ids[name] = topic.topic_id
            if self._named and self._topics is not None and name in self._topics and not topic.error_code:
                for work in works:
                    if work.error is None:
                        wanted[work.group].update((name, index) for index in topic.partitions)
        items = {
            work.group: [
                Wanted(topic, ids.get(topic, NO_TOPIC_ID), index) for topic, index in sorted(wanted[work.group])
            ]
            for work in works
        }
        everything = list(dict.fromkeys(item for found in items.values() for item in found))
        positions = await self._positions(everything, deadline, log_starts=limits is not None)
        rows = {
            (work.group, item): _row(item, work.commits.get((item.topic, item.partition)), positions)
            for work in works
            for item in items[work.group]
        }
        if limits is not None:
            await self._look_closer(rows, positions, limits, deadline)
        return [
            ConsumerGroupLag(
                group=work.group,
                type=None if work.listed is None or work.error is not None else work.listed.type,
                state=None if work.listed is None else work.listed.state,
                members=None if work.members is None else work.members.count,
                error=work.error,
                partitions=tuple(rows[work.group, item] for item in items[work.group]),
            )
            for work in works
        ]

    async def _topics_of(self, names: Collection[str], deadline: float) -> Mapping[str, TopicMetadata]:
        """Look topics up; none where nobody tells, as commits alone are worth showing."""
        if not names:
            return {}
        try:
            return (await self._brokers.metadata(names, deadline=deadline)).topics
        except ClusterError:
            return {}

    def _wanted(self, work: _Group) -> set[Partition]:
        if work.error is not None:
            return set()
        found = set(work.commits) | (work.members.assigned if work.members is not None else frozenset())
        return {partition for partition in found if self._topics is None or partition[0] in self._topics}

    async def _positions(self, items: Sequence[Wanted], deadline: float, *, log_starts: bool) -> Positions3:
        until = share_of_time(deadline, ENDS_SHARE) if log_starts else deadline
        ends, stable, starts = await asyncio.gather(
            ask_all(Positions(self._brokers, LATEST), items, deadline=until),
            ask_all(Positions(self._brokers, LATEST, READ_COMMITTED), items, deadline=until),
            ask_all(Positions(self._brokers, EARLIEST), items if log_starts else [], deadline=until),
        )
        return ends, stable, starts

    async def _look_closer(
        self,
        rows: dict[tuple[GroupId, Wanted], ConsumerPartitionLag],
        positions: Positions3,
        limits: ScanLimits,
        deadline: float,
    ) -> None:
        """Count the records that are left for `read_committed` consumers, where there may be any."""
        scans: dict[tuple[GroupId, Wanted], Scan] = {}
        for key, row in rows.items():
            committed, stable, start = row.committed_offset, row.last_stable_offset, positions[2].get(key[1])
            if row.lag is None or committed is None or stable is None or start is None or isinstance(start, Trouble):
                continue
            scans[key] = Scan(key[1], min(max(committed, start), stable), stable, committed=True)
        await Scanner(self._brokers, limits).run(list(scans.values()), deadline=deadline)
        for key, scan in scans.items():
            rows[key] = _closer(rows[key], scan.result())


def _row(item: Wanted, commit: Commit | None, positions: Positions3) -> ConsumerPartitionLag:
    end, stable = positions[0][item], positions[1][item]
    committed = None if commit is None else commit.offset
    trouble = end if isinstance(end, Trouble) else None
    if trouble is None and commit is not None and commit.error_code:
        trouble = trouble_from_code(commit.error_code)
    known_end = None if isinstance(end, Trouble) else end
    known_stable = None if isinstance(stable, Trouble) or known_end is None else min(stable, known_end)
    lag: int | None = None
    status, message, code = ConsumerStatus.OK, None, None
    if trouble is not None:
        status, message, code = _status(trouble), trouble.message, trouble.error_code
    elif committed is None:
        status, message = ConsumerStatus.NO_COMMITTED_OFFSET, _NO_COMMIT
    else:
        assert known_end is not None
        lag = max(0, known_end - committed)
        if committed > known_end:
            status, message = ConsumerStatus.COMMITTED_BEYOND_END, _BEYOND
    return ConsumerPartitionLag(
        topic=item.topic,
        topic_id=item.topic_id,
        partition=item.partition,
        committed_offset=committed,
        committed_leader_epoch=None if commit is None else commit.leader_epoch,
        end_offset=known_end,
        last_stable_offset=known_stable,
        lag=lag,
        open_transaction_offsets=None if known_end is None or known_stable is None else known_end - known_stable,
        status=status,
        error_code=code,
        message=message,
    )


def _closer(row: ConsumerPartitionLag, scanned: Scanned) -> ConsumerPartitionLag:
    """Return the row with what the scan found out."""
    assert row.lag is not None
    exact = scanned.records_min if scanned.exact else None
    stable, committed = row.last_stable_offset or 0, row.committed_offset or 0
    return msgspec.structs.replace(
        row,
        visible_lag=exact,
        visible_lag_min=scanned.records_min,
        visible_lag_max=scanned.records_max,
        phantom_offsets=None if exact is None else max(0, stable - committed) - exact,
        aborted_offsets=scanned.voided if scanned.exact else None,
        notes=() if scanned.trouble is None else (scanned.trouble.message,),
    )


def _consumes(row: ListedGroup) -> bool:
    return row.type in KINDS and (row.type != CLASSIC or row.protocol in CONSUMER_PROTOCOLS)


def _status(trouble: Trouble) -> ConsumerStatus:
    try:
        return ConsumerStatus(trouble.status.value)
    except ValueError:
        return ConsumerStatus.ERROR


def _other_type(row: ListedGroup) -> GroupError:
    what = f"{row.type} group" if row.type != CLASSIC else f"group of the protocol {row.protocol!r}"
    advice = "; ask for its share-group lag" if row.type == "share" else ""
    text = f"group {row.group!r} is a {what}, which commits no offsets{advice}"
    return GroupError(int(ErrorCode.GROUP_ID_NOT_FOUND), "NOT_A_CONSUMER_GROUP", text)


def _missing(group: GroupId) -> GroupError:
    text = (
        f"consumer group {group!r} does not exist on this cluster, or this user may not see it; check its name, and "
        "DESCRIBE on the group"
    )
    code = ErrorCode.GROUP_ID_NOT_FOUND
    return GroupError(int(code), error_name(code), text)
