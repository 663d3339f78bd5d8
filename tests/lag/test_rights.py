"""What a user may do with topics and groups."""

from __future__ import annotations

from typing import Any

import pytest

from shareproxy.lag.rights import DESCRIBE, NOT_TOLD, READ, TopicRights, may_read_group, topic_rights
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.lag.simulated_brokers import KAFKA_4_4, SimulatedBrokers, soon


@pytest.mark.parametrize(
    ("topic", "rights"),
    [
        (
            MetadataResponseTopic(name="orders", topic_authorized_operations=1 << DESCRIBE | 1 << READ),
            TopicRights("orders", True, True, True),
        ),
        (
            MetadataResponseTopic(name="orders", topic_authorized_operations=1 << DESCRIBE),
            TopicRights("orders", True, True, False),
        ),
        (
            MetadataResponseTopic(name="orders", topic_authorized_operations=NOT_TOLD),
            TopicRights("orders", True, True, None),
        ),
        (MetadataResponseTopic(name="orders", error_code=29), TopicRights("orders", True, False, False)),
        (MetadataResponseTopic(name="orders", error_code=3), TopicRights("orders", False)),
        (MetadataResponseTopic(name="payments"), TopicRights("orders", False)),
    ],
)
async def test_rights_are_what_the_broker_says(topic: MetadataResponseTopic, rights: TopicRights) -> None:
    """Nothing is tried out, no topic is made, and what is not told stays open."""
    brokers = SimulatedBrokers({**KAFKA_4_4, MetadataRequest.api_key: (0, 13)})
    brokers.faults.append(lambda _, message: MetadataResponse(topics=[topic]))

    assert await topic_rights(brokers, ["orders"], deadline=soon()) == (rights,)

    [asked] = brokers.sent(MetadataRequest)
    assert isinstance(asked, MetadataRequest)
    assert asked.allow_auto_topic_creation is False


@pytest.mark.parametrize(
    ("row", "may_read"),
    [
        (DescribeGroupsResponseDescribedGroup(group_id="g", authorized_operations=1 << DESCRIBE | 1 << READ), True),
        (DescribeGroupsResponseDescribedGroup(group_id="g", authorized_operations=1 << DESCRIBE), False),
        (DescribeGroupsResponseDescribedGroup(group_id="g"), None),
        (DescribeGroupsResponseDescribedGroup(30, group_id="g"), False),
        (DescribeGroupsResponseDescribedGroup(69, group_id="g"), None),
        (DescribeGroupsResponseDescribedGroup(group_id="other"), None),
    ],
)
async def test_whether_a_group_may_be_read_is_what_its_coordinator_says(
    row: DescribeGroupsResponseDescribedGroup, may_read: bool | None
) -> None:
    """Of a group that is not there only version 5 tells; no later one is asked."""
    brokers = SimulatedBrokers({**KAFKA_4_4, DescribeGroupsRequest.api_key: (5, 6)})

    def answer(_: object, message: Request[Any]) -> Response | None:
        return DescribeGroupsResponse(groups=[row]) if isinstance(message, DescribeGroupsRequest) else None

    brokers.faults.append(answer)

    assert await may_read_group(brokers, GroupId("g"), deadline=soon()) is may_read


async def test_brokers_that_do_not_know_the_question_tell_nothing_of_a_group() -> None:
    """What is not known is not denied."""
    assert await may_read_group(SimulatedBrokers(KAFKA_4_4), GroupId("g"), deadline=soon()) is None
