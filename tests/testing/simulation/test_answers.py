"""Answers whose rules are hard to see on a real cluster; the contract suite compares all others with real brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import parse_topic_id
from shareproxy.testing import SimulatedCluster
from shareproxy.testing.simulation.answers import ANSWERS
from tests.testing.simulation.asking import ask


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """One node, a topic with 5 records, a group that has accepted the first one and released the others."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        cluster.produce("t", 0, 5)
        cluster.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        cluster.share_consume("g", ["t"], {0: "accept"}, otherwise="release", max_records=5)
        yield cluster


def topic_id(cluster: SimulatedCluster, topic: str = "t") -> bytes:
    """Return a topic's id."""
    return parse_topic_id(cluster.describe_topic(topic).topic_id)


async def read_state(cluster: SimulatedCluster, epoch: int) -> m.ReadShareGroupStateResponsePartitionResult:
    """Ask API 84."""
    rows = [m.ReadShareGroupStateRequestPartitionData(0, epoch)]
    asked = m.ReadShareGroupStateRequestReadStateData(topic_id(cluster), rows)
    return (await ask(cluster, m.ReadShareGroupStateRequest("g", [asked]))).results[0].partitions[0]


async def read_summary(cluster: SimulatedCluster) -> m.ReadShareGroupStateSummaryResponsePartitionResult:
    """Ask API 87."""
    rows = [m.ReadShareGroupStateSummaryRequestPartitionData(0)]
    asked = m.ReadShareGroupStateSummaryRequestReadStateSummaryData(topic_id(cluster), rows)
    return (await ask(cluster, m.ReadShareGroupStateSummaryRequest("g", [asked]))).results[0].partitions[0]


def test_each_answer_has_the_api_of_its_request() -> None:
    """The table is keyed by it."""
    assert all(known.request.api_key == key for key, known in ANSWERS.items())


async def test_a_higher_leader_epoch_cuts_the_leader_off(cluster: SimulatedCluster) -> None:
    """Read with it, the state moves to that epoch, and the leader's next acknowledgement fails."""
    cluster.produce("t", 0, 1)
    with cluster.open_consumer("g", ["t"]) as consumer:
        consumer.poll(otherwise="none", max_records=1)
        assert (await read_state(cluster, 0)).error_code == 0
        assert consumer.acknowledge({1: "accept"}) == {}
        assert (await read_state(cluster, 5)).error_code == 0
        assert list(consumer.acknowledge({2: "accept"})) == ["t-0"]
        assert (await read_summary(cluster)).leader_epoch == 5
        assert (await read_state(cluster, 0)).error_code == 74
        cluster.move_leader("t", 0, 1)
        for _ in range(5):
            cluster.move_leader("t", 0, 1)


async def test_an_altered_offset_hides_the_fence(cluster: SimulatedCluster) -> None:
    """Summary says epoch 0, reading with it is refused all the same."""
    await read_state(cluster, 3)
    cluster.alter_offsets("g", {"t": {0: 2}})
    assert (await read_summary(cluster)).leader_epoch == 0
    assert (await read_state(cluster, 0)).error_code == 74
    assert (await read_state(cluster, 3)).start_offset == 2


async def test_state_needs_the_right_of_brokers(cluster: SimulatedCluster) -> None:
    """CLUSTER_ACTION, for the state and for its coordinator."""
    cluster.deny("CLUSTER_ACTION")
    assert (await read_state(cluster, 0)).error_code == 31
    assert (await read_summary(cluster)).error_code == 31
    key = f"g:{cluster.describe_topic('t').topic_id}:0"
    [row] = (await ask(cluster, m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key]))).coordinators
    assert (row.error_code, row.error_message) == (31, "Cluster authorization failed.")


async def test_looking_for_a_coordinator_creates_its_topic() -> None:
    """The first time it says 15, as brokers do; without the right to the group 30."""
    async with SimulatedCluster() as cluster:
        asked = m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        for code in (15, 0):
            assert (await ask(cluster, asked)).coordinators[0].error_code == code
        cluster.deny("DESCRIBE", "GROUP", "g")
        assert (await ask(cluster, asked)).coordinators[0].error_code == 30
        [other] = (await ask(cluster, m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))).coordinators
        assert other.error_code == 42


async def test_offsets_of_a_group_with_members_stay(cluster: SimulatedCluster) -> None:
    """Altering, forgetting and deleting are refused with 68; when they are gone, all of it works."""
    member = cluster.join("g", ["t"])
    alter = m.AlterShareGroupOffsetsRequest(
        "g", [m.AlterShareGroupOffsetsRequestTopic("t", [m.AlterShareGroupOffsetsRequestPartition(0, 3)])]
    )
    forget = m.DeleteShareGroupOffsetsRequest("g", [m.DeleteShareGroupOffsetsRequestTopic("t")])
    delete = m.DeleteGroupsRequest(["g"])
    assert (await ask(cluster, alter)).error_code == 68
    assert (await ask(cluster, forget)).error_code == 68
    assert (await ask(cluster, delete)).results[0].error_code == 68
    cluster.leave("g", member)
    assert (await ask(cluster, alter)).responses[0].partitions[0].error_code == 0
    assert (await read_summary(cluster)).start_offset == 3
    assert (await ask(cluster, forget)).responses[0].error_code == 0
    assert cluster.list_share_group_offsets("g") == []
    assert (await ask(cluster, delete)).results[0].error_code == 0
    assert cluster.list_share_groups() == []


async def test_the_kinds_of_groups_are_kept_apart(cluster: SimulatedCluster) -> None:
    """Each describes its own kind, and the list has them all."""
    cluster.join("shared", ["t"], client_id="c", rack="r")
    cluster.join_consumer_group("new", ["t"], client_id="c")
    cluster.join_consumer_group("old", ["t"], kind="classic")
    groups = ["shared", "new", "old"]
    listed = (await ask(cluster, m.ListGroupsRequest())).groups
    assert {(row.group_id, row.group_type, row.protocol_type, row.group_state) for row in listed} == {
        ("g", "share", "share", "Empty"),
        ("shared", "share", "share", "Stable"),
        ("new", "consumer", "consumer", "Stable"),
        ("old", "classic", "consumer", "Stable"),
    }
    share = (await ask(cluster, m.ShareGroupDescribeRequest(groups))).groups
    assert [row.error_code for row in share] == [0, 69, 69]
    assert (share[0].members[0].rack_id, share[0].members[0].assignment.topic_partitions[0].partitions) == ("r", [0])
    consumer = (await ask(cluster, m.ConsumerGroupDescribeRequest(groups))).groups
    assert [row.error_code for row in consumer] == [69, 0, 69]
    assert consumer[0].error_message == "Group shared is not a consumer group."
    classic = (await ask(cluster, m.DescribeGroupsRequest(groups))).groups
    assert [(row.error_code, len(row.members)) for row in classic] == [(69, 0), (69, 0), (0, 1)]
    assert classic[2].members[0].member_assignment == bytes.fromhex("0000 00000001 0001 74 00000001 00000000 ffffffff")
    cluster.leave_consumer_group("new", "new-member-1")
    assert (await ask(cluster, m.ConsumerGroupDescribeRequest(["new"]))).groups[0].group_state == "Empty"


async def test_committed_offsets(cluster: SimulatedCluster) -> None:
    """Of all topics or of named ones, by name or by id, in the old and the new form."""
    cluster.commit_offsets("old", {"t": {0: 4}})
    everything = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("old", topics=None)])
    [group] = (await ask(cluster, everything, version=9)).groups
    assert [(row.name, row.partitions[0].committed_offset) for row in group.topics] == [("t", 4)]
    by_id = [m.OffsetFetchRequestTopics("", topic_id(cluster), [0]), m.OffsetFetchRequestTopics("", b"x" * 16, [0])]
    request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("old", topics=by_id)])
    [group] = (await ask(cluster, request, version=10)).groups
    assert [(r.partitions[0].committed_offset, r.partitions[0].error_code) for r in group.topics] == [(4, 0), (-1, 100)]
    named = m.OffsetFetchRequest("old", [m.OffsetFetchRequestTopic("t", [0, 1])])
    [topic] = (await ask(cluster, named, version=7)).topics
    assert [row.committed_offset for row in topic.partitions] == [4, -1]
    cluster.deny("DESCRIBE", "TOPIC", "t")
    assert (await ask(cluster, everything, version=9)).groups[0].topics == []
    assert (await ask(cluster, named, version=7)).topics[0].partitions[0].error_code == 29
    cluster.deny("DESCRIBE", "GROUP", "old")
    assert (await ask(cluster, named, version=7)).error_code == 30
    assert (await ask(cluster, everything, version=9)).groups[0].error_code == 30


async def test_who_holds_a_transaction_open(cluster: SimulatedCluster) -> None:
    """By partition, by list and by id, until it ends."""
    cluster.produce_transaction("t", 0, 2, leave_open=True, transactional_id="tx")
    producers = m.DescribeProducersRequest([m.DescribeProducersRequestTopicRequest("t", [0, 7])])
    good, bad = (await ask(cluster, producers)).topics[0].partitions
    [producer] = good.active_producers
    assert (producer.current_txn_start_offset, bad.error_code) == (5, 3)
    [row] = (await ask(cluster, m.ListTransactionsRequest(["Ongoing"]))).transaction_states
    assert (row.transactional_id, row.producer_id) == ("tx", producer.producer_id)
    found, missing = (await ask(cluster, m.DescribeTransactionsRequest(["tx", "no"]))).transaction_states
    assert (found.topics[0].topic, found.topics[0].partitions, missing.error_code) == ("t", [0], 105)
    cluster.end_transaction(commit=True, transactional_id="tx")
    assert (await ask(cluster, m.ListTransactionsRequest(["Ongoing"]))).transaction_states == []


async def test_fetch_gives_one_batch_at_least(cluster: SimulatedCluster) -> None:
    """However small the limit; at the end it gives nothing, past it an error."""
    cluster.produce("t", 0, 2)

    async def fetch(offset: int, size: int) -> m.FetchResponsePartitionData:
        rows = [m.FetchPartition(0, fetch_offset=offset, partition_max_bytes=size)]
        request = m.FetchRequest(max_wait_ms=1, min_bytes=1, max_bytes=size, topics=[m.FetchTopic("t", b"", rows)])
        request.topics[0].topic_id = topic_id(cluster)
        return (await ask(cluster, request)).responses[0].partitions[0]

    first, both = await fetch(0, 1), await fetch(0, 1 << 20)
    assert first.records is not None
    assert both.records is not None
    assert both.records.startswith(first.records)
    assert len(both.records) > len(first.records)
    assert ((await fetch(7, 100)).records, (await fetch(8, 100)).error_code) == (b"", 1)


async def test_leaders_know_their_epoch(cluster: SimulatedCluster) -> None:
    """An older one is fenced, a newer one unknown; other nodes are no leaders."""
    cluster.move_leader("t", 0, 1)
    for epoch, code in ((0, 74), (1, 0), (2, 75)):
        asked = m.ListOffsetsTopic("t", [m.ListOffsetsPartition(0, epoch, -1)])
        [row] = (await ask(cluster, m.ListOffsetsRequest(-1, 0, [asked]))).topics[0].partitions
        assert row.error_code == code


async def test_configurations_of_other_resources(cluster: SimulatedCluster) -> None:
    """Topics and brokers have a few rows; what is denied or missing says so."""
    cluster.create_topic("c", configs={"cleanup.policy": "compact"})
    asked = [(2, "c"), (2, "no"), (4, "1"), (32, "g"), (16, "x")]
    request = m.DescribeConfigsRequest(
        [m.DescribeConfigsResource(kind, name, None) for kind, name in asked], True, True
    )
    topic, missing, broker, group, other = (await ask(cluster, request)).results
    assert {row.name: (row.value, row.config_source) for row in topic.configs}["cleanup.policy"] == ("compact", 1)
    assert (missing.error_code, broker.error_code, other.error_code) == (3, 0, 42)
    row = next(row for row in group.configs if row.name == "share.auto.offset.reset")
    assert [(s.name, s.value, s.source) for s in row.synonyms] == [
        ("share.auto.offset.reset", "earliest", 8),
        ("share.auto.offset.reset", "latest", 5),
    ]
    for resource, name in (("TOPIC", "c"), ("GROUP", "g"), ("CLUSTER", "kafka-cluster")):
        cluster.deny("DESCRIBE_CONFIGS", resource, name)
    assert [row.error_code for row in (await ask(cluster, request)).results] == [29, 3, 31, 30, 42]


async def test_dead_letters_that_are_stuck(cluster: SimulatedCluster) -> None:
    """They count as lag until the dead-letter topic takes them."""
    cluster.set_group_config("g", {"errors.deadletterqueue.topic.name": "dead"})
    cluster.hold_dead_letters("g")
    cluster.share_consume("g", ["t"], otherwise="reject", max_records=4)
    assert [(b.first_offset, b.delivery_state) for b in (await read_state(cluster, 0)).state_batches] == [(1, 3)]
    assert cluster.list_share_group_offsets("g")[0].lag == 4
    cluster.hold_dead_letters("g", held=False)
    assert cluster.list_share_group_offsets("g")[0].lag == 0


async def test_locks_that_run_out(cluster: SimulatedCluster) -> None:
    """The records are free again, and the lag is known although nobody acknowledged."""
    cluster.set_group_config("other", {"share.auto.offset.reset": "earliest"})
    consumer = cluster.open_consumer("other", ["t"])
    consumer.poll(otherwise="none", max_records=5)
    assert cluster.list_share_group_offsets("other")[0].lag is None
    cluster.expire_locks("other")
    assert cluster.list_share_group_offsets("other")[0].lag == 5


async def test_end_offsets_of_all_kinds(cluster: SimulatedCluster) -> None:
    """End, stable end, start, by time; what is not there, not led here or not allowed has an error."""
    cluster.produce("t", 0, 1, timestamp=50)
    cluster.produce_transaction("t", 0, 2, leave_open=True, timestamp=60)
    cluster.delete_records("t", 0, 2)

    async def at(timestamp: int, isolation: int = 0, topic: str = "t", partition: int = 0) -> tuple[int, int]:
        asked = m.ListOffsetsTopic(topic, [m.ListOffsetsPartition(partition, -1, timestamp)])
        [row] = (await ask(cluster, m.ListOffsetsRequest(-1, isolation, [asked]))).topics[0].partitions
        return row.error_code, row.offset

    assert [await at(-1), await at(-1, 1), await at(-2), await at(60, 1)] == [(0, 8), (0, 6), (0, 2), (0, 2)]
    assert [await at(1 << 60), await at(-5), await at(-1, partition=1)] == [(0, -1), (0, -1), (3, -1)]
    with cluster.fail(2, 78, topic="t"):
        assert await at(-1) == (78, -1)
    assert cluster.list_offsets({"t": [0]}, committed=True) == {("t", 0): 6}
    assert cluster.list_offsets({"t": [0]}, earliest=True) == {("t", 0): 2}
    cluster.deny("DESCRIBE", "TOPIC", "t")
    assert await at(-1) == (29, -1)


async def test_topics_of_the_metadata(cluster: SimulatedCluster) -> None:
    """By name, by id, all of them; errors for what is unknown, hidden or scripted."""
    known = topic_id(cluster)
    rows = [
        m.MetadataRequestTopic(known, None),
        m.MetadataRequestTopic(b"x" * 16, None),
        m.MetadataRequestTopic(name="no"),
    ]
    answer = await ask(cluster, m.MetadataRequest(rows))
    assert [(row.name, row.error_code) for row in answer.topics] == [("t", 0), (None, 100), ("no", 3)]
    assert {row.name for row in (await ask(cluster, m.MetadataRequest(None))).topics} > {"t"}
    with cluster.fail(3, 5, topic="t"):
        assert (await ask(cluster, m.MetadataRequest(rows[:1]))).topics[0].error_code == 5
    cluster.deny("DESCRIBE", "TOPIC", "t")
    named = m.MetadataRequest([m.MetadataRequestTopic(name="t"), rows[0]])
    assert [row.error_code for row in (await ask(cluster, named)).topics] == [29, 100]
    assert (await ask(cluster, m.DescribeClusterRequest(include_fenced_brokers=True))).brokers[0].broker_id == 1


@pytest.mark.parametrize(("version", "start", "lag"), [("4.4.0", 0, 3), ("4.2.1", None, None)])
def test_added_partitions(version: str, start: int | None, lag: int | None) -> None:
    """From Kafka 4.4 on they begin at 0 with a known lag."""
    cluster = SimulatedCluster(1, version)
    cluster.create_topic("t")
    cluster.join("g", ["t"])
    cluster.add_partitions("t", 2)
    cluster.produce("t", 1, 3)
    first, added = cluster.list_share_group_offsets("g")
    assert (first.lag, added.start_offset, added.lag) == (None, start, lag)


def test_a_classic_consumer_reads_on() -> None:
    """From what it committed; markers are no records."""
    cluster = SimulatedCluster()
    cluster.create_topic("t")
    cluster.produce("t", values=["a"])
    cluster.produce_transaction("t", values=["b"])
    cluster.produce("t", values=["c"])
    assert [row.value for row in cluster.consume("old", ["t"], max_records=1)] == ["a"]
    assert [row.value for row in cluster.consume("old", ["t"])] == ["b", "c"]
    assert cluster.consume("old", ["t"]) == []


async def test_group_errors_of_descriptions(cluster: SimulatedCluster) -> None:
    """Hidden topics, hidden groups, no name, switched off."""
    cluster.join("g", ["t"])
    cluster.deny("DESCRIBE", "TOPIC", "t")
    cluster.deny("DESCRIBE", "GROUP", "hidden")
    asked = m.ShareGroupDescribeRequest(["g", "hidden", ""])
    assert [row.error_code for row in (await ask(cluster, asked)).groups] == [29, 30, 24]
    cluster.deny("DESCRIBE")
    cluster.add_acl("User:*", "GROUP", "hidden", "ALL", "DENY")
    assert [row.group_id for row in (await ask(cluster, m.ListGroupsRequest())).groups] == ["g"]
    with cluster.fail(16, 15):
        assert (await ask(cluster, m.ListGroupsRequest())).error_code == 15
    cluster.set_share_version(0)
    assert {row.error_code for row in (await ask(cluster, asked)).groups} == {35}
    alter = m.AlterShareGroupOffsetsRequest("g")
    assert (await ask(cluster, alter)).error_code == 35


async def test_rights_are_told_where_they_are_asked_for(cluster: SimulatedCluster) -> None:
    """The bits are those of brokers without ACLs, of a group that is not there too; version 6 tells of none such."""
    topics = m.MetadataRequest([m.MetadataRequestTopic(name="t")], False, include_topic_authorized_operations=True)
    groups = m.DescribeGroupsRequest(["missing"], include_authorized_operations=True)
    assert (await ask(cluster, topics)).topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert (await ask(cluster, groups, version=5)).groups[0].authorized_operations == 0b1101_0100_1000
    assert (await ask(cluster, groups)).groups[0].authorized_operations == -(2**31)
    cluster.deny("READ", "GROUP", "missing")
    assert (await ask(cluster, groups, version=5)).groups[0].authorized_operations == 0b1101_0100_0000
    unasked = m.MetadataRequest([m.MetadataRequestTopic(name="t")])
    assert (await ask(cluster, unasked)).topics[0].topic_authorized_operations == -(2**31)
