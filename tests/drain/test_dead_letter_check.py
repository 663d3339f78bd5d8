"""Whether a dead-letter queue keeps what is rejected (R22): every condition, and what brokers of each release tell."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.errors import Unreachable
from shareproxy.drain.dead_letter_check import DELIVERIES, DeadLetterQueue, dead_letter_queue, delivery_limit
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from shareproxy.testing.simulated import SimulatedCluster

TOPIC, BROKER, GROUP = 2, 4, 32
NAME = "errors.deadletterqueue.topic.name"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
SWITCH = "errors.deadletterqueue.group.enable"


class Brokers:
    """Brokers on which all conditions hold, unless a test says otherwise."""

    def __init__(self) -> None:
        self.level = 2
        self.configs: dict[int, dict[str, str]] = {
            GROUP: {NAME: "dlq.orders"},
            BROKER: {PREFIX: "dlq."},
            TOPIC: {SWITCH: "true"},
        }
        self.refused: dict[int, int] = {}
        self.topic_error: int | None = 0
        self.error: Exception | None = None

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> Any:
        """Tell the feature's level."""
        if self.error is not None:
            raise self.error
        return SimpleNamespace(features={"share.version": self.level})

    async def metadata(self, topics: Any, *, deadline: float, max_age: float = 0.0) -> Any:
        """Tell of one node, and of the topic."""
        found = (
            {} if self.topic_error is None else {name: SimpleNamespace(error_code=self.topic_error) for name in topics}
        )
        return SimpleNamespace(nodes={NodeId(1): None}, topics=found)

    async def request(self, node_id: NodeId | None, message: Any, *, deadline: float, **_: Any) -> Any:
        """Answer DescribeConfigs."""
        results = []
        for resource in message.resources:
            code = self.refused.get(resource.resource_type, 0)
            rows = [
                DescribeConfigsResourceResult(name=name, value=value)
                for name, value in self.configs[resource.resource_type].items()
            ]
            results.append(
                DescribeConfigsResult(code, None, resource.resource_type, resource.resource_name, [] if code else rows)
            )
        return DescribeConfigsResponse(results=results)


async def look(brokers: Any) -> DeadLetterQueue:
    """Look for the queue of a group."""
    return await dead_letter_queue(brokers, "orders", deadline=asyncio.get_running_loop().time() + 10)


async def test_r22_it_works_where_every_condition_holds() -> None:
    """Kafka 4.4, the topic set, its prefix, the topic there and switched on."""
    assert await look(Brokers()) == DeadLetterQueue(True, "dlq.orders")


def old(brokers: Brokers) -> None:
    """Kafka 4.2."""
    brokers.level = 1


def no_topic_set(brokers: Brokers) -> None:
    """As a new group has it."""
    brokers.configs[GROUP][NAME] = ""


def no_such_config(brokers: Brokers) -> None:
    """As before Kafka 4.4."""
    brokers.configs[GROUP] = {}


def no_prefix(brokers: Brokers) -> None:
    """The broker takes any name, and ignores it."""
    brokers.configs[GROUP][NAME] = "orders-dead"


def prefix_hidden(brokers: Brokers) -> None:
    """DESCRIBE_CONFIGS on the cluster is missing."""
    brokers.refused[BROKER] = 31


def topic_missing(brokers: Brokers) -> None:
    """Nobody made it."""
    brokers.topic_error = 3


def topic_hidden(brokers: Brokers) -> None:
    """Metadata leaves it out."""
    brokers.topic_error = None


def switched_off(brokers: Brokers) -> None:
    """As every new topic."""
    brokers.configs[TOPIC][SWITCH] = "false"


def switch_hidden(brokers: Brokers) -> None:
    """DESCRIBE_CONFIGS on the topic is missing."""
    brokers.refused[TOPIC] = 29


def group_hidden(brokers: Brokers) -> None:
    """DESCRIBE_CONFIGS on the group is missing."""
    brokers.refused[GROUP] = 30


def nobody_there(brokers: Brokers) -> None:
    """No broker answers."""
    brokers.error = Unreachable("nobody answers")


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (old, "that takes Kafka 4.4 with the feature share.version at 2, and it is at 1"),
        (no_topic_set, "group 'orders' has no dead-letter queue; set it: kafka-configs.sh"),
        (no_such_config, "group 'orders' has no dead-letter queue"),
        (no_prefix, "'orders-dead' of group 'orders' lacks the prefix 'dlq.'"),
        (prefix_hidden, "grant DESCRIBE_CONFIGS on the cluster"),
        (topic_missing, "does not exist or may not be seen (UNKNOWN_TOPIC_OR_PARTITION); create it"),
        (topic_hidden, "does not exist or may not be seen; create it"),
        (switched_off, "is not switched on for share groups; set it: kafka-configs.sh --entity-type topics"),
        (switch_hidden, "grant DESCRIBE_CONFIGS on it"),
        (group_hidden, "it is not known whether group 'orders' has a dead-letter queue"),
        (nobody_there, "it is not known whether group 'orders' has a dead-letter queue: nobody answers"),
    ],
)
async def test_r22_each_missing_condition_is_told_with_what_to_do(break_it: Any, why: str) -> None:
    """One alone loses every rejected record without a word, so none may be taken for granted."""
    brokers = Brokers()
    break_it(brokers)

    found = await look(brokers)

    assert not found.works
    assert why in found.why


@pytest.mark.parametrize("version", ["4.1.2", "4.2.2", "4.3.0", "4.4.0"])
async def test_r22_by_release(version: str) -> None:
    """Before 4.4 there is none, whatever is set."""
    async with (
        SimulatedCluster(version=version) as simulated,
        Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster,
    ):
        found = await look(cluster)

    assert not found.works
    assert ("has no dead-letter queue; set it" in found.why) == (version == "4.4.0")


async def test_the_limit_of_deliveries_is_the_groups_else_the_brokers_else_kafkas() -> None:
    """It says which delivery is the last one."""
    brokers: Any = Brokers()
    deadline = asyncio.get_running_loop().time() + 10
    assert await delivery_limit(brokers, "orders", deadline=deadline) == DELIVERIES
    brokers.configs[BROKER]["group.share.delivery.count.limit"] = "7"
    assert await delivery_limit(brokers, "orders", deadline=deadline) == 7
    brokers.configs[GROUP]["share.delivery.count.limit"] = "3"
    assert await delivery_limit(brokers, "orders", deadline=deadline) == 3


def test_the_answer_is_frozen() -> None:
    """It is shared between tasks."""
    assert DeadLetterQueue.__struct_config__.frozen
    assert msgspec.to_builtins(DeadLetterQueue(True, "t")) == {"works": True, "topic": "t", "why": ""}
