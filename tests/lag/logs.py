"""Logs of record batches, and a cluster in memory that also serves them.

In: what a log holds, batch by batch. Out: the bytes that a broker would send, and answers to Fetch and to ListOffsets
of every kind. Must never: leave a fetch session, or accept one partition twice in a request.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NodeId, TopicId
from shareproxy.protocol.message import Request, Response
from tests.lag.simulated_brokers import KAFKA_4_4, SimulatedBrokers

WITH_FETCH = {**KAFKA_4_4, 1: (4, 18), 61: (0, 0), 66: (0, 2)}
TRANSACTIONAL, CONTROL, APPEND_TIME, HORIZON = 0x10, 0x20, 0x08, 0x40


def batch(
    base: int,
    count: int = 1,
    *,
    span: int | None = None,
    producer_id: int = -1,
    attributes: int = 0,
    first_time: int = 1_000,
    newest_time: int = 2_000,
    body: bytes = b"payload",
) -> bytes:
    """Return one batch of format 2; `span` offsets if compaction has left fewer records."""
    delta = (count if span is None else span) - 1
    rest = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, delta, first_time, newest_time, producer_id, 0, 0, count)
    return struct.pack(">qi", base, len(rest) + len(body)) + rest + body


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    record = b"\0\0\0" + bytes([2 * len(key)]) + key + b"\0\0"
    body = bytes([2 * len(record)]) + record
    return batch(base, producer_id=producer_id, attributes=TRANSACTIONAL | CONTROL, body=body)


@dataclass
class Log:
    """One partition's log: batches by base offset, and transactions that were aborted (producer, first, marker)."""

    start: int = 0
    end: int = 0
    stable: int | None = None
    batches: dict[int, bytes] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, count: int, **more: Any) -> Log:
        """Append a batch of records."""
        self.batches[self.end] = batch(self.end, count, **more)
        self.end += more.get("span") or count
        return self

    def transaction(self, count: int, producer_id: int, *, commit: bool) -> Log:
        """Append a transaction with its marker."""
        first = self.end
        self.add(count, producer_id=producer_id, attributes=TRANSACTIONAL)
        if not commit:
            self.aborted.append((producer_id, first, self.end))
        self.batches[self.end] = marker(self.end, producer_id, commit=commit)
        self.end += 1
        return self

    def from_offset(self, offset: int, limit: int, whole: int) -> bytes:
        """Return batches from the one that holds the offset; up to `limit` bytes, cut anywhere, but `whole` batches."""
        data = b""
        reached = [raw for base, raw in sorted(self.batches.items()) if _last(base, raw) >= offset]
        for number, raw in enumerate(reached):
            data += raw if number < whole else raw[: max(0, limit - len(data))]
            if len(data) >= limit and number + 1 >= whole:
                break
        return data


def _last(base: int, raw: bytes) -> int:
    [delta] = struct.unpack_from(">i", raw, 23)
    return base + int(delta)


class LogBrokers(SimulatedBrokers):
    """A cluster whose partitions have logs: by topic, in the order of its partitions."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(WITH_FETCH, nodes)
        self.logs: dict[tuple[str, int], Log] = {}
        self.may_read = True
        self.settings: dict[str, dict[str, str] | int] = {}
        self.times: dict[tuple[str, int], int] = {}
        self.producers: list[m.DescribeProducersResponseProducerState] = []
        self.transactional_ids: dict[int, str] = {}

    @property
    def fetched(self) -> list[m.FetchRequest]:
        """All Fetch requests."""
        return [message for _, message in self.asked if isinstance(message, m.FetchRequest)]

    def _answer(self, node_id: NodeId, message: Request[Any], version: int) -> Response:
        if isinstance(message, m.FetchRequest):
            return self._fetch(node_id, message, version)
        if isinstance(message, m.DescribeProducersRequest):
            return self._describe_producers(message)
        if isinstance(message, m.ListTransactionsRequest):
            known = self.transactional_ids.items()
            rows = [m.ListTransactionsResponseTransactionState(name, producer, "Ongoing") for producer, name in known]
            return m.ListTransactionsResponse(transaction_states=rows)
        return super()._answer(node_id, message, version)

    def _fetch(self, node_id: NodeId, message: m.FetchRequest, version: int) -> Response:
        assert (message.session_id, message.session_epoch, message.replica_id) == (0, -1, -1)
        assert message.max_wait_ms == 0
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        left, first = message.max_bytes, True
        seen: set[tuple[str, int]] = set()
        topics = []
        for asked in message.topics:
            name = names[TopicId(asked.topic_id)] if version >= 13 else asked.topic
            rows = []
            for partition in asked.partitions:
                assert (name, partition.partition) not in seen, "one partition twice in a request"
                seen.add((name, partition.partition))
                row = self._read(node_id, name, partition, left, message.isolation_level, first=first)
                left -= len(row.records or b"")
                first = first and not row.records
                rows.append(row)
            topics.append(m.FetchableTopicResponse(name, asked.topic_id, rows))
        return m.FetchResponse(responses=topics)

    def _read(
        self, node_id: NodeId, name: str, asked: m.FetchPartition, left: int, isolation: int, *, first: bool
    ) -> m.FetchResponsePartitionData:
        index, offset = asked.partition, asked.fetch_offset
        if not self.may_read:
            return m.FetchResponsePartitionData(index, 29)
        if self.topics[name].leaders[index] != node_id:
            return m.FetchResponsePartitionData(index, 6)
        log = self.logs[name, index]
        if not log.start <= offset <= log.end:
            return m.FetchResponsePartitionData(index, 1)
        stable = log.end if log.stable is None else log.stable
        limit = max(0, min(left, asked.partition_max_bytes))
        records = log.from_offset(offset, limit, int(first)) if limit or first else b""
        end = stable if isolation else log.end
        aborted = [
            m.FetchResponseAbortedTransaction(producer, begin)
            for producer, begin, done in log.aborted
            if done >= offset and begin < end
        ]
        return m.FetchResponsePartitionData(
            index, 0, log.end, stable, log.start, aborted_transactions=aborted if isolation else None, records=records
        )

    def _describe_producers(self, message: m.DescribeProducersRequest) -> Response:
        def row(partition: int) -> m.DescribeProducersResponsePartitionResponse:
            if not self.may_read:
                return m.DescribeProducersResponsePartitionResponse(partition, 29)
            return m.DescribeProducersResponsePartitionResponse(partition, active_producers=self.producers)

        return m.DescribeProducersResponse(
            topics=[
                m.DescribeProducersResponseTopicResponse(topic.name, [row(index) for index in topic.partition_indexes])
                for topic in message.topics
            ]
        )

    def _list_offsets(self, node_id: NodeId, message: m.ListOffsetsRequest) -> Response:
        if message.isolation_level == 0 and all(
            row.timestamp == -1 for topic in message.topics for row in topic.partitions
        ):
            return super()._list_offsets(node_id, message)
        return m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    topic.name, [self._position(topic.name, row, message.isolation_level) for row in topic.partitions]
                )
                for topic in message.topics
            ]
        )

    def _position(self, name: str, row: m.ListOffsetsPartition, isolation: int) -> m.ListOffsetsPartitionResponse:
        log = self.logs[name, row.partition_index]
        if row.timestamp == -2:
            position = log.start
        elif row.timestamp == -1:
            position = log.end if log.stable is None or not isolation else log.stable
        else:
            position = self.times.get((name, row.partition_index), -1)
        return m.ListOffsetsPartitionResponse(row.partition_index, 0, -1, position, 5)

    def _configs(self, message: m.DescribeConfigsRequest) -> Response:
        results = []
        for resource in message.resources:
            assert (resource.resource_type, resource.configuration_keys) == (32, None)
            known = self.settings.get(resource.resource_name, {})
            if isinstance(known, int):
                results.append(m.DescribeConfigsResult(known, "no", 32, resource.resource_name))
                continue
            rows = [
                m.DescribeConfigsResourceResult(name, value, config_source=8 if name != "x" else 5)
                for name, value in known.items()
            ]
            results.append(m.DescribeConfigsResult(0, None, 32, resource.resource_name, rows))
        return m.DescribeConfigsResponse(results=results)
