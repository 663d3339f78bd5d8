"""Move from a consumer group to a share group: where the share group begins (R28), and what changes then (R29, R31).

In: a cluster, the names of both groups. Out: a plan with its reasons against it, and what became of it.
Must never: change anything while planning, or touch the consumer group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.admin import changes, offset_plans
from shareproxy.admin.errors import AdminError, NotAShareGroup, WrongArgument
from shareproxy.admin.failures import group_exception, translated
from shareproxy.admin.results import AlterResult, OffsetPlan, PlannedOffset
from shareproxy.admin.start_offsets import initialized
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.group_config_change import auto_offset_reset, set_group_config
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.consumer_groups import consumer_lag
from shareproxy.lag.consumer_model import ConsumerGroupLag
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.group_configs import AUTO_OFFSET_RESET, group_configs
from shareproxy.lag.rounds import share_of_time
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import DescribeConfigsRequest, DescribeConfigsResource, ShareFetchRequest

Partition = tuple[str, int]

_TOPIC_RESOURCE: Final = 2
_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_MOST_NAMED: Final = 5
_LOOK_SHARE: Final = 0.4
_PLAN_SHARE: Final = 0.5
_BY_RECORD: Final = 2  # version of ShareFetch that Kafka 4.2 brought; 4.1 ignores the request to set offsets
ORDER: Final = (
    "a share group keeps no order: records of one partition, and of one key, are worked on side by side and may "
    "overtake one another"
)


class MigrationPlan(msgspec.Struct, frozen=True):
    """What moving to a share group would do; nothing has been changed.

    Attributes:
        share_group: where to.
        from_group: whose committed offsets are taken over; `None` where none are.
        reset: `share.auto.offset.reset` to set; `None` to leave it.
        reset_now: its value now; `None` if it may not be seen.
        committed: offsets of the consumer group, by topic and partition.
        offsets: new start offsets; `None` where only the reset is set.
        without_commit: partitions of its topics where the consumer group committed nothing.
        warnings: sentences on what changes, none of them a reason not to do it.
        refusals: sentences on why it cannot be done.
    """

    share_group: str
    from_group: str | None = None
    reset: str | None = None
    reset_now: str | None = None
    committed: Mapping[Partition, int] = {}
    offsets: OffsetPlan | None = None
    without_commit: tuple[Partition, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def all_refusals(self) -> tuple[str, ...]:
        """Every reason against the plan."""
        return (*self.refusals, *(() if self.offsets is None else self.offsets.all_refusals))

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the plan."""
        return not self.all_refusals

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        rows = () if self.offsets is None else self.offsets.rows
        return {
            "share_group": self.share_group,
            "from_group": self.from_group,
            "auto_offset_reset": self.reset,
            "auto_offset_reset_now": self.reset_now,
            "accepted": self.accepted,
            "rows": [
                {**row.to_dict(), "committed_offset": self.committed.get((row.topic, row.partition))} for row in rows
            ],
            "without_commit": [{"topic": topic, "partition": partition} for topic, partition in self.without_commit],
            "warnings": list(self.warnings),
            "refusals": list(self.all_refusals),
        }


class MigrationResult(msgspec.Struct, frozen=True):
    """What became of a plan.

    Attributes:
        reset: the value that `share.auto.offset.reset` was set to; `None` if it was left.
        altered: what became of the start offsets; `None` if none were to be set.
    """

    reset: str | None = None
    altered: AlterResult | None = None

    @property
    def done(self) -> bool:
        """Whether all of it was done."""
        return self.altered is None or self.altered.done

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        altered = None if self.altered is None else self.altered.to_dict()
        return {"auto_offset_reset": self.reset, "offsets": altered, "done": self.done}


async def plan_migration(
    cluster: Cluster,
    share_group: str,
    *,
    from_group: str | None = None,
    reset: str | None = None,
    topics: Collection[str] | None = None,
    timeout: float = 10.0,
) -> MigrationPlan:
    """Say what moving to a share group would do; nothing is changed.

    Args:
        cluster: where both groups are.
        share_group: where to; one that does not exist would be made.
        from_group: consumer group whose committed offsets the share group begins at; it is only read.
        reset: `share.auto.offset.reset` to set: `earliest`, `latest` or `by_duration:PT1H`. It counts for partitions
            that the share group has not begun with, and whose offset is not taken over.
        topics: only these of the consumer group's.
        timeout: seconds.

    Raises:
        WrongArgument: both groups have one name (R29), or there is nothing to do.
        NotAShareGroup: the share group's name is that of another group (R6).
        GroupNotFound: there is no such consumer group.
        AdminError: something cannot be looked at.

    Source: KIP-1302; issue 6, R28–R31.
    """
    if from_group is None and reset is None:
        raise WrongArgument(
            "there is nothing to do: name the consumer group to take offsets over from, or where to begin"
        )
    if from_group == share_group:
        raise WrongArgument(
            f"both groups are called {share_group!r}, and a group has one type: give the share group another name, "
            f"such as 'share-{share_group}'"
        )
    value = None if reset is None else auto_offset_reset(reset)
    deadline = asyncio.get_running_loop().time() + timeout
    with translated(share_group):
        return await _Planning(cluster, share_group, from_group, value, topics, deadline).plan()


async def migrate(cluster: Cluster, plan: MigrationPlan, *, timeout: float = 10.0) -> MigrationResult:
    """Carry out a plan that was just made.

    Args:
        cluster: the same.
        plan: one without a reason against it.
        timeout: seconds.

    Raises:
        WrongArgument, GroupNotEmpty, OffsetRefused: the plan has reasons against it; nothing was done.
        AdminError: the brokers refused; says what was done until then.
    """
    if plan.refusals:
        raise WrongArgument("; ".join(plan.refusals))
    deadline = asyncio.get_running_loop().time() + timeout
    if plan.offsets is not None:
        changes.refuse(plan.offsets)
    # first, so that a partition without an offset does not begin at the old value in between
    if plan.reset is not None:
        until = share_of_time(deadline, _PLAN_SHARE)
        await set_group_config(cluster, plan.share_group, AUTO_OFFSET_RESET, plan.reset, deadline=until)
    altered = None
    if plan.offsets is not None and plan.offsets.rows:
        try:
            altered = await changes.alter_offsets(cluster, plan.offsets, deadline=deadline)
        except AdminError as error:
            if plan.reset is None:
                raise
            error.args = (f"{error.message}; {AUTO_OFFSET_RESET}={plan.reset} was set before that",)
            raise
    return MigrationResult(plan.reset, altered)


class _Planning:
    """One plan in the making."""

    def __init__(
        self,
        cluster: Cluster,
        share_group: str,
        from_group: str | None,
        reset: str | None,
        topics: Collection[str] | None,
        deadline: float,
    ) -> None:
        self._cluster, self._share, self._from = cluster, GroupId(share_group), from_group
        self._reset, self._topics, self._deadline = reset, topics, deadline
        self._engine = LagEngine(cluster)
        self._warnings: list[str] = []
        self._refusals: list[str] = []

    async def plan(self) -> MigrationPlan:
        """Make it."""
        # also refuses a name that another group has
        try:
            described = await offset_plans.look_before_change(
                self._cluster, self._share, deadline=share_of_time(self._deadline, _LOOK_SHARE)
            )
        except NotAShareGroup as error:
            raise NotAShareGroup(
                f"the name {self._share!r} is taken by a group of another type, also while that has no members: give "
                f"the share group another name, such as 'share-{self._share}'",
                error.code,
                error.name,
            ) from error
        reset_now = await self._reset_now()
        committed: Mapping[Partition, int] = {}
        without: tuple[Partition, ...] = ()
        offsets: OffsetPlan | None = None
        if self._from is not None:
            source = await self._source(self._from)
            committed = {
                (row.topic, row.partition): row.committed_offset
                for row in source.partitions
                if row.committed_offset is not None
            }
            without = tuple((row.topic, row.partition) for row in source.partitions if row.committed_offset is None)
            offsets = await self._offsets(committed)
            self._warn_of_source(source, without, reset_now)
            await self._refuse_old_brokers()
        elif described.error is None:
            await self._warn_of_begun()
        if self._reset is not None:
            try:
                await set_group_config(
                    self._cluster,
                    self._share,
                    AUTO_OFFSET_RESET,
                    self._reset,
                    validate_only=True,
                    deadline=self._deadline,
                )
            except WrongArgument as error:
                self._refusals.append(error.message)
        names = sorted({topic for topic, _ in (*committed, *without)} or set(self._topics or ()))
        await self._warn_of_order(names)
        return MigrationPlan(
            share_group=self._share,
            from_group=self._from,
            reset=self._reset,
            reset_now=reset_now,
            committed=committed,
            offsets=offsets,
            without_commit=without,
            warnings=tuple(self._warnings),
            refusals=tuple(self._refusals),
        )

    async def _reset_now(self) -> str | None:
        found = (await group_configs(self._cluster, [self._share], deadline=self._deadline))[self._share]
        return None if isinstance(found, Trouble) or AUTO_OFFSET_RESET not in found else found[AUTO_OFFSET_RESET].value

    async def _source(self, group: str) -> ConsumerGroupLag:
        """Return the consumer group with every partition of its topics."""
        found = await read_consumer_group(self._cluster, group, self._topics, self._deadline)
        names = {row.topic for row in found.partitions}
        if all(row.committed_offset is None for row in found.partitions):
            self._refusals.append(
                f"consumer group {group!r} committed no offset"
                + (" of these topics" if self._topics else "")
                + "; there is nothing to take over"
            )
            return found
        return await read_consumer_group(self._cluster, group, names, self._deadline)

    async def _offsets(self, committed: Mapping[Partition, int]) -> OffsetPlan | None:
        if not committed:
            return None
        plan = await offset_plans.plan_exactly(
            self._cluster, self._engine, self._share, committed, deadline=self._deadline
        )
        return msgspec.structs.replace(plan, rows=tuple(map(_within_log, plan.rows)))

    async def _refuse_old_brokers(self) -> None:
        offered = await self._cluster.versions(None, deadline=self._deadline)
        if (offered.highest(ShareFetchRequest) or 0) < _BY_RECORD:
            self._refusals.append(
                "start offsets cannot be set on these brokers: Kafka 4.1 ignores the request; upgrade to 4.2, or give "
                f"only {AUTO_OFFSET_RESET}"
            )

    def _warn_of_source(self, source: ConsumerGroupLag, without: Sequence[Partition], reset_now: str | None) -> None:
        if source.members:
            self._warnings.append(
                f"consumer group {source.group!r} has {count(source.members, 'member')}: while both groups run each "
                "gets every record, and what it commits after this is not taken over; stop it first, or accept "
                "that the records in between are worked on twice"
            )
        begins = self._reset or reset_now
        if without:
            where = "where it begins is not known" if begins is None else f"there the share group begins at {begins}"
            advice = "; what is there already is skipped" if begins == "latest" else ""
            self._warnings.append(
                f"consumer group {source.group!r} committed no offset of {named(without)}: {where}{advice}"
            )

    async def _warn_of_begun(self) -> None:
        rows = await initialized(self._engine, self._share, None, timeout=self._left())
        begun = [(row.topic, row.partition) for row in rows if row.start_offset is not None]
        if begun:
            self._warnings.append(
                f"share group {self._share!r} has begun with {named(begun)}: {AUTO_OFFSET_RESET} does not move it "
                f"there; `shareproxy offsets reset {self._share}` does"
            )

    async def _warn_of_order(self, topics: Sequence[str]) -> None:
        self._warnings.append(ORDER)
        compacted = await compacted_topics(self._cluster, topics, self._deadline)
        if compacted:
            names = ", ".join(map(repr, compacted))
            self._warnings.append(
                f"{names}: compacted, so its keys matter: an older value can be worked on after a newer one of the "
                "same key; make the sink compare offsets or timestamps, or stay with the consumer group there"
            )

    def _left(self) -> float:
        return max(self._deadline - asyncio.get_running_loop().time(), offset_plans.LEAST_SECONDS)


def _within_log(row: PlannedOffset) -> PlannedOffset:
    """Begin at the first record that is left where retention was quicker than the consumer group."""
    if row.new_offset is None or row.log_start is None or row.new_offset >= row.log_start:
        return row
    note = f"the records from {row.new_offset} to {row.log_start - 1} are deleted already: it begins at {row.log_start}"
    return msgspec.structs.replace(row, new_offset=row.log_start, note=note, refusal=None)


async def read_consumer_group(
    brokers: Brokers, group: str, topics: Collection[str] | None, deadline: float
) -> ConsumerGroupLag:
    """Return a consumer group with its committed offsets and logs.

    Raises:
        GroupNotFound: there is none of that name.
        WrongArgument: it is of another type.
    """
    report = await consumer_lag(brokers, [GroupId(group)], topics=topics, deadline=deadline)
    [found] = report.groups
    if found.error is not None:
        if found.error.name == "NOT_A_CONSUMER_GROUP":
            raise WrongArgument(f"{found.error.message}; name a consumer group", found.error.code)
        raise group_exception(found.error, group)
    return found


async def compacted_topics(brokers: Brokers, topics: Sequence[str], deadline: float) -> tuple[str, ...]:
    """Return those of some topics that are compacted; one that may not be looked at is left out."""
    if not topics:
        return ()
    resources = [DescribeConfigsResource(_TOPIC_RESOURCE, topic, [_CLEANUP]) for topic in topics]
    answer = await brokers.request(None, DescribeConfigsRequest(resources), deadline=deadline)
    return tuple(
        result.resource_name
        for result in answer.results
        for config in result.configs
        if config.name == _CLEANUP and _COMPACT in (config.value or "")
    )


def named(partitions: Sequence[Partition]) -> str:
    """Return partitions for a sentence, the first few of many."""
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in partitions[:_MOST_NAMED])
    more = len(partitions) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
