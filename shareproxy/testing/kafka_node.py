"""What one node of a local Kafka needs: its properties, its ports, and a look at whether it is ready.

Must never be used for a real cluster: these settings trade safety for speed.
"""

import base64
import contextlib
import random
import socket
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"
# Below every system's range for outgoing connections: a client retrying a stopped node's port could otherwise be given
# that very port as its own and connect to itself, which keeps the node from coming back.
PORT_RANGE = (20000, 32000)


def usual_features(version: str) -> dict[str, int]:
    """Return the feature levels to format with, where the version's default leaves share groups off."""
    # 4.1 has share groups but leaves them off; from 4.2 on the default level has them on.
    return {"share.version": 1} if version.startswith("4.1.") else {}


def quick_properties(nodes: int) -> dict[str, str]:
    """Return broker properties under which a small cluster starts fast and a share group settles at once."""
    replicas, partitions = str(min(3, nodes)), "4"
    isr = "1" if nodes < 3 else "2"
    return {
        # Fewer than the usual 50: creating them is most of the time until a first group works.
        "offsets.topic.num.partitions": partitions,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.num.partitions": partitions,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": isr,
        "transaction.state.log.num.partitions": partitions,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": isr,
        "group.initial.rebalance.delay.ms": "0",
        # A share group needs two heartbeats before it gets partitions: one to initialise them, one to see them.
        "group.share.heartbeat.interval.ms": "200",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.assignment.interval.ms": "0",  # 4.3 and later; unknown properties do no harm before
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "0",
        "group.share.min.record.lock.duration.ms": "1000",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "num.io.threads": "4",
        "num.network.threads": "2",
        "log.cleaner.backoff.ms": "500",  # compaction within a second, where a topic asks for it
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
        "log.index.size.max.bytes": str(64 * 1024),
        "controller.quorum.election.timeout.ms": "500",
    }


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that are free now; another program may still take one."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = random.randrange(*PORT_RANGE)
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                ports.append(port)
    return ports


def kafka_uuid() -> str:
    """Return a new random id, written as Kafka writes them."""
    # A leading "-" would look like an option to its tools.
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return text if text[0] != "-" else kafka_uuid()


def brokers_seen_by(port: int) -> set[int]:
    """Return the ids of the brokers in one node's Metadata answer: the unfenced ones; empty if it does not answer."""
    header = struct.pack(">hhi", 3, 1, 1) + struct.pack(">h5s", 5, b"ready")
    request = header + struct.pack(">i", 0)  # no topics
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection, connection.makefile("rb") as answer:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", answer.read(4))
            body = answer.read(size)
            (count,) = struct.unpack_from(">i", body, 4)
            at, seen = 8, set()
            for _ in range(count):
                node_id, host_length = struct.unpack_from(">ih", body, at)
                at += 6 + host_length + 4
                (rack_length,) = struct.unpack_from(">h", body, at)
                at += 2 + max(0, rack_length)
                seen.add(node_id)
            return seen
    except (OSError, struct.error):
        return set()
