"""Decode and encode three large messages, beside kafka-python's codec.

Targets: decode ≥ 3×, encode ≥ 6× as fast. Both read and write the same bytes, which is checked first. A round is a few
calls of one side, then of the other: a single call would measure what the other one left of the cache. The garbage
collector stays on: its pauses, and freeing what was decoded, are part of each round.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.rounds import interleaved, median_ratio, print_times
from shareproxy.protocol import messages as m
from shareproxy.protocol.codec import decode, encode
from shareproxy.protocol.message import Response
from shareproxy.protocol.schema_files import schema_directory

ROUNDS = 30
CALLS = 5  # per round
OURS, THEIRS = "shareproxy", "kafka-python"


def metadata(topics: int = 1000, partitions: int = 3) -> m.MetadataResponse:
    """Describe a cluster of six brokers; every partition has three replicas."""
    brokers = [m.MetadataResponseBroker(n, f"broker-{n}.kafka.example.com", 9092, f"rack-{n % 3}") for n in range(6)]
    return m.MetadataResponse(
        brokers=brokers,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        topics=[
            m.MetadataResponseTopic(
                name=f"orders.region-{topic:04}",
                topic_id=(topic + 1).to_bytes(16),
                partitions=[
                    m.MetadataResponsePartition(
                        partition_index=index,
                        leader_id=(topic + index) % 6,
                        leader_epoch=5,
                        replica_nodes=[(topic + index + k) % 6 for k in range(3)],
                        isr_nodes=[(topic + index + k) % 6 for k in range(3)],
                    )
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


def list_offsets(topics: int = 30, partitions: int = 100) -> m.ListOffsetsResponse:
    """Return the end offsets of 3,000 partitions."""
    return m.ListOffsetsResponse(
        topics=[
            m.ListOffsetsTopicResponse(
                f"orders.region-{topic:04}",
                [
                    m.ListOffsetsPartitionResponse(index, offset=10**10 + 7919 * index + topic, leader_epoch=7)
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ]
    )


def share_group_offsets(topics: int = 30, partitions: int = 100) -> m.DescribeShareGroupOffsetsResponse:
    """Return the lag of 3,000 share partitions."""
    return m.DescribeShareGroupOffsetsResponse(
        groups=[
            m.DescribeShareGroupOffsetsResponseGroup(
                "workers",
                [
                    m.DescribeShareGroupOffsetsResponseTopic(
                        f"orders.region-{topic:04}",
                        (topic + 1).to_bytes(16),
                        [
                            m.DescribeShareGroupOffsetsResponsePartition(
                                index, start_offset=10**10 + 7919 * index, leader_epoch=5, lag=1000 + index
                            )
                            for index in range(partitions)
                        ],
                    )
                    for topic in range(topics)
                ],
            )
        ]
    )


def kafka_python_classes() -> dict[type[Response], Any]:
    """Return kafka-python's classes; the one it lacks is made from our schema files, as its loader allows."""
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import ListOffsetsResponse
    from kafka.protocol.metadata import MetadataResponse

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "share_group_schemas"
        package.mkdir()
        (package / "__init__.py").touch()
        for path in schema_directory().glob("DescribeShareGroupOffsets*.json"):
            shutil.copy(path, package)
        sys.path.insert(0, folder)
        schemas = importlib.import_module(package.name)
        sys.path.remove(folder)

        # a response class looks for its request when it is made
        type(ApiMessage)("DescribeShareGroupOffsetsRequest", (ApiMessage,), {}, load_json=schemas)
        offsets = type(ApiMessage)("DescribeShareGroupOffsetsResponse", (ApiMessage,), {}, load_json=schemas)
    return {
        m.MetadataResponse: MetadataResponse,
        m.ListOffsetsResponse: ListOffsetsResponse,
        m.DescribeShareGroupOffsetsResponse: offsets,
    }


def compare(message: Response, version: int, theirs: Any) -> None:
    """Print the ratios for one message."""
    kind = type(message)
    data = encode(message, version)
    their_message = theirs.decode(data, version=version)
    their_message._header = None  # a decoded message lacks it, and cannot be encoded without
    assert decode(kind, version, data) == message
    assert bytes(their_message.encode(version=version)) == data
    print(f"{kind.schema_name} version {version}, {len(data):,} bytes")
    contest("decode", {OURS: lambda: decode(kind, version, data), THEIRS: lambda: theirs.decode(data, version=version)})
    contest("encode", {OURS: lambda: encode(message, version), THEIRS: lambda: their_message.encode(version=version)})


def contest(what: str, contestants: dict[str, Callable[[], object]]) -> None:
    """Print how many times faster our side is."""
    rounds = {name: partial(several, call) for name, call in contestants.items()}
    times = {name: [seconds / CALLS for seconds in found] for name, found in interleaved(rounds, ROUNDS).items()}
    print(f" {what}: {median_ratio(times, THEIRS, OURS):.1f} × as fast as {THEIRS}")
    print_times(times)


def several(call: Callable[[], object]) -> None:
    """Make the calls of a round."""
    for _ in range(CALLS):
        call()


def main() -> int:
    """Compare all three messages."""
    theirs = kafka_python_classes()
    for message, version in ((metadata(), 12), (list_offsets(), 7), (share_group_offsets(), 1)):
        compare(message, version, theirs[type(message)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
