"""Take partitions that do not exist out of a DescribeShareGroupOffsets request, and put their rows into the answer.

In: a client's request, what does not exist of it, later the broker's answer. Out: the request without those, the
answer with them. Brokers hold such a request for half a minute. Must never: change what a client may see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.errors import DecodeError, ErrorCode
from shareproxy.protocol.ids import NO_TOPIC_ID
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from shareproxy.proxy.requests import header_end

# A request that is held while Metadata is asked; decoded it takes 40 times as much. 16 thousand partitions fit; one
# that is larger passes unread.
MAX_HELD_REQUEST_BYTES: Final = 64 * 1024
ANY_PARTITION: Final = 0
"""A topic always has it: asking for it makes the broker say whether the client may see the topic."""

Places = Mapping[str, Collection[int]]
"""Partition indexes by topic name."""


class LocalTopic(NamedTuple):
    """What is answered here for one topic.

    Attributes:
        partitions: indexes that do not exist.
        stands_in: whether the broker was asked for `ANY_PARTITION` only to learn what the client may see.
    """

    partitions: tuple[int, ...]
    stands_in: bool


LocalRows = tuple[Mapping[str, LocalTopic], ...]
"""For each group of a request, in its order: what is answered here, by topic name."""


class OffsetsRequest:
    """One DescribeShareGroupOffsets request on its way from the client to the broker.

    Args:
        frame: the request without its size.
        version: 0 or 1.

    Raises:
        DecodeError: it is not what its version says; brokers close the connection for that.
    """

    def __init__(self, frame: bytes, version: int) -> None:
        self._frame, self._version = frame, version
        self._offset = header_end(frame)
        self._message = decode(DescribeShareGroupOffsetsRequest, version, frame, self._offset)
        self.asked: dict[str, set[int]] = {}
        """Named partitions of all groups; empty if the request asks for whole groups only."""
        for group in self._message.groups:
            for topic in group.topics or ():
                if topic.partitions:
                    self.asked.setdefault(topic.topic_name, set()).update(topic.partitions)

    def without(self, missing: Places) -> tuple[bytes, LocalRows | None]:
        """Return the request without its size for the broker, and what is answered here.

        Args:
            missing: partitions that do not exist, of topics that do.
        """
        local: list[Mapping[str, LocalTopic]] = []
        for group in self._message.groups:
            taken: dict[str, LocalTopic] = {}
            # a topic that is named twice is asked for as if it were named once
            merged: dict[str, list[int]] = {}
            for topic in group.topics or ():
                merged.setdefault(topic.topic_name, []).extend(topic.partitions)
            for name, asked in merged.items():
                absent = missing.get(name, ())
                gone = tuple(dict.fromkeys(index for index in asked if index in absent))
                if gone:
                    rest = [index for index in asked if index not in absent]
                    merged[name] = rest or [ANY_PARTITION]
                    taken[name] = LocalTopic(gone, stands_in=not rest)
            if taken:
                group.topics = [
                    DescribeShareGroupOffsetsRequestTopic(name, partitions) for name, partitions in merged.items()
                ]
            local.append(taken)
        if not any(local):
            return self._frame, None
        return self._frame[: self._offset] + encode(self._message, self._version), tuple(local)


def put_back(message: DescribeShareGroupOffsetsResponse, local: LocalRows) -> None:
    """Add the rows that are answered here to the broker's answer, as the broker would have written them.

    Raises:
        DecodeError: the answer has not the groups that were asked for.
    """
    if len(message.groups) != len(local):
        path = (DescribeShareGroupOffsetsResponse.schema_name, "Groups")
        raise DecodeError(f"has {len(message.groups)} groups, but {len(local)} were asked for", path)
    for group, topics in zip(message.groups, local, strict=True):
        if group.error_code:
            continue
        for name, here in topics.items():
            _put_back(group, name, here)


def _put_back(group: DescribeShareGroupOffsetsResponseGroup, name: str, here: LocalTopic) -> None:
    topic = next((topic for topic in group.topics if topic.topic_name == name), None)
    if topic is None:
        topic = DescribeShareGroupOffsetsResponseTopic(name, NO_TOPIC_ID, [])
        group.topics.append(topic)
    denied = next((row for row in topic.partitions if row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED), None)
    if here.stands_in:
        topic.partitions = [row for row in topic.partitions if row.partition_index != ANY_PARTITION]
    for index in here.partitions:
        row = DescribeShareGroupOffsetsResponsePartition(index, start_offset=-1, leader_epoch=0, lag=-1)
        if denied is not None:
            row.error_code, row.error_message = denied.error_code, denied.error_message
        topic.partitions.append(row)
