"""Change share groups: set start offsets, forget topics, delete groups.

In: what was planned and checked. Out: what the brokers made of it, row by row.
Must never: send a change again after it may have been made, or touch a group of another type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from shareproxy.admin.errors import GroupNotEmpty, NotSupported, OffsetRefused
from shareproxy.admin.failures import (
    DELETE,
    READ,
    admin_error,
    change_error,
    group_exception,
    row_exception,
    topic_change_error,
    translated,
)
from shareproxy.admin.offset_plans import look_before_change, refusal_of_active
from shareproxy.admin.results import AlteredOffset, AlterResult, DeletedTopic, DeleteResult, OffsetPlan
from shareproxy.cluster.errors import ClusterError, InternalTopicMissing
from shareproxy.cluster.retries import Backoff
from shareproxy.lag.brokers import Brokers
from shareproxy.lag.descriptions import describe_groups
from shareproxy.lag.model import GroupError
from shareproxy.lag.rounds import share_of_time
from shareproxy.protocol.errors import ErrorCode, error_name
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    FindCoordinatorRequest,
)

Q = TypeVar("Q", bound=Response)

# what a look before the change may take
LOOK_SHARE: Final = 0.4
# the broker says with these that it did nothing: it is safe to ask another one
_NOT_DONE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_OFFSETS_STAY: Final = "its offsets cannot be changed"
_TOPICS_STAY: Final = "its offsets cannot be deleted"
_GROUP_STAYS: Final = "it cannot be deleted"
IGNORED_BY_4_1: Final = "Kafka 4.1 ignores this request; upgrade to 4.2"


def refuse(plan: OffsetPlan) -> None:
    """Do nothing for a plan without a reason against it.

    Raises:
        GroupNotEmpty: the group has members.
        OffsetRefused: the plan has offsets outside of the log.
    """
    if plan.refusals:
        raise GroupNotEmpty(plan.refusals[0], int(ErrorCode.NON_EMPTY_GROUP))
    if plan.all_refusals:
        raise OffsetRefused(
            f"group {plan.group!r}: nothing was changed; " + "; ".join(plan.all_refusals), refusals=plan.all_refusals
        )


async def alter_offsets(brokers: Brokers, plan: OffsetPlan, *, deadline: float) -> AlterResult:
    """Carry out a plan.

    Args:
        brokers: where to send it.
        plan: just made.
        deadline: `loop.time()` seconds.

    Raises:
        GroupNotEmpty: the group has members; nothing was sent.
        OffsetRefused: the plan has offsets outside of the log, nothing was sent; or the broker took none of them.
        NotSupported: Kafka 4.1 answers as if all were well and does nothing.
        AdminError: the broker refused, or its answer got lost.

    Source: KIP-932, AlterShareGroupOffsets (API 91).
    """
    group = plan.group
    refuse(plan)
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, partition), offset in plan.offsets.items():
        topics.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(partition, offset))
    request = AlterShareGroupOffsetsRequest(
        group, [AlterShareGroupOffsetsRequestTopic(topic, rows) for topic, rows in topics.items()]
    )
    answer = await _send(
        brokers, group, request, lambda answer: answer.error_code, deadline, creates=plan.creates_group
    )
    if answer.error_code:
        error = change_error(answer.error_code, answer.error_message, group, operation=READ, what=_OFFSETS_STAY)
        raise group_exception(error, group, operation=READ)
    if not any(topic.partitions for topic in answer.responses):
        raise NotSupported(
            f"group {group!r}: nothing was changed although the broker reported no error. {IGNORED_BY_4_1}"
        )
    result = AlterResult(group, plan.creates_group, _altered(plan, answer))
    if not any(row.error is None for row in result.rows):
        row = result.rows[0]
        assert row.error is not None
        raise row_exception(row.error, row.topic)
    return result


def _altered(plan: OffsetPlan, answer: AlterShareGroupOffsetsResponse) -> tuple[AlteredOffset, ...]:
    answered = {
        (topic.topic_name, row.partition_index): (row.error_code, row.error_message)
        for topic in answer.responses
        for row in topic.partitions
    }
    rows = []
    for (topic, partition), offset in plan.offsets.items():
        code, text = answered.get((topic, partition), (int(ErrorCode.UNKNOWN_SERVER_ERROR), _LEFT_OUT))
        error = topic_change_error(code, text, plan.group, topic) if code else None
        rows.append(AlteredOffset(topic, partition, offset, error))
    return tuple(rows)


async def delete_offsets(brokers: Brokers, group: GroupId, topics: Sequence[str], *, deadline: float) -> DeleteResult:
    """Make a share group forget topics.

    Args:
        brokers: where to send it.
        group: without members.
        topics: names.
        deadline: `loop.time()` seconds.

    Raises:
        GroupNotEmpty: the group has members.
        GroupNotFound: there is none of that name.
        AdminError: the broker refused, deleted the offsets of no topic, or its answer got lost.

    Source: KIP-932, DeleteShareGroupOffsets (API 92).
    """
    description = await look_before_change(brokers, group, deadline=share_of_time(deadline, LOOK_SHARE))
    if description.error is not None:
        raise group_exception(description.error, group)
    refusal = refusal_of_active(description)
    if refusal is not None:
        raise GroupNotEmpty(refusal, int(ErrorCode.NON_EMPTY_GROUP))
    request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])
    answer = await _send(brokers, group, request, lambda answer: answer.error_code, deadline)
    if answer.error_code:
        error = change_error(answer.error_code, answer.error_message, group, operation=DELETE, what=_TOPICS_STAY)
        raise group_exception(error, group, operation=DELETE)
    answered = {row.topic_name: (row.error_code, row.error_message) for row in answer.responses}
    rows = []
    for topic in sorted(topics):
        code, text = answered.get(topic, (int(ErrorCode.UNKNOWN_SERVER_ERROR), _LEFT_OUT))
        rows.append(DeletedTopic(topic, topic_change_error(code, text, group, topic) if code else None))
    result = DeleteResult(group, tuple(rows))
    if not any(row.error is None for row in rows):
        assert rows[0].error is not None
        raise row_exception(rows[0].error, rows[0].topic)
    return result


async def delete_groups(
    brokers: Brokers, groups: Sequence[GroupId], *, deadline: float
) -> dict[GroupId, GroupError | None]:
    """Delete share groups, one request per coordinator.

    Kafka's request deletes groups of any type, so each is looked at first: a consumer group is never touched.

    Returns:
        `None` for a group that is gone, else why it stays.

    Source: KIP-229, KIP-932, DeleteGroups (API 42).
    """
    descriptions = await describe_groups(brokers, groups, deadline=share_of_time(deadline, LOOK_SHARE))
    found: dict[GroupId, GroupError | None] = {}
    by_node: dict[NodeId, list[GroupId]] = {}
    for group, description in descriptions.items():
        refusal = refusal_of_active(description)
        found[group] = description.error
        if refusal is not None:
            code = ErrorCode.NON_EMPTY_GROUP
            found[group] = GroupError(int(code), error_name(code), refusal)
        elif description.error is None and description.coordinator is not None:
            by_node.setdefault(description.coordinator, []).append(group)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_delete_at(brokers, node_id, share, deadline)) for node_id, share in by_node.items()
        ]
    for task in running:
        found.update(task.result())
    return found


async def _delete_at(
    brokers: Brokers, node_id: NodeId, groups: Sequence[GroupId], deadline: float
) -> Mapping[GroupId, GroupError | None]:
    try:
        answer = await brokers.request(node_id, DeleteGroupsRequest(list(groups)), deadline=deadline)
    except ClusterError as error:
        failure = admin_error(error, changing=True)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if failure.code is None else failure.code
        lost = GroupError(int(code), error_name(code), failure.message)
        return dict.fromkeys(groups, lost)
    answered = {GroupId(row.group_id): (row.error_code, row.error_message) for row in answer.results}
    found: dict[GroupId, GroupError | None] = {}
    for group in groups:
        code, text = answered.get(group, (int(ErrorCode.UNKNOWN_SERVER_ERROR), _LEFT_OUT))
        if code in _NOT_DONE:
            brokers.forget_group_coordinator(group)
            text = "its coordinator is moving or still loading; try again"
        found[group] = change_error(code, text, group, operation=DELETE, what=_GROUP_STAYS) if code else None
    return found


async def _send(
    brokers: Brokers,
    group: GroupId,
    message: Request[Q],
    code_of: Callable[[Q], int],
    deadline: float,
    *,
    creates: bool = False,
) -> Q:
    """Send a change to the group's coordinator; again only where a broker says that it did nothing.

    Args:
        brokers: where to send it.
        group: its group.
        message: the change.
        code_of: takes the error of the whole change out of an answer.
        deadline: `loop.time()` seconds.
        creates: whether the group is to be made, and with it, on a new cluster, the topic where Kafka keeps groups.
    """
    backoff = Backoff()
    while True:
        with translated(group):
            try:
                node_id = await brokers.group_coordinator(group, deadline=deadline)
            except InternalTopicMissing as error:
                if not creates or not await _prepare(brokers, group, backoff, deadline):
                    raise error from None
                continue
        with translated(group, changing=True):
            answer = await brokers.request(node_id, message, deadline=deadline)
        if code_of(answer) not in _NOT_DONE or not await backoff.pause(deadline):
            return answer
        brokers.forget_group_coordinator(group)


async def _prepare(brokers: Brokers, group: GroupId, backoff: Backoff, deadline: float) -> bool:
    """Let Kafka make the topic of its groups: it does so when it is asked who coordinates one."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    await brokers.request(None, request, deadline=deadline)
    return await backoff.pause(deadline)


_LEFT_OUT: Final = "the broker's answer leaves it out"
