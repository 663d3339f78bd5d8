"""Build the requests that the load consists of, once, so that sending them costs next to nothing.

In: a topic of one broker. Out: whole frames with their sizes. Must never: build anything while the clock runs.
"""

from __future__ import annotations

import random
import time
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.serving import PlainClient
from shareproxy.protocol.headers import encode_request, sized
from shareproxy.protocol.message import Request
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)

RECORD_BYTES: Final = 1024
LARGE_BATCH: Final = 128
"""Records of 1 KiB in a batch that a busy producer sends."""
SMALL_BATCH: Final = 15
"""Records of 1 KiB in a batch of Kafka's default `batch.size`, 16 KiB."""
FETCH_BYTES: Final = 1 << 20

# what the clients of Kafka 4 use; from these on answers may end with a new leader's address
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 9
METADATA_VERSION: Final = 12
API_VERSIONS_VERSION: Final = 4


def batch(records: int) -> bytes:
    """Return a record batch of records of 1 KiB that do not compress."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    content = random.Random(1)
    for offset in range(records):
        builder.append(offset, int(time.time() * 1000), None, content.randbytes(RECORD_BYTES), [])
    return bytes(builder.build())


def frame(request: Request, version: int) -> bytes:  # type: ignore[type-arg]
    """Return a request as it goes on the wire; its correlation id is always the same."""
    return sized(encode_request(request, version, 7, "bench"))


def produce(topic: str, records: int) -> bytes:
    """Return a Produce request with one batch and acks 1."""
    partition = ProduceRequestPartitionProduceData(index=0, records=batch(records))
    data = [ProduceRequestTopicProduceData(name=topic, partition_data=[partition])]
    return frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), PRODUCE_VERSION)


def fetch(topic_id: bytes) -> bytes:
    """Return a Fetch request outside any fetch session for the first 1 MiB of a topic."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, session_epoch=-1, topics=topics)
    return frame(request, FETCH_VERSION)


def list_offsets(topic: str) -> bytes:
    """Return the small request: the latest offset of one partition, which no proxy here edits."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
    return frame(ListOffsetsRequest(replica_id=-1, topics=topics), LIST_OFFSETS_VERSION)


def api_versions() -> bytes:
    """Return what every connection begins with."""
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    return frame(request, API_VERSIONS_VERSION)


def make_topic(host: str, port: int, name: str) -> bytes:
    """Let the broker create a topic; return its id when it has a leader."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    deadline = time.monotonic() + 30
    client = PlainClient(host, port)
    while True:
        (topic,) = client.ask(request, METADATA_VERSION).topics
        if topic.error_code == 0 and topic.partitions and topic.partitions[0].leader_id >= 0:
            client.close()
            return bytes(topic.topic_id)
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {name} has no leader after 30 s: error {topic.error_code}")
        time.sleep(0.05)
