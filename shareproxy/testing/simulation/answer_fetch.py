"""What leaders answer to consumers that read their logs: Fetch, without sessions.

In: calls. Out: whole batches, the first one whatever its size. Must never: give records past the last stable offset to
whom reads committed ones.
"""

from __future__ import annotations

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import TopicId
from shareproxy.testing.simulation.answer_logs import READ_COMMITTED, partition_problem
from shareproxy.testing.simulation.call import Call, Late
from shareproxy.testing.simulation.record_batches import encode_batch
from shareproxy.testing.simulation.record_log import RecordLog

BY_ID = 13


def fetch(call: Call[m.FetchRequest]) -> m.FetchResponse | Late:
    """Answer Fetch; where there is nothing to give it waits as long as the request says."""
    message = call.message
    room = _Room(message.max_bytes)
    rows = [_topic(call, asked, room) for asked in message.topics]
    answer = m.FetchResponse(responses=rows)
    wrong = any(row.error_code for topic in rows for row in topic.partitions)
    if room.used < message.min_bytes and not wrong and message.max_wait_ms > 0:
        return Late(answer, message.max_wait_ms / 1000)
    return answer


class _Room:
    """How many bytes an answer may still take; the first batch of all always fits."""

    def __init__(self, most: int) -> None:
        self.used, self._most = 0, most

    def fits(self, size: int) -> bool:
        """Tell whether a batch may be added."""
        return not self.used or self.used + size <= self._most


def _topic(call: Call[m.FetchRequest], asked: m.FetchTopic, room: _Room) -> m.FetchableTopicResponse:
    name = asked.topic
    if call.version >= BY_ID:
        topic = call.state.topics.by_id.get(TopicId(asked.topic_id))
        if topic is None:
            rows = [m.FetchResponsePartitionData(row.partition, 100, -1, records=b"") for row in asked.partitions]
            return m.FetchableTopicResponse("", asked.topic_id, rows)
        name = topic.name
    return m.FetchableTopicResponse(
        asked.topic, asked.topic_id, [_partition(call, name, row, room) for row in asked.partitions]
    )


def _partition(
    call: Call[m.FetchRequest], name: str, asked: m.FetchPartition, room: _Room
) -> m.FetchResponsePartitionData:
    index = asked.partition
    problem = partition_problem(call, name, index, asked.current_leader_epoch, "READ")
    if problem:
        return m.FetchResponsePartitionData(index, problem, -1, records=b"")
    log = call.state.topics.by_name[name].partitions[index].log
    start, end = log.log_start_offset, log.high_watermark
    if not start <= asked.fetch_offset <= end:
        return m.FetchResponsePartitionData(index, 1, -1, aborted_transactions=None, records=b"")
    committed = call.message.isolation_level == READ_COMMITTED
    records, last = _records(log, asked, log.last_stable_offset if committed else end, room)
    aborted = None
    if committed:
        aborted = [
            m.FetchResponseAbortedTransaction(gone.producer_id, gone.first_offset)
            for gone in log.aborted(asked.fetch_offset, last)
        ]
    return m.FetchResponsePartitionData(
        index, 0, end, log.last_stable_offset, start, aborted_transactions=aborted, records=records
    )


def _records(log: RecordLog, asked: m.FetchPartition, before: int, room: _Room) -> tuple[bytes, int]:
    """Return the bytes, and the last offset that they span."""
    found, here, last = [], 0, asked.fetch_offset
    for batch in log.batches_from(asked.fetch_offset, before):
        data = encode_batch(batch)
        if not room.fits(len(data)) or (here and here + len(data) > asked.partition_max_bytes):
            break
        if room.used and not here and len(data) > asked.partition_max_bytes:
            break
        found.append(data)
        here += len(data)
        room.used += len(data)
        last = batch.last_offset
    return b"".join(found), last
