"""A raw member of a share group, from within the event loop that serves the simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import parse_topic_id
from shareproxy.testing import SimulatedCluster
from tests.testing.simulation.asking import Client

Ranges = list[tuple[int, int, int]]
Batches = Sequence[tuple[int, int, list[int]]]
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
NO_BATCHES: Batches = ()


def prepared(cluster: SimulatedCluster, *batches: int, group: str = "g", topic: str = "t", **configs: str) -> None:
    """Make a topic with batches of so many records, and a group that has begun with it."""
    cluster.create_topic(topic)
    settings = {"share.auto.offset.reset": "earliest"} | {
        f"share.{name.replace('_', '.')}": value for name, value in configs.items()
    }
    cluster.set_group_config(group, settings)
    for count in batches:
        cluster.produce(topic, 0, count)
    cluster.leave(group, cluster.join(group, [topic]))


class Clock:
    """Time that passes when the test says so, for locks."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.now = 0.0
        cluster._state.deadlines.now = lambda: self.now


class Member:
    """One member, on one connection, that reads one partition.

    Attributes:
        client: the connection.
        epoch: of its session's next request.
    """

    def __init__(self, cluster: SimulatedCluster, client: Client, member_id: str, group: str, topic: str) -> None:
        self.client, self.member_id, self.group = client, member_id, group
        self.topic_id = parse_topic_id(cluster.describe_topic(topic).topic_id)
        self.epoch = 0

    @classmethod
    async def of(
        cls,
        cluster: SimulatedCluster,
        member_id: str = "ada-ada-ada-ada-ada-aA",
        *,
        node: int = 1,
        group: str = "g",
        topic: str = "t",
    ) -> Member:
        """Connect."""
        return cls(cluster, await Client.to(cluster, node), member_id, group, topic)

    def request(self, batches: Batches = NO_BATCHES, **more: Any) -> m.ShareFetchRequest:
        """Return a fetch of the next epoch; `more` are fields of the message."""
        row = m.ShareFetchRequestFetchPartition(
            more.pop("partition", 0), 0, [m.ShareFetchRequestAcknowledgementBatch(*batch) for batch in batches]
        )
        epoch = more.pop("epoch", self.epoch)
        names_topic = epoch == 0 or batches
        fields: dict[str, Any] = {"max_wait_ms": 50, "min_bytes": 1, "max_records": 500, "batch_size": 500} | more
        return m.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=[m.ShareFetchRequestFetchTopic(self.topic_id, [row])] if names_topic else [],
            **fields,
        )

    async def fetch(self, batches: Batches = NO_BATCHES, version: int = 2, **more: Any) -> m.ShareFetchResponse:
        """Fetch and return the answer."""
        request = self.request(batches, **more)
        answer = await self.client.ask(request, version)
        if not answer.error_code:
            self.epoch = request.share_session_epoch + 1
        return answer

    async def acquire(self, version: int = 2, **more: Any) -> Ranges:
        """Fetch and return what was acquired."""
        return acquired(await self.fetch(version=version, **more))

    async def acknowledge(
        self, batches: Batches = NO_BATCHES, *, epoch: int | None = None, renews: bool = False, version: int = 2
    ) -> m.ShareAcknowledgeResponse:
        """Acknowledge and return the answer."""
        rows = [m.ShareAcknowledgeRequestAcknowledgementBatch(*batch) for batch in batches]
        topics = [
            m.ShareAcknowledgeRequestAcknowledgeTopic(
                self.topic_id, [m.ShareAcknowledgeRequestAcknowledgePartition(0, rows)]
            )
        ]
        epoch = self.epoch if epoch is None else epoch
        request = m.ShareAcknowledgeRequest(self.group, self.member_id, epoch, renews, topics if batches else [])
        answer = await self.client.ask(request, version)
        if not answer.error_code:
            self.epoch = epoch + 1
        return answer

    async def result(self, *batches: tuple[int, int, list[int]], **more: Any) -> int:
        """Acknowledge and return the error code of the partition."""
        return (await self.acknowledge(batches, **more)).responses[0].partitions[0].error_code

    async def parked(self, cluster: SimulatedCluster, **more: Any) -> asyncio.Task[m.ShareFetchResponse]:
        """Begin a fetch and return it when it waits at the broker."""
        before = cluster.requests.count(78)
        task = asyncio.ensure_future(self.fetch(**more))
        while cluster.requests.count(78) == before:
            await asyncio.sleep(0)
        return task

    async def disconnect(self, cluster: SimulatedCluster, node: int = 1) -> None:
        """Close the connection, and return when the broker has seen that."""
        connections = cluster._nodes[node].connections
        before = len(connections)
        self.client.close()
        while len(connections) == before:
            await asyncio.sleep(0)


def acquired(answer: m.ShareFetchResponse) -> Ranges:
    """Return the ranges of an answer."""
    assert answer.error_code == 0
    return [
        (part.first_offset, part.last_offset, part.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        for part in row.acquired_records
    ]


def row_of(answer: m.ShareFetchResponse) -> m.ShareFetchResponsePartitionData:
    """Return the only row of an answer."""
    [topic] = answer.responses
    [row] = topic.partitions
    return row
