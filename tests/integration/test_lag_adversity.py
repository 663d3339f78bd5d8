"""The lag engine on a three-node cluster: nodes that hang, many groups at once, topics that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import LagReport, Status
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support import scenarios
from tests.support.living import rows_on_living_nodes
from tests.support.scenarios import Layout
from tests.support.waiting import wait_until

T = TypeVar("T")
PARTITIONS = 12
GROUPS = 3
# longer than the brokers themselves need when they have to ask one another twice
PATIENCE = 15.0
# the brokers' own answer takes about half a minute, or until the node that hangs is fenced
FAR_BELOW_THE_BROKERS = 8.0


@pytest.fixture(scope="module")
def layouts(three_nodes: LocalKafka, three_nodes_driver: ShareDriver) -> list[Layout]:
    """Groups with partitions on all three nodes, replicated once; nobody is a member."""
    return [
        scenarios.many_partitions(three_nodes_driver, f"spread-{number}", f"spread-group-{number}", PARTITIONS)
        for number in range(GROUPS)
    ]


@pytest.fixture
def thawed(three_nodes: LocalKafka, layouts: list[Layout]) -> Iterator[None]:
    """Thaw all nodes afterwards, and wait until every row is known again."""
    yield
    for node in three_nodes.nodes:
        three_nodes.thaw_node(node.node_id)
    wait_until(lambda: _lags(_look(three_nodes, layouts, PATIENCE)) == _expected(layouts), "all rows are known", 60.0)


def with_engine(kafka: LocalKafka, question: Callable[[LagEngine], Awaitable[T]]) -> T:
    """Run one question with a client and an engine of its own."""

    async def run() -> T:
        async with Cluster(parse_addresses(kafka.bootstrap_servers)) as cluster:
            return await question(LagEngine(cluster))

    return asyncio.run(run())


def _look(kafka: LocalKafka, layouts: Sequence[Layout], timeout: float | None = None) -> LagReport:
    names = [layout.group for layout in layouts]
    return with_engine(kafka, lambda engine: engine.report(names, timeout=timeout))


def _lags(report: LagReport) -> dict[tuple[str, int], int | None]:
    return {(group.group, row.partition): row.lag for group in report.groups for row in group.partitions}


def _expected(layouts: Sequence[Layout]) -> dict[tuple[str, int], int | None]:
    return {(layout.group, partition): lag for layout in layouts for partition, lag in layout.lags.items()}


def test_a_first_look_has_every_row(three_nodes: LocalKafka, layouts: list[Layout]) -> None:
    """Within the usual deadline, although brokers hold back the first answer after their start for two seconds."""
    report = _look(three_nodes, layouts)

    assert _lags(report) == _expected(layouts)
    assert all(group.complete for group in report.groups)


def test_many_groups_at_once(three_nodes: LocalKafka, three_nodes_driver: ShareDriver, layouts: list[Layout]) -> None:
    """Brokers hold back answers about several groups now and then: every look has every row all the same."""
    topic = layouts[0].topic
    names = [f"crowd-{number}" for number in range(12)]
    for name in names:
        three_nodes_driver.alter_offsets(name, {topic: dict.fromkeys(range(PARTITIONS), 0)})

    async def looks(engine: LagEngine) -> list[LagReport]:
        return [await engine.report(names) for _ in range(5)]

    for report in with_engine(three_nodes, looks):
        assert {group.group: group.partitions_known for group in report.groups} == dict.fromkeys(names, PARTITIONS)


@pytest.mark.usefixtures("thawed")
def test_a_frozen_node_hides_only_its_own_rows(three_nodes: LocalKafka, layouts: list[Layout]) -> None:
    """For a client that has looked before and for a new one; also of groups that the node coordinates."""
    names = [layout.group for layout in layouts]
    frozen = three_nodes.nodes[-1].node_id

    async def looks(engine: LagEngine) -> tuple[dict[tuple[str, int], int | None], list[LagReport], float]:
        await engine.report(None, timeout=PATIENCE)
        living = await rows_on_living_nodes(three_nodes, layouts, frozen)
        three_nodes.freeze_node(frozen)
        loop = asyncio.get_running_loop()
        started = loop.time()
        reports = [await engine.report(names)]
        async with Cluster(parse_addresses(three_nodes.bootstrap_servers)) as another:
            reports.append(await LagEngine(another).report(names))
        return living, reports, (loop.time() - started) / len(reports)

    living, reports, seconds = with_engine(three_nodes, looks)

    assert len(living) > GROUPS
    for report in reports:
        found = _lags(report)
        assert {key: found.get(key) for key in living} == living
        assert found.keys() == _expected(layouts).keys()
        statuses = {row.status for group in report.groups for row in group.partitions if row.lag is None}
        assert statuses <= {Status.TIMEOUT, Status.NO_LEADER}
    assert seconds < FAR_BELOW_THE_BROKERS


@pytest.mark.usefixtures("thawed")
def test_groups_of_a_frozen_coordinator_stay_in_the_list(three_nodes: LocalKafka, layouts: list[Layout]) -> None:
    """All groups, with a sentence about the node whose groups are those of the last look."""
    frozen = three_nodes.nodes[0].node_id

    async def looks(engine: LagEngine) -> tuple[LagReport, LagReport]:
        before = await engine.report(None, timeout=PATIENCE)
        three_nodes.freeze_node(frozen)
        return before, await engine.report(None)

    before, after = with_engine(three_nodes, looks)

    assert [group.group for group in after.groups] == [group.group for group in before.groups]
    assert any(f"broker {frozen}" in problem for problem in after.problems)


def test_a_topic_made_again_starts_anew(three_nodes: LocalKafka, three_nodes_driver: ShareDriver) -> None:
    """Nothing of the old topic is ever shown with the name of the new one, whatever the engine remembers."""
    layout = scenarios.released(three_nodes_driver, "again", "again-group")
    old = three_nodes_driver.describe_topic("again").topic_id

    async def looks(engine: LagEngine) -> tuple[LagReport, list[LagReport]]:
        first = await engine.report([layout.group], timeout=PATIENCE)
        three_nodes_driver.delete_topic("again")
        three_nodes_driver.create_topic("again")
        three_nodes_driver.produce("again", 0, 2)
        return first, [await engine.report([layout.group]) for _ in range(5)]

    first, later = with_engine(three_nodes, looks)

    assert [row.lag for row in first.groups[0].partitions] == [layout.lags[0]]
    for report in later:
        for row in report.groups[0].partitions:
            assert row.lag is None or row.to_dict()["topic_id"] != old
