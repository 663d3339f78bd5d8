"""What one cluster answers about one group and its topics: raw rows of every API, and the lag engine's report.

In: the address of a one-node cluster, names. Out: rows that two clusters can be compared by: ids of topics are replaced
by their names, ids of members and times are left out. Must never: leave out what a client acts on.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import topic_id_text
from tests.contract.wire import Wire

Rows = Mapping[str, Any]

ALL_TIMESTAMPS: Final = (-1, -2)
ENGINE_SECONDS: Final = 15.0


def observe(wire: Wire, group: str, topics: Sequence[str]) -> dict[str, Any]:
    """Ask everything about a group and its topics, and return name of the question → comparable answer."""
    seen = _Observer(wire, group, topics)
    return {
        "DescribeShareGroupOffsets v0": seen.offsets(0, None),
        "DescribeShareGroupOffsets": seen.offsets(None, None),
        "DescribeShareGroupOffsets of topics": seen.offsets(None, [(topic, [1, 0, 0]) for topic in topics]),
        "ReadShareGroupStateSummary v0": seen.summaries(0),
        "ReadShareGroupStateSummary": seen.summaries(None),
        "ReadShareGroupState": seen.states(),
        "ShareGroupDescribe": seen.description(),
        "ListGroups": seen.listed(),
        "ListOffsets": [seen.end_offsets(timestamp, 0) for timestamp in ALL_TIMESTAMPS] + [seen.end_offsets(-1, 1)],
        "Fetch": [seen.batches(0), seen.batches(1)],
        "FindCoordinator": seen.coordinators(),
        "DescribeGroups": seen.classic(),
        "OffsetFetch": seen.committed(),
        "DescribeConfigs": seen.configs(),
        "LagEngine": seen.report(),
    }


class _Observer:
    def __init__(self, wire: Wire, group: str, topics: Sequence[str]) -> None:
        self._wire, self._group, self._topics = wire, group, topics
        answer = wire.ask(m.MetadataRequest([m.MetadataRequestTopic(name=topic) for topic in topics], False))
        self._ids = {topic.name or "": topic.topic_id for topic in answer.topics if not topic.error_code}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._counts = {topic.name or "": len(topic.partitions) for topic in answer.topics}

    def _name(self, topic_id: bytes) -> str:
        return self._names.get(topic_id, "zero" if topic_id == bytes(16) else "another")

    def offsets(self, version: int | None, topics: Sequence[tuple[str, list[int]]] | None) -> Any:
        known = [(name, [p for p in rows if p < self._counts.get(name, 1)]) for name, rows in topics or ()]
        asked = None if topics is None else [m.DescribeShareGroupOffsetsRequestTopic(*row) for row in known]
        request = m.DescribeShareGroupOffsetsRequest([m.DescribeShareGroupOffsetsRequestGroup(self._group, asked)])
        [group] = self._wire.ask(request, version).groups
        rows = sorted(
            (topic.topic_name, self._name(topic.topic_id), *_plain(row))
            for topic in group.topics
            for row in topic.partitions
        )
        return [group.error_code, group.error_message, *rows]

    def summaries(self, version: int | None) -> Any:
        asked = [
            m.ReadShareGroupStateSummaryRequestReadStateSummaryData(
                self._ids.get(topic, bytes(16)),
                [m.ReadShareGroupStateSummaryRequestPartitionData(p) for p in range(self._counts[topic])]
                or [m.ReadShareGroupStateSummaryRequestPartitionData(0)],
            )
            for topic in self._topics
        ]
        answer = self._wire.ask(m.ReadShareGroupStateSummaryRequest(self._group, asked), version)
        return self._state_rows(answer.results)

    def states(self) -> Any:
        epochs = {(row[0], row[1]): row[4] for row in self.summaries(None)}
        asked = [
            m.ReadShareGroupStateRequestReadStateData(
                self._ids[topic],
                [
                    m.ReadShareGroupStateRequestPartitionData(p, epochs.get((topic, p), 0))
                    for p in range(self._counts[topic])
                ],
            )
            for topic in self._topics
            if topic in self._ids
        ]
        return self._state_rows(self._wire.ask(m.ReadShareGroupStateRequest(self._group, asked)).results)

    def _state_rows(self, results: Sequence[Any]) -> list[tuple[Any, ...]]:
        return sorted(
            ((self._name(topic.topic_id), *_plain(row)) for topic in results for row in topic.partitions),
            key=lambda row: row[:2],
        )

    def description(self) -> Any:
        [group] = self._wire.ask(m.ShareGroupDescribeRequest([self._group])).groups
        members = sorted(
            (
                member.rack_id,
                member.client_host,
                sorted(member.subscribed_topic_names),
                sorted(
                    (row.topic_name, self._name(row.topic_id), sorted(row.partitions))
                    for row in member.assignment.topic_partitions
                ),
                group.group_epoch - member.member_epoch,
            )
            for member in group.members
        )
        return (
            group.error_code,
            group.error_message,
            group.group_state,
            group.assignor_name,
            group.group_epoch - group.assignment_epoch,
            members,
        )

    def listed(self) -> Any:
        requests = (
            m.ListGroupsRequest(),
            m.ListGroupsRequest(types_filter=["Share"]),
            m.ListGroupsRequest(states_filter=["empty"]),
        )
        return [
            [_plain(row) for row in self._wire.ask(request).groups if row.group_id == self._group]
            for request in requests
        ]

    def end_offsets(self, timestamp: int, isolation_level: int) -> Any:
        request = m.ListOffsetsRequest(
            -1,
            isolation_level,
            [
                m.ListOffsetsTopic(
                    topic, [m.ListOffsetsPartition(p, -1, timestamp) for p in range(self._counts.get(topic, 0) + 1)]
                )
                for topic in self._topics
            ],
        )
        answer = self._wire.ask(request)
        return sorted((topic.name, *_plain(row)) for topic in answer.topics for row in topic.partitions)

    def batches(self, isolation_level: int) -> Any:
        """Return offsets and kinds of the batches of all partitions, from their log starts, and what was aborted."""
        found = []
        for topic, topic_id in self._ids.items():
            for partition in range(self._counts[topic]):
                start = self._log_start(topic, partition)
                asked = m.FetchPartition(partition, fetch_offset=start, partition_max_bytes=1 << 20)
                request = m.FetchRequest(
                    max_wait_ms=0, isolation_level=isolation_level, topics=[m.FetchTopic("", topic_id, [asked])]
                )
                [row] = self._wire.ask(request).responses[0].partitions
                aborted = [gone.first_offset for gone in row.aborted_transactions or ()]
                ends = (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset)
                found.append((topic, partition, ends, aborted, list(_batch_heads(row.records or b""))))
        return found

    def _log_start(self, topic: str, partition: int) -> int:
        asked = m.ListOffsetsTopic(topic, [m.ListOffsetsPartition(partition, -1, -2)])
        return self._wire.ask(m.ListOffsetsRequest(-1, 0, [asked])).topics[0].partitions[0].offset

    def classic(self) -> Any:
        [group] = self._wire.ask(m.DescribeGroupsRequest([self._group])).groups
        return _plain(group)

    def committed(self) -> Any:
        [group] = self._wire.ask(
            m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(self._group, topics=None)]), 9
        ).groups
        return _plain(group)

    def coordinators(self) -> Any:
        keys = [f"{self._group}:{topic_id_text(self._ids[t])}:0" for t in self._topics if t in self._ids]  # type: ignore[arg-type]
        asked = (
            (m.FindCoordinatorRequest("", 0, [self._group]), 6),
            (m.FindCoordinatorRequest("", 2, [*keys, "nonsense"]), 6),
            (m.FindCoordinatorRequest("", 2, keys), 5),
            (m.FindCoordinatorRequest(self._group, 0), 3),
            (m.FindCoordinatorRequest("nonsense", 2), 3),
        )
        answers = [self._wire.ask(request, version) for request, version in asked]
        return [
            [
                (a.error_code, a.error_message, a.node_id),
                *((c.node_id, c.error_code, c.error_message) for c in a.coordinators),
            ]
            for a in answers
        ]

    def configs(self) -> Any:
        names = [name for name in _CONFIGS if name != "share.heartbeat.interval.ms"]
        resource = m.DescribeConfigsResource(32, self._group, names)
        [result] = self._wire.ask(m.DescribeConfigsRequest([resource], True)).results
        return [result.error_code, result.error_message, *sorted(_plain(row) for row in result.configs)]

    def report(self) -> Any:
        async def run() -> list[dict[str, object]]:
            async with Cluster(parse_addresses(f"{self._wire.address[0]}:{self._wire.address[1]}")) as cluster:
                report = await LagEngine(cluster, timeout=ENGINE_SECONDS).report([self._group])
            return [group.to_dict() for group in report.groups]

        groups = asyncio.run(run())
        for group in groups:
            rows: Any = group["partitions"]
            for row in rows:
                del row["topic_id"]
        return groups


_CONFIGS: Final = (
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.renew.acknowledge.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.copy.record.enable",
)

# the state epoch counts what a coordinator did on the way; nobody but leaders looks at it
_DROPPED: Final = frozenset({"unknown_tags", "documentation", "state_epoch"})


# base offset, length, leader epoch, magic, checksum, attributes, last offset delta … records
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_KINDS: Final = 0x30  # transactional, control


def _batch_heads(records: bytes) -> Iterator[tuple[int, ...]]:
    """Yield first offset, last offset, kind and number of records of each batch."""
    at = 0
    while at + _BATCH.size <= len(records):
        base, length, *_, attributes, delta, _, _, _, _, _, count = _BATCH.unpack_from(records, at)
        yield base, base + delta, attributes & _KINDS, count
        at += 12 + length


def _plain(row: Any) -> tuple[Any, ...]:
    """Return a struct's fields as a tuple, structs inside as well."""
    return tuple(
        [_plain(item) if hasattr(item, "__struct_fields__") else item for item in value]
        if isinstance(value := getattr(row, name), list)
        else value
        for name in row.__struct_fields__
        if name not in _DROPPED
    )


_OF_THE_CLUSTER: Final = frozenset({"timestamp", "brokers", "cluster_id"})


def comparable(answer: Any, names: Mapping[bytes, str]) -> Any:
    """Return an answer as tuples, topic ids replaced by names, rows sorted, without timestamps and addresses."""
    if isinstance(answer, bytes):
        return names.get(answer, answer)
    if isinstance(answer, list):
        return sorted((comparable(item, names) for item in answer), key=repr)
    if hasattr(answer, "__struct_fields__"):
        fields = [name for name in answer.__struct_fields__ if name not in _DROPPED | _OF_THE_CLUSTER]
        return tuple((name, comparable(getattr(answer, name), names)) for name in fields)
    return answer


def differences(real: Rows, simulated: Rows) -> dict[str, tuple[Any, Any]]:
    """Return the questions whose answers differ, with both answers."""
    return {name: (real[name], simulated[name]) for name in real if real[name] != simulated[name]}
