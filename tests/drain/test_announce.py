"""The line that a worker says when it starts (R25)."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.announce import Announcement, announcement
from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.model import AcquireMode
from shareproxy.testing.simulated import SimulatedCluster


async def announce(simulated: SimulatedCluster) -> Announcement:
    """Announce a member of a simulated cluster's group."""
    async with Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster:
        deadline = asyncio.get_running_loop().time() + 10
        return await announcement(cluster, "workers", ["orders"], acquire_mode=AcquireMode.RECORD, deadline=deadline)


async def test_r25_all_that_is_known() -> None:
    """R25: mode, group, lock, delivery limit, acquire mode, isolation level, reset policy, dead-letter queue."""
    async with SimulatedCluster() as simulated:
        simulated.set_group_config(
            "workers", {"share.delivery.count.limit": "3", "share.isolation.level": "read_committed"}
        )

        said = await announce(simulated)

    assert said.sentence() == (
        "share group 'workers', topic 'orders', lock 30000 ms, delivery limit 3, acquire mode record, "
        "isolation level read_committed, new partitions from latest, no dead-letter queue"
    )
    assert said.fields() == {
        "mode": "share group",
        "group": "workers",
        "topics": ["orders"],
        "acquire_mode": "record",
        "lock_ms": 30000,
        "delivery_limit": 3,
        "isolation_level": "read_committed",
        "auto_offset_reset": "latest",
        "dead_letter_queue": None,
    }


@pytest.mark.parametrize("version", ["4.1.2", "4.2.2"])
async def test_r25_brokers_with_fewer_settings(version: str) -> None:
    """R25: what Kafka 4.1 and 4.2 do not keep per group is the brokers' matter, and known all the same."""
    async with SimulatedCluster(version=version) as simulated:
        said = await announce(simulated)

    assert (said.lock_ms, said.delivery_limit, said.auto_offset_reset) == (30000, 5, "latest")
    assert said.dead_letters is not None
    assert not said.dead_letters.works


async def test_nothing_can_be_seen() -> None:
    """A start does not fail because of it: unknown is said to be unknown, with the reason."""
    async with SimulatedCluster() as simulated:
        addresses = parse_addresses(simulated.bootstrap_servers)

    async with Cluster(addresses) as cluster:
        deadline = asyncio.get_running_loop().time() + 0.3
        said = await announcement(cluster, "workers", ["orders"], deadline=deadline)

    assert said.sentence().startswith("share group 'workers', topic 'orders', lock unknown, delivery limit 5")
    assert said.trouble is not None
    assert said.sentence().endswith(f"(the group's settings are not known: {said.trouble})")


def test_lines_of_other_shapes() -> None:
    """Several topics, a queue that works, a consumer group, and settings that may not be seen."""
    with_queue = Announcement(
        *("share group", "g", ("a", "b"), AcquireMode.BATCH, 15000, 5, "read_uncommitted", "earliest"),
        DeadLetterQueue(True, "dlq.g"),
    )
    assert with_queue.sentence() == (
        "share group 'g', topics 'a', 'b', lock 15000 ms, delivery limit 5, acquire mode batch, "
        "isolation level read_uncommitted, new partitions from earliest, dead-letter queue dlq.g"
    )
    assert with_queue.fields()["dead_letter_queue"] == "dlq.g"
    consumer = Announcement("consumer group", "g", ("a",), isolation_level="read_committed", auto_offset_reset="latest")
    assert consumer.sentence() == (
        "consumer group 'g', topic 'a', isolation level read_committed, new partitions from latest"
    )
    unseen = Announcement("share group", "g", ("a",), AcquireMode.BATCH, trouble="this user may not see it")
    assert unseen.sentence() == (
        "share group 'g', topic 'a', lock unknown, delivery limit unknown, acquire mode batch, isolation level "
        "unknown, new partitions from unknown (the group's settings are not known: this user may not see it)"
    )
    assert unseen.fields()["trouble"] == "this user may not see it"
