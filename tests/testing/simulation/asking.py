"""Ask a simulated cluster raw questions from within the event loop that serves it."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

from shareproxy.protocol.headers import decode_response, encode_request, sized
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
)
from shareproxy.testing import SimulatedCluster

Q = TypeVar("Q", bound=Response)


class Client:
    """One connection to one node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, cluster: SimulatedCluster, node: int = 1) -> Client:
        """Connect."""
        return cls(*await asyncio.open_connection(*cluster.address(node)))

    def send(self, message: Request[Q], version: int, correlation_id: int = 1) -> None:
        """Send without waiting."""
        self.writer.write(sized(encode_request(message, version, correlation_id, "tests")))

    async def frame(self) -> bytes:
        """Return the next answer's bytes.

        Raises:
            asyncio.IncompleteReadError: the connection ended.
        """
        size = int.from_bytes(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def receive(self, message: Request[Q], version: int) -> Q:
        """Return the next answer, which is that to such a message."""
        return decode_response(cast("type[Q]", message.response_class), version, await self.frame())[1]

    async def ask(self, message: Request[Q], version: int | None = None) -> Q:
        """Send a request, in the newest version that we have, and return the answer."""
        version = message.max_version if version is None else version
        self.send(message, version)
        return await self.receive(message, version)

    async def ended(self) -> bytes:
        """Return all that came before the node closed the connection."""
        return await self.reader.read()

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


async def ask(cluster: SimulatedCluster, message: Request[Q], node: int = 1, version: int | None = None) -> Q:
    """Ask one question on a connection of its own."""
    client = await Client.to(cluster, node)
    try:
        return await client.ask(message, version)
    finally:
        client.close()


async def offsets_of(
    cluster: SimulatedCluster,
    group: str,
    topics: dict[str, list[int]] | None = None,
    *,
    node: int = 1,
    version: int | None = None,
) -> DescribeShareGroupOffsetsResponseGroup:
    """Ask API 90 about one group."""
    asked = None if topics is None else [DescribeShareGroupOffsetsRequestTopic(*row) for row in topics.items()]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, asked)])
    [row] = (await ask(cluster, request, node, version)).groups
    return row


def rows_of(group: DescribeShareGroupOffsetsResponseGroup) -> list[tuple[str, int, int, int, int]]:
    """Return (topic, partition, start offset, lag, error code) of each row."""
    return [
        (topic.topic_name, row.partition_index, row.start_offset, row.lag, row.error_code)
        for topic in group.topics
        for row in topic.partitions
    ]
