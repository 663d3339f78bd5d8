"""The share consumer over a simulated cluster: what a caller sees of it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from shareproxy import (
    Acknowledgement,
    AssignmentChanged,
    ConsumerClosed,
    ConsumerEvent,
    GapsAcknowledged,
    LockLost,
    TopicPartition,
)
from shareproxy.protocol import messages as m
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of, of_type, take, until

GROUP, TOPIC = "workers", "orders"
PARTITION = TopicPartition(TOPIC, 0)


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """One node, one topic of one partition, a group that begins at the start and beats fast."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic(TOPIC)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "100"})
        yield cluster


def left(cluster: SimulatedCluster) -> int | None:
    """Return how many offsets have still to be dealt with, as the cluster sees it."""
    [row] = cluster.list_share_group_offsets(GROUP)
    return row.lag


async def test_records_come_as_they_were_written(cluster: SimulatedCluster) -> None:
    """With all that is known of them."""
    cluster.produce(TOPIC, 0, values=["a", "b"], timestamp=1234)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        unknown = consumer.lock_duration
        batch = await consumer.get_batch()
        deadline = batch[0].lock_deadline - asyncio.get_running_loop().time()

    assert [(r.topic, r.partition, r.offset, r.value, r.raw_value) for r in batch] == [
        (TOPIC, 0, 0, b"a", b"a"),
        (TOPIC, 0, 1, b"b", b"b"),
    ]
    assert {(r.timestamp, r.delivery_count, r.error) for r in batch} == {(1234, 1, None)}
    assert batch.partitions == {PARTITION}
    assert (unknown, consumer.lock_duration) == (None, 30.0)
    assert 20.0 < deadline <= 30.0


async def test_a_batch_is_accepted_with_one_range(cluster: SimulatedCluster) -> None:
    """However many records it has; the ticket has the answer of each partition."""
    cluster.produce(TOPIC, 0, 300)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        batch = await consumer.get_batch()
        results = await batch.accept()
        empty = await consumer.commit()

    assert len(batch) == 300
    assert results[PARTITION].confirmed
    assert [(tuple(each), kind) for each, kind in results[PARTITION].ranges] == [((0, 299), Acknowledgement.ACCEPT)]
    assert empty == {}
    assert left(cluster) == 0


async def test_never_more_than_asked_for(cluster: SimulatedCluster) -> None:
    """What a fetch brings beyond that waits for the next call, and nothing is fetched meanwhile."""
    cluster.produce(TOPIC, 0, 10)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        first = await consumer.get_batch(4)
        fetches = cluster.requests.count(78)
        second, third = await consumer.get_batch(4), await consumer.get_batch(4)

        assert [len(first), len(second), len(third)] == [4, 4, 2]
        assert [record.offset for batch in (first, second, third) for record in batch] == list(range(10))
        assert cluster.requests.count(78) == fetches
        assert consumer.held == 10


async def test_an_empty_batch_at_the_timeout(cluster: SimulatedCluster) -> None:
    """No error: there is nothing to do."""
    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        batch = await consumer.get_batch(timeout=0.02)

    assert len(batch) == 0
    assert batch.partitions == frozenset()


async def test_giving_up_a_wait_loses_no_record(cluster: SimulatedCluster) -> None:
    """What was on its way comes with the next call."""
    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        for _ in range(5):
            waiting = asyncio.ensure_future(consumer.get_batch())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        cluster.produce(TOPIC, 0, 3)
        records = await take(consumer, 3)

    assert [record.offset for record in records] == [0, 1, 2]


async def test_one_after_the_other(cluster: SimulatedCluster) -> None:
    """Iterating gives every record; what was not reached when it ends is there for the next call."""
    cluster.produce(TOPIC, 0, 6)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        seen = []
        async for record in consumer:
            record.accept()
            seen.append(record.offset)
            if len(seen) == 4:
                break
        rest = await consumer.get_batch()

    assert seen == [0, 1, 2, 3]
    assert [record.offset for record in rest] == [4, 5]


async def test_acknowledgements_go_with_the_next_fetch(cluster: SimulatedCluster) -> None:
    """One request does both."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_records=2) as consumer:
        ticket = (await consumer.get_batch()).accept()
        cluster.produce(TOPIC, 0, 2)
        await consumer.get_batch()
        assert ticket.done()

    assert not [each for each in cluster.requests.messages(m.ShareAcknowledgeRequest) if each.share_session_epoch >= 0]


async def test_answer_to_acknowledgements_does_not_wait_for_records(cluster: SimulatedCluster) -> None:
    """A fetch that takes them along is not parked at the end of a topic; the one behind it is, and only once."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_records=2, max_wait=1.0) as consumer:
        ticket = (await consumer.get_batch()).accept()
        waiting = asyncio.ensure_future(consumer.get_batch())
        await until(ticket.done, "the answer to the acknowledgements is here")
        await until(lambda: cluster.requests.count(78) > 2, "records are waited for")
        fetches = cluster.requests.messages(m.ShareFetchRequest)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    taken_along = [
        [bool(part.acknowledgement_batches) for part in fetch.topics[0].partitions] for fetch in fetches[1:2]
    ]
    assert taken_along == [[True]]
    assert [fetch.max_wait_ms for fetch in fetches] == [1_000, 0, 1_000]


async def test_commit_tells_what_a_fetch_took_along(cluster: SimulatedCluster) -> None:
    """Once, and unless somebody awaited it."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_records=2) as consumer:
        ticket = (await consumer.get_batch()).accept()
        cluster.produce(TOPIC, 0, 2)
        second = await consumer.get_batch()
        assert ticket.done()
        results = await consumer.commit()
        await second.accept()
        nothing = await consumer.commit()

    assert [(tuple(each), kind) for each, kind in results[PARTITION].ranges] == [((0, 1), Acknowledgement.ACCEPT)]
    assert nothing == {}


async def test_acknowledgements_that_no_fetch_takes_along_go_by_themselves(cluster: SimulatedCluster) -> None:
    """A caller that accepts its last record and then does something else keeps nobody waiting."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        (await consumer.get_batch()).accept()
        await until(lambda: left(cluster) == 0, "the acknowledgements arrive")


async def test_a_commit_while_a_fetch_is_parked(cluster: SimulatedCluster) -> None:
    """It waits until the fetch is answered, and no longer."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_wait=0.1) as consumer:
        batch = await consumer.get_batch()
        waiting = asyncio.ensure_future(consumer.get_batch())
        fetches = cluster.requests.count(78)
        await until(lambda: cluster.requests.count(78) > fetches, "the next fetch is parked")
        batch.accept()
        results = await asyncio.wait_for(consumer.commit(), 10.0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    assert results[PARTITION].confirmed


async def test_one_request_at_a_time(cluster: SimulatedCluster) -> None:
    """Many tasks that wait for records, results and renewals share the session's one request."""
    cluster.produce(TOPIC, 0, 40)

    async def work() -> None:
        for _ in range(5):
            for record in await consumer.get_batch(2, timeout=0.2):
                renewed = record.renew()
                await record.accept()
                await renewed

    async with consumer_of(cluster, GROUP, TOPIC, max_wait=0.05) as consumer:
        await asyncio.gather(*(work() for _ in range(4)))
        await consumer.commit()

    epochs = [
        each.share_session_epoch
        for each in (received.message for received in cluster.requests.last)
        if isinstance(each, m.ShareFetchRequest | m.ShareAcknowledgeRequest)
    ]
    assert epochs == [*range(len(epochs) - 1), -1]


async def test_no_more_is_held_than_the_capacity(cluster: SimulatedCluster) -> None:
    """Nothing is fetched until some are acknowledged."""
    for _ in range(10):
        cluster.produce(TOPIC, 0, 2)

    async with consumer_of(
        cluster, GROUP, TOPIC, max_records=4, capacity=6, acquire_mode="record", prefetch=True
    ) as consumer:
        held = [await consumer.get_batch(4), await consumer.get_batch(4)]
        nothing = await consumer.get_batch(timeout=0.1)
        most = consumer.held
        held[0].accept()
        more = await consumer.get_batch(timeout=5.0)

    assert [len(held[0]) + len(held[1]), len(nothing), most] == [6, 0, 6]
    assert more


async def test_prefetching(cluster: SimulatedCluster) -> None:
    """More is fetched while the caller works, without being asked."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, prefetch=True) as consumer:
        await consumer.get_batch()
        cluster.produce(TOPIC, 0, 3)
        await until(lambda: consumer.held == 5, "the next batch is there")


async def test_a_commit_does_not_wait_for_what_is_fetched_ahead(cluster: SimulatedCluster) -> None:
    """A fetch that nobody waits for is not parked, and is not sent over and over."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, prefetch=True, max_wait=30.0) as consumer:
        batch = await consumer.get_batch()
        await until(lambda: cluster.requests.count(78) > 1, "more is fetched")
        await asyncio.wait_for(batch.accept(), 10.0)
        fetches = cluster.requests.messages(m.ShareFetchRequest)

    assert {fetch.max_wait_ms for fetch in fetches[1:]} == {0}
    assert len(fetches) < 10


async def test_where_records_trickle_a_fetch_takes_no_acknowledgements_along(cluster: SimulatedCluster) -> None:
    """The broker would keep new records back until it has written those down; they go by themselves soon after."""
    cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_wait=10.0) as consumer:
        (await consumer.get_batch()).accept()
        waiting = asyncio.ensure_future(consumer.get_batch())
        await until(lambda: left(cluster) == 0, "the acknowledgements arrive")
        cluster.produce(TOPIC, 0, 2)
        more = await waiting
        fetches = cluster.requests.messages(m.ShareFetchRequest)

    assert len(more) == 2
    assert not [
        part for fetch in fetches for each in fetch.topics for part in each.partitions if part.acknowledgement_batches
    ]
    assert fetches[1].max_wait_ms <= 100


async def test_markers_and_holes_are_acknowledged_by_themselves(cluster: SimulatedCluster) -> None:
    """The caller is told, and the group begins behind them."""
    events: list[ConsumerEvent] = []
    cluster.produce(TOPIC, 0, 2)
    cluster.produce_transaction(TOPIC, 0, 2)
    cluster.produce_transaction(TOPIC, 0, 2, commit=False)

    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        for record in await take(consumer, 6):
            record.accept()
        await consumer.commit()
        await consumer.get_batch(timeout=0.05)
        await until(lambda: left(cluster) == 0, "nothing is left")

    gaps = [tuple(each) for event in of_type(events, GapsAcknowledged) for each in event.ranges]
    assert gaps == [(4, 4), (7, 7)]


async def test_only_gaps_wake_nobody(cluster: SimulatedCluster) -> None:
    """A batch is never empty but at the timeout."""
    events: list[ConsumerEvent] = []
    cluster.set_group_config(GROUP, {"share.isolation.level": "read_committed"})
    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        waiting = asyncio.ensure_future(consumer.get_batch())
        cluster.produce_transaction(TOPIC, 0, 2, commit=False)
        await until(lambda: bool(of_type(events, GapsAcknowledged)), "the marker is acknowledged")
        cluster.produce(TOPIC, 0, 1)
        batch = await asyncio.wait_for(waiting, 10.0)

    assert [record.offset for record in batch] == [3]


async def test_a_record_that_cannot_be_decoded(cluster: SimulatedCluster) -> None:
    """It comes with the error, and can be acknowledged."""
    cluster.produce(TOPIC, 0, values=["1", "x", "3"])

    async with consumer_of(cluster, GROUP, TOPIC, value_deserializer=int) as consumer:
        good, bad, other = await take(consumer, 3)
        result = await bad.reject()

    assert (good.value, other.value) == (1, 3)
    assert isinstance(bad.error, ValueError)
    assert (bad.value, bad.raw_value) == (None, b"x")
    assert result.confirmed


async def test_implicit_acknowledgement(cluster: SimulatedCluster) -> None:
    """The next call accepts what was handed out; what was released by hand is not accepted."""
    cluster.produce(TOPIC, 0, 4)

    async with consumer_of(cluster, GROUP, TOPIC, acknowledgement="implicit") as consumer:
        batch = await consumer.get_batch(2)
        batch[0].release()
        await consumer.get_batch(2)
        await consumer.commit()
        released = await consumer.get_batch()
        before = left(cluster)
        await consumer.commit()

    assert [(record.offset, record.delivery_count) for record in released] == [(0, 2)]
    assert (before, left(cluster)) == (1, 0)


async def test_explicit_acknowledges_nothing_by_itself(cluster: SimulatedCluster) -> None:
    """What nobody acknowledged is released by close, whatever was handed out."""
    cluster.produce(TOPIC, 0, 4)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        await consumer.get_batch()
        assert await consumer.commit() == {}

    assert left(cluster) == 4
    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        assert [record.delivery_count for record in await take(consumer, 4)] == [2, 2, 2, 2]


async def test_close_delivers_what_was_noted(cluster: SimulatedCluster) -> None:
    """With the last request; then the member leaves."""
    cluster.produce(TOPIC, 0, 4)

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        batch = await consumer.get_batch()
        ticket = batch.accept()

    assert ticket.done()
    assert (await ticket)[PARTITION].confirmed
    assert left(cluster) == 0
    order = [
        (
            received.api_key,
            getattr(received.message, "share_session_epoch", getattr(received.message, "member_epoch", 0)),
        )
        for received in cluster.requests.last
        if received.api_key in (76, 79)
    ]
    assert order[-2:] == [(79, -1), (76, -1)]


async def test_after_close(cluster: SimulatedCluster) -> None:
    """Calls say so, records answer, iterations end."""
    cluster.produce(TOPIC, 0, 4)
    consumer = consumer_of(cluster, GROUP, TOPIC)
    with pytest.raises(ConsumerClosed, match="not started"):
        await consumer.get_batch()
    await consumer.start()
    events = consumer.events()
    [record, *_] = await consumer.get_batch()

    await consumer.close()
    await consumer.close()

    late = await record.accept()
    assert not late.confirmed
    assert record.lock_deadline == 0.0
    with pytest.raises(ConsumerClosed):
        await consumer.get_batch()
    with pytest.raises(ConsumerClosed):
        await consumer.commit()
    with pytest.raises(ConsumerClosed):
        await consumer.start()
    assert [each async for each in consumer] == []
    assert [type(event) async for event in events] == [AssignmentChanged]


async def test_a_consumer_that_was_never_started_can_be_closed(cluster: SimulatedCluster) -> None:
    """Nothing happens."""
    await consumer_of(cluster, GROUP, TOPIC).close()

    assert cluster.requests.count() == 0


async def test_locks_are_renewed_while_records_are_held(cluster: SimulatedCluster) -> None:
    """At half their time, those not yet handed out as well; not if that is not wanted."""
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "200"})
    cluster.produce(TOPIC, 0, 4)
    events: list[ConsumerEvent] = []

    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        [record] = await consumer.get_batch(1)
        first = record.lock_deadline
        await until(lambda: record.lock_deadline > first + 0.4, "the lock is renewed twice")
        rest = await consumer.get_batch()
        assert all(record.lock_deadline > first for record in rest)
        assert (await record.accept()).confirmed
        assert consumer.can_renew
    assert not of_type(events, LockLost)

    async with consumer_of(cluster, GROUP, TOPIC, events, renew=False) as consumer:
        rest = await consumer.get_batch()
        await until(lambda: bool(of_type(events, LockLost)), "the lock runs out")
        assert [record.lock_deadline for record in rest] == [0.0, 0.0, 0.0]


async def test_kafka_4_1_renews_nothing() -> None:
    """Asking for it is answered; whole batches come although single records were asked for."""
    async with SimulatedCluster(version="4.1.2") as old:
        old.create_topic(TOPIC)
        old.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        old.produce(TOPIC, 0, 4)
        async with consumer_of(old, GROUP, TOPIC, acquire_mode="record", max_records=1) as consumer:
            [record] = await consumer.get_batch()
            result = await record.renew()
            assert consumer.held == 4
            assert not consumer.can_renew
            assert "4.2" in (result.message or "")


async def test_records_whose_lock_ran_out_unseen_are_dropped(cluster: SimulatedCluster) -> None:
    """Nobody shall begin with what somebody else gets now."""
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "200"})
    cluster.produce(TOPIC, 0, 4)
    events: list[ConsumerEvent] = []

    async with consumer_of(cluster, GROUP, TOPIC, events, renew=False) as consumer:
        [record] = await consumer.get_batch(1)
        await until(lambda: bool(of_type(events, LockLost)), "the lock runs out")
        again = await consumer.get_batch()

    assert {each.delivery_count for each in again} == {2}
    assert again[0].offset == record.offset


async def test_events_can_be_iterated(cluster: SimulatedCluster) -> None:
    """From when they are asked for; a listener that fails does no harm."""

    def fail(event: ConsumerEvent) -> None:
        raise RuntimeError("a bug of the caller")

    consumer = consumer_of(cluster, GROUP, TOPIC)
    consumer._events._on_event = fail
    events = consumer.events()
    async with consumer:
        event = await asyncio.wait_for(anext(events), 10.0)

    assert event == AssignmentChanged(frozenset({PARTITION}), frozenset({PARTITION}), frozenset())
    assert str(event)
    assert consumer.assignment == {PARTITION}


async def test_iterating_before_the_start(cluster: SimulatedCluster) -> None:
    """Is a mistake that is told: an end without a record would look like an empty queue."""
    consumer = consumer_of(cluster, GROUP, TOPIC)

    with pytest.raises(ConsumerClosed, match="not started"):
        await anext(consumer)


async def test_a_closed_consumer_is_freed(cluster: SimulatedCluster) -> None:
    """Also where the last records were never accepted: they refer to it, and no collector looks at them."""
    cluster.produce(TOPIC, 0, 3)
    consumer = consumer_of(cluster, GROUP, TOPIC, acknowledgement="implicit")
    watched = weakref.ref(consumer)
    async with consumer:
        await consumer.get_batch()

    del consumer
    await until(lambda: gc.collect() >= 0 and watched() is None, "nothing refers to it")
