"""Partitions that do not exist, out of the request and back into the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.protocol.codec import decode
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import encode_request
from shareproxy.protocol.ids import NO_TOPIC_ID
from shareproxy.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from shareproxy.proxy.out_of_range import LocalTopic, OffsetsRequest, put_back
from shareproxy.proxy.requests import header_end
from tests.proxy.frames import share_offsets, share_offsets_of

DENIED = 29


def offsets_request(message: DescribeShareGroupOffsetsRequest, version: int = 1) -> OffsetsRequest:
    """Take a client's request."""
    return OffsetsRequest(encode_request(message, version, 7, "adm"), version)


def frame_of(message: DescribeShareGroupOffsetsRequest) -> bytes:
    """Return what the broker gets."""
    return encode_request(message, 1, 7, "adm")


def rows_of(message: DescribeShareGroupOffsetsResponse) -> list[tuple[str, int, int, int, int]]:
    """Return topic, partition, start offset, lag and error code of each row."""
    return [
        (topic.topic_name, row.partition_index, row.start_offset, row.lag, row.error_code)
        for group in message.groups
        for topic in group.topics
        for row in topic.partitions
    ]


def test_named_partitions_of_all_groups_are_asked() -> None:
    """One look at Metadata serves the whole request."""
    request = offsets_request(share_offsets_of({"t": [0, 5]}, None, {"t": [1], "u": [2]}))

    assert request.asked == {"t": {0, 1, 5}, "u": {2}}


@pytest.mark.parametrize("topics", [None, {}, {"t": []}])
def test_request_without_named_partitions_asks_nothing(topics: dict[str, list[int]] | None) -> None:
    """All partitions, no topic, or a topic without partitions: the broker decides."""
    assert offsets_request(share_offsets_of(topics)).asked == {}


def test_what_exists_is_asked_for_as_before() -> None:
    """The client's own bytes go on."""
    message = share_offsets_of({"t": [0, 1]})

    assert offsets_request(message).without({"u": {0}}) == (frame_of(message), None)


def test_what_does_not_exist_is_left_out() -> None:
    """Other groups and topics stay as they are."""
    request = offsets_request(share_offsets_of(None, {"t": [0, 9, 1, 9], "u": [3]}, {"u": [9]}))

    frame, local = request.without({"t": {9}})

    assert frame == frame_of(share_offsets_of(None, {"t": [0, 1], "u": [3]}, {"u": [9]}))
    assert local == ({}, {"t": LocalTopic((9,), stands_in=False)}, {})


def test_topic_without_any_is_asked_for_partition_0() -> None:
    """The right to see the topic stays the broker's decision."""
    frame, local = offsets_request(share_offsets_of({"t": [8, 9]})).without({"t": {8, 9}})

    assert frame == frame_of(share_offsets_of({"t": [0]}))
    assert local == ({"t": LocalTopic((8, 9), stands_in=True)},)


def test_rows_are_put_back_as_the_broker_writes_them() -> None:
    """No start offset, no lag, no error."""
    message = share_offsets((0, 2, 5))

    put_back(message, ({"t": LocalTopic((7, 8), stands_in=False)},))

    assert rows_of(message) == [("t", 0, 2, 5, 0), ("t", 7, -1, -1, 0), ("t", 8, -1, -1, 0)]


def test_row_that_stood_in_is_dropped() -> None:
    """Nobody asked for it."""
    message = share_offsets((0, 2, 5))

    put_back(message, ({"t": LocalTopic((7,), stands_in=True)},))

    assert rows_of(message) == [("t", 7, -1, -1, 0)]


def test_denied_topic_stays_denied() -> None:
    """A client learns nothing of a topic that it may not see."""
    message = share_offsets((0, -1, -1))
    message.groups[0].topics[0].partitions[0].error_code = DENIED
    message.groups[0].topics[0].partitions[0].error_message = "no"

    put_back(message, ({"t": LocalTopic((7,), stands_in=True)},))

    assert rows_of(message) == [("t", 7, -1, -1, DENIED)]
    assert message.groups[0].topics[0].partitions[0].error_message == "no"


def test_group_with_an_error_gets_no_rows() -> None:
    """What the client may not see at all stays hidden."""
    message = share_offsets()
    message.groups[0].error_code, message.groups[0].topics = 30, []

    put_back(message, ({"t": LocalTopic((7,), stands_in=True)},))

    assert rows_of(message) == []


def test_topic_that_the_answer_leaves_out_gets_its_rows() -> None:
    """A row that was asked for is answered, as an unknown topic's."""
    message = share_offsets((0, 2, 5))

    put_back(message, ({"gone": LocalTopic((7,), stands_in=True)},))

    assert rows_of(message) == [("t", 0, 2, 5, 0), ("gone", 7, -1, -1, 0)]
    assert message.groups[0].topics[1].topic_id == NO_TOPIC_ID


def test_answer_with_other_groups_is_refused() -> None:
    """Rows must not end in the wrong group."""
    with pytest.raises(DecodeError, match="1 groups, but 2"):
        put_back(share_offsets((0, 2, 5)), ({}, {"t": LocalTopic((7,), stands_in=True)}))


@pytest.mark.parametrize("length", range(8, 40))
def test_cut_request_is_refused(length: int) -> None:
    """Only the protocol's own error comes out of damaged bytes."""
    frame = encode_request(share_offsets_of({"topic": [0, 1]}), 1, 7, "adm")

    if length < len(frame):
        with pytest.raises(DecodeError):
            OffsetsRequest(frame[:length], 1)


@given(st.lists(st.tuples(st.sampled_from("tu"), st.lists(st.integers(0, 9), min_size=1, max_size=6)), min_size=1))
def test_every_partition_that_was_asked_for_gets_one_row(asked: list[tuple[str, list[int]]]) -> None:
    """Whatever is left out of the request comes back in the answer, and nothing else does."""
    request = offsets_request(share_offsets_of(*({topic: partitions} for topic, partitions in asked)))

    frame, local = request.without({"t": set(range(4, 10)), "u": set(range(1, 10))})

    sent = decode(DescribeShareGroupOffsetsRequest, 1, frame, header_end(frame))
    topics = [topic for group in sent.groups for topic in group.topics or ()]
    assert all(index < (4 if topic.topic_name == "t" else 1) for topic in topics for index in topic.partitions)
    answers = [
        share_offsets(*((index, 1, 0) for index in dict.fromkeys(topic.partitions)), topic=topic.topic_name)
        for topic in topics
    ]
    message = DescribeShareGroupOffsetsResponse(groups=[answer.groups[0] for answer in answers])
    if local is not None:
        put_back(message, local)
    rows = [
        sorted(row.partition_index for topic in group.topics for row in topic.partitions) for group in message.groups
    ]
    assert rows == [sorted(set(partitions)) for _, partitions in asked]
