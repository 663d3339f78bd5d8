"""How far a share consumer fetches ahead: for a caller who comes back soon, and for nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy import ConsumerEvent, RecordsGivenBack
from shareproxy.protocol import messages as m
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of, of_type, take, until

GROUP, TOPIC = "workers", "orders"


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """One node, one topic of one partition, a group that begins at the start and beats fast."""
    async with SimulatedCluster() as cluster:
        cluster.create_topic(TOPIC)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "100"})
        yield cluster


async def test_a_quick_caller_finds_the_next_records_here(cluster: SimulatedCluster) -> None:
    """Once it is done with all that it was given, more is asked for; what nobody waits for, no broker waits for."""
    for _ in range(300):
        cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_records=2) as consumer:
        seen: list[int] = []
        while len(seen) < 600:
            batch = await consumer.get_batch()
            seen += [record.offset for record in batch]
            batch.accept()
        await consumer.commit()
        fetches = cluster.requests.messages(m.ShareFetchRequest)

    assert seen == list(range(600))
    assert fetches[0].max_records == 2
    assert max(fetch.max_records for fetch in fetches) > 2
    assert 0 in {fetch.max_wait_ms for fetch in fetches}
    assert len(fetches) < 100


async def test_a_slow_caller_leaves_the_next_records_to_others(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is not back in time, or still has records to acknowledge, gets what it asks for and no more."""
    monkeypatch.setattr("shareproxy.drain.pace.QUICK_SECONDS", 0.0)
    for _ in range(8):
        cluster.produce(TOPIC, 0, 2)

    async with consumer_of(cluster, GROUP, TOPIC, max_records=2) as consumer:
        for asked in range(1, 4):
            batch = await consumer.get_batch()
            assert consumer.held == 2
            assert cluster.requests.count(78) == asked
            batch.accept()


async def test_records_are_not_kept_for_a_caller_who_does_not_come(cluster: SimulatedCluster) -> None:
    """After a lock's time without a call they are released, and the caller is told; what it was given stays its own."""
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "200"})
    cluster.produce(TOPIC, 0, 4)
    events: list[ConsumerEvent] = []

    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        [record] = await consumer.get_batch(1)
        await until(lambda: bool(of_type(events, RecordsGivenBack)), "the rest is given back")
        result = await record.accept()
        again = await take(consumer, 3)

    [given] = of_type(events, RecordsGivenBack)
    assert [tuple(each) for each in given.ranges] == [(1, 3)]
    assert result.confirmed
    assert {each.delivery_count for each in again} == {2}


@pytest.mark.parametrize("prefetch", [False, True])
async def test_what_was_given_back_is_not_fetched_again(cluster: SimulatedCluster, prefetch: bool) -> None:
    """By whoever does not come for it: others get it, one attempt later, and the caller the rest when it does come."""
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "200"})
    for _ in range(100):
        cluster.produce(TOPIC, 0, 2)
    events: list[ConsumerEvent] = []

    async with (
        consumer_of(cluster, GROUP, TOPIC, events, max_records=2, prefetch=prefetch, capacity=100) as quick,
        consumer_of(cluster, GROUP, TOPIC) as other,
    ):
        for _ in range(20):
            (await quick.get_batch()).accept()
        await until(lambda: bool(of_type(events, RecordsGivenBack)), "the rest is given back")
        rest = await take(other, 150)
        for record in rest:
            record.accept()
        last = await take(quick, 10)

    assert len(of_type(events, RecordsGivenBack)) == 1
    assert max(record.delivery_count for record in rest) == 2
    assert sorted(record.offset for record in rest + last) == list(range(40, 200))


async def test_records_are_kept_for_a_caller_who_takes_one_after_the_other(cluster: SimulatedCluster) -> None:
    """However long each takes: given back again and again, the last of them would be given up unseen."""
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "200"})
    cluster.produce(TOPIC, 0, 30)
    events: list[ConsumerEvent] = []
    seen: list[tuple[int, int]] = []

    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        async for record in consumer:
            seen.append((record.offset, record.delivery_count))
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.03)  # the caller's work
            record.accept()
            if len(seen) == 30:
                break

    assert of_type(events, RecordsGivenBack) == []
    assert seen == [(offset, 1) for offset in range(30)]
