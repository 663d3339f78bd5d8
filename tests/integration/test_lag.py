"""The lag engine, straight to the brokers of every supported version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import PLAINTEXT, Security
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import AskedRow, GroupLag, LagReport, Source, SourceChoice, Status
from shareproxy.protocol.ids import GroupId, TopicId
from shareproxy.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from tests.support import scenarios
from tests.support.scenarios import Layout
from tests.support.waiting import wait_until

T = TypeVar("T")
Scenario = Callable[[ShareDriver, str, str], Layout]
SCENARIOS: list[Scenario] = [
    scenarios.kip_1226_layout,
    scenarios.never_consumed,
    scenarios.partly_acknowledged,
    scenarios.released,
    scenarios.rejected,
    scenarios.all_acknowledged,
    scenarios.altered,
]
# the brokers themselves take up to 2.4 s when they have to ask a share coordinator twice
PATIENCE = 15.0


def with_engine(
    bootstrap_servers: str,
    question: Callable[[LagEngine, Cluster], Awaitable[T]],
    source: SourceChoice = SourceChoice.AUTO,
    security: Security = PLAINTEXT,
) -> T:
    """Run one question with an engine of its own."""

    async def run() -> T:
        async with Cluster(parse_addresses(bootstrap_servers), security) as cluster:
            return await question(LagEngine(cluster, source=source, timeout=PATIENCE), cluster)

    return asyncio.run(run())


def report_on(
    kafka: LocalKafka, groups: Sequence[str] | None, source: SourceChoice = SourceChoice.AUTO, **more: object
) -> LagReport:
    """Report on groups, unsecured."""
    return with_engine(kafka.bootstrap_servers, lambda engine, _: engine.report(groups, **more), source)  # type: ignore[arg-type]


def lags(group: GroupLag) -> dict[int, int | None]:
    """Return lag by partition."""
    return {row.partition: row.lag for row in group.partitions}


def is_old(kafka_version: str) -> bool:
    """Tell Kafka 4.1, whose brokers know no lag."""
    return kafka_version.startswith("4.1.")


def sources(kafka_version: str) -> list[SourceChoice]:
    """Return what can be pinned on a version."""
    state = [SourceChoice.AUTO, SourceChoice.BATCHES]
    return state if is_old(kafka_version) else [*state, SourceChoice.BROKER, SourceChoice.SUMMARY]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_source_has_the_right_lag(
    scenario: Scenario, kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Each partition's lag is the layout's, from every source that the version has; the start is the broker's."""
    if is_old(kafka_version) and scenario is scenarios.altered:
        pytest.skip("Kafka 4.1 does not alter share-group offsets")
    layout = scenario(driver, topic, group)
    starts = {row.partition: row.start_offset for row in driver.list_share_group_offsets(group)}

    for source in sources(kafka_version):
        [found] = report_on(kafka, [group], source).groups

        assert (lags(found), found.error) == (layout.lags, None), source
        assert {row.partition: row.start_offset for row in found.partitions} == starts, source
        for row in found.partitions:
            assert row.exact is (None if row.lag is None else True)
            if row.lag is not None:
                assert row.end_offset == layout.end_offsets[row.partition]
            if row.source in (Source.SUMMARY, Source.BATCHES):
                assert row.end_offset is not None
                assert row.start_offset is not None
                assert row.delivery_complete_count == row.end_offset - row.start_offset - (row.lag or 0)


def test_many_partitions(kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Row by row the same from every source, spread over many share coordinators' partitions."""
    layout = scenarios.many_partitions(driver, topic, group, 60)

    for source in sources(kafka_version):
        [found] = report_on(kafka, [group], source).groups

        assert lags(found) == layout.lags, source
        assert (found.lag, found.complete) == (layout.total, True)


def test_rows_for_the_wire(kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """The rows of the broker's own answer, in the version it has, get the lag of the layout from every source."""
    layout = scenarios.kip_1226_layout(driver, topic, group)

    async def fill(engine: LagEngine, cluster: Cluster) -> dict[tuple[str, int], int]:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
        answer = await cluster.request(None, request, deadline=deadline)
        rows = [
            AskedRow(
                asked.topic_name,
                TopicId(asked.topic_id),
                row.partition_index,
                row.start_offset,
                row.leader_epoch,
                row.lag,
            )
            for asked in answer.groups[0].topics
            for row in asked.partitions
        ]
        return dict(await engine.fill(GroupId(group), rows, deadline=deadline))

    for source in sources(kafka_version):
        found = with_engine(kafka.bootstrap_servers, fill, source)

        assert found == {(topic, partition): lag for partition, lag in layout.lags.items()}, source


def test_reading_batches_does_not_disturb_the_consumer(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """While a member holds records, its state is read again and again; its acknowledgements still succeed."""
    driver.create_topic(topic)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    driver.produce(topic, 0, 10)
    with driver.open_consumer(group, [topic]) as consumer:
        polled = consumer.poll(dict.fromkeys(range(4), "accept"), otherwise="none", max_records=10)
        for _ in range(3):
            [held] = report_on(kafka, [group], SourceChoice.BATCHES).groups
            assert lags(held) in ({0: 6}, {0: 10}), "accepted records are complete as soon as they are stored"
        errors = consumer.acknowledge(otherwise="accept")

    assert (len(polled.records), polled.errors, errors) == (10, {}, {})
    assert lags(report_on(kafka, [group], SourceChoice.BATCHES).groups[0]) == {0: 0}


def test_a_start_beyond_the_end_is_lag_0(
    kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Also one beyond, which the wire cannot tell from unknown."""
    if is_old(kafka_version):
        pytest.skip("Kafka 4.1 does not alter share-group offsets")
    driver.create_topic(topic, 2)
    driver.produce(topic, [0, 1], 5)
    driver.alter_offsets(group, {topic: {0: 50, 1: 6}})

    for source in sources(kafka_version):
        [found] = report_on(kafka, [group], source).groups

        assert [(row.lag, row.status) for row in found.partitions] == [(0, Status.START_BEYOND_END)] * 2, source


def test_deleted_records_count_until_the_leader_writes(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Lag is raw, as Kafka says: high watermark minus start."""
    layout = scenarios.partly_acknowledged(driver, topic, group)
    driver.delete_records(topic, 0, 5)

    assert lags(report_on(kafka, [group]).groups[0]) == layout.lags


def test_a_colon_in_the_group_id(
    kafka_version: str, kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """FindCoordinator of 4.1 refuses the share partitions of such a group; the hash finds their state."""
    name = f"{group}:with:colons"
    layout = scenarios.kip_1226_layout(driver, topic, name)

    for source in sources(kafka_version):
        assert lags(report_on(kafka, [name], source).groups[0]) == layout.lags, source


def test_groups_without_an_answer(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Unknown and of another type: two different sentences, and the good group beside them is complete."""
    layout = scenarios.released(driver, topic, group)
    driver.consume(f"{group}-classic", [topic], max_records=1)

    report = report_on(kafka, [f"{group}-nosuch", f"{group}-classic", group])

    errors = [found.error and found.error.name for found in report.groups]
    assert errors == ["GROUP_ID_NOT_FOUND", "NOT_A_SHARE_GROUP", None]
    assert lags(report.groups[2]) == layout.lags


def test_a_group_that_has_nothing_initialised(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """A member that subscribes to a topic which does not exist: the group is there, without state."""
    with driver.open_consumer(group, [topic]) as consumer:
        consumer.poll(max_records=1, timeout=0.5)
        wait_until(lambda: any(row.group == group for row in driver.list_share_groups()), "the group is in the list")
        [found] = report_on(kafka, [group]).groups

    assert found.error is not None
    assert (found.error.name, found.partitions) == ("NOTHING_INITIALIZED", ())


def test_topics_of_a_report(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """A topic that does not exist is an error, one that the group never had has rows without lag."""
    layout = scenarios.released(driver, topic, group)
    driver.create_topic(f"{topic}-other")

    [found] = report_on(kafka, [group], topics=[topic, f"{topic}-other", f"{topic}-nosuch"]).groups

    assert {(row.topic, row.lag, row.status) for row in found.partitions} == {
        (topic, layout.lags[0], Status.OK),
        (f"{topic}-other", None, Status.NO_START_OFFSET),
    }
    assert found.error is not None
    assert f"'{topic}-nosuch'" in found.error.message


def test_all_groups(kafka: LocalKafka, driver: ShareDriver, topic: str, group: str) -> None:
    """Share groups only, each with its lag."""
    layout = scenarios.released(driver, topic, group)
    driver.consume(f"{group}-classic", [topic], max_records=1)

    report = report_on(kafka, None)

    found = {row.group: row for row in report.groups}
    assert f"{group}-classic" not in found
    assert (lags(found[GroupId(group)]), found[GroupId(group)].state) == (layout.lags, "Empty")
    assert report.problems == ()


class TestRights:
    """SASL users with few rights, under Kafka's StandardAuthorizer."""

    @pytest.fixture
    def layout(self, secure_driver: ShareDriver, topic: str, group: str) -> Layout:
        """KIP-1226's picture."""
        return scenarios.kip_1226_layout(secure_driver, topic, group)

    @staticmethod
    def _report(kafka: LocalKafka, group: str, source: SourceChoice = SourceChoice.AUTO) -> GroupLag:
        alice = Security("SASL_PLAINTEXT", "PLAIN", "alice", "alice-secret")
        servers = kafka.listeners["SASL_PLAINTEXT"]
        [found] = with_engine(servers, lambda engine, _: engine.report([group]), source, alice).groups
        return found

    def test_no_right_to_the_group(self, secure_kafka: LocalKafka, layout: Layout) -> None:
        """The sentence names the right."""
        found = self._report(secure_kafka, layout.group)

        assert found.error is not None
        assert (found.error.code, found.partitions) == (30, ())
        assert "DESCRIBE on the group" in found.error.message

    def test_rights_step_by_step(
        self, kafka_version: str, secure_kafka: LocalKafka, secure_driver: ShareDriver, layout: Layout
    ) -> None:
        """Without DESCRIBE on the topic no rows; without CLUSTER_ACTION no state; with all of them the lag."""
        secure_driver.add_acl("User:alice", "GROUP", layout.group, "DESCRIBE")
        wait_until(lambda: _code(self._report(secure_kafka, layout.group)) != 30, "alice may see the group")
        hidden = self._report(secure_kafka, layout.group)
        assert hidden.error is not None
        assert hidden.partitions == ()
        assert "DESCRIBE" in hidden.error.message

        secure_driver.add_acl("User:alice", "TOPIC", layout.topic, "DESCRIBE")
        wait_until(lambda: bool(self._report(secure_kafka, layout.group).partitions), "alice may see the topic")
        [row] = self._report(secure_kafka, layout.group).partitions
        if is_old(kafka_version):
            assert (row.lag, row.status, row.error_code) == (None, Status.NOT_AUTHORIZED, 31)
            assert (row.start_offset, row.end_offset) == (0, 11)
        else:
            assert (row.lag, row.source) == (7, Source.BROKER)
        [pinned] = self._report(secure_kafka, layout.group, SourceChoice.BATCHES).partitions
        assert (pinned.lag, pinned.status) == (None, Status.NOT_AUTHORIZED)

        secure_driver.add_acl("User:alice", "CLUSTER", "kafka-cluster", "CLUSTER_ACTION")
        try:
            wait_until(lambda: self._report(secure_kafka, layout.group, SourceChoice.BATCHES).lag == 7, "lag is 7")
        finally:
            secure_driver.remove_acl("User:alice", "CLUSTER", "kafka-cluster", "CLUSTER_ACTION")

    def test_doctor_names_the_missing_right(self, kafka_version: str, secure_kafka: LocalKafka, layout: Layout) -> None:
        """CLUSTER_ACTION, for the sources that need it."""
        alice = Security("SASL_PLAINTEXT", "PLAIN", "alice", "alice-secret")
        servers = secure_kafka.listeners["SASL_PLAINTEXT"]

        found = with_engine(servers, lambda engine, _: engine.explain(), security=alice)

        assert {check.source: check.works for check in found.sources} == {
            Source.BROKER: not is_old(kafka_version),
            Source.SUMMARY: False,
            Source.BATCHES: False,
        }
        assert found.cluster_action is False
        assert "ClusterAction" in found.sources[2].sentence


def _code(group: GroupLag) -> int | None:
    return None if group.error is None else group.error.code


def test_doctor_finds_what_works(kafka_version: str, kafka: LocalKafka, driver: ShareDriver) -> None:
    """Every source of the version."""
    found = with_engine(kafka.bootstrap_servers, lambda engine, _: engine.explain())

    old = is_old(kafka_version)
    assert [check.works for check in found.sources] == [not old, not old, True]
    assert (found.share_groups, found.cluster_action) == (True, True)
