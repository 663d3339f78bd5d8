"""Short stories of share groups, told to a real and to a simulated cluster alike.

In: a stage, and names that nobody else uses. Out: moments, each with a name, at which both clusters answer the same.
Must never: ask how fast a cluster is, or in which order consumers get partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from shareproxy.testing.driver import DriverError
from tests.contract.stages import Consumer, Stage
from tests.support.waiting import wait_until

Moments = Iterator[str]
Story = Callable[[Stage, str, str], Moments]

PATIENCE: Final = 30.0  # seconds for a real consumer to get what is there


def kip_1226_picture(stage: Stage, topic: str, group: str) -> Moments:
    """7 offsets; 0, 1, 5 accepted, 6 rejected; then 2 released, 3 accepted, 4 kept to the end; four more unfetched."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 7)
    with stage.open_consumer(group, [topic]) as consumer:
        consumer.poll(otherwise="none", max_records=7)
        yield "fetched, nothing acknowledged"
        consumer.acknowledge({0: "accept", 1: "accept", 5: "accept", 6: "reject"})
        yield "0, 1 and 5 accepted, 6 rejected"
        consumer.acknowledge({2: "release"})
        yield "2 released: the start has moved"
        consumer.acknowledge({3: "accept"})
        yield "3 accepted"
    stage.produce(topic, 0, 4)
    yield "the member left with 4 in its hands"


def never_consumed(stage: Stage, topic: str, group: str) -> Moments:
    """A member that got nothing: the brokers know no start offset."""
    begin(stage, topic, group)
    with stage.open_consumer(group, [topic]) as consumer:
        join(stage, consumer, topic, group)
        yield "joined"
    stage.produce(topic, 0, 5)
    yield "left, and records came"


def all_accepted(stage: Stage, topic: str, group: str) -> Moments:
    """Everything done in one go: the stored start stays behind (KAFKA-19922), and moves with the next write."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 5)
    stage.share_consume(group, [topic], max_records=5)
    yield "all accepted"
    stage.produce(topic, 0, 3)
    stage.share_consume(group, [topic], max_records=3)
    yield "and the next three"


def released_until_the_limit(stage: Stage, topic: str, group: str) -> Moments:
    """Released again and again: the fifth delivery is the last, then the record is archived."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 1)
    with stage.open_consumer(group, [topic]) as consumer:
        consumer.poll(otherwise="release", max_records=4)
        yield "released four times"
        consumer.poll(otherwise="release", max_records=1)
        yield "released for the fifth time"


def aborted_behind_the_last_delivery(stage: Stage, topic: str, group: str) -> Moments:
    """A record that comes alone in its last delivery: the aborted one behind it is not touched by that fetch (4.2)."""
    begin(stage, topic, group, {"share.isolation.level": "read_committed"})
    stage.produce(topic, 0, 1)
    with stage.open_consumer(group, [topic]) as consumer:
        consumer.poll(otherwise="release", max_records=4)
        stage.produce_transaction(topic, 0, 1, commit=False, transactional_id=f"id-{topic}")
        stage.produce(topic, 0, 1)
        consumer.poll(otherwise="none", max_records=1)
        consumer.acknowledge({0: "accept"})
        yield "accepted"


def altered_by_hand(stage: Stage, topic: str, group: str) -> Moments:
    """Start offsets set inside the log, beyond its end, and one beyond its end, for a group that did not exist."""
    stage.create_topic(topic, 3)
    stage.produce(topic, range(3), 10)
    alter(stage, group, {topic: {0: 3, 1: 50, 2: 11}})
    yield "altered"


def altered_after_consumption(stage: Stage, topic: str, group: str) -> Moments:
    """A start offset set back: the states are gone, and it is consumed again."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 6)
    stage.share_consume(group, [topic], {5: "reject"}, max_records=6)
    alter(stage, group, {topic: {0: 2}})
    yield "set back to 2"
    if all(row.start_offset != 2 for row in rows_of(stage, group)):
        return  # Kafka 4.1 has done nothing, so that there is nothing to consume
    stage.share_consume(group, [topic], {2: "accept", 3: "accept"}, otherwise="reject", max_records=4)
    yield "consumed again"


def records_deleted(stage: Stage, topic: str, group: str) -> Moments:
    """Records deleted below and above what is done: they count until the leader writes."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 10)
    stage.share_consume(group, [topic], dict.fromkeys(range(4), "accept"), otherwise="release", max_records=10)
    stage.delete_records(topic, 0, 6)
    yield "deleted up to 6"
    stage.share_consume(group, [topic], {6: "accept"}, otherwise="release", max_records=4)
    yield "6 accepted"


def transactions(stage: Stage, topic: str, group: str, isolation: str = "read_uncommitted") -> Moments:
    """3 committed, 5 aborted, 2 committed, each with a marker; then 4 in an open transaction."""
    begin(stage, topic, group, {"share.isolation.level": isolation})
    name = f"id-{topic}"
    stage.produce_transaction(topic, 0, 3, transactional_id=name)
    stage.produce_transaction(topic, 0, 5, commit=False, transactional_id=name)
    stage.produce_transaction(topic, 0, 2, transactional_id=name)
    committed = isolation == "read_committed"
    stage.share_consume(group, [topic], max_records=5 if committed else 10)
    yield "consumed"
    stage.produce_transaction(topic, 0, 4, leave_open=True, transactional_id=name)
    yield "open"
    stage.end_transaction(commit=False, transactional_id=name)
    yield "aborted"


def committed_transactions(stage: Stage, topic: str, group: str) -> Moments:
    """The same with a group that reads committed records only."""
    return transactions(stage, topic, group, "read_committed")


def deleted_under_a_transaction(stage: Stage, topic: str, group: str) -> Moments:
    """Records of an open transaction are deleted: the last stable offset stays where it was, below the log start."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 2)
    stage.produce_transaction(topic, 0, 3, leave_open=True, transactional_id=f"id-{topic}")
    stage.produce(topic, 0, 2)
    stage.delete_records(topic, 0, 4)
    yield "deleted up to 4"
    stage.end_transaction(commit=False, transactional_id=f"id-{topic}")
    yield "aborted"


def added_partition(stage: Stage, topic: str, group: str) -> Moments:
    """A partition that is added to a topic the group consumes."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 2)
    with stage.open_consumer(group, [topic]) as consumer:
        consumer.poll(max_records=2)
        stage.add_partitions(topic, 2)
        wait_until(
            lambda: bool(consumer.poll(timeout=0.3)) and len(rows_of(stage, group)) == 2, "the partition has state"
        )
    stage.produce(topic, 1, 3)
    yield "added"


def forgotten_topics(stage: Stage, topic: str, group: str) -> Moments:
    """A group that reads other topics now, whose offsets are deleted, whose topic is deleted and made again."""
    other = f"{topic}-other"
    begin(stage, topic, group)
    stage.create_topic(other)
    for name in (topic, other):
        stage.produce(name, 0, 2)
        stage.share_consume(group, [name], max_records=2)
    yield "the old topic is still in its state"
    stage.delete_offsets(group, [topic])
    yield "offsets of the first deleted"
    stage.delete_topic(other)
    stage.create_topic(other)
    yield "the other is another topic now"


def members(stage: Stage, topic: str, group: str) -> Moments:
    """Two members of one group."""
    begin(stage, topic, group)
    with stage.open_consumer(group, [topic]) as first, stage.open_consumer(group, [topic]) as second:
        join(stage, first, topic, group)
        join(stage, second, topic, group)
        yield "two members, one partition"


def group_with_colons(stage: Stage, topic: str, group: str) -> Moments:
    """A group id with colons, which some releases do not take as the key of a share partition."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 3)
    stage.share_consume(group, [topic], {0: "accept"}, otherwise="release", max_records=3)
    yield "consumed"


def from_the_end(stage: Stage, topic: str, group: str) -> Moments:
    """A group that begins at the end, as groups do unless they are told otherwise."""
    stage.create_topic(topic)
    stage.produce(topic, 0, 4)
    with stage.open_consumer(group, [topic]) as consumer:
        join(stage, consumer, topic, group)
        consumer.poll(timeout=0.5)
        stage.produce(topic, 0, 2)
        consumer.poll(max_records=2, timeout=PATIENCE)
    yield "consumed what came later"


def classic_group(stage: Stage, topic: str, group: str) -> Moments:
    """A group of another type is in the list of groups, and has no share state."""
    stage.create_topic(topic)
    stage.produce(topic, 0, 2)
    stage.consume(group, [topic], max_records=2)
    yield "committed"


def deleted_group(stage: Stage, topic: str, group: str) -> Moments:
    """A group that was deleted."""
    begin(stage, topic, group)
    stage.produce(topic, 0, 2)
    stage.share_consume(group, [topic], max_records=2)
    stage.delete_group(group)
    yield "deleted"


STORIES: Final[tuple[Story, ...]] = (
    kip_1226_picture,
    never_consumed,
    all_accepted,
    released_until_the_limit,
    aborted_behind_the_last_delivery,
    altered_by_hand,
    altered_after_consumption,
    records_deleted,
    transactions,
    committed_transactions,
    deleted_under_a_transaction,
    added_partition,
    forgotten_topics,
    members,
    group_with_colons,
    from_the_end,
    classic_group,
    deleted_group,
)


# -- steps -------------------------------------------------------------------------------------------------------------


def begin(stage: Stage, topic: str, group: str, configs: Mapping[str, str] | None = None, partitions: int = 1) -> None:
    """Make a topic, and a group that will read it from its beginning."""
    stage.create_topic(topic, partitions)
    stage.set_group_config(group, {"share.auto.offset.reset": "earliest", **(configs or {})})


def join(stage: Stage, consumer: Consumer, topic: str, group: str) -> None:
    """Let a consumer join, and wait until the topic is initialised."""
    wait_until(
        lambda: (
            bool(consumer.poll(max_records=1, timeout=0.2)) and any(row.topic == topic for row in rows_of(stage, group))
        ),
        f"group {group} initialised {topic}",
    )


def rows_of(stage: Stage, group: str) -> list[Any]:
    """Return the rows that an admin client sees."""
    return list(stage.list_share_group_offsets(group))


def alter(stage: Stage, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
    """Set start offsets, again while the coordinator has not heard of the topic yet, or still has a leaving member."""

    def altered() -> bool:
        try:
            stage.alter_offsets(group, offsets)
        except DriverError as error:
            if "UnknownTopicOrPartition" not in error.type and "GroupNotEmpty" not in error.type:
                raise
            return False
        return True

    wait_until(altered, f"the coordinator of {group} alters its offsets")
