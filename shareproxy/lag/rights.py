"""Find out what this user may do with topics and groups, from what brokers say about it themselves.

In: names. Out: the rights that a plain and a closer look, and consuming, need. Must never: try a right by using it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from shareproxy.lag.brokers import Brokers, Trouble, trouble_from_code
from shareproxy.lag.groups import CoordinatorQuestion
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import DescribeGroupsRequest, MetadataRequest, MetadataRequestTopic

# codes of Kafka's AclOperation; an answer has one bit for each
READ: Final = 3
DESCRIBE: Final = 8
NOT_TOLD: Final = -(2**31)
# the next version answers for a group that is not there, or not a classic one, with an error and without rights
TELLS_OF_ANY_GROUP: Final = 5


class TopicRights(msgspec.Struct, frozen=True):
    """What this user may do with one topic; `None` where the brokers do not tell.

    Attributes:
        exists: whether it can be seen at all; a topic that is hidden looks like one that does not exist.
        describe: needed for its lag.
        read: needed for a closer look, which reads batch headers.
    """

    topic: str
    exists: bool
    describe: bool | None = None
    read: bool | None = None


async def topic_rights(brokers: Brokers, topics: Sequence[str], *, deadline: float) -> tuple[TopicRights, ...]:
    """Ask one broker what this user may do with topics.

    Args:
        brokers: where to ask.
        topics: names.
        deadline: `loop.time()` seconds.

    Raises:
        ClusterError: nobody answered.

    Source: KIP-430.
    """
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    answer = await brokers.request(None, request, deadline=deadline)
    found = {topic.name: topic for topic in answer.topics}
    rights = []
    for name in topics:
        topic = found.get(name)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            rights.append(TopicRights(name, exists=False))
        elif topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            rights.append(TopicRights(name, exists=True, describe=False, read=False))
        elif topic.topic_authorized_operations == NOT_TOLD:
            rights.append(TopicRights(name, exists=True, describe=True))
        else:
            bits = topic.topic_authorized_operations
            rights.append(TopicRights(name, True, bool(bits >> DESCRIBE & 1), bool(bits >> READ & 1)))
    return tuple(rights)


async def may_read_group(brokers: Brokers, group: GroupId, *, deadline: float) -> bool | None:
    """Ask the coordinator whether this user may consume with a group, of whatever type, there or not.

    Args:
        brokers: where to ask.
        group: its name.
        deadline: `loop.time()` seconds.

    Returns:
        `None` where it is not told: before the first group of a cluster there is no coordinator, and none is made.

    Source: KIP-430.
    """
    told = (await ask_all(_GroupOperations(brokers), [group], deadline=deadline))[group]
    if isinstance(told, Trouble):
        # READ implies DESCRIBE, without which nothing is told
        return False if told.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED else None
    return None if told == NOT_TOLD else bool(told >> READ & 1)


class _GroupOperations(CoordinatorQuestion):
    """The `Question` that DescribeGroups answers: one bit for each operation that this user may do."""

    async def ask(
        self, node_id: NodeId, items: Sequence[GroupId], *, deadline: float
    ) -> Mapping[GroupId, int | Trouble]:
        """Ask one coordinator about its groups."""
        request = DescribeGroupsRequest(list(items), include_authorized_operations=True)
        answer = await self._brokers.request(node_id, request, deadline=deadline, max_version=TELLS_OF_ANY_GROUP)
        found: dict[GroupId, int | Trouble] = dict.fromkeys(items, NOT_TOLD)
        for row in answer.groups:
            found[GroupId(row.group_id)] = (
                trouble_from_code(row.error_code) if row.error_code else row.authorized_operations
            )
        return found
