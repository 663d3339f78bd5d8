"""Whatever a caller says, in whatever order: each acknowledgement is sent as told, once, before close returns."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from shareproxy import Acknowledgement, ShareRecord
from shareproxy.protocol import messages as m
from shareproxy.testing.simulated import SimulatedCluster
from tests.support.share_records import consumer_of

GROUP, TOPIC, PARTITIONS, CALLS = "workers", "orders", 3, 60
RELEASE = Acknowledgement.RELEASE
FINAL = (Acknowledgement.ACCEPT, Acknowledgement.REJECT)
Told = dict[tuple[int, int], list[Acknowledgement]]


def sent(cluster: SimulatedCluster) -> Told:
    """Return what the brokers were told of each offset, releases and gaps aside."""
    found: Told = defaultdict(list)
    requests = [*cluster.requests.messages(m.ShareFetchRequest), *cluster.requests.messages(m.ShareAcknowledgeRequest)]
    for partition in (row for request in requests for topic in request.topics for row in topic.partitions):
        for batch in partition.acknowledgement_batches:
            kinds = batch.acknowledge_types
            for at, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                kind = Acknowledgement(kinds[0] if len(kinds) == 1 else kinds[at])
                if kind in FINAL:
                    found[partition.partition_index, offset].append(kind)
    return found


def say(chance: random.Random, records: Sequence[ShareRecord], told: Told, tickets: list[Any]) -> None:
    """Acknowledge some records, in any order."""
    for record in chance.sample(list(records), round(len(records) * chance.choice([0.3, 1.0, 1.0]))):
        which = chance.random()
        kind = Acknowledgement.ACCEPT if which < 0.8 else Acknowledgement.REJECT if which < 0.9 else RELEASE
        if kind is RELEASE:
            tickets.append(record.release(chance.choice([0.0, 0.0, 0.01, 60.0])))
        else:
            tickets.append(record.accept() if kind is Acknowledgement.ACCEPT else record.reject())
        if kind in FINAL:
            told[record.partition, record.offset].append(kind)


@pytest.mark.parametrize("version", ["4.1.2", "4.4.0"])
@pytest.mark.parametrize("seed", range(4))
async def test_each_acknowledgement_is_sent_once_as_told(version: str, seed: int) -> None:
    """With batches large and small, what is fetched ahead, commits that are given up, and markers in between."""
    chance = random.Random(seed)
    told: Told = defaultdict(list)
    tickets: list[Any] = []
    async with SimulatedCluster(nodes=2, version=version) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "100"})
        for _ in range(40):
            produce = chance.choice([cluster.produce, cluster.produce, cluster.produce_transaction])
            produce(TOPIC, chance.randrange(PARTITIONS), chance.choice([1, 7, 150]))
        settings: dict[str, Any] = {
            "max_records": chance.choice([5, 50, 500]),
            "prefetch": seed % 2 == 1,
            "max_wait": 0.05,
        }
        async with consumer_of(cluster, GROUP, TOPIC, **settings) as consumer:
            for _ in range(CALLS):
                batch = await consumer.get_batch(chance.choice([None, 1, 100]), timeout=0.05)
                say(chance, batch, told, tickets)
                if chance.random() < 0.2:
                    commit = asyncio.ensure_future(consumer.commit())
                    await asyncio.wait({commit}, timeout=chance.choice([0.0, 10.0]))
                    commit.cancel()
                    await asyncio.gather(commit, return_exceptions=True)
        on_the_wire = sent(cluster)

    assert tickets
    assert all(ticket.done() for ticket in tickets)
    assert on_the_wire == told
