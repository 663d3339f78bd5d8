"""Go back from a share group to a consumer group: let it begin where the share group is (R30).

In: a cluster, the names of both groups. Out: a plan with its reasons against it, and what became of it.
Must never: change anything while planning, touch the share group, or take a consumer group back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.admin.errors import AccessDenied, AdminError, GroupNotEmpty, GroupNotFound, WrongArgument
from shareproxy.admin.failures import translated
from shareproxy.admin.offset_plans import look_before_change
from shareproxy.admin.start_offsets import initialized
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.migration import Partition, count, read_consumer_group
from shareproxy.lag.consumer_model import ConsumerGroupLag
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import PartitionLag
from shareproxy.lag.positions import EARLIEST, Positions
from shareproxy.lag.rounds import ask_all, share_of_time
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, TopicId
from shareproxy.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

# version 10 names topics by id
_BY_NAME: Final = 9
_LOOK_SHARE: Final = 0.4
_ILLEGAL_GENERATION: Final = 22


class RollbackRow(msgspec.Struct, frozen=True):
    """What would become of one partition.

    Attributes:
        start_offset: of the share group: first offset that is left and not done, the end where all are done; `None`
            where it has not begun.
        committed_offset: of the consumer group now; `None` where it committed none.
        new_offset: to commit; `None` to leave it.
        end_offset: high watermark.
        again: offsets that the share group has done and the consumer group will be given again; `None` if not known.
        note: why it is left.
        error: why it was not committed.
        denied: whether a right is missing for it; not in the JSON, where the error says so.
    """

    topic: str
    partition: int
    start_offset: int | None = None
    committed_offset: int | None = None
    new_offset: int | None = None
    end_offset: int | None = None
    again: int | None = None
    note: str | None = None
    error: str | None = None
    denied: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "denied"}


class RollbackPlan(msgspec.Struct, frozen=True):
    """What going back would do; after `roll_back` what it did.

    Attributes:
        share_group: from where.
        to_group: the consumer group.
        rows: sorted by topic and partition.
        warnings: sentences, none of them a reason not to do it.
        refusals: sentences on why it cannot be done.
    """

    share_group: str
    to_group: str
    rows: tuple[RollbackRow, ...]
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the plan."""
        return not self.refusals

    @property
    def offsets(self) -> dict[Partition, int]:
        """Offset to commit by topic and partition."""
        return {(row.topic, row.partition): row.new_offset for row in self.rows if row.new_offset is not None}

    @property
    def done(self) -> bool:
        """Whether no row has an error."""
        return all(row.error is None for row in self.rows)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "share_group": self.share_group,
            "to_group": self.to_group,
            "accepted": self.accepted,
            "rows": [row.to_dict() for row in self.rows],
            "warnings": list(self.warnings),
            "refusals": list(self.refusals),
        }


async def plan_rollback(
    cluster: Cluster,
    share_group: str,
    to_group: str,
    *,
    topics: Collection[str] | None = None,
    timeout: float = 10.0,
) -> RollbackPlan:
    """Say what letting a consumer group begin where a share group is would do; nothing is changed.

    Args:
        cluster: where both groups are.
        share_group: from where; it is only read.
        to_group: consumer group without members; one that does not exist would be made.
        topics: only these of the share group's.
        timeout: seconds.

    Raises:
        GroupNotFound: there is no such share group.
        WrongArgument: both have one name, or the consumer group's name is that of another type of group.
        AdminError: something cannot be looked at.

    Source: KIP-1302; issue 6, R30.
    """
    if share_group == to_group:
        raise WrongArgument(
            f"both groups are called {share_group!r}, and a group has one type: name the consumer group"
        )
    deadline = asyncio.get_running_loop().time() + timeout
    with translated(share_group):
        until = share_of_time(deadline, _LOOK_SHARE)
        described = await look_before_change(cluster, GroupId(share_group), deadline=until)
        # raises where the share group does not exist
        shared, ends_before = await _shared(cluster, GroupId(share_group), topics, deadline)
        log_starts = await _log_starts(cluster, shared, deadline)
    with translated(to_group):
        group = await _consumer_group(cluster, to_group, {row.topic for row in shared}, deadline)
    committed = {(row.topic, row.partition): row.committed_offset for row in group.partitions}
    rows = tuple(
        _row(
            row,
            ends_before.get((row.topic_id, row.partition)),
            committed.get((row.topic, row.partition)),
            log_starts.get((row.topic, row.partition)),
        )
        for row in shared
    )
    return RollbackPlan(
        share_group,
        to_group,
        rows,
        tuple(_warnings(share_group, len(described.members), rows)),
        tuple(_refusals(to_group, group, rows)),
    )


async def roll_back(cluster: Cluster, plan: RollbackPlan, *, timeout: float = 10.0) -> RollbackPlan:
    """Commit what a plan says, and return it with the errors of rows that were refused.

    Args:
        cluster: the same.
        plan: one without a reason against it.
        timeout: seconds.

    Raises:
        GroupNotEmpty: the consumer group got members meanwhile.
        AccessDenied: READ on the group is missing.
        AdminError: the brokers refused all of it.

    Source: OffsetCommit (API 8), as a group without members takes it.
    """
    if plan.refusals:
        raise WrongArgument("; ".join(plan.refusals))
    if not plan.offsets:
        return plan  # the consumer group is there already
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in plan.offsets.items():
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(partition, offset))
    request = OffsetCommitRequest(
        plan.to_group, topics=[OffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]
    )
    deadline = asyncio.get_running_loop().time() + timeout
    group = GroupId(plan.to_group)
    with translated(plan.to_group):
        node_id = await cluster.group_coordinator(group, deadline=deadline)
    with translated(plan.to_group, changing=True):
        answer = await cluster.request(node_id, request, deadline=deadline, max_version=_BY_NAME)
    codes = {(topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions}
    _raise_for_group(plan.to_group, set(codes.values()))
    rows = tuple(
        msgspec.structs.replace(row, error=_refused(row, code), denied=code == ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if row.new_offset is not None and (code := codes.get((row.topic, row.partition), -1))
        else row
        for row in plan.rows
    )
    return msgspec.structs.replace(plan, rows=rows)


async def _shared(
    cluster: Cluster, group: GroupId, topics: Collection[str] | None, deadline: float
) -> tuple[Sequence[PartitionLag], Mapping[tuple[TopicId, int], int | None]]:
    """Return the share group's rows, and ends that were read before them.

    An end read after a lag says nothing about what came in between, so a first look has what to hold a second against.
    """
    engine = LagEngine(cluster)

    async def look(until: float) -> Sequence[PartitionLag]:
        seconds = max(until - asyncio.get_running_loop().time(), 0.05)
        return await initialized(engine, group, topics, ends=True, timeout=seconds)

    before = await look(share_of_time(deadline, _LOOK_SHARE))
    return await look(deadline), {(row.topic_id, row.partition): row.end_offset for row in before}


async def _consumer_group(cluster: Cluster, group: str, topics: Collection[str], deadline: float) -> ConsumerGroupLag:
    try:
        return await read_consumer_group(cluster, group, topics, deadline)
    except GroupNotFound:
        return ConsumerGroupLag(GroupId(group))


async def _log_starts(cluster: Cluster, rows: Sequence[PartitionLag], deadline: float) -> dict[Partition, int]:
    """Return where logs begin, of those that tell."""
    items = [Wanted(row.topic, row.topic_id, row.partition) for row in rows if row.start_offset is not None]
    found = await ask_all(Positions(cluster, EARLIEST), items, deadline=share_of_time(deadline, _LOOK_SHARE))
    return {(item.topic, item.partition): start for item, start in found.items() if isinstance(start, int)}


def _row(shared: PartitionLag, end_before: int | None, committed: int | None, log_start: int | None) -> RollbackRow:
    start, end, done = shared.start_offset, shared.end_offset, shared.delivery_complete_count
    # of the offsets from the start offset on so many are done; with a lag of 0 all up to there, or to an earlier end
    done_to = None if start is None or done is None else start + done
    if start is not None and log_start is not None:
        # a commit on records that retention deleted counts for nothing: with `latest` the group would skip the rest
        start = max(start, log_start)
    if shared.lag == 0 and start is not None:
        # brokers store it now and then only: all behind it is done, too
        start = max(start, (end_before or 0) if done_to is None else done_to)
    new, note = start, None
    if start is None:
        note = "the share group has not begun with it"
    elif committed is not None and committed > start:
        new, note = None, "the consumer group is further on, and is not taken back"
    elif committed == start:
        new, note = None, "the consumer group is there already"
    begins = new if new is not None else committed
    again = None
    if start is not None and done_to is not None and begins == start:
        again = max(0, done_to - start)
    return RollbackRow(shared.topic, shared.partition, start, committed, new, end, again, note)


def _warnings(share_group: str, members: int, rows: tuple[RollbackRow, ...]) -> list[str]:
    found = []
    if members:
        found.append(
            f"share group {share_group!r} has {count(members, 'member')}: its start offsets move on, and what it does "
            "after this is done twice; stop it first"
        )
    again = sum(row.again or 0 for row in rows)
    if again:
        found.append(
            f"{count(again, 'offset')} behind the start offsets are done already and will be given to the consumer "
            "group again: a committed offset cannot say which"
        )
    return found


def _refusals(to_group: str, group: ConsumerGroupLag, rows: tuple[RollbackRow, ...]) -> list[str]:
    found = []
    if group.members:
        found.append(
            f"consumer group {to_group!r} has {count(group.members, 'member')}, and Kafka takes offsets from outside "
            "only while a group has none: stop its consumers first"
        )
    if not any(row.start_offset is not None for row in rows):
        found.append("the share group has begun with none of these partitions, so there is nothing to go on from")
    return found


def _raise_for_group(group: str, codes: Collection[int]) -> None:
    """Raise what holds for the group as a whole."""
    if ErrorCode.UNKNOWN_MEMBER_ID in codes or _ILLEGAL_GENERATION in codes:
        raise GroupNotEmpty(
            f"consumer group {group!r} got members meanwhile; stop its consumers first",
            int(ErrorCode.NON_EMPTY_GROUP),
        )
    if ErrorCode.GROUP_AUTHORIZATION_FAILED in codes:
        code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        what = f"group {group!r}"
        raise AccessDenied(
            f"this user may not commit for {what}: READ on the group is needed", code, operation="READ", resource=what
        )
    if ErrorCode.GROUP_ID_NOT_FOUND in codes:
        raise AdminError(
            f"group {group!r} takes no offsets: it is a group of another type; name a consumer group",
            int(ErrorCode.GROUP_ID_NOT_FOUND),
        )


def _refused(row: RollbackRow, code: int) -> str:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"this user may not commit for topic {row.topic!r}: READ on the topic is needed"
    return f"offset {row.new_offset} was not committed (error {code} {error_name(code)})"
