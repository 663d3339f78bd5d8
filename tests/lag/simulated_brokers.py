"""A small Kafka cluster in memory, as much of it as the lag layer asks for.

In: the messages that the lag layer sends, written and read back in the version a node speaks. Out: what a broker with
that state answers, and a list of all that was asked. Must never: forgive a request that would change something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from shareproxy.cluster.coordinators import CoordinatorFailure
from shareproxy.cluster.errors import ClusterError, DeadlinePassed, Unreachable, UnsupportedApi
from shareproxy.cluster.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from shareproxy.cluster.pool import DATA
from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.protocol import messages as m
from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId, NodeId, TopicId
from shareproxy.protocol.message import Request, Response

Q = TypeVar("Q", bound=Response)

N1, N2, N3 = NodeId(1), NodeId(2), NodeId(3)
T1 = TopicId(bytes(range(1, 17)))
T2 = TopicId(bytes(range(17, 33)))
T3 = TopicId(bytes(range(33, 49)))

KAFKA_4_0 = {2: (1, 10), 3: (0, 13), 10: (0, 6), 16: (0, 5), 32: (1, 4)}
KAFKA_4_1 = {**KAFKA_4_0, 77: (1, 1), 84: (0, 0), 87: (0, 0), 90: (0, 0)}
KAFKA_4_4 = {**KAFKA_4_1, 2: (1, 11), 87: (0, 1), 90: (0, 1)}


@dataclass
class Stored:
    """State of one share partition; `fence` is the highest epoch the share coordinator has seen."""

    start: int
    epoch: int = 0
    count: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    fence: int | None = None


@dataclass
class Topic:
    """A topic: its id, the leader of each partition and its high watermarks; `code` is Metadata's error."""

    topic_id: TopicId
    leaders: list[NodeId | None]
    ends: list[int]
    code: int = 0


@dataclass
class Group:
    """A group of any type."""

    coordinator: NodeId = N1
    kind: str = "share"
    state: str = "Empty"
    subscribed: list[str] = field(default_factory=list)
    isolation: str = "read_uncommitted"


Fault = Callable[[NodeId, Request[Any]], "Response | Exception | None"]


class SimulatedBrokers:
    """The cluster; change its parts, then let the lag layer ask."""

    def __init__(self, versions: Mapping[int, tuple[int, int]] = KAFKA_4_4, nodes: int = 1) -> None:
        self.apis = {NodeId(number): dict(versions) for number in range(1, nodes + 1)}
        self.features = {"share.version": 1}
        self.topics: dict[str, Topic] = {}
        self.states: dict[tuple[str, TopicId, int], Stored] = {}
        self.groups: dict[str, Group] = {}
        self.share_coordinator: Callable[[int], NodeId | CoordinatorFailure] = lambda partition: N1
        self.cluster_action = True
        self.switched_on = True
        self.hidden_groups: set[str] = set()
        self.faults: list[Fault] = []
        self.frozen: set[NodeId] = set()
        self.hangs: Callable[[NodeId, Request[Any]], bool] = lambda _, message: False
        self.asked: list[tuple[NodeId, Request[Any]]] = []
        self.metadata_ages: list[float] = []
        self.forgotten: list[str] = []
        self.gate: asyncio.Event | None = None

    # what tests look at

    def sent(self, kind: type[Request[Q]]) -> list[Request[Q]]:
        """Return the requests of one kind, in order."""
        return [message for _, message in self.asked if isinstance(message, kind)]

    def epochs_sent(self) -> list[int]:
        """Return every leader epoch that ReadShareGroupState carried."""
        return [
            row.leader_epoch
            for request in cast("list[m.ReadShareGroupStateRequest]", self.sent(m.ReadShareGroupStateRequest))
            for topic in request.topics
            for row in topic.partitions
        ]

    def fail_once(self, kind: type[Request[Any]], answer: Response | Exception) -> None:
        """Let the next request of one kind fail."""
        left = [answer]
        self.faults.append(lambda _, message: left.pop() if left and isinstance(message, kind) else None)

    @contextmanager
    def held(self) -> Iterator[asyncio.Event]:
        """Hold all answers back until the event is set."""
        self.gate = asyncio.Event()
        yield self.gate
        self.gate.set()
        self.gate = None

    # what the lag layer calls

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """See `Cluster.metadata`."""
        self.metadata_ages.append(max_age)
        names = list(self.topics) if topics is None else topics
        return ClusterMetadata(
            "cluster-1",
            N1,
            {node_id: Node(node_id, f"host-{node_id}", 9092) for node_id in self.apis},
            {name: self._topic_metadata(name) for name in names},
        )

    def _topic_metadata(self, name: str) -> TopicMetadata:
        topic = self.topics.get(name)
        if topic is None:
            return TopicMetadata(name, NO_TOPIC_ID, 3)
        if topic.code:
            return TopicMetadata(name, NO_TOPIC_ID, topic.code)
        partitions = {
            index: PartitionMetadata(index, leader, 5, 0 if leader else 5) for index, leader in enumerate(topic.leaders)
        }
        return TopicMetadata(name, topic.topic_id, 0, False, partitions)

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> ApiVersionTable:
        """See `Cluster.versions`."""
        if node_id in self.frozen:
            await _until(deadline)
        return ApiVersionTable(self.apis[node_id or N1], self.features)

    async def group_coordinator(self, group: GroupId, *, deadline: float) -> NodeId:
        """See `Cluster.group_coordinator`."""
        return self.groups[group].coordinator if group in self.groups else N1

    async def share_coordinators(
        self, group: GroupId, partitions: Collection[tuple[TopicId, int]], *, deadline: float
    ) -> Mapping[tuple[TopicId, int], NodeId | CoordinatorFailure]:
        """See `Cluster.share_coordinators`."""
        return {key: self.share_coordinator(key[1]) for key in partitions}

    def forget_group_coordinator(self, group: GroupId) -> None:
        """See `Cluster`."""
        self.forgotten.append(f"group {group}")

    def forget_share_coordinators(self) -> None:
        """See `Cluster`."""
        self.forgotten.append("share coordinators")

    def forget_metadata(self) -> None:
        """See `Cluster`."""
        self.forgotten.append("metadata")

    async def request(
        self,
        node_id: NodeId | None,
        message: Request[Q],
        *,
        deadline: float,
        max_version: int | None = None,
        purpose: str = DATA,
    ) -> Q:
        """Write the request, read it back, answer, write the answer and read it back, as it would travel."""
        node_id = node_id or N1
        kind = type(message)
        version = ApiVersionTable(self.apis[node_id]).highest(kind, max_version)
        if version is None:
            raise UnsupportedApi(kind.api_key, kind.schema_name, (kind.min_version, kind.max_version), None)
        arrived = decode(kind, version, encode(message, version))
        self.asked.append((node_id, arrived))
        if node_id in self.frozen or self.hangs(node_id, arrived):
            await _until(deadline)
        if self.gate is not None:
            await self.gate.wait()
        answer = next((found for fault in self.faults if (found := fault(node_id, arrived)) is not None), None)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            answer = self._answer(node_id, arrived, version)
        response = cast("type[Q]", message.response_class)
        return decode(response, version, encode(answer, version))

    # what a broker answers

    def _answer(self, node_id: NodeId, message: Request[Any], version: int) -> Response:
        if isinstance(message, m.ListOffsetsRequest):
            return self._list_offsets(node_id, message)
        if isinstance(message, m.ReadShareGroupStateSummaryRequest):
            return self._summary(node_id, message)
        if isinstance(message, m.ReadShareGroupStateRequest):
            return self._state(node_id, message)
        if isinstance(message, m.DescribeShareGroupOffsetsRequest):
            return self._describe_offsets(node_id, message)
        if isinstance(message, m.ShareGroupDescribeRequest):
            return self._describe(message)
        if isinstance(message, m.ListGroupsRequest):
            return self._list_groups(node_id, message, version)
        if isinstance(message, m.DescribeConfigsRequest):
            return self._configs(message)
        raise AssertionError(f"the lag layer must not send {type(message).__name__}")

    def _list_offsets(self, node_id: NodeId, message: m.ListOffsetsRequest) -> Response:
        assert message.replica_id == -1
        assert message.isolation_level == 0
        return m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    topic.name,
                    [self._end(node_id, topic.name, row.partition_index, row.timestamp) for row in topic.partitions],
                )
                for topic in message.topics
            ]
        )

    def _end(self, node_id: NodeId, name: str, index: int, timestamp: int) -> m.ListOffsetsPartitionResponse:
        assert timestamp == -1
        topic = self.topics.get(name)
        if topic is None or index >= len(topic.ends):
            return m.ListOffsetsPartitionResponse(index, 3)
        if topic.leaders[index] != node_id:
            return m.ListOffsetsPartitionResponse(index, 6)
        return m.ListOffsetsPartitionResponse(index, 0, -1, topic.ends[index], 5)

    def _refused(self, node_id: NodeId, topic_id: TopicId, partition: int) -> int:
        if not self.cluster_action:
            return 31
        if self.share_coordinator(partition) != node_id:
            return 16
        if not any(topic.topic_id == topic_id and partition < len(topic.ends) for topic in self.topics.values()):
            return 3
        return 0

    def _summary(self, node_id: NodeId, message: m.ReadShareGroupStateSummaryRequest) -> Response:
        def row(topic_id: TopicId, partition: int) -> m.ReadShareGroupStateSummaryResponsePartitionResult:
            if code := self._refused(node_id, topic_id, partition):
                return m.ReadShareGroupStateSummaryResponsePartitionResult(partition, code)
            stored = self.states.get((message.group_id, topic_id, partition), Stored(-1))
            return m.ReadShareGroupStateSummaryResponsePartitionResult(
                partition, 0, None, 0, stored.epoch, stored.start, stored.count
            )

        return m.ReadShareGroupStateSummaryResponse(
            [
                m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(
                    topic.topic_id, [row(TopicId(topic.topic_id), asked.partition) for asked in topic.partitions]
                )
                for topic in message.topics
            ]
        )

    def _state(self, node_id: NodeId, message: m.ReadShareGroupStateRequest) -> Response:
        def row(topic_id: TopicId, partition: int, epoch: int) -> m.ReadShareGroupStateResponsePartitionResult:
            if code := self._refused(node_id, topic_id, partition):
                return m.ReadShareGroupStateResponsePartitionResult(partition, code)
            stored = self.states.get((message.group_id, topic_id, partition))
            if stored is None:
                return m.ReadShareGroupStateResponsePartitionResult(partition, 42)
            fence = stored.epoch if stored.fence is None else stored.fence
            assert epoch <= fence, f"epoch {epoch} is higher than {fence}: this would cut off the leader"
            if epoch < fence:
                return m.ReadShareGroupStateResponsePartitionResult(partition, 74)
            batches = [m.ReadShareGroupStateResponseStateBatch(*batch, 1) for batch in stored.batches]
            return m.ReadShareGroupStateResponsePartitionResult(partition, 0, None, 0, stored.start, batches)

        return m.ReadShareGroupStateResponse(
            [
                m.ReadShareGroupStateResponseReadStateResult(
                    topic.topic_id,
                    [row(TopicId(topic.topic_id), asked.partition, asked.leader_epoch) for asked in topic.partitions],
                )
                for topic in message.topics
            ]
        )

    def _describe_offsets(self, node_id: NodeId, message: m.DescribeShareGroupOffsetsRequest) -> Response:
        return m.DescribeShareGroupOffsetsResponse(groups=[self._offsets_of(node_id, g) for g in message.groups])

    def _offsets_of(self, node_id: NodeId, asked: m.DescribeShareGroupOffsetsRequestGroup) -> Any:
        name = asked.group_id
        if not self.switched_on:
            return m.DescribeShareGroupOffsetsResponseGroup(name, [], 35)
        if name in self.hidden_groups:
            return m.DescribeShareGroupOffsetsResponseGroup(name, [], 30)
        if asked.topics is not None:
            rows = [(topic.topic_name, partition) for topic in asked.topics for partition in topic.partitions]
        elif name in self.groups and self.groups[name].coordinator != node_id:
            return m.DescribeShareGroupOffsetsResponseGroup(name, [], 16)
        else:
            ids = {topic.topic_id: topic_name for topic_name, topic in self.topics.items()}
            rows = [(ids[topic_id], partition) for group, topic_id, partition in self.states if group == name]
        topics: dict[str, Any] = {}
        for topic_name, partition in rows:
            found = topics.setdefault(
                topic_name,
                m.DescribeShareGroupOffsetsResponseTopic(topic_name, self.topics[topic_name].topic_id, []),
            )
            found.partitions.append(self._offsets_row(name, topic_name, partition))
        return m.DescribeShareGroupOffsetsResponseGroup(name, list(topics.values()))

    def _offsets_row(self, group: str, name: str, partition: int) -> m.DescribeShareGroupOffsetsResponsePartition:
        topic = self.topics[name]
        stored = self.states.get((group, topic.topic_id, partition), Stored(-1))
        if topic.leaders[partition] is None:
            return m.DescribeShareGroupOffsetsResponsePartition(partition, 0, 0, -1, 5, "no leader")
        known = stored.start >= 0 and stored.count >= 0
        lag = topic.ends[partition] - stored.start - stored.count if known else -1
        return m.DescribeShareGroupOffsetsResponsePartition(partition, stored.start, stored.epoch, lag)

    def _describe(self, message: m.ShareGroupDescribeRequest) -> Response:
        def row(name: str) -> m.ShareGroupDescribeResponseDescribedGroup:
            group = self.groups.get(name)
            if name in self.hidden_groups:
                return m.ShareGroupDescribeResponseDescribedGroup(30, "Group authorization failed.", name)
            if group is None:
                return m.ShareGroupDescribeResponseDescribedGroup(69, f"Group {name} not found.", name)
            if group.kind != "share":
                return m.ShareGroupDescribeResponseDescribedGroup(69, f"Group {name} is not a share group.", name)
            member = m.ShareGroupDescribeResponseMember("m", subscribed_topic_names=group.subscribed)
            members = [member] if group.subscribed else []
            return m.ShareGroupDescribeResponseDescribedGroup(0, None, name, group.state, members=members)

        return m.ShareGroupDescribeResponse(groups=[row(name) for name in message.group_ids])

    def _list_groups(self, node_id: NodeId, message: m.ListGroupsRequest, version: int) -> Response:
        return m.ListGroupsResponse(
            groups=[
                m.ListGroupsResponseListedGroup(
                    name,
                    "consumer" if group.kind == "classic" else group.kind,
                    group.state if version >= 4 else "",
                    group.kind if version >= 5 else "",
                )
                for name, group in self.groups.items()
                if group.coordinator == node_id and message.types_filter in ([], [group.kind])
            ]
        )

    def _configs(self, message: m.DescribeConfigsRequest) -> Response:
        def result(name: str) -> m.DescribeConfigsResult:
            row = m.DescribeConfigsResourceResult("share.isolation.level", self.groups[name].isolation)
            return m.DescribeConfigsResult(0, None, 32, name, [row])

        assert {resource.resource_type for resource in message.resources} == {32}
        return m.DescribeConfigsResponse(results=[result(resource.resource_name) for resource in message.resources])


async def _until(deadline: float) -> None:
    """Hang as a frozen broker does, until the asker's time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await asyncio.get_running_loop().create_future()
    raise DeadlinePassed("the node did not answer in time")


def soon(seconds: float = 5.0) -> float:
    """Return a deadline."""
    return asyncio.get_running_loop().time() + seconds


def unreachable(text: str = "node 1 cannot be reached") -> ClusterError:
    """Return what a closed port looks like."""
    return Unreachable(text)
