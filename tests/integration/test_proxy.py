"""Admin clients through the proxy, on one node of every supported version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import SHARE_GROUP_COMMAND, SUPPORTED_VERSIONS, LocalKafka
from tests.support import scenarios
from tests.support.running_proxy import RunningProxy, running_proxy
from tests.support.scenarios import Layout

Scenario = Callable[[ShareDriver, str, str], Layout]
NEWEST = SUPPORTED_VERSIONS[-1]
NODE = NodeId(1)


@pytest.fixture(scope="module", params=[asyncio.new_event_loop, "uvloop"], ids=["asyncio", "uvloop"])
def proxy(request: pytest.FixtureRequest, kafka: LocalKafka) -> Iterator[RunningProxy]:
    """A proxy in front of the one-node cluster, on each event loop."""
    loop = {} if request.param == "uvloop" else {"new_loop": request.param}
    with running_proxy(kafka.bootstrap_servers, **loop) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def newest_driver(kafka: LocalKafka) -> Iterator[ShareDriver]:
    """The newest version's Java clients, which know lag, whatever the cluster's version."""
    with ShareDriver(LocalKafka(NEWEST).jar_dir, kafka.bootstrap_servers) as driver:
        yield driver


def ask(
    bootstrap_servers: str,
    *groups: DescribeShareGroupOffsetsRequestGroup,
    version: int,
    node_id: NodeId | None = NODE,
    timeout: float = 30.0,
) -> DescribeShareGroupOffsetsResponse:
    """Ask for offsets in one version, with our own client."""

    async def run() -> DescribeShareGroupOffsetsResponse:
        async with Cluster(parse_addresses(bootstrap_servers)) as cluster:
            deadline = asyncio.get_running_loop().time() + timeout
            request = DescribeShareGroupOffsetsRequest(groups=list(groups))
            return await cluster.request(node_id, request, deadline=deadline, max_version=version, min_version=version)

    return asyncio.run(run())


def asked(group: str, topics: dict[str, list[int]] | None = None) -> DescribeShareGroupOffsetsRequestGroup:
    """Ask for one group's offsets: all topics, or some partitions by topic."""
    if topics is None:
        return DescribeShareGroupOffsetsRequestGroup(group, None)
    rows = [DescribeShareGroupOffsetsRequestTopic(topic, partitions) for topic, partitions in topics.items()]
    return DescribeShareGroupOffsetsRequestGroup(group, rows)


def lags(answer: DescribeShareGroupOffsetsResponse) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Return lag and error code by group, topic and partition."""
    return {
        (group.group_id, topic.topic_name, row.partition_index): (row.lag, row.error_code)
        for group in answer.groups
        for topic in group.topics
        for row in topic.partitions
    }


def test_kafkas_own_tool_shows_the_lag(
    kafka_version: str, driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """`kafka-share-groups.sh --describe --offsets` prints KIP-1226's 7 in its LAG column, on 4.1 too."""
    scenarios.kip_1226_layout(driver, topic, group)

    arguments = ["--bootstrap-server", proxy.bootstrap_servers, "--describe", "--group", group, "--offsets"]
    done = LocalKafka(NEWEST).java(SHARE_GROUP_COMMAND, *arguments)

    header, row = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert header == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert [*row[:3], row[4]] == [group, topic, "0", "7"], done.stderr


ALL: list[Scenario] = [
    scenarios.kip_1226_layout,
    scenarios.never_consumed,
    scenarios.partly_acknowledged,
    scenarios.released,
    scenarios.rejected,
    scenarios.all_acknowledged,
    scenarios.altered,
]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.__name__)
def test_admin_client_sees_the_lag(
    scenario: Scenario,
    kafka_version: str,
    driver: ShareDriver,
    newest_driver: ShareDriver,
    proxy: RunningProxy,
    topic: str,
    group: str,
) -> None:
    """The Java admin client gets the right lag for all topics and for named ones."""
    if kafka_version.startswith("4.1.") and scenario is scenarios.altered:
        pytest.skip("Kafka 4.1 does not alter share-group offsets")
    layout = scenario(driver, topic, group)
    through = newest_driver.connected_to(proxy.bootstrap_servers)

    everything = through.list_share_group_offsets(group)
    named = through.list_share_group_offsets(group, {topic: [0]})

    assert {row.partition: row.lag for row in everything} == layout.lags
    assert {row.partition: row.lag for row in named} == layout.lags


def test_group_name_may_have_a_colon(
    kafka_version: str, driver: ShareDriver, newest_driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """The share coordinator's key has colons between its parts; 4.1's FindCoordinator stumbles over more of them."""
    layout = scenarios.kip_1226_layout(driver, topic, f"{group}:with:colons")

    rows = newest_driver.connected_to(proxy.bootstrap_servers).list_share_group_offsets(layout.group)

    assert [row.lag for row in rows] == [7]


def test_many_groups_and_topics_in_one_request(
    driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Each group gets its own lag; unknown groups, topics and the same group twice do no harm."""
    first = scenarios.kip_1226_layout(driver, topic, group)
    second = scenarios.partly_acknowledged(driver, topic + "-b", group + "-b")

    answer = ask(
        proxy.bootstrap_servers,
        asked(first.group),
        asked(second.group, {second.topic: [0], "no-such-topic": [0]}),
        asked("no-such-group"),
        asked(first.group, {first.topic: [0]}),
        version=1,
    )

    assert [group.group_id for group in answer.groups] == [first.group, second.group, "no-such-group", first.group]
    assert lags(answer) == {
        (first.group, first.topic, 0): (7, 0),
        (second.group, second.topic, 0): (6, 0),
        (second.group, "no-such-topic", 0): (-1, 0),
    }


def test_version_0_is_the_brokers_own_answer(
    kafka: LocalKafka, driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """Clients that know no lag are not touched."""
    scenarios.kip_1226_layout(driver, topic, group)
    groups = [asked(group), asked(group, {topic: [0], "no-such-topic": [0]})]

    through, direct = (
        ask(servers, *groups, version=0) for servers in (proxy.bootstrap_servers, kafka.bootstrap_servers)
    )

    assert through == direct


@pytest.mark.parametrize("version", [0, 1])
def test_partition_that_does_not_exist_is_answered_without_the_broker(
    version: int, driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """A broker takes half a minute for such a row (4.2 to 4.4), and all others of the request wait with it."""
    scenarios.kip_1226_layout(driver, topic, group)
    groups = [asked(group, {topic: [0, 1, 99]}), asked(group, {topic: [7], "no-such-topic": [0]})]

    answer = ask(proxy.bootstrap_servers, *groups, version=version, timeout=10)

    first, second = (
        {
            (topic.topic_name, row.partition_index): (row.lag, row.error_code)
            for topic in group.topics
            for row in topic.partitions
        }
        for group in answer.groups
    )
    assert first == {(topic, 0): (7 if version else -1, 0), (topic, 1): (-1, 0), (topic, 99): (-1, 0)}
    assert second == {(topic, 7): (-1, 0), ("no-such-topic", 0): (-1, 0)}


def test_start_beyond_the_end_is_a_negative_lag(
    kafka_version: str, driver: ShareDriver, proxy: RunningProxy, topic: str, group: str
) -> None:
    """A real negative number passes as it is (KIP-1226)."""
    if kafka_version.startswith("4.1."):
        pytest.skip("Kafka 4.1 does not alter share-group offsets")
    scenarios.altered(driver, topic, group, start_offset=50)

    assert lags(ask(proxy.bootstrap_servers, asked(group), version=1)) == {(group, topic, 0): (-40, 0)}


@pytest.mark.parametrize("source", [SourceChoice.SUMMARY, SourceChoice.BATCHES])
def test_pinned_source_equals_the_brokers_own_answer(
    source: SourceChoice, kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """From 4.2 on, what we work out is row by row what the broker says."""
    if kafka_version.startswith("4.1."):
        pytest.skip("Kafka 4.1 knows no lag")
    layout = scenarios.many_partitions(driver, topic, group, 20)

    with running_proxy(kafka.bootstrap_servers, source=source) as pinned:
        ours = ask(pinned.bootstrap_servers, asked(group), version=1)

    assert ours == ask(kafka.bootstrap_servers, asked(group), version=1)
    assert {row[2]: lag for row, (lag, _) in lags(ours).items()} == layout.lags


def test_without_an_engine_the_broker_is_shown_as_it_is(
    kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Version 1 is offered only where somebody can answer it."""
    scenarios.kip_1226_layout(driver, topic, group)
    version = 0 if kafka_version.startswith("4.1.") else 1

    with running_proxy(kafka.bootstrap_servers, fills_lag=False) as plain:

        async def offered(servers: str) -> tuple[int, int]:
            async with Cluster(parse_addresses(servers)) as cluster:
                deadline = asyncio.get_running_loop().time() + 30
                return (await cluster.versions(None, deadline=deadline))[90]

        assert asyncio.run(offered(plain.bootstrap_servers)) == (0, version)
        assert ask(plain.bootstrap_servers, asked(group), version=version) == ask(
            kafka.bootstrap_servers, asked(group), version=version
        )


def test_clients_are_told_the_proxys_ports_only(driver: ShareDriver, proxy: RunningProxy) -> None:
    """Describing the cluster shows the node's own port of the proxy."""
    assert driver.connected_to(proxy.bootstrap_servers).describe_cluster().nodes == {1: proxy.node_ports[1]}
