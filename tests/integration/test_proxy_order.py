"""Requests without answers, many requests at once and answers that the proxy completes: everything in its order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.headers import decode_response
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    ListGroupsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
    ProduceResponse,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SUPPORTED_VERSIONS, LocalKafka
from tests.support import scenarios
from tests.support.raw_frames import RawConnection, hear, request
from tests.support.real_kafka import VERSIONS
from tests.support.running_proxy import RunningProxy, running_proxy
from tests.support.waiting import wait_until

LATEST = -1
QUOTA_COMMAND = "org.apache.kafka.tools.ConfigCommand"


def batch(size: int = 1) -> bytes:
    """Return a record batch of one record."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=size + 1_000,
    )
    builder.append(0, 0, None, bytes(size), [])
    return bytes(builder.build())


def produce(topic: str, acks: int, correlation_id: int = 1, *, size: int = 1, client_id: str = "exact") -> bytes:
    """Return a Produce request for partition 0."""
    rows = [ProduceRequestPartitionProduceData(0, batch(size))]
    message = ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[ProduceRequestTopicProduceData(topic, partition_data=rows)]
    )
    return request(message, 9, correlation_id, client_id)


def end_offset(topic: str, correlation_id: int) -> bytes:
    """Return a request for the end of partition 0."""
    rows = [ListOffsetsPartition(0, timestamp=LATEST)]
    return request(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, rows)]), 1, correlation_id)


@pytest.fixture(scope="module")
def proxy(kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the one-node cluster, of the oldest and the newest version."""
    if kafka.version not in (VERSIONS[0], VERSIONS[-1]):
        pytest.skip("the versions between them do the same")
    with running_proxy(kafka.bootstrap_servers) as proxy:
        yield proxy


def test_requests_without_answers_among_others(
    kafka: LocalKafka, driver: ShareDriver, proxy: RunningProxy, topic: str
) -> None:
    """Produce with acks 0 has no answer, and those behind it get theirs; the records are there."""
    heard = []
    for name, address in ((f"{topic}-d", kafka.bootstrap_servers), (f"{topic}-t", proxy.node_ports[1])):
        driver.create_topic(name)
        parts = (produce(name, 0), end_offset(name, 2), produce(name, 0, 3), produce(name, 1, 4), end_offset(name, 5))
        heard.append([frame.replace(name.encode(), b"topic") for frame in hear(address, b"".join(parts)).frames])
    direct, through = heard

    assert [frame[3] for frame in direct] == [2, 4, 5]
    assert direct[-1].endswith((3).to_bytes(8))
    # the middle one has a time of the log in it
    assert [through[0], through[2]] == [direct[0], direct[2]]
    assert len(through[1]) == len(direct[1])


def test_last_requests_without_answers_arrive(
    kafka: LocalKafka, driver: ShareDriver, proxy: RunningProxy, topic: str
) -> None:
    """A client that sends with acks 0 and closes at once loses nothing."""
    driver.create_topic(topic)

    with RawConnection(proxy.bootstrap_servers) as connection:
        connection.send(b"".join(produce(topic, 0, number, size=20_000) for number in range(60)))

    wait_until(lambda: driver.list_offsets({topic: [0]}) == {(topic, 0): 60}, "all records are written")


def test_error_that_cannot_be_answered_closes(kafka: LocalKafka, proxy: RunningProxy) -> None:
    """With acks 0 a broker can only close; what it answered before arrives first."""
    data = request(ApiVersionsRequest(), 0, 7) + produce("no-such-topic", 0)

    direct, through = (hear(address, data, closes=True) for address in (kafka.bootstrap_servers, proxy.node_ports[1]))

    assert len(direct.frames) == 1
    assert [frame[:4] for frame in through.frames] == [frame[:4] for frame in direct.frames]


@pytest.mark.parametrize("source", [SourceChoice.AUTO, SourceChoice.BATCHES])
def test_answers_behind_a_lag_step_wait(
    source: SourceChoice, kafka: LocalKafka, driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Local work in the middle of a pipeline changes nothing about the order."""
    scenarios.kip_1226_layout(driver, topic, group)

    def offsets(correlation_id: int, version: int, partitions: list[int] | None) -> bytes:
        named = None if partitions is None else [DescribeShareGroupOffsetsRequestTopic(topic, partitions)]
        asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, named)])
        return request(asked, version, correlation_id)

    pipeline = (
        request(ApiVersionsRequest(), 0, 1),
        offsets(2, 1, None),
        request(MetadataRequest(topics=[]), 4, 3),
        offsets(4, 1, [0, 99]),
        end_offset(topic, 5),
        offsets(6, 0, [0]),
        offsets(7, 1, [0]),
        request(ListGroupsRequest(), 3, 8),
    )
    with running_proxy(kafka.bootstrap_servers, source=source) as pinned:
        # 4.1 has no version 1: a node's port must have seen that before it is asked
        hear(pinned.node_ports[1], pipeline[0])
        found = [hear(pinned.node_ports[1], b"".join(pipeline)) for _ in range(3)]

    for heard in found:
        assert [frame[3] for frame in heard.frames] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert [_lags(heard.frames[at], 0 if at == 5 else 1) for at in (1, 3, 5, 6)] == [[7], [7, -1], [-1], [7]]
        assert heard.open


def _lags(frame: bytes, version: int) -> list[int]:
    _, answer = decode_response(DescribeShareGroupOffsetsResponse, version, frame)
    return [row.lag for group in answer.groups for topic in group.topics for row in topic.partitions]


def test_throttle_times_pass(kafka: LocalKafka, driver: ShareDriver, proxy: RunningProxy, topic: str) -> None:
    """A client over its quota is told so, and its next request waits at the broker."""
    if kafka.version != SUPPORTED_VERSIONS[-1]:
        pytest.skip("quotas are the same in all versions")
    driver.create_topic(topic)
    who = ["--entity-type", "clients", "--entity-name", "greedy"]
    arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--alter", *who, "--add-config"]
    done = kafka.java(QUOTA_COMMAND, *arguments, "producer_byte_rate=5500")
    assert done.returncode == 0, done.stderr

    def throttled() -> bool:
        data = produce(topic, 1, size=60_000, client_id="greedy") + request(ApiVersionsRequest(), 0, 2)
        heard = hear(proxy.node_ports[1], data)
        assert [frame[3] for frame in heard.frames] == [1, 2]
        return decode_response(ProduceResponse, 9, heard.frames[0])[1].throttle_time_ms > 0

    wait_until(throttled, "the quota is known")
