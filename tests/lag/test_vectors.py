"""Frames captured from real brokers go in; the lag that is right for the situation comes out.

Answers are decoded from the captured bytes; state is given out only for the leader epoch it was captured with.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from shareproxy.cluster.coordinators import CoordinatorFailure
from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from shareproxy.cluster.pool import DATA
from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import AskedRow, SourceChoice
from shareproxy.protocol import messages as m
from shareproxy.protocol.headers import decode_request, decode_response
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId, NodeId, TopicId
from shareproxy.protocol.message import Request, Response
from tests.lag.simulated_brokers import KAFKA_4_1, KAFKA_4_4, N1, soon

VECTORS = Path(__file__).parent.parent / "vectors"
Q = TypeVar("Q", bound=Response)
Exchange = tuple[int, bool, m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse]
"""Version, whether it is from a broker, question and answer of DescribeShareGroupOffsets."""


class Captured:
    """The frames of one step of a vector file."""

    def __init__(self, step: Mapping[str, Any]) -> None:
        self.offsets: list[
            tuple[int, bool, m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse]
        ] = []
        self.summaries: dict[int, Any] = {}
        self.batches: dict[int, tuple[int, Any]] = {}
        self.ends: dict[tuple[str, int], Any] = {}
        self.lags = {(row["topic"], row["partition"]): row["lag"] for row in step.get("derivation", [])}
        for exchange in step["exchanges"]:
            request, response = self._read(
                m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse, exchange
            )
            self.offsets.append((exchange["version"], "note" not in exchange, request, response))
        for derivation in step.get("derivation", []):
            for exchange in derivation["exchanges"]:
                self._keep(exchange)

    @staticmethod
    def _read(request: type[Any], response: type[Any], exchange: Mapping[str, Any]) -> tuple[Any, Any]:
        _, asked = decode_request(request, bytes.fromhex(exchange["request"]))
        return asked, decode_response(response, exchange["version"], bytes.fromhex(exchange["response"]))[1]

    def _keep(self, exchange: Mapping[str, Any]) -> None:
        if exchange["api"] == "ReadShareGroupStateSummary":
            _, answer = self._read(m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse, exchange)
            self.summaries |= {row.partition: row for topic in answer.results for row in topic.partitions}
        elif exchange["api"] == "ReadShareGroupState":
            asked, answer = self._read(m.ReadShareGroupStateRequest, m.ReadShareGroupStateResponse, exchange)
            epochs = {row.partition: row.leader_epoch for topic in asked.topics for row in topic.partitions}
            for topic in answer.results:
                self.batches |= {row.partition: (epochs[row.partition], row) for row in topic.partitions}
        else:
            _, answer = self._read(m.ListOffsetsRequest, m.ListOffsetsResponse, exchange)
            self.ends |= {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}

    def broker_rows(self, version: int) -> Iterator[tuple[Any, Any]]:
        """Return topic and row of what the broker answered in one version."""
        for its_version, genuine, _, response in self.offsets:
            if its_version == version and genuine:
                for group in response.groups:
                    for topic in group.topics:
                        for row in topic.partitions:
                            yield topic, row

    def topics(self) -> dict[str, TopicId]:
        """Return the topics that exist."""
        return {
            topic.topic_name: TopicId(topic.topic_id)
            for version in (0, 1)
            for topic, _ in self.broker_rows(version)
            if topic.topic_id != NO_TOPIC_ID
        }

    @property
    def group(self) -> GroupId:
        """The group that was asked about."""
        return GroupId(self.offsets[0][2].groups[0].group_id)


class Replay:
    """Brokers that answer with captured rows only."""

    def __init__(self, captured: Captured, versions: Mapping[int, tuple[int, int]]) -> None:
        self.captured, self.table = captured, ApiVersionTable(versions)

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Return one broker that leads everything."""
        led = {index: PartitionMetadata(index, N1, None) for index in range(4)}
        known = self.captured.topics()
        rows = {name: TopicMetadata(name, known[name], 0, False, led) for name in topics or () if name in known}
        return ClusterMetadata("c", N1, {N1: Node(N1, "h", 1)}, rows)

    async def versions(self, node_id: NodeId | None, *, deadline: float) -> ApiVersionTable:
        """Return what the captured broker offers."""
        return self.table

    async def group_coordinator(self, group: GroupId, *, deadline: float) -> NodeId:
        """Return the only broker."""
        return N1

    async def share_coordinators(
        self, group: GroupId, partitions: Collection[tuple[TopicId, int]], *, deadline: float
    ) -> Mapping[tuple[TopicId, int], NodeId | CoordinatorFailure]:
        """Return the only broker."""
        return dict.fromkeys(partitions, N1)

    def forget_group_coordinator(self, group: GroupId) -> None:
        """Nothing to forget."""

    forget_share_coordinators = forget_metadata = lambda self: None

    async def request(
        self,
        node_id: NodeId | None,
        message: Request[Q],
        *,
        deadline: float,
        max_version: int | None = None,
        purpose: str = DATA,
    ) -> Q:
        """Answer from the captured rows."""
        return cast("Q", self._answer(message))

    def _answer(self, message: Request[Any]) -> Response:
        captured = self.captured
        if isinstance(message, m.DescribeShareGroupOffsetsRequest):
            version = self.table.highest(m.DescribeShareGroupOffsetsRequest)
            answers = [
                response
                for its_version, genuine, request, response in captured.offsets
                if (its_version, genuine, request) == (version, True, message)
            ]
            return answers[0]
        if isinstance(message, m.ReadShareGroupStateSummaryRequest):
            return m.ReadShareGroupStateSummaryResponse(
                [
                    m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(
                        topic.topic_id, [captured.summaries[row.partition] for row in topic.partitions]
                    )
                    for topic in message.topics
                ]
            )
        if isinstance(message, m.ReadShareGroupStateRequest):
            for topic in message.topics:
                for row in topic.partitions:
                    assert row.leader_epoch == captured.batches[row.partition][0]
            return m.ReadShareGroupStateResponse(
                [
                    m.ReadShareGroupStateResponseReadStateResult(
                        topic.topic_id, [captured.batches[row.partition][1] for row in topic.partitions]
                    )
                    for topic in message.topics
                ]
            )
        if isinstance(message, m.ListOffsetsRequest):
            return m.ListOffsetsResponse(
                topics=[
                    m.ListOffsetsTopicResponse(
                        topic.name, [captured.ends[topic.name, row.partition_index] for row in topic.partitions]
                    )
                    for topic in message.topics
                ]
            )
        if isinstance(message, m.ShareGroupDescribeRequest):
            return m.ShareGroupDescribeResponse(
                groups=[
                    m.ShareGroupDescribeResponseDescribedGroup(0, None, name, "Empty") for name in message.group_ids
                ]
            )
        raise ClusterError(f"no answer to {type(message).__name__} was captured")


def steps(kafka: str) -> list[Any]:
    """Return every step of every file for one Kafka version."""
    found = []
    for path in sorted(VECTORS.glob("*.json")):
        vector = json.loads(path.read_text())
        if vector["kafka"] == kafka:
            found += [pytest.param(step, id=f"{path.stem}: {step['step']}") for step in vector["steps"]]
    return found


def asked_rows(captured: Captured, version: int) -> list[AskedRow]:
    """Return a broker's rows as the proxy hands them on."""
    rows = {
        (topic.topic_name, row.partition_index): AskedRow(
            topic.topic_name, topic.topic_id, row.partition_index, row.start_offset, row.leader_epoch, row.lag
        )
        for topic, row in captured.broker_rows(version)
        if not row.error_code
    }
    return list(rows.values())


@pytest.mark.parametrize("step", steps("4.1.2"))
@pytest.mark.parametrize("source", [SourceChoice.AUTO, SourceChoice.BATCHES])
async def test_lag_over_4_1_is_the_derived_one(step: Mapping[str, Any], source: SourceChoice) -> None:
    """From version 0 rows and the captured state the wire's lag is worked out, as in the given version 1 answer."""
    captured = Captured(step)
    engine = LagEngine(Replay(captured, KAFKA_4_1), source=source)

    lags = await engine.fill(captured.group, asked_rows(captured, 0), deadline=soon())

    assert lags == captured.lags
    for version, genuine, _, response in captured.offsets:
        if version == 1 and not genuine:
            for group in response.groups:
                for topic in group.topics:
                    for row in topic.partitions:
                        assert lags[topic.topic_name, row.partition_index] == row.lag


@pytest.mark.parametrize("step", steps("4.1.2"))
@pytest.mark.parametrize("source", [SourceChoice.AUTO, SourceChoice.BATCHES])
async def test_report_over_4_1_is_the_derived_lag(step: Mapping[str, Any], source: SourceChoice) -> None:
    """The report has the same numbers, unknown as `None`."""
    captured = Captured(step)
    engine = LagEngine(Replay(captured, KAFKA_4_1), source=source)

    report = await engine.report([captured.group])

    assert {(row.topic, row.partition): row.lag for row in report.groups[0].partitions} == {
        key: None if lag < 0 else lag for key, lag in captured.lags.items()
    }


@pytest.mark.parametrize("step", steps("4.4.0"))
async def test_rows_of_4_4_pass_as_they_are(step: Mapping[str, Any]) -> None:
    """With `broker` no row is touched, and nothing is asked."""
    captured = Captured(step)
    engine = LagEngine(Replay(captured, {}), source=SourceChoice.BROKER)

    lags = await engine.fill(captured.group, asked_rows(captured, 1), deadline=soon())

    assert lags == {(topic.topic_name, row.partition_index): row.lag for topic, row in captured.broker_rows(1)}


@pytest.mark.parametrize("step", [step for step in steps("4.4.0") if "unknown-topic" not in str(step.id)])
async def test_report_over_4_4_has_the_brokers_lag(step: Mapping[str, Any]) -> None:
    """Every row of a null-topics answer is in the report, unknown as `None`."""
    captured = Captured(step)
    null_topics = [
        response
        for version, _, request, response in captured.offsets
        if version == 1 and request.groups[0].topics is None
    ]

    class Endless(Replay):
        """No ListOffsets was captured for 4.4: the lag must not need one."""

        def _answer(self, message: Request[Any]) -> Response:
            if isinstance(message, m.ListOffsetsRequest):
                return m.ListOffsetsResponse(
                    topics=[
                        m.ListOffsetsTopicResponse(
                            topic.name,
                            [m.ListOffsetsPartitionResponse(row.partition_index, 29) for row in topic.partitions],
                        )
                        for topic in message.topics
                    ]
                )
            if isinstance(message, m.ListGroupsRequest):
                return m.ListGroupsResponse()
            return super()._answer(message)

    engine = LagEngine(Endless(captured, KAFKA_4_4))

    report = await engine.report([captured.group])

    rows = {(row.topic, row.partition): row.lag for row in report.groups[0].partitions}
    assert rows == {
        (topic.topic_name, row.partition_index): None if row.lag < 0 else row.lag
        for response in null_topics
        for topic in response.groups[0].topics
        for row in topic.partitions
    }
