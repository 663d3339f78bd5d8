"""Find out whether a dead-letter queue keeps what a share group rejects (KIP-1191, R22).

In: the group. Out: yes with the topic, or no with a sentence on what is missing.
Must never: say yes while any condition is unknown: without a queue a rejected record is gone, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.group_configs import DEAD_LETTER_TOPIC, DELIVERY_COUNT_LIMIT, GroupConfig, group_configs
from shareproxy.protocol.errors import error_name
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.messages import DescribeConfigsRequest, DescribeConfigsResource

FEATURE: Final = "share.version"
LEAST_LEVEL: Final = 2
TOPIC_SWITCH: Final = "errors.deadletterqueue.group.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
BROKER_LIMIT: Final = "group.share.delivery.count.limit"
# where brokers do not tell: their own default
DELIVERIES: Final = 5
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


class DeadLetterQueue(msgspec.Struct, frozen=True):
    """Whether what a group rejects is kept.

    Attributes:
        works: whether every condition was seen to hold.
        topic: the configured topic, "" if there is none.
        why: what is missing and what to do, as a sentence; "" where it works.
    """

    works: bool
    topic: str = ""
    why: str = ""


async def dead_letter_queue(cluster: Brokers, group: str, *, deadline: float) -> DeadLetterQueue:
    """Return whether a dead-letter queue demonstrably works for a share group.

    Five conditions, each of which loses records without a word if it does not hold: Kafka 4.4 with `share.version` 2,
    a topic set for the group, its name with the cluster's prefix, the topic there, and the topic switched on for it.

    Args:
        cluster: where to ask.
        group: its name.
        deadline: `loop.time()` seconds.

    Source: KIP-1191; issue 6, R22.
    """
    try:
        return await _look(cluster, group, deadline)
    except ClusterError as error:
        return DeadLetterQueue(False, "", f"it is not known whether group {group!r} has a dead-letter queue: {error}")


async def delivery_limit(cluster: Brokers, group: str, *, deadline: float) -> int:
    """Return after how many deliveries the brokers give a record of a share group up.

    Args:
        cluster: where to ask.
        group: its name.
        deadline: `loop.time()` seconds.

    Returns:
        The group's limit (4.4), else the brokers', else Kafka's default where neither can be seen.
    """
    try:
        configs = (await group_configs(cluster, [GroupId(group)], deadline=deadline))[GroupId(group)]
        limit = None if isinstance(configs, Trouble) else _value(configs, DELIVERY_COUNT_LIMIT)
        if limit is None:
            limit = (await _broker_configs(cluster, deadline)).get(BROKER_LIMIT)
    except ClusterError:
        return DELIVERIES
    return int(limit) if limit is not None and limit.isdecimal() and int(limit) > 0 else DELIVERIES


async def _look(cluster: Brokers, group: str, deadline: float) -> DeadLetterQueue:
    level = (await cluster.versions(None, deadline=deadline)).features.get(FEATURE, 0)
    if level < LEAST_LEVEL:
        return DeadLetterQueue(
            False,
            "",
            f"these brokers have no dead-letter queues for share groups: that takes Kafka 4.4 with the feature "
            f"{FEATURE} at {LEAST_LEVEL}, and it is at {level}",
        )
    configs = (await group_configs(cluster, [GroupId(group)], deadline=deadline))[GroupId(group)]
    if isinstance(configs, Trouble):
        return DeadLetterQueue(
            False, "", f"it is not known whether group {group!r} has a dead-letter queue: {configs.message}"
        )
    topic = (_value(configs, DEAD_LETTER_TOPIC) or "").strip()
    if not topic:
        return DeadLetterQueue(
            False,
            "",
            f"group {group!r} has no dead-letter queue; set it: kafka-configs.sh --entity-type groups --entity-name "
            f"{group} --alter --add-config {DEAD_LETTER_TOPIC}=dlq.TOPIC",
        )
    prefix = (await _broker_configs(cluster, deadline)).get(PREFIX)
    if prefix is None:
        return DeadLetterQueue(
            False,
            topic,
            f"the brokers do not tell {PREFIX}, without which topic {topic!r} of group {group!r} may be ignored; "
            "grant DESCRIBE_CONFIGS on the cluster",
        )
    if not topic.startswith(prefix):
        return DeadLetterQueue(
            False,
            topic,
            f"the dead-letter topic {topic!r} of group {group!r} lacks the prefix {prefix!r} that the brokers want "
            f"({PREFIX}): they ignore it; name one such as {prefix + topic!r}",
        )
    found = (await cluster.metadata([topic], deadline=deadline)).topics.get(topic)
    if found is None or found.error_code:
        code = "" if found is None else f" ({error_name(found.error_code)})"
        return DeadLetterQueue(
            False,
            topic,
            f"the dead-letter topic {topic!r} of group {group!r} does not exist or may not be seen{code}; create it "
            f"with {TOPIC_SWITCH}=true, or grant DESCRIBE on it",
        )
    return await _switched_on(cluster, group, topic, deadline)


async def _switched_on(cluster: Brokers, group: str, topic: str, deadline: float) -> DeadLetterQueue:
    configs, trouble = await _configs(cluster, None, DescribeConfigsResource(TOPIC_RESOURCE, topic, None), deadline)
    if trouble is not None:
        return DeadLetterQueue(
            False,
            topic,
            f"it is not known whether the dead-letter topic {topic!r} of group {group!r} is switched on: {trouble}; "
            "grant DESCRIBE_CONFIGS on it",
        )
    if (configs.get(TOPIC_SWITCH) or "").lower() != "true":
        return DeadLetterQueue(
            False,
            topic,
            f"the dead-letter topic {topic!r} of group {group!r} is not switched on for share groups; set it: "
            f"kafka-configs.sh --entity-type topics --entity-name {topic} --alter --add-config {TOPIC_SWITCH}=true",
        )
    return DeadLetterQueue(True, topic)


async def _broker_configs(cluster: Brokers, deadline: float) -> Mapping[str, str | None]:
    """Return the settings of one broker, which are those of all unless somebody was careless; empty where refused."""
    for node_id in (await cluster.metadata((), deadline=deadline)).nodes:
        resource = DescribeConfigsResource(BROKER_RESOURCE, str(node_id), None)
        configs, trouble = await _configs(cluster, node_id, resource, deadline)
        return {} if trouble is not None else configs
    return {}


async def _configs(
    cluster: Brokers, node_id: NodeId | None, resource: DescribeConfigsResource, deadline: float
) -> tuple[Mapping[str, str | None], str | None]:
    """Return the settings of one thing by name, and why there are none."""
    response = await cluster.request(node_id, DescribeConfigsRequest([resource]), deadline=deadline)
    for result in response.results:
        if result.error_code:
            return {}, result.error_message or error_name(result.error_code)
        return {config.name: config.value for config in result.configs}, None
    return {}, "the broker left it out of its answer"


def _value(configs: Mapping[str, GroupConfig], name: str) -> str | None:
    return configs[name].value if name in configs else None
