"""Describe share groups: their state, and which member serves which partitions.

In: group names. Out: one description each, with an error of its own where there is none.
Must never: let one bad group hide the others, or ask a coordinator once per group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.group_errors import explain_missing, group_error
from shareproxy.lag.groups import Descriptions
from shareproxy.lag.model import GroupError
from shareproxy.lag.rounds import ask_all, share_of_time
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId, topic_id_text
from shareproxy.protocol.messages import (
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
)

# what a coordinator that hangs may take, so that there is time to say why groups of the others are missing
DESCRIBING_SHARE: Final = 0.8
_NOT_FOUND: Final = " not found."


class AssignedTopic(msgspec.Struct, frozen=True):
    """Partitions of one topic that a member serves; several members may serve the same ones."""

    topic: str
    topic_id: TopicId
    partitions: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"topic": self.topic, "topic_id": topic_id_text(self.topic_id), "partitions": list(self.partitions)}


class Member(msgspec.Struct, frozen=True):
    """A consumer in a share group.

    Attributes:
        client_host: as the coordinator sees it, such as `/10.0.0.7`.
        assignment: sorted by topic; partitions sorted.
    """

    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None
    member_epoch: int
    subscribed_topics: tuple[str, ...]
    assignment: tuple[AssignedTopic, ...]

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "rack_id": self.rack_id,
            "member_epoch": self.member_epoch,
            "subscribed_topics": list(self.subscribed_topics),
            "assignment": [topic.to_dict() for topic in self.assignment],
        }


class GroupDescription(msgspec.Struct, frozen=True):
    """A share group as its coordinator sees it.

    Attributes:
        state: Kafka's word (Empty, Stable, Dead); `None` with an error.
        group_epoch: grows with each change of members or subscriptions.
        assignment_epoch: group epoch that the assignment belongs to.
        assignor: name of the assignor, such as `simple`.
        coordinator: node id of the group's coordinator.
        members: sorted by client id and member id.
        error: why there is no description.
    """

    group: GroupId
    state: str | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    assignor: str | None = None
    coordinator: NodeId | None = None
    members: tuple[Member, ...] = ()
    error: GroupError | None = None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object; every key is always there."""
        return {
            "group": self.group,
            "state": self.state,
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor": self.assignor,
            "coordinator": self.coordinator,
            "members": [member.to_dict() for member in self.members],
            "error": None if self.error is None else self.error.to_dict(),
        }


class _Described(msgspec.Struct, frozen=True):
    row: ShareGroupDescribeResponseDescribedGroup
    coordinator: NodeId


class _DescribedWhere:
    """The `Question` of `Descriptions`, whose answers also say who gave them."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._inner = brokers, Descriptions(brokers)

    async def route(
        self, items: Sequence[GroupId], *, fresh: bool, deadline: float
    ) -> Mapping[GroupId, NodeId | Trouble]:
        return await self._inner.route(items, fresh=fresh, deadline=deadline)

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, _Described | Trouble]:
        answers = await self._inner.ask(node_id, items, deadline=deadline)
        return {
            group: answer if isinstance(answer, Trouble) else _Described(answer, node_id)
            for group, answer in answers.items()
        }


async def describe_groups(
    brokers: Brokers, groups: Sequence[GroupId], *, deadline: float
) -> dict[GroupId, GroupDescription]:
    """Describe share groups with one request per coordinator.

    A moved or loading coordinator is asked again. A group that cannot be described has an `error`.

    Args:
        brokers: where to ask.
        groups: names; one given twice counts once.
        deadline: `loop.time()` seconds.

    Returns:
        A description for every group, in the order given.

    Source: KIP-932, ShareGroupDescribe (API 77).
    """
    names = list(dict.fromkeys(groups))
    answers = await ask_all(_DescribedWhere(brokers), names, deadline=share_of_time(deadline, DESCRIBING_SHARE))
    strangers = {
        group: answer
        for group, answer in answers.items()
        if isinstance(answer, Trouble)
        and answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        # the broker's own words tell a missing group from one of another type, whose type is worth a question
        and _NOT_FOUND not in answer.message
    }
    explained = await asyncio.gather(
        *(explain_missing(brokers, group, trouble, deadline=deadline) for group, trouble in strangers.items())
    )
    errors = dict(zip(strangers, explained, strict=True))
    found: dict[GroupId, GroupDescription] = {}
    for group in names:
        answer = answers[group]
        if isinstance(answer, _Described):
            found[group] = _description(group, answer)
        else:
            found[group] = GroupDescription(group, error=errors.get(group) or group_error(group, _advised(answer)))
    return found


def _advised(trouble: Trouble) -> Trouble:
    if trouble.error_code == ErrorCode.GROUP_ID_NOT_FOUND and _NOT_FOUND in trouble.message:
        return Trouble(trouble.status, trouble.error_code, "check its name, or list the groups that there are")
    return trouble


def _description(group: GroupId, described: _Described) -> GroupDescription:
    row = described.row
    members = sorted(map(_member, row.members), key=lambda member: (member.client_id, member.member_id))
    return GroupDescription(
        group=group,
        state=row.group_state or None,
        group_epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
        assignor=row.assignor_name or None,
        coordinator=described.coordinator,
        members=tuple(members),
    )


def _member(row: ShareGroupDescribeResponseMember) -> Member:
    assigned = sorted(row.assignment.topic_partitions, key=lambda topic: topic.topic_name)
    return Member(
        member_id=row.member_id,
        client_id=row.client_id,
        client_host=row.client_host,
        rack_id=row.rack_id or None,
        member_epoch=row.member_epoch,
        subscribed_topics=tuple(sorted(row.subscribed_topic_names)),
        assignment=tuple(
            AssignedTopic(topic.topic_name, TopicId(topic.topic_id), tuple(sorted(topic.partitions)))
            for topic in assigned
        ),
    )


__all__ = ["AssignedTopic", "GroupDescription", "Member", "describe_groups"]
