"""Know the cluster: its nodes, topics and coordinators, and the way to each broker.

In: questions with deadlines. Out: answers, from memory where the caller allows it. Must never: create a topic, or ask
the same question twice at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.broker_calls import BrokerCalls
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.coordinator_search import CoordinatorSearch
from shareproxy.cluster.coordinators import CoordinatorFailure, FailureReason
from shareproxy.cluster.errors import BrokerError, ClusterError, ConnectionClosed, DeadlinePassed, Unreachable
from shareproxy.cluster.metadata import (
    ClusterMetadata,
    Node,
    PartitionMetadata,
    TopicMetadata,
    metadata_request,
    read_metadata,
)
from shareproxy.cluster.pool import CONTROL, DATA
from shareproxy.cluster.retries import Backoff
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.cluster.shared_calls import SharedCalls
from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId, NodeId, TopicId
from shareproxy.protocol.message import Request, Response

__all__ = [
    "CONTROL",
    "DATA",
    "Cluster",
    "ClusterMetadata",
    "CoordinatorFailure",
    "FailureReason",
    "Node",
    "PartitionMetadata",
    "TopicMetadata",
]

Q = TypeVar("Q", bound=Response)

# version 4 is the first that can say "do not create this topic"
METADATA_MIN_VERSION: Final = 4
# topics kept for callers that accept an older answer
MOST_TOPICS: Final = 10_000


class Cluster:
    """An asyncio client of one Kafka cluster; use it as a context manager, or close it.

    Every deadline is absolute, in the event loop's time (`asyncio.get_running_loop().time() + seconds`).

    Args:
        bootstrap_servers: brokers to ask first; names are resolved at every connect.
        security: of all connections.
        client_id: our name in the brokers' logs and quotas.
        connect_timeout: seconds for one attempt to connect, login included.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[Address],
        security: Security = PLAINTEXT,
        *,
        client_id: str = "shareproxy",
        connect_timeout: float = 5.0,
    ) -> None:
        if not bootstrap_servers:
            raise ValueError("no bootstrap server is given")
        self.security = security
        self._brokers = BrokerCalls(bootstrap_servers, security, client_id, connect_timeout)
        self._search = CoordinatorSearch(self, self._brokers)
        self._newest: tuple[float, ClusterMetadata] | None = None
        self._everything: tuple[float, ClusterMetadata] | None = None
        self._topics: dict[str, tuple[float, TopicMetadata]] = {}
        self._metadata_calls: SharedCalls[frozenset[str] | None, ClusterMetadata] = SharedCalls()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is under way and close all connections."""
        self._closed = True
        await asyncio.gather(self._metadata_calls.stop(), self._search.stop())
        await self._brokers.close()

    @property
    def requests_sent(self) -> Mapping[int, int]:
        """Return how many requests were sent so far, by api_key; without those that open a connection."""
        return self._brokers.sent

    @property
    def trouble(self) -> str | None:
        """Return why no broker could be asked the last time, though that may still be repeated; None if one could."""
        return self._brokers.trouble

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Return nodes and topics; asks one broker after the other until one answers.

        Args:
            topics: names, empty for the nodes only, None for all topics.
            deadline: in the event loop's time.
            max_age: seconds that an earlier answer may be old.

        Raises:
            ClusterError: nobody answered before the deadline, or the brokers refuse us.
        """
        self._check_open()
        # the loop's clock may stand still for a moment: age 0 is not an answer from the same millisecond
        oldest = asyncio.get_running_loop().time() - max_age if max_age > 0 else None
        if topics is None:
            kept = self._everything
            if kept is not None and oldest is not None and kept[0] >= oldest:
                return kept[1]
            return await self._ask_metadata(None, deadline)
        wanted = frozenset(topics)
        known = {} if oldest is None else self._kept(wanted, oldest)
        newest = self._newest
        if oldest is None or len(known) < len(wanted) or newest is None or newest[0] < oldest:
            answer = await self._ask_metadata(wanted.difference(known), deadline)
            if not known:
                return answer
        else:
            answer = newest[1]
        found = {**known, **{name: topic for name, topic in answer.topics.items() if name in wanted}}
        return ClusterMetadata(answer.cluster_id, answer.controller_id, answer.nodes, found)

    def _kept(self, wanted: Collection[str], oldest: float) -> dict[str, TopicMetadata]:
        """Return the topics whose last answer is not too old."""
        entries = ((name, self._topics.get(name)) for name in wanted)
        return {name: entry[1] for name, entry in entries if entry is not None and entry[0] >= oldest}

    async def _ask_metadata(self, key: frozenset[str] | None, deadline: float) -> ClusterMetadata:
        async def ask(until: float) -> ClusterMetadata:
            return await self._read_metadata(key, until)

        return await self._metadata_calls.run(key, ask, deadline, "Metadata")

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
        """Ask one node once.

        An idle connection that turns out to be closed is replaced, and a question that changes nothing asked again.

        Args:
            node_id: the node, None for any that can be reached.
            message: sent in the highest version both sides know.
            deadline: in the event loop's time.
            max_version: use no newer version.
            min_version: use no older version.
            purpose: requests of different purposes never wait for each other.

        Raises:
            Unreachable: the node is not there, or does not answer in time.
            ConnectionClosed: the connection ended before the answer came.
            UnsupportedApi: no version fits.
        """
        return await self._brokers.send(
            lambda: self._connect(node_id, purpose, deadline),
            lambda _: message,
            deadline,
            max_version=max_version,
            min_version=min_version,
        )

    async def ask_any(self, message: Request[Q], *, deadline: float, min_version: int | None = None) -> Q:
        """Ask one broker after the other until one answers; for questions that every broker can answer at once.

        Raises:
            ClusterError: nobody answered before the deadline, or the brokers refuse us.
        """
        self._check_open()
        return await self._brokers.ask_any(lambda _: message, deadline, min_version=min_version)

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> ApiVersionTable:
        """Return what a node offers, None for any; from the connection, so usually without asking.

        Raises:
            ClusterError: the node cannot be reached.
        """
        connection, _ = await self._connect(node_id, DATA, deadline)
        return connection.versions

    async def group_coordinator(self, group: GroupId, *, deadline: float) -> NodeId:
        """Return the group's coordinator; remembered until forgotten.

        Raises:
            InternalTopicMissing: the cluster has never had a group; nothing is created to find out.
            NotAuthorized: we may not DESCRIBE the group.
            ClusterError: nobody knew before the deadline.
        """
        self._check_open()
        return await self._search.group_coordinator(group, deadline)

    async def share_coordinators(
        self, group: GroupId, partitions: Collection[tuple[TopicId, int]], *, deadline: float
    ) -> Mapping[tuple[TopicId, int], NodeId | CoordinatorFailure]:
        """Return the share coordinator of each share partition, or why there is none.

        Args:
            group: share group.
            partitions: topic ids and partitions.
            deadline: in the event loop's time.

        Raises:
            ClusterError: no broker could be asked.
        """
        self._check_open()
        return await self._search.share_coordinators(group, partitions, deadline)

    def forget_group_coordinator(self, group: GroupId) -> None:
        """Find the coordinator anew next time: it said it is not."""
        self._search.forget_group(group)

    def forget_share_coordinators(self) -> None:
        """Find all share coordinators anew next time."""
        self._search.forget_share()

    def forget_metadata(self) -> None:
        """Ask for metadata anew next time, whatever age the caller accepts."""
        self._newest = self._everything = None
        self._topics.clear()

    async def _connect(self, node_id: NodeId | None, purpose: str, deadline: float) -> tuple[Connection, bool]:
        """Return a connection to a node, where it has moved to if it has, and whether it was opened now."""
        self._check_open()
        if node_id is None:
            return await self._brokers.connection(None, purpose, deadline)
        node = self._brokers.nodes.get(node_id) or await self._find_node(node_id, deadline)
        try:
            return await self._brokers.connection(node.address, purpose, deadline)
        except (Unreachable, ConnectionClosed) as error:
            failure = Unreachable(f"node {node_id} at {error}")
            if asyncio.get_running_loop().time() >= deadline:
                raise failure from error
            try:
                moved = await self._find_node(node_id, deadline)
            except DeadlinePassed:
                raise failure from error
            if moved.address == node.address:
                raise failure from error
        return await self._brokers.connection(moved.address, purpose, deadline)

    async def _find_node(self, node_id: NodeId, deadline: float) -> Node:
        nodes = (await self.metadata((), deadline=deadline)).nodes
        if node_id not in nodes:
            known = ", ".join(str(number) for number in sorted(nodes))
            raise Unreachable(f"node {node_id} is not in the cluster now; its nodes are {known}")
        return nodes[node_id]

    async def _read_metadata(self, key: frozenset[str] | None, deadline: float) -> ClusterMetadata:
        backoff = Backoff()
        request = metadata_request(None if key is None else sorted(key))
        while True:
            answer = await self._brokers.ask_any(lambda _: request, deadline, min_version=METADATA_MIN_VERSION)
            if answer.error_code == ErrorCode.NONE and answer.brokers:
                break
            # a broker that has just started knows nobody; one that left the cluster says so (KIP-1102)
            if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._brokers.forget_nodes()
            elif answer.error_code:
                raise BrokerError(answer.error_code, None, "the broker refused Metadata")
            if not await backoff.pause(deadline):
                raise Unreachable("the broker that answered does not know the cluster's nodes yet")
        metadata = read_metadata(answer)
        self._brokers.learn(metadata.nodes)
        self._keep(key, metadata)
        return metadata

    def _keep(self, key: frozenset[str] | None, metadata: ClusterMetadata) -> None:
        now = asyncio.get_running_loop().time()
        self._newest = (now, metadata)
        if key is None:
            self._everything = (now, metadata)
        for name, topic in metadata.topics.items():
            # put at the end again: the oldest go first
            self._topics.pop(name, None)
            if not topic.error_code:
                # what looks missing may just have been made: only what is there is kept
                self._topics[name] = (now, topic)
        while len(self._topics) > MOST_TOPICS:
            del self._topics[next(iter(self._topics))]

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterError("the client is closed")
