"""Rights: a client sees through the proxy what a broker shows that client, whatever the proxy itself may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import Security
from shareproxy.protocol.headers import sized
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ListGroupsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    SaslHandshakeRequest,
    ShareGroupDescribeRequest,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support import scenarios
from tests.support.raw_frames import RawConnection, request
from tests.support.real_kafka import VERSIONS
from tests.support.running_proxy import RunningProxy, running_proxy

SUPER = Security("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret")
ALICE = Security("SASL_PLAINTEXT", "PLAIN", "alice", "alice-secret")
NODE = NodeId(1)
BEYOND = 99
NO_RIGHT, MISSING = "secret-topic", "no-such-topic"
Row = tuple[str, int, int, int, str | None]
"""Topic, partition, start offset, error code and message."""


class Shown(NamedTuple):
    """What one group's answer shows: its error, its rows, and their lags by topic and partition."""

    error: tuple[int, str | None]
    rows: tuple[Row, ...]
    lags: dict[tuple[str, int], int]


class World(NamedTuple):
    """What there is.

    Attributes:
        visible: a topic that alice may describe, with a backlog of `granted`.
        granted: a group that alice may describe; it has a backlog in `NO_RIGHT` as well.
        withheld: a group that she may not; it has a backlog in `read`.
        read: a topic that she may read, which includes describing.
    """

    visible: str = "rights-describe"
    granted: str = "rights-granted"
    withheld: str = "rights-withheld"
    read: str = "rights-read"


@pytest.fixture(scope="module")
def proxy(secure_kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy whose own identity may see everything."""
    if secure_kafka.version not in (VERSIONS[0], VERSIONS[-1]):
        pytest.skip("the versions between them do the same")
    with running_proxy(secure_kafka.listeners["SASL_PLAINTEXT"], broker_security=SUPER) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def world(secure_driver: ShareDriver, proxy: RunningProxy) -> World:
    """Make the topics, the groups and alice's rights."""
    world = World()
    scenarios.partly_acknowledged(secure_driver, world.visible, world.granted)
    scenarios.partly_acknowledged(secure_driver, NO_RIGHT, world.granted)
    scenarios.partly_acknowledged(secure_driver, world.read, world.withheld)
    secure_driver.add_acl("User:alice", "TOPIC", world.visible, "DESCRIBE")
    secure_driver.add_acl("User:alice", "TOPIC", world.read, "READ")
    secure_driver.add_acl("User:alice", "GROUP", world.granted, "DESCRIBE")
    return world


def shown(servers: str, group: str, topics: list[tuple[str, list[int]]] | None, version: int) -> Shown:
    """Ask as alice."""

    async def run() -> Shown:
        named = None if topics is None else [DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics]
        asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, named)])
        async with Cluster(parse_addresses(servers), ALICE) as cluster:
            deadline = asyncio.get_running_loop().time() + 20
            answer = await cluster.request(NODE, asked, deadline=deadline, min_version=version, max_version=version)
        found = answer.groups[0]
        rows = [(topic.topic_name, row) for topic in found.topics for row in topic.partitions]
        return Shown(
            (found.error_code, found.error_message),
            tuple(sorted((t, r.partition_index, r.start_offset, r.error_code, r.error_message) for t, r in rows)),
            {(topic, row.partition_index): row.lag for topic, row in rows},
        )

    return asyncio.run(run())


def questions(world: World) -> Iterator[tuple[str, list[tuple[str, list[int]]] | None]]:
    """Yield groups and what is asked of them, as far as a broker answers it at once."""
    for group in (world.granted, world.withheld, "no-such-group"):
        yield group, None
        for topic in (world.visible, world.read, NO_RIGHT, MISSING):
            yield group, [(topic, [0])]
    for topic in (NO_RIGHT, MISSING):
        for group in (world.granted, world.withheld, "no-such-group"):
            yield group, [(topic, [BEYOND])]
            yield group, [(topic, [0, BEYOND])]
            yield group, [(topic, [BEYOND]), (topic, [0])]
    yield world.withheld, [(world.visible, [BEYOND])]


@pytest.mark.parametrize("version", [0, 1])
def test_offsets_and_errors_are_the_brokers(
    version: int, secure_kafka: LocalKafka, proxy: RunningProxy, world: World
) -> None:
    """Every right on the topic, with and without one on the group; lag only in rows that the broker granted."""
    at_broker = 0 if secure_kafka.version.startswith("4.1.") else version
    direct_servers = secure_kafka.listeners["SASL_PLAINTEXT"]
    seen: set[tuple[str, int]] = set()
    for group, topics in questions(world):
        through = shown(proxy.bootstrap_servers, group, topics, version)
        direct = shown(direct_servers, group, topics, at_broker)

        assert (through.error, through.rows) == (direct.error, direct.rows), (group, topics)
        granted = {(topic, index) for topic, index, start, error, _ in direct.rows if not error and start >= 0}
        seen |= granted
        known = {place for place, lag in through.lags.items() if lag != -1}
        assert known == (granted if version else set()), (group, topics)
    assert seen == {(world.visible, 0)}


@pytest.mark.parametrize("version", [0, 1])
def test_partition_beyond_the_end_tells_nothing_without_the_right(
    version: int, proxy: RunningProxy, world: World
) -> None:
    """The proxy answers such rows itself: one of a topic that alice may not see looks like one that is not there."""
    secret, missing = (
        shown(proxy.bootstrap_servers, world.granted, [(topic, [BEYOND])], version) for topic in (NO_RIGHT, MISSING)
    )
    visible = shown(proxy.bootstrap_servers, world.granted, [(world.visible, [0, BEYOND])], version)

    assert [row[1:] for row in secret.rows] == [row[1:] for row in missing.rows]
    assert [row[3] for row in secret.rows] == [29]
    assert [row[3] for row in visible.rows] == [0, 0]


def test_other_answers_are_the_brokers(secure_kafka: LocalKafka, proxy: RunningProxy, world: World) -> None:
    """Topics, groups and offsets: the same bytes."""
    named = [MetadataRequestTopic(name=topic) for topic in (world.visible, world.read, NO_RIGHT, MISSING)]
    rows = [ListOffsetsPartition(0, timestamp=-1)]
    asked = [
        request(MetadataRequest(None), 4, 1),
        request(MetadataRequest(named, allow_auto_topic_creation=False), 8, 2),
        request(ListGroupsRequest(), 5, 3),
        request(ShareGroupDescribeRequest([world.granted, world.withheld, "no-such-group"], True), 1, 4),
        request(
            ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, rows) for topic in (world.visible, NO_RIGHT)]), 7, 5
        ),
    ]

    def answers(address: str) -> list[bytes]:
        with RawConnection(address) as connection:
            connection.ask(request(SaslHandshakeRequest("PLAIN"), 0))
            connection.ask(sized(b"\0alice\0alice-secret"))
            connection.send(b"".join(asked))
            return list(connection.rest().frames)

    through, direct = answers(proxy.node_ports[1]), answers(secure_kafka.listeners["SASL_PLAINTEXT"])

    old, new = (
        int(address.rsplit(":", 1)[1]).to_bytes(4)
        for address in (secure_kafka.listeners["SASL_PLAINTEXT"], proxy.node_ports[1])
    )
    assert len(through) == len(asked)
    assert through == [frame.replace(old, new) for frame in direct]
