"""Sessions that end, connections that break, leaders that move: what the caller sees of each, and what comes after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shareproxy import (
    AccessDenied,
    AcknowledgementsLost,
    AckResult,
    BrokerLost,
    ConsumerEvent,
    LeaderMoved,
    LockLost,
    OffsetRange,
    PartitionRefused,
    RecordsSkipped,
    SessionReopened,
    TopicPartition,
)
from shareproxy.drain import broker_loop
from shareproxy.drain.record_data import Decoded, decode_acquired
from shareproxy.drain.tickets import AckTicket
from shareproxy.protocol.messages import ShareGroupHeartbeatRequest
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of, of_type, take, until

GROUP, TOPIC = "workers", "orders"
PARTITION = TopicPartition(TOPIC, 0)


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """Two nodes, one topic of two partitions, three records in each."""
    async with SimulatedCluster(nodes=2) as cluster:
        cluster.create_topic(TOPIC, 2)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        cluster.produce(TOPIC, [0, 1], 3)
        yield cluster


async def take_all(cluster: SimulatedCluster, events: list[ConsumerEvent]) -> list[tuple[int, int]]:
    """Return what a consumer accepts, with commits, until nothing is left to do."""
    done: list[tuple[int, int]] = []
    one_by_one: dict[str, Any] = {"max_records": 1, "acquire_mode": "record"}
    async with consumer_of(cluster, GROUP, TOPIC, events, max_wait=0.05, request_timeout=2.0, **one_by_one) as consumer:
        async with asyncio.timeout(30.0):
            while any(row.lag != 0 for row in cluster.list_share_group_offsets(GROUP)) or not done:
                for record in await consumer.get_batch(timeout=0.1):
                    record.accept()
                for partition, result in (await consumer.commit()).items():
                    if result.confirmed:
                        done += [
                            (partition.partition, offset)
                            for (first, last), _ in result.ranges
                            for offset in range(first, last + 1)
                        ]
    return done


EVERYTHING = [(partition, offset) for partition in (0, 1) for offset in range(3)]


@pytest.mark.parametrize("step", ["open", "fetch", "acknowledge"])
@pytest.mark.parametrize("code", [122, 123, -1, 133])
async def test_a_session_that_is_refused_is_opened_again(cluster: SimulatedCluster, step: str, code: int) -> None:
    """Nothing is lost, and the caller is told why."""
    events: list[ConsumerEvent] = []
    cluster.fail((78, 79), code, step=step, times=1)

    done = await take_all(cluster, events)

    assert sorted(done) == EVERYTHING
    assert {event.error_code for event in of_type(events, SessionReopened)} == {code}


@pytest.mark.parametrize("step", ["open", "fetch", "acknowledge"])
@pytest.mark.parametrize("close", [True, False], ids=["closed", "silent"])
async def test_a_lost_answer(cluster: SimulatedCluster, step: str, close: bool) -> None:
    """It is never taken for a confirmation; records may come twice, and each comes."""
    events: list[ConsumerEvent] = []
    cluster.lose((78, 79), close=close, step=step)

    done = await take_all(cluster, events)

    # an acknowledgement whose answer was lost counts all the same: then it was not confirmed, and does not come again
    lost = [
        (event.partition.partition, first)
        for event in of_type(events, AcknowledgementsLost)
        for first, _ in event.ranges
    ]
    assert set(EVERYTHING) == {*done, *(each for each in lost if step == "acknowledge")}
    assert of_type(events, BrokerLost)


@pytest.mark.parametrize("code", [6, 3, 100, 74, 124, 2, 56])
async def test_a_partition_with_an_error(cluster: SimulatedCluster, code: int) -> None:
    """Others are served meanwhile; it is asked for again, here or wherever metadata says.

    What was held of it then stays locked where the broker was wrong about itself, until the lock has run out.
    """
    events: list[ConsumerEvent] = []
    cluster.set_group_config(GROUP, {"share.record.lock.duration.ms": "500"})
    cluster.fail(78, code, topic=TOPIC, partition=0, step="fetch", times=1)

    done = await take_all(cluster, events)

    assert sorted(set(done)) == EVERYTHING


@pytest.mark.parametrize("code", [29, 30])
async def test_a_right_that_was_taken_away(cluster: SimulatedCluster, code: int) -> None:
    """Whoever waits for records is told: asking again gives the same answer."""
    cluster.fail(78, code, topic=TOPIC, partition=0, step="fetch")

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        with pytest.raises(AccessDenied, match="READ"):
            await take(consumer, 7)


async def test_a_refused_acknowledgement(cluster: SimulatedCluster) -> None:
    """The result has the code, the caller is told, and the records come again when their lock has run out."""
    events: list[ConsumerEvent] = []
    cluster.fail((78, 79), 121, topic=TOPIC, step="acknowledge", times=2)

    async with consumer_of(cluster, GROUP, TOPIC, events) as consumer:
        [record] = await take(consumer, 1)
        result = await record.accept()

    assert result.error_code == 121
    assert of_type(events, AcknowledgementsLost)[0].error_code == 121


async def test_the_leader_moves_while_records_are_held(cluster: SimulatedCluster) -> None:
    """They come again from the new leader; acknowledging the old ones is answered, and does no harm."""
    events: list[ConsumerEvent] = []
    old = cluster.describe_topic(TOPIC).leaders[0]
    assert old is not None

    async with consumer_of(cluster, GROUP, TOPIC, events, max_wait=0.05) as consumer:
        held = await take(consumer, 6)
        mine = [record for record in held if record.partition == 0]
        cluster.move_leader(TOPIC, 0, 3 - old)
        again = await take(consumer, 3)
        late = await mine[0].accept()
        for record in [*again, *(record for record in held if record.partition == 1)]:
            record.accept()
        results = await consumer.commit()

    assert [(record.partition, record.offset) for record in again] == [(0, 0), (0, 1), (0, 2)]
    assert not late.confirmed
    assert {partition.partition for partition, result in results.items() if result.confirmed} == {0, 1}
    assert of_type(events, LeaderMoved)[0] == LeaderMoved(PARTITION, old, 3 - old)
    assert {event.partition for event in of_type(events, LockLost)} == {PARTITION}


async def test_a_node_that_restarts(cluster: SimulatedCluster) -> None:
    """What was held of it comes again; what was held of the other one stays."""
    events: list[ConsumerEvent] = []

    async with consumer_of(cluster, GROUP, TOPIC, events, max_wait=0.05) as consumer:
        held = await take(consumer, 6)
        leader = cluster.describe_topic(TOPIC).leaders[0]
        assert leader is not None
        cluster.stop_node(leader)
        cluster.start_node(leader)
        again = await take(consumer, 3)
        kept = [record for record in held if record.partition == 1]
        assert (await kept[0].accept()).confirmed

    assert {record.partition for record in again} == {0}
    assert of_type(events, BrokerLost)


async def test_nothing_waits_for_a_node_that_is_silent(cluster: SimulatedCluster) -> None:
    """Neither the other one's records, nor commit, nor close; what was acknowledged to it is unknown."""
    consumer = consumer_of(cluster, GROUP, TOPIC, max_wait=0.05, request_timeout=1.5, close_timeout=0.5)
    await consumer.start()
    held = await take(consumer, 6)
    cluster.freeze_node(1)
    cluster.produce(TOPIC, [0, 1], 1)

    more = await take(consumer, 1)
    for record in [*held, *more]:
        record.accept()
    results = await asyncio.wait_for(consumer.commit(), 10.0)
    await asyncio.wait_for(consumer.close(), 10.0)

    assert sorted(result.confirmed for result in results.values()) == [False, True]


async def test_everything_gone(cluster: SimulatedCluster) -> None:
    """A wait with a timeout ends with it; nothing hangs at close."""
    events: list[ConsumerEvent] = []
    consumer = consumer_of(cluster, GROUP, TOPIC, events, request_timeout=1.5, close_timeout=1.0)
    await consumer.start()
    held = await take(consumer, 6)
    for node in (1, 2):
        cluster.stop_node(node)

    assert not await consumer.get_batch(timeout=0.2)
    results = [await record.accept() for record in held]
    await asyncio.wait_for(consumer.close(), 10.0)

    assert not any(result.confirmed for result in results)
    assert of_type(events, BrokerLost)


async def test_close_is_bounded(cluster: SimulatedCluster) -> None:
    """A broker that does not answer the last request keeps nobody; acknowledgements end as unknown."""
    consumer = consumer_of(cluster, GROUP, TOPIC, max_wait=0.05, close_timeout=0.3)
    await consumer.start()
    tickets = [record.accept() for record in await take(consumer, 6)]
    for node in (1, 2):
        cluster.freeze_node(node)

    await asyncio.wait_for(consumer.close(), 10.0)

    assert {(await ticket).error_code for ticket in tickets} <= {None, 121}


async def test_a_silent_broker_leaves_time_to_say_goodbye(cluster: SimulatedCluster) -> None:
    """Else the group would give partitions to a member that is gone, until its session's time is over."""
    coordinator = cluster.group_coordinator(GROUP)
    assert coordinator is not None
    consumer = consumer_of(cluster, GROUP, TOPIC, max_wait=0.05, close_timeout=4.0)
    cluster.set_group_config(GROUP, {"share.heartbeat.interval.ms": "50"})
    await consumer.start()
    await take(consumer, 6)
    cluster.slow(0.7, 76, times=None)  # so that one is on its way when the time for the sessions is over
    cluster.freeze_node(3 - coordinator)

    await asyncio.wait_for(consumer.close(), 10.0)

    assert cluster.requests.messages(ShareGroupHeartbeatRequest)[-1].member_epoch == -1


async def test_a_damaged_batch_is_released(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told which offsets; it gets them once the bytes are whole."""
    events: list[ConsumerEvent] = []
    whole, damaged = decode_acquired, [0]

    def once_damaged(data: bytes | None, acquired: Any, **more: Any) -> Decoded:
        if more["partition"] in damaged:
            damaged.remove(more["partition"])
            data = (data or b"")[:-1] + b"\xff"
        return whole(data, acquired, **more)

    monkeypatch.setattr(broker_loop, "decode_acquired", once_damaged)
    async with consumer_of(cluster, GROUP, TOPIC, events, max_wait=0.05) as consumer:
        records = await take(consumer, 6)

    [skipped] = of_type(events, RecordsSkipped)
    assert (skipped.partition, skipped.ranges, skipped.rejected) == (PARTITION, (OffsetRange(0, 2),), False)
    assert "checksum" in skipped.reason
    assert {record.delivery_count for record in records if record.partition == 0} == {2}


async def test_a_partition_that_is_not_ready_is_told(cluster: SimulatedCluster) -> None:
    """−1 in a row: the group was not initialised for it yet."""
    events: list[ConsumerEvent] = []
    cluster.fail(78, -1, topic=TOPIC, partition=0, step="fetch", times=1)

    done = await take_all(cluster, events)

    assert sorted(done) == EVERYTHING
    assert of_type(events, PartitionRefused)[0].error_code == -1


async def test_partitions_come_and_go_with_the_assignment(cluster: SimulatedCluster) -> None:
    """A second topic partition is fetched as soon as it is assigned."""
    cluster.set_group_config(GROUP, {"share.heartbeat.interval.ms": "50"})
    async with consumer_of(cluster, GROUP, TOPIC, max_wait=0.05) as consumer:
        await take(consumer, 6)
        cluster.add_partitions(TOPIC, 3)
        await until(lambda: len(consumer.assignment) == 3, "the new partition is assigned")
        cluster.produce(TOPIC, 2, 1)
        [record] = await take(consumer, 1)

    assert record.partition == 2


async def test_one_broker_that_has_nothing_does_not_keep_the_others_from_being_asked(
    cluster: SimulatedCluster,
) -> None:
    """Each gets its part of the capacity, however much a quick caller has fetched ahead."""
    async with consumer_of(cluster, GROUP, TOPIC, max_records=3, capacity=3) as consumer:
        for record in await take(consumer, 6):
            record.accept()
        for partition in (0, 1, 1, 0):
            waiting = asyncio.ensure_future(consumer.get_batch())
            await asyncio.sleep(0)
            cluster.produce(TOPIC, partition, 1)
            (await asyncio.wait_for(waiting, 10.0)).accept()


async def test_a_callback_that_raises_ends_nothing(cluster: SimulatedCluster) -> None:
    """It is the caller's mistake, and told to the event loop, as with any future; records go on coming."""
    told: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context.get("exception")))

    def broken(result: AckResult) -> None:
        raise ZeroDivisionError

    async with consumer_of(cluster, GROUP, TOPIC) as consumer:
        for record in await take(consumer, 6):
            ticket = record.accept()
            assert isinstance(ticket, AckTicket)
            ticket.add_done_callback(broken)
        results = await consumer.commit()
        cluster.produce(TOPIC, 0, 1)
        more = await take(consumer, 1)

    assert all(result.confirmed for result in results.values())
    assert len(more) == 1
    assert [type(error) for error in told] == [ZeroDivisionError] * 6
