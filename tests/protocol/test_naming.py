"""Python names for Kafka's structs and fields."""

import pytest

from shareproxy.protocol.naming import class_name, snake_case


@pytest.mark.parametrize(
    ("kafka", "python"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("TopicId", "topic_id"),
        ("ZkMigrationReady", "zk_migration_ready"),
        ("IsKRaft", "is_k_raft"),
        ("SASLMechanism", "sasl_mechanism"),
        ("v3AndBelowTopics", "v3_and_below_topics"),
    ],
)
def test_fields_become_snake_case(kafka: str, python: str) -> None:
    """Words start at capitals; a run of capitals is one word."""
    assert snake_case(kafka) == python


@pytest.mark.parametrize(
    ("message", "struct", "python"),
    [
        ("MetadataResponse", "MetadataResponse", "MetadataResponse"),
        ("MetadataResponse", "MetadataResponseTopic", "MetadataResponseTopic"),
        ("ListOffsetsResponse", "ListOffsetsTopicResponse", "ListOffsetsTopicResponse"),
        ("FindCoordinatorResponse", "Coordinator", "FindCoordinatorResponseCoordinator"),
    ],
)
def test_classes_are_unique_in_all_messages(message: str, struct: str, python: str) -> None:
    """A struct whose name does not start with the API's gets the message's in front."""
    assert class_name(message, struct) == python
