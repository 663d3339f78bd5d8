"""What a user may do with topics."""

from __future__ import annotations

import pytest

from shareproxy.lag.rights import DESCRIBE, NOT_TOLD, READ, TopicRights, topic_rights
from shareproxy.protocol.messages import MetadataRequest, MetadataResponse, MetadataResponseTopic
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
