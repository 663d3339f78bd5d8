"""The way to a simulated cluster that also takes group configs and commits from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import DATA, Cluster
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.message import Request, Response
from shareproxy.testing import SimulatedCluster

ALTER_SHARE_OFFSETS = 91

Q = TypeVar("Q", bound=Response)
Configured = list[tuple[str, str, str | None, bool]]


class Brokers(Cluster):
    """Answers requests by itself that the simulated cluster does not know.

    Attributes:
        answers: by type of request.
        commits: requests to commit.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(parse_addresses(cluster.bootstrap_servers))
        self.simulated = cluster
        self.answers: dict[type[Any], Callable[[Any], Any]] = {}
        self.commits = 0

    async def request(
        self,
        node_id: NodeId | None,
        message: Request[Q],
        *,
        deadline: float,
        max_version: int | None = None,
        min_version: int | None = None,
        purpose: str = DATA,
    ) -> Q:
        """Ask, or answer."""
        own = self.answers.get(type(message))
        if own is not None:
            answer: Q = own(message)
            return answer
        more = {"max_version": max_version, "min_version": min_version}
        return await super().request(node_id, message, deadline=deadline, purpose=purpose, **more)

    def take_configs(self, error_code: int = 0, text: str | None = None) -> Configured:
        """Take group configs, or refuse them; return what was asked: group, name, value, validate only."""
        asked: Configured = []

        def answer(request: m.IncrementalAlterConfigsRequest) -> m.IncrementalAlterConfigsResponse:
            (resource,) = request.resources
            for config in resource.configs:
                asked.append((resource.resource_name, config.name, config.value, request.validate_only))
                if not error_code and not request.validate_only:
                    self.simulated.set_group_config(resource.resource_name, {config.name: config.value or ""})
            row = m.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code, text, resource.resource_type, resource.resource_name
            )
            return m.IncrementalAlterConfigsResponse(responses=[row])

        self.answers[m.IncrementalAlterConfigsRequest] = answer
        return asked

    def take_commits(self, code_of: Callable[[str, int], int] = lambda topic, partition: 0) -> None:
        """Take commits of a group without members, or answer with an error for some rows."""

        def answer(request: m.OffsetCommitRequest) -> m.OffsetCommitResponse:
            assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
            self.commits += 1
            topics = []
            for topic in request.topics:
                rows = []
                for row in topic.partitions:
                    code = code_of(topic.name, row.partition_index)
                    if not code:
                        offsets = {topic.name: {row.partition_index: row.committed_offset}}
                        self.simulated.commit_offsets(request.group_id, offsets)
                    rows.append(m.OffsetCommitResponsePartition(row.partition_index, code))
                topics.append(m.OffsetCommitResponseTopic(topic.name, partitions=rows))
            return m.OffsetCommitResponse(topics=topics)

        self.answers[m.OffsetCommitRequest] = answer


@asynccontextmanager
async def brokers_of(cluster: SimulatedCluster) -> AsyncIterator[Brokers]:
    """Open the way to a cluster."""
    async with Brokers(cluster) as brokers:
        yield brokers
