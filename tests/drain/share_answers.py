"""Build what brokers answer to a share session, in few words, and read what a session asks."""

from __future__ import annotations

from collections.abc import Sequence

from shareproxy.drain.session import SessionRequest, SharePartition, ShareSession
from shareproxy.protocol.ids import TopicId
from shareproxy.protocol.messages import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseNodeEndpoint,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartitionData,
)

ORDERS = SharePartition("orders", 0, TopicId(b"o" * 16))
ORDERS_1 = SharePartition("orders", 1, TopicId(b"o" * 16))
BILLS = SharePartition("bills", 0, TopicId(b"b" * 16))
LOCK = 30.0


def fetched(
    partition: SharePartition = ORDERS,
    acquired: Sequence[tuple[int, int] | tuple[int, int, int]] = (),
    *,
    error: int = 0,
    ack_error: int = 0,
    leader: tuple[int, int] | None = None,
    records: bytes = b"records",
) -> tuple[SharePartition, ShareFetchResponsePartitionData]:
    """One row of a ShareFetch answer; acquired ranges are first, last and (else 1) the delivery count."""
    row = ShareFetchResponsePartitionData(
        partition.partition,
        error_code=error,
        error_message="as asked" if error else None,
        acknowledge_error_code=ack_error,
        acknowledge_error_message="as asked" if ack_error else None,
        records=records if acquired else None,
        acquired_records=[
            ShareFetchResponseAcquiredRecords(each[0], each[1], each[2] if len(each) == 3 else 1) for each in acquired
        ],
    )
    if leader is not None:
        row.current_leader.leader_id, row.current_leader.leader_epoch = leader
    return partition, row


def fetch_answer(
    *rows: tuple[SharePartition, ShareFetchResponsePartitionData], error: int = 0, lock: float = LOCK
) -> ShareFetchResponse:
    """A ShareFetch answer."""
    return ShareFetchResponse(
        error_code=error,
        error_message="as asked" if error else None,
        acquisition_lock_timeout_ms=int(lock * 1000),
        responses=[ShareFetchableTopicResponse(partition.topic_id, [row]) for partition, row in rows],
        node_endpoints=[ShareFetchResponseNodeEndpoint(7, "seven", 9007)],
    )


def acknowledged(
    partition: SharePartition = ORDERS, *, error: int = 0, leader: tuple[int, int] | None = None
) -> tuple[SharePartition, ShareAcknowledgeResponsePartitionData]:
    """One row of a ShareAcknowledge answer."""
    row = ShareAcknowledgeResponsePartitionData(partition.partition, error, "as asked" if error else None)
    if leader is not None:
        row.current_leader.leader_id, row.current_leader.leader_epoch = leader
    return partition, row


def acknowledge_answer(
    *rows: tuple[SharePartition, ShareAcknowledgeResponsePartitionData], error: int = 0, lock: float = LOCK
) -> ShareAcknowledgeResponse:
    """A ShareAcknowledge answer."""
    return ShareAcknowledgeResponse(
        error_code=error,
        error_message="as asked" if error else None,
        acquisition_lock_timeout_ms=int(lock * 1000),
        responses=[ShareAcknowledgeTopicResponse(partition.topic_id, [row]) for partition, row in rows],
        node_endpoints=[ShareAcknowledgeResponseNodeEndpoint(7, "seven", 9007)],
    )


def acks_in(request: SessionRequest) -> dict[tuple[bytes, int], list[tuple[int, int, list[int]]]]:
    """Return the acknowledgements of a request, as first, last and types, by topic id and partition."""
    return {
        (topic.topic_id, partition.partition_index): [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def listed_in(request: SessionRequest) -> set[tuple[bytes, int]]:
    """Return the partitions a request names, forgotten ones not counted."""
    return {(topic.topic_id, p.partition_index) for topic in request.topics for p in topic.partitions}


def forgotten_in(request: ShareFetchRequest) -> set[tuple[bytes, int]]:
    """Return the partitions a request forgets."""
    return {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}


def key(partition: SharePartition) -> tuple[bytes, int]:
    """Return a partition as requests name it."""
    return partition.topic_id, partition.partition


def open_session(
    *partitions: SharePartition,
    acquired: Sequence[tuple[int, int]] = ((0, 9),),
    version: int = 2,
    now: float = 0.0,
    lock: float = LOCK,
) -> ShareSession:
    """Return a session that was opened with its first fetch, which handed over `acquired` of the first partition."""
    wanted = partitions or (ORDERS,)
    session = ShareSession("group", "member", version=version)
    session.set_wanted(wanted)
    fetch(session, now)
    session.on_answer(fetch_answer(fetched(wanted[0], acquired), lock=lock), now)
    return session


def fetch(session: ShareSession, now: float = 0.0, *, capacity: int = 500) -> ShareFetchRequest:
    """Return the next request, which has to be a ShareFetch."""
    request = session.next_request(now, capacity=capacity)
    assert isinstance(request, ShareFetchRequest), request
    return request
