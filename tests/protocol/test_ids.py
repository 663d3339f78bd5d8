"""Topic ids as people see them."""

import pytest

from shareproxy.protocol.ids import NO_TOPIC_ID, TopicId, parse_topic_id, topic_id_text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (NO_TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (TopicId(b"\xff" * 16), "_____________________w"),
        (TopicId(bytes.fromhex("ebb6666c9f144578a13ea80bd8857fbc")), "67ZmbJ8URXihPqgL2IV_vA"),
    ],
)
def test_topic_id_is_written_as_kafka_does(raw: TopicId, text: str) -> None:
    """URL-safe base64 without padding, both ways."""
    assert topic_id_text(raw) == text
    assert parse_topic_id(text) == raw


@pytest.mark.parametrize("text", ["", "orders", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "\n"])
def test_other_text_is_not_a_topic_id(text: str) -> None:
    """The error repeats the text."""
    with pytest.raises(ValueError, match="22 characters"):
        parse_topic_id(text)
