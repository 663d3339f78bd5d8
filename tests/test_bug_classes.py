"""Rules that users of other lag tools paid for, held by the engine, the closer look, the library and the commands.

Each docstring is a row of a table: the rule, and where it was learnt. The exporter's rows are in
`tests/observe/test_public_bugs.py`; Ctrl-C, rates of resets and late answers have theirs beside their modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shareproxy import ShareAdmin
from shareproxy.admin.errors import CannotReach
from shareproxy.lag.model import GroupLag, PartitionLag, Source, Status
from shareproxy.lag.rates import rates
from shareproxy.lag.visible_model import PartitionVisible, Want
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.message import Request
from shareproxy.testing import SimulatedCluster
from tests.support.command import run_shareproxy

PATIENCE = 20.0  # seconds that a test may take where time does not matter
EARLIEST = {"share.auto.offset.reset": "earliest"}
COMMITTED = {**EARLIEST, "share.isolation.level": "read_committed"}


@asynccontextmanager
async def a_cluster(version: str = "4.4.0", *, nodes: int = 2, records: int = 10) -> AsyncIterator[SimulatedCluster]:
    """Run a cluster with a topic `t` of two partitions; group `g` was given all records of both and none is done."""
    async with SimulatedCluster(nodes, version, internal_partitions=4, broker_patience=0.05) as cluster:
        cluster.create_topic("t", 2)
        cluster.set_group_config("g", EARLIEST)
        if records:
            cluster.produce("t", range(2), records)
            cluster.share_consume("g", ["t"], otherwise="release", max_records=2 * records)
        yield cluster


def an_admin(cluster: SimulatedCluster, source: str = "auto", timeout: float = PATIENCE) -> ShareAdmin:
    """Return an admin client; use it as a context manager."""
    return ShareAdmin(cluster.bootstrap_servers, lag_source=source, timeout=timeout)


async def look(
    cluster: SimulatedCluster, group: str = "g", *, source: str = "auto", want: Want | None = None
) -> GroupLag:
    """Look at one group with a new client."""
    async with an_admin(cluster, source) as admin:
        [found] = (await admin.lag(group, want=want)).groups
        return found


def lags(found: GroupLag) -> dict[tuple[str, int], int | None]:
    """Return the lag of each partition."""
    return {(row.topic, row.partition): row.lag for row in found.partitions}


def visible(row: PartitionLag) -> PartitionVisible:
    """Return the closer look at a partition."""
    assert row.visible is not None
    return row.visible


class TestRaces:
    """Numbers that belong together."""

    @pytest.mark.parametrize("source", ["auto", "summary", "batches"])
    async def test_state_first_then_end_offsets(self, source: str) -> None:
        """What is produced in between makes lag higher, never negative (kafka_exporter#76, #169, #191, kminion#27)."""
        async with a_cluster("4.1.2" if source == "auto" else "4.4.0") as cluster:
            finished = 0

            def more(request: Request[Any], node: int) -> None:
                nonlocal finished
                finished += 1
                if finished == 1:
                    cluster.produce("t", range(2), 5)
                    cluster.share_consume("g", ["t"], max_records=30)

            # all was done after the state was read and before the ends are
            with cluster.answer_with(m.ListOffsetsRequest, more):
                found = await look(cluster, source=source)

        assert lags(found) == {("t", 0): 15, ("t", 1): 15}

    async def test_a_start_beyond_the_end_is_no_lag(self) -> None:
        """0 with a status, by one offset or by many (redpanda#4589, kaf#303, CMAK#700)."""
        async with a_cluster() as cluster:
            cluster.alter_offsets("g", {"t": {0: 11, 1: 50}})
            found = await look(cluster)

        assert lags(found) == {("t", 0): 0, ("t", 1): 0}
        assert {row.status for row in found.partitions} == {Status.START_BEYOND_END}

    @pytest.mark.parametrize("code", [6, 74, 76])
    async def test_an_end_offset_of_an_old_leader_is_asked_for_again(self, code: int) -> None:
        """After an error of the epoch or the leader, refresh and retry (redpanda#14593)."""
        async with a_cluster() as cluster:
            cluster.fail(m.ListOffsetsRequest, code, topic="t", partition=1, times=1)
            found = await look(cluster, source="summary")

        assert lags(found) == {("t", 0): 10, ("t", 1): 10}

    async def test_one_row_for_each_partition(self) -> None:
        """Although an old coordinator lists the group as well (kafka_exporter#382)."""
        async with a_cluster() as cluster:

            def also_here(request: Request[Any], node: int) -> m.ListGroupsResponse:
                return m.ListGroupsResponse(groups=[m.ListGroupsResponseListedGroup("g", "share", "Empty", "share")])

            async with an_admin(cluster) as admin:
                with cluster.answer_with(m.ListGroupsRequest, also_here):
                    found = await admin.lag()

        assert [group.group for group in found.groups] == ["g"]
        assert [(row.topic, row.partition, row.lag) for row in found.groups[0].partitions] == [
            ("t", 0, 10),
            ("t", 1, 10),
        ]


class TestUnknown:
    """Unknown is not a number."""

    async def test_unknown_is_left_out_of_the_sum(self) -> None:
        """A sum says how complete it is (kafka_exporter#28, keda#4910)."""
        async with a_cluster() as cluster:
            cluster.set_share_state("g", "t", 1)
            found = await look(cluster)

        assert (found.lag, found.complete, found.partitions_known, found.partitions_total) == (10, False, 1, 2)
        assert found.partitions[1].status is Status.NO_START_OFFSET
        assert found.partitions[1].to_dict()["lag"] is None

    async def test_members_without_state_are_told(self) -> None:
        """A group whose members have done nothing yet has members, a state and partitions (kminion#181)."""
        async with a_cluster(records=0) as cluster:
            cluster.join("g", ["t"])
            async with an_admin(cluster) as admin:
                [found] = (await admin.lag("g")).groups
                described = (await admin.describe_groups(["g"]))["g"]

        assert (found.state, found.error, lags(found)) == ("Stable", None, {("t", 0): None, ("t", 1): None})
        assert len(described.members) == 1

    async def test_a_reset_that_leaves_no_count_is_worked_around(self) -> None:
        """Kafka 4.2.0 says unknown after a reset; the states say HW − start (KAFKA-20034)."""
        async with a_cluster("4.2.0") as cluster:
            cluster.alter_offsets("g", {"t": {0: 4}})
            found = await look(cluster)
            raw = await look(cluster, source="broker")

        assert (raw.partitions[0].lag, raw.partitions[0].status) == (None, Status.LAG_UNSET)
        assert (found.partitions[0].lag, found.partitions[0].source) == (6, Source.BATCHES)

    async def test_a_partition_nobody_started_has_a_projection(self) -> None:
        """Earliest is the whole log, latest nothing, and neither is a lag (keda#7936, CMAK#361, franz-go#718)."""
        async with a_cluster(records=0) as cluster:
            cluster.produce("t", range(2), 8)
            cluster.delete_records("t", 0, 3)
            cluster.join("g", ["t"])
            cluster.join("late", ["t"])
            early, late = await look(cluster, want=Want.ALL), await look(cluster, "late", want=Want.ALL)

        assert [row.lag for row in (*early.partitions, *late.partitions)] == [None] * 4
        assert [visible(row).projected_lag for row in early.partitions] == [5, 8]
        assert [visible(row).projected_lag for row in late.partitions] == [0, 0]


class TestRetentionAndCompaction:
    """Offsets without records."""

    async def test_deleted_records_are_told_apart(self) -> None:
        """Raw lag as Kafka says, and beside it what is gone (redpanda#30624, seglo#37, keda#5274, #5906)."""
        async with a_cluster() as cluster:
            cluster.delete_records("t", 0, 6)
            row = (await look(cluster, want=Want.ALL)).partitions[0]

        assert row.lag == 10
        assert (visible(row).unavailable_offsets, visible(row).consumable_lag) == (6, 4)

    async def test_compacted_records_are_phantoms(self) -> None:
        """Lag counts offsets, not records (confluentinc/kafka#101, Dekaf#1663)."""
        async with a_cluster() as cluster:
            for value in range(9):
                cluster.produce("t", 0, values=[str(value)])
            cluster.alter_offsets("g", {"t": {0: 10}})
            cluster.compact("t", 0, [18])
            row = (await look(cluster, want=Want.ALL)).partitions[0]

        assert (row.lag, visible(row).consumable_lag, visible(row).phantom_offsets) == (9, 1, 8)


class TestTransactions:
    """Markers and open transactions."""

    async def test_a_quiet_topic_does_not_stick_at_1(self) -> None:
        """A marker is an offset without a record (FLINK-33484, spring-kafka#1587, librdkafka#2539, kafbat#1039)."""
        async with a_cluster() as cluster:
            cluster.produce_transaction("t", 0, 2)
            cluster.alter_offsets("g", {"t": {0: 12}})
            row = (await look(cluster, want=Want.ALL)).partitions[0]

        assert (row.lag, visible(row).consumable_lag, visible(row).phantom_offsets) == (1, 0, 1)

    async def test_what_was_found_dies_with_a_changed_end(self) -> None:
        """Yesterday's phantoms are no answer to today's records (druid#16689, spring-kafka#4553)."""
        async with a_cluster(records=0) as cluster:
            cluster.produce_transaction("t", 0, 1)
            cluster.alter_offsets("g", {"t": {0: 1}})
            async with an_admin(cluster) as admin:
                [before] = (await admin.lag("g", want=Want.ALL)).groups
                cluster.produce("t", 0, 3)
                [after] = (await admin.lag("g", want=Want.ALL)).groups

        assert visible(before.partitions[0]).consumable_lag == 0
        assert (after.partitions[0].lag, visible(after.partitions[0]).consumable_lag) == (4, 3)

    async def test_an_open_transaction_stands_beside_the_lag(self) -> None:
        """Nobody may read it yet, and it is no phantom (flink-connector-kafka#313)."""
        async with a_cluster() as cluster:
            cluster.set_group_config("g", COMMITTED)
            cluster.produce_transaction("t", 0, 4, leave_open=True)
            row = (await look(cluster, want=Want.ALL)).partitions[0]

        seen = visible(row)
        assert (row.lag, seen.consumable_lag, seen.phantom_offsets, seen.open_transaction_offsets) == (14, 10, 0, 4)

    def test_wait_until_drained_compares_what_can_be_consumed(self) -> None:
        """A marker at the end would make it wait for ever (flink-connector-kafka#100, surge#91)."""
        with SimulatedCluster(1) as cluster:
            cluster.create_topic("t")
            cluster.produce_transaction("t", 0, 1)
            cluster.alter_offsets("g", {"t": {0: 1}})
            flags = ("--bootstrap-server", cluster.bootstrap_servers, "--lag", "0", "--timeout", "60", "--visible")
            done = run_shareproxy("wait", "g", *flags, timeout=90)

        assert done.returncode == 0, done.stderr

    async def test_rates_are_in_the_unit_of_lag(self) -> None:
        """Offsets, markers included, so that lag ÷ rate is a time (KAFKA-20711)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            earlier = await admin.lag("g", want=Want.LOG_END)
            cluster.produce_transaction("t", 0, 3)
            later = await admin.lag("g", want=Want.LOG_END)

        found = rates(earlier, later)[GroupId("g")]
        assert found.produced_per_second is not None
        assert round(found.produced_per_second * found.seconds, 6) == later.groups[0].lag - earlier.groups[0].lag == 4


class TestIdentity:
    """Names are not what they name."""

    async def test_a_topic_made_again_has_no_lag_of_the_old_one(self) -> None:
        """Memory goes by topic id (seglo#197, Burrow#256)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            [before] = (await admin.lag("g", want=Want.ALL)).groups
            cluster.delete_topic("t")
            cluster.create_topic("t", 2)
            cluster.produce("t", range(2), 1)
            cluster.alter_offsets("g", {"t": {0: 0, 1: 0}})
            [after] = (await admin.lag("g", want=Want.ALL)).groups

        assert lags(after) == {("t", 0): 1, ("t", 1): 1}
        assert visible(after.partitions[0]).consumable_lag == 1
        assert after.partitions[0].topic_id != before.partitions[0].topic_id

    async def test_a_deleted_topic_does_not_fail_the_rest(self) -> None:
        """Neither in the same group nor in others (omarsmak#20, KAFKA-17218)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            cluster.create_topic("other")
            cluster.produce("other", 0, 3)
            cluster.alter_offsets("g", {"other": {0: 0}})
            await admin.lag("g")
            cluster.delete_topic("t")
            [found] = (await admin.lag("g")).groups

        assert lags(found) == {("other", 0): 3}
        assert found.complete

    async def test_topics_nobody_subscribes_to_any_more_stay(self) -> None:
        """Their state and their lag are still there (klag#92)."""
        async with a_cluster() as cluster:
            cluster.create_topic("other")
            cluster.join("g", ["other"])
            found = await look(cluster)

        assert lags(found) == {("other", 0): None, ("t", 0): 10, ("t", 1): 10}

    async def test_only_the_topics_of_the_group_are_asked_for(self) -> None:
        """Never those of the whole cluster (keda#8114)."""
        async with a_cluster() as cluster:
            for number in range(20):
                cluster.create_topic(f"strange-{number}")
            await look(cluster, want=Want.ALL)
            asked = {row.name for request in cluster.requests.messages(m.ListOffsetsRequest) for row in request.topics}
            named = [request.topics for request in cluster.requests.messages(m.MetadataRequest)]

        assert asked == {"t"}
        assert None not in named

    async def test_groups_of_other_kinds_are_not_shown_as_share_groups(self) -> None:
        """A list without a filter mixes them, and old brokers do not tell the kind."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            cluster.commit_offsets("classic", {"t": {0: 4}})
            cluster.commit_offsets("modern", {"t": {0: 4}}, kind="consumer")
            listed = await admin.list_groups()
            report = await admin.lag()

        assert [row.group for row in listed.groups] == ["g"]
        assert [group.group for group in report.groups] == ["g"]

    async def test_an_empty_group_is_shown(self) -> None:
        """That is when lag matters most (seglo#63, kafka_exporter#226, strimzi#5336)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            report = await admin.lag()

        assert [(group.group, group.state, group.lag) for group in report.groups] == [("g", "Empty", 20)]


class TestPartialFailure:
    """What is bad hides nothing that is good."""

    async def test_one_bad_partition(self) -> None:
        """It is unknown with its reason (redpanda console#2573, #2327, seglo#194, #164, #386)."""
        async with a_cluster() as cluster:
            cluster.move_leader("t", 0, None)
            found = await look(cluster)

        assert lags(found) == {("t", 0): None, ("t", 1): 10}
        assert found.partitions[0].status is Status.NO_LEADER
        assert not found.complete

    async def test_one_bad_group(self) -> None:
        """Kafka's own tool stops at the first (share-groups tool)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            cluster.alter_offsets("bad", {"t": {0: 0}})
            cluster.deny("DESCRIBE", "GROUP", "bad")
            report = await admin.lag(["bad", "g", "missing"])

        bad, good, missing = report.groups
        assert (bad.error is not None, good.error, missing.error is not None) == (True, None, True)
        assert good.lag == 20

    async def test_a_leaderless_partition_costs_no_time(self) -> None:
        """The broker's own way takes half a minute (KAFKA-19435, KAFKA-19500, KAFKA-6581, AKHQ#137)."""
        async with (
            SimulatedCluster(2, internal_partitions=4, broker_patience=PATIENCE * 10) as cluster,
            an_admin(cluster) as admin,
        ):
            cluster.create_topic("t", 2)
            cluster.alter_offsets("g", {"t": {0: 0, 1: 0}})
            cluster.move_leader("t", 1, None)
            async with asyncio.timeout(PATIENCE / 2):
                [found] = (await admin.lag("g")).groups

        assert lags(found) == {("t", 0): 0, ("t", 1): None}

    async def test_a_frozen_node_costs_only_what_is_on_it(self) -> None:
        """Own deadlines: the rows of living nodes come in time (KAFKA-19435, AKHQ#137)."""
        async with (
            SimulatedCluster(2, internal_partitions=4, broker_patience=PATIENCE * 10) as cluster,
            an_admin(cluster, timeout=1.0) as admin,
        ):
            cluster.create_topic("t", 2)
            cluster.produce("t", range(2), 3)
            cluster.alter_offsets("g", {"t": {0: 0, 1: 0}})
            cluster.move_leader("t", 0, 1)
            cluster.move_leader("t", 1, 2)
            cluster.move_group_coordinator("g", 1)
            for partition in range(2):
                cluster.move_share_coordinator("g", "t", partition, 1)
            cluster.freeze_node(2)
            async with asyncio.timeout(PATIENCE / 2):
                [found] = (await admin.lag("g")).groups

        assert lags(found) == {("t", 0): 3, ("t", 1): None}
        assert found.partitions[1].status in (Status.TIMEOUT, Status.NO_LEADER)

    async def test_a_topic_without_rights(self) -> None:
        """A missing right on one topic is that topic's (kafta#40, kminion#40, seglo#42)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            cluster.create_topic("hidden")
            cluster.alter_offsets("g", {"hidden": {0: 0}})
            cluster.deny("DESCRIBE", "TOPIC", "hidden")
            [found] = (await admin.lag("g", topics=["t", "hidden"])).groups

        assert lags(found) == {("t", 0): 10, ("t", 1): 10}
        assert found.error is not None
        assert "hidden" in found.error.message

    async def test_offsets_are_looked_for_at_the_coordinator_of_the_group(self) -> None:
        """Key type GROUP for APIs 90 to 92, key type SHARE for the state only (franz-go 1.21.3)."""
        async with a_cluster() as cluster:
            await look(cluster)
            searches = cluster.requests.messages(m.FindCoordinatorRequest)
            others = [request for request in searches if request.key_type not in (0, 2)]
            wrong = [request for request in searches if request.key_type == 2 and "g" in request.coordinator_keys]

        assert (others, wrong) == ([], [])

    @pytest.mark.parametrize("code", [14, 15, 16])
    async def test_a_coordinator_that_moves_is_no_zero(self, code: int) -> None:
        """It is looked for again (keda#4098, #4149, #4552, keda#8036)."""
        async with a_cluster() as cluster:
            cluster.fail(m.DescribeShareGroupOffsetsRequest, code, times=1)
            found = await look(cluster)

        assert (found.lag, found.complete) == (20, True)

    async def test_an_outage_is_an_error(self) -> None:
        """Never an empty answer, which reads as 0 (keda#4149, Confluent's demo)."""
        async with a_cluster() as cluster, an_admin(cluster, timeout=1.0) as admin:
            for node in (1, 2):
                cluster.stop_node(node)
            with pytest.raises(CannotReach):
                await admin.lag()

    async def test_a_coordinator_that_stays_away_is_an_error_of_its_groups(self) -> None:
        """Unknown with a reason, and not complete."""
        async with a_cluster() as cluster, an_admin(cluster, timeout=0.5) as admin:
            cluster.fail((m.DescribeShareGroupOffsetsRequest, m.ShareGroupDescribeRequest), 15)
            [found] = (await admin.lag("g")).groups

        assert not found.complete


class TestCost:
    """Few questions, whatever there is."""

    @pytest.mark.parametrize("groups", [1, 40])
    async def test_requests_grow_with_nodes_and_not_with_groups(self, groups: int) -> None:
        """One question per coordinator and per leader for all groups (kafka_exporter#336, #506, #509)."""
        async with a_cluster() as cluster, an_admin(cluster) as admin:
            for number in range(groups):
                cluster.alter_offsets(f"group-{number}", {"t": {0: 0, 1: 0}})
            cluster.requests.clear()
            report = await admin.lag()
            asked = cluster.requests.by_api()

        assert len(report.groups) == groups + 1
        assert report.groups[0].complete
        assert {api: asked.get(api, 0) <= 2 for api in (2, 16, 90)} == {2: True, 16: True, 90: True}
        assert asked.get(87, 0) == asked.get(84, 0) == 0


class TestTime:
    """Ages."""

    async def test_the_age_is_that_of_the_record(self) -> None:
        """Its own timestamp, not when somebody looked (seglo#121, #5, #353, klag#30)."""
        async with a_cluster(records=0) as cluster:
            cluster.produce("t", 0, 1, timestamp=1_000)
            cluster.produce("t", 0, 1, timestamp=2_000)
            cluster.alter_offsets("g", {"t": {0: 0}})
            older = visible((await look(cluster, want=Want.AGE)).partitions[0]).oldest_record_age_seconds
            cluster.alter_offsets("g", {"t": {0: 1}})
            younger = visible((await look(cluster, want=Want.AGE)).partitions[0]).oldest_record_age_seconds

        assert older is not None
        assert younger is not None
        assert older > younger > 1e9

    @pytest.mark.parametrize("timestamp", [0, -1, 1 << 62])
    async def test_strange_timestamps_are_never_fatal(self, timestamp: int) -> None:
        """Of records as old as 1970, without a time, or from the future (klag)."""
        async with a_cluster(records=0) as cluster:
            cluster.produce("t", 0, 2, timestamp=timestamp)
            cluster.alter_offsets("g", {"t": {0: 0}})
            row = (await look(cluster, want=Want.ALL)).partitions[0]

        age = visible(row).oldest_record_age_seconds
        assert (row.lag, visible(row).consumable_lag) == (2, 2)
        assert age is None or age >= 0

    async def test_an_old_broker_is_never_fatal(self) -> None:
        """Kafka 4.1 beside 4.4: each partition as its coordinator can tell (klag, KIP-1226)."""
        async with SimulatedCluster(2, versions={1: "4.1.2", 2: "4.4.0"}, internal_partitions=4) as cluster:
            cluster.create_topic("t", 2)
            cluster.produce("t", range(2), 5)
            cluster.set_group_config("g", EARLIEST)
            cluster.share_consume("g", ["t"], {0: "accept"}, otherwise="release", max_records=10)
            found = await look(cluster)

        assert lags(found) == {("t", 0): 4, ("t", 1): 4}
