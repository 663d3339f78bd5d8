"""Types of the ids that travel through all layers, and how a topic id is written for people.

An id is not an int: `NewType` keeps a node id from being used as a partition.
"""

from __future__ import annotations

import base64
import re
from typing import Final, NewType

NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", str)
TopicId = NewType("TopicId", bytes)

NO_TOPIC_ID: Final = TopicId(bytes(16))


def topic_id_text(topic_id: TopicId) -> str:
    """Write a topic id as Kafka does: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def parse_topic_id(text: str) -> TopicId:
    """Read what `topic_id_text` writes.

    Raises:
        ValueError: not 22 characters of URL-safe base64.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text):
        raise ValueError(f"{text!r} is not a topic id: 22 characters of URL-safe base64")
    return TopicId(base64.urlsafe_b64decode(text + "=="))
