"""Find out what this user may do with topics, from what brokers say about it themselves.

In: topic names. Out: the rights that a plain and a closer look need. Must never: try a right by using it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from shareproxy.lag.brokers import Brokers
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.messages import MetadataRequest, MetadataRequestTopic

# codes of Kafka's AclOperation; an answer has one bit for each
READ: Final = 3
DESCRIBE: Final = 8
NOT_TOLD: Final = -(2**31)


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
