"""One share consumer, one thing that goes wrong, and what must hold afterwards whatever it was.

In: a fault. Out: what the group's caller got and accepted, and what the brokers keep of it.
Must never: know what the consumer ought to do about a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shareproxy import ShareConsumer
from shareproxy.admin.errors import AdminError
from shareproxy.drain.errors import DrainError
from shareproxy.testing import SimulatedCluster
from shareproxy.testing.simulation.faults import Fault
from shareproxy.testing.simulation.share_state import RecordState
from tests.support.waiting import eventually

GROUP, TOPIC = "workers", "work"
PARTITIONS, BATCHES, BATCH = 2, 3, 4
LOCK_SECONDS: Final = 0.8
CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(round(LOCK_SECONDS * 1000)),
    "share.heartbeat.interval.ms": "50",
    "share.session.timeout.ms": "5000",
    "share.delivery.count.limit": "1000",
}
# seconds in which everything is to be over; what takes longer hangs
PATIENCE: Final = 60.0
CLOSING: Final = 3.0
# long enough for a machine that is busy with other things
REQUEST_SECONDS: Final = 20.0

Place = tuple[int, int]
"""Partition and offset."""
Event = Callable[[SimulatedCluster, str], object]
PRODUCED: Final = frozenset((p, o) for p in range(PARTITIONS) for o in range(BATCHES * BATCH))
# never acknowledged by the caller that meets the fault
KEPT: Final[frozenset[Place]] = frozenset({(0, 5), (1, 2)})


@dataclass
class Story:
    """What became of the records.

    Attributes:
        received: places of records that a caller got.
        accepted: those that a caller accepted.
        error: what the consumer that met the fault gave up with.
        complaints: what must not be.
        hits: how often the fault has struck.
    """

    received: set[Place] = field(default_factory=set)
    accepted: set[Place] = field(default_factory=set)
    error: Exception | None = None
    complaints: list[str] = field(default_factory=list)
    hits: int = 0


async def tell(
    faults: Callable[[SimulatedCluster], Sequence[Fault]],
    *,
    version: str = "4.4.0",
    waits_for_hit: bool = False,
    meanwhile: Event | None = None,
    request_timeout: float = REQUEST_SECONDS,
) -> Story:
    """Consume everything while something goes wrong, close, and let another consumer take the rest.

    Args:
        faults: what goes wrong, from the start.
        version: of the brokers.
        waits_for_hit: hold the first records until the fault has struck, as heartbeats and renewals take their time.
        meanwhile: what happens while the first records are in the caller's hands, given the consumer's member id.
        request_timeout: of the consumer that meets the fault; what never comes takes that long.
    """
    story = Story()
    async with SimulatedCluster(PARTITIONS, version, internal_partitions=2) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replication=PARTITIONS)
        cluster.set_group_config(GROUP, CONFIGS)
        cluster.group_coordinator(GROUP)  # its topic is there
        for _ in range(BATCHES):
            cluster.produce(TOPIC, range(PARTITIONS), BATCH)
        begun = faults(cluster)
        held_until = begun if waits_for_hit else ()
        await _within(story, "the consumer", PATIENCE, _consume(cluster, story, held_until, meanwhile, request_timeout))
        story.hits = sum(fault.hits for fault in begun)
        cluster.lift_all_faults()
        _check_stored(cluster, story)
        if not KEPT.isdisjoint(story.accepted):
            story.complaints.append("the story itself accepted what it keeps")
        await _within(story, "the one that takes the rest", PATIENCE, _consume_rest(cluster, story))
        _check_stored(cluster, story)
        if missing := PRODUCED - story.received:
            story.complaints.append(f"nobody got {sorted(missing)}")
    return story


def consumer_of(cluster: SimulatedCluster, request_timeout: float) -> ShareConsumer:
    """Return a consumer that fetches few records at a time."""
    return ShareConsumer(
        cluster.bootstrap_servers,
        GROUP,
        [TOPIC],
        max_records=BATCH,
        max_wait=0.05,
        request_timeout=request_timeout,
        close_timeout=CLOSING,
    )


async def _within(story: Story, who: str, seconds: float, work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        missing = sorted(PRODUCED - story.received)
        story.complaints.append(f"{who} hung; missing {missing}")


async def _consume(
    cluster: SimulatedCluster,
    story: Story,
    held_until: Sequence[Fault],
    meanwhile: Event | None,
    request_timeout: float,
) -> None:
    consumer = consumer_of(cluster, request_timeout)
    try:
        await consumer.start()
        while not story.received >= PRODUCED:
            batch = await consumer.get_batch(timeout=1.0)
            story.received.update((record.partition, record.offset) for record in batch)
            if batch:
                await eventually(lambda: all(fault.hits for fault in held_until), "the fault has struck", PATIENCE)
            if batch and meanwhile is not None:
                event, meanwhile = meanwhile, None
                event(cluster, consumer.member_id)
            for record in batch:
                place = record.partition, record.offset
                if place not in KEPT:
                    story.accepted.add(place)
                    record.accept()
            await consumer.commit()
    except (AdminError, DrainError) as error:
        story.error = error
    finally:
        began = asyncio.get_running_loop().time()
        await consumer.close()
        if asyncio.get_running_loop().time() - began > CLOSING + 1:
            story.complaints.append("closing took longer than it may")


async def _consume_rest(cluster: SimulatedCluster, story: Story) -> None:
    async with consumer_of(cluster, REQUEST_SECONDS) as consumer:
        while not _done(cluster, story) >= PRODUCED:
            for record in await consumer.get_batch(timeout=LOCK_SECONDS / 2):
                place = record.partition, record.offset
                story.received.add(place)
                story.accepted.add(place)
                record.accept()
            await consumer.commit()


def _check_stored(cluster: SimulatedCluster, story: Story) -> None:
    """Look at what the share coordinators keep: only what was accepted may be done."""
    if stolen := _done(cluster, story) - story.accepted:
        story.complaints.append(f"nobody accepted {sorted(stolen)}")


def _done(cluster: SimulatedCluster, story: Story) -> set[Place]:
    """Return the places that will not be handed out again; none of them may have been given up."""
    state = cluster._state  # the question that brokers have for this would cut off the leaders
    group, topic = state.groups.share(GROUP), state.topics.get(TOPIC)
    found: set[Place] = set()
    for partition, row in (group.partitions.get(topic.topic_id, {}) if group else {}).items():
        found.update((partition, offset) for offset in range(max(0, row.stored.start_offset)))
        for batch in row.stored.batches:
            offsets = range(batch.first_offset, batch.last_offset + 1)
            if batch.state == RecordState.ARCHIVED:
                story.complaints.append(f"{partition}: {offsets} was given up")
            if batch.state == RecordState.ACKNOWLEDGED:
                found.update((partition, offset) for offset in offsets)
    return found
