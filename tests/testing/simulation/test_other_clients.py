"""A client that knows nothing of this project works with the simulated cluster."""

from __future__ import annotations

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from shareproxy.testing import SimulatedCluster

SECONDS = 30.0


def test_librdkafka_looks_around() -> None:
    """Topics, end offsets, groups and their committed offsets."""
    with SimulatedCluster(2) as cluster:
        cluster.create_topic("t", 2)
        cluster.produce("t", range(2), 5)
        cluster.commit_offsets("classic", {"t": {0: 3}})
        cluster.join_consumer_group("new", ["t"])
        cluster.join("share", ["t"])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert "t" in admin.list_topics(timeout=SECONDS).topics
        [end] = admin.list_offsets({TopicPartition("t", 1): OffsetSpec.latest()}).values()  # type: ignore[no-untyped-call]
        assert end.result(SECONDS).offset == 5
        assert {row.group_id for row in admin.list_consumer_groups().result(SECONDS).valid} >= {"classic", "new"}
        [described] = admin.describe_consumer_groups(["new"]).values()
        assert [len(row.assignment.topic_partitions) for row in described.result(SECONDS).members] == [2]
        [committed] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("classic")]).values()
        assert [row.offset for row in committed.result(SECONDS).topic_partitions] == [3]


def test_librdkafka_reads() -> None:
    """Records with right checksums; those of aborted and open transactions are left out."""
    with SimulatedCluster(1) as cluster:
        cluster.create_topic("t")
        cluster.produce("t", values=["a", "b"])
        cluster.produce_transaction("t", count=2, commit=False)
        cluster.produce_transaction("t", values=["c"])
        cluster.produce("t", values=["d"])
        cluster.produce_transaction("t", values=["e"], leave_open=True)
        reader = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        reader.assign([TopicPartition("t", 0, 0)])
        values = [message.value() for _ in range(4) if (message := reader.poll(SECONDS)) is not None]
        assert values == [b"a", b"b", b"c", b"d"]
        assert reader.get_watermark_offsets(TopicPartition("t", 0), SECONDS) == (0, 8)
        reader.close()
