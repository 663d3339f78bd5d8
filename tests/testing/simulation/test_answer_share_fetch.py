"""What members get that fetch."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.protocol.messages import MetadataRequest
from shareproxy.testing import SimulatedCluster
from tests.testing.simulation.asking import Client
from tests.testing.simulation.share_member import ACCEPT, RELEASE, RENEW, Member, acquired, prepared, row_of

BOB = "bob-bob-bob-bob-bob-bA"


async def test_whole_batches_are_acquired() -> None:
    """Until it is enough; their bytes are those of a Fetch, and what is known of the lock is told."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 4, 4, 4)
        ada = await Member.of(cluster)
        answer = await ada.fetch(max_records=5)
        assert acquired(answer) == [(0, 7, 1)]
        assert answer.acquisition_lock_timeout_ms == 30_000
        assert (row_of(answer).records or b"").count(b"value-0") == 2
        assert await ada.acquire() == [(8, 11, 1)]
        assert await ada.acquire() == []


async def test_exact_numbers() -> None:
    """Acquire mode 1 cuts a batch, whose bytes come whole each time (KIP-1206)."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 6)
        ada = await Member.of(cluster)
        first, second = [await ada.fetch(max_records=4, share_acquire_mode=1) for _ in range(2)]
        assert [acquired(answer) for answer in (first, second)] == [[(0, 3, 1)], [(4, 5, 1)]]
        assert row_of(first).records == row_of(second).records
        assert (await ada.fetch(share_acquire_mode=2)).error_code == -1


async def test_ranges_end_at_the_batch_size() -> None:
    """In whole batches."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2, 2, 2)
        ada = await Member.of(cluster)
        assert await ada.acquire(batch_size=3) == [(0, 3, 1), (4, 5, 1)]


async def test_bytes_are_limited() -> None:
    """The first batch comes whole; of the one that does not fit there is a piece."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2, 2)
        ada = await Member.of(cluster)
        tiny = await ada.fetch(max_bytes=1)
        size = len(row_of(tiny).records or b"")
        assert acquired(tiny) == [(0, 1, 1)]
        await ada.acknowledge([(0, 1, [RELEASE])])
        cut = await ada.fetch(max_bytes=size + 20)
        assert acquired(cut) == [(0, 1, 2)]
        assert len(row_of(cut).records or b"") == size + 20


async def test_a_fetch_waits_for_records() -> None:
    """And is answered when they come."""
    async with SimulatedCluster() as cluster:
        prepared(cluster)
        ada = await Member.of(cluster)
        await ada.fetch()
        waiting = await ada.parked(cluster, max_wait_ms=60_000)
        cluster.produce("t", 0, 3)
        assert acquired(await waiting) == [(0, 2, 1)]


async def test_a_fetch_waits_for_bytes() -> None:
    """Until there are enough of them, or its time is up."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 1)
        ada = await Member.of(cluster)
        waiting = await ada.parked(cluster, max_wait_ms=60_000, min_bytes=200)
        cluster.produce("t", 0, 1)
        cluster.produce("t", 0, 1)
        assert acquired(await waiting) == [(0, 2, 1)]
        cluster.produce("t", 0, 1)
        assert await ada.acquire(min_bytes=1 << 20) == [(3, 3, 1)]
        assert await ada.acquire(min_bytes=0, max_wait_ms=60_000) == []


async def test_what_is_released_does_not_wake() -> None:
    """It is there when the time is up; in 4.1 it wakes, and the first answer is empty."""
    for version, expected in (("4.4.0", [(0, 1, 2)]), ("4.1.2", [])):
        async with SimulatedCluster(version=version) as cluster:
            prepared(cluster, 2)
            ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
            newest = 1 if version == "4.1.2" else 2
            await ada.fetch(version=newest)
            waiting = await bob.parked(cluster, max_wait_ms=100, version=newest)
            await ada.acknowledge([(0, 1, [RELEASE])], version=newest)
            assert acquired(await waiting) == expected
            if not expected:
                assert await bob.acquire(version=newest) == [(0, 1, 2)]


async def test_the_window_is_a_span() -> None:
    """One offset at its head stops everything; when it is done, who waits goes on."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2, 2, 2, partition_max_record_locks="4")
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        assert await ada.acquire() == [(0, 3, 1)]
        await ada.acknowledge([(1, 3, [ACCEPT])])
        assert await bob.acquire() == []
        waiting = await bob.parked(cluster, max_wait_ms=60_000)
        await ada.acknowledge([(0, 0, [ACCEPT])])
        assert acquired(await waiting) == [(4, 5, 1)]


async def test_acknowledgements_come_with_a_fetch() -> None:
    """Their result stands beside the records, also of a partition that brings none."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2, 2)
        ada = await Member.of(cluster)
        await ada.fetch(max_records=1)
        answer = await ada.fetch([(0, 1, [ACCEPT])])
        assert (acquired(answer), row_of(answer).acknowledge_error_code) == ([(2, 3, 1)], 0)
        refused = row_of(await ada.fetch([(0, 9, [ACCEPT])]))
        assert (refused.error_code, refused.acknowledge_error_code) == (0, 42)
        assert refused.acknowledge_error_message


async def test_a_fetch_of_no_records() -> None:
    """It is answered at once, with its acknowledgements; 4.1 waits."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        answer = await ada.fetch([(0, 1, [ACCEPT])], max_records=0, max_wait_ms=60_000)
        assert row_of(answer).acknowledge_error_code == 0
    async with SimulatedCluster(version="4.1.2") as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        began = asyncio.get_running_loop().time()
        assert await ada.acquire(version=1, max_records=0, max_wait_ms=50) == []
        assert asyncio.get_running_loop().time() - began >= 0.05


async def test_renewals_in_a_fetch() -> None:
    """Only in one that fetches nothing at all (KIP-1222)."""
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        assert (await ada.fetch([(0, 1, [RENEW])], is_renew_ack=True)).error_code == 42
        assert row_of(await ada.fetch([(0, 1, [RENEW])], is_renew_ack=True, **nothing)).acknowledge_error_code == 0


async def test_closing_releases() -> None:
    """What its acknowledgements leave; a fetch that closes brings no records."""
    for version, count in (("4.4.0", 2), ("4.1.2", 1)):
        async with SimulatedCluster(version=version) as cluster:
            prepared(cluster, 3)
            newest = 1 if version == "4.1.2" else 2
            ada = await Member.of(cluster)
            await ada.fetch(max_records=1, version=newest)
            closed = await ada.fetch([(0, 0, [ACCEPT])], epoch=-1, version=newest)
            assert (acquired(closed), row_of(closed).acknowledge_error_code) == ([], 0)
            assert (await ada.fetch(epoch=-1, version=newest)).error_code == 122
            assert await ada.acquire(epoch=0, version=newest) == [(1, 2, count)]


async def test_sessions_end_with_their_connection() -> None:
    """What was held is released at once."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 3)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        await bob.fetch()
        await ada.disconnect(cluster)
        assert await bob.acquire() == [(0, 2, 2)]


async def test_a_fetch_whose_client_is_gone() -> None:
    """What comes in its time is acquired for nobody, and released: an attempt is spent."""
    async with SimulatedCluster() as cluster:
        prepared(cluster)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        waiting = await ada.parked(cluster, max_wait_ms=60_000)
        await ada.disconnect(cluster)
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting
        cluster.produce("t", 0, 2)
        await bob.client.ask(MetadataRequest())  # the cluster has seen the records by the time of the answer
        assert await bob.acquire() == [(0, 1, 2)]


async def test_a_second_request_of_a_session() -> None:
    """The fetch that waits then fails, and its records stay locked."""
    async with SimulatedCluster() as cluster:
        prepared(cluster)
        ada, other = await Member.of(cluster), await Member.of(cluster)
        await ada.fetch()
        waiting = await ada.parked(cluster, max_wait_ms=60_000)
        await other.acknowledge(epoch=2)
        cluster.produce("t", 0, 2)
        assert (await waiting).error_code == 123
        assert await (await Member.of(cluster, BOB)).acquire() == []


async def test_a_full_node() -> None:
    """It takes no other session, and says so when the fetch has waited."""
    async with SimulatedCluster(most_share_sessions=1) as cluster:
        prepared(cluster, 2)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        assert (await bob.fetch(max_wait_ms=20)).error_code == 133
        await ada.acknowledge(epoch=-1)
        assert await bob.acquire() == [(0, 1, 2)]


async def test_a_leader_that_moved() -> None:
    """The row says who leads now, and where that is; the new leader hands out what was held, as for the first time."""
    async with SimulatedCluster(2, internal_partitions=1) as cluster:
        prepared(cluster, 2)
        node = cluster.describe_topic("t").leaders[0] or 0
        other = 3 - node
        ada = await Member.of(cluster, node=node)
        await ada.fetch()
        cluster.move_leader("t", 0, other)
        answer = await ada.fetch()
        row = row_of(answer)
        assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (6, other, 1)
        [endpoint] = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (other, *cluster.address(other))
        assert (await ada.acknowledge([(0, 1, [ACCEPT])])).responses[0].partitions[0].error_code == 3
        assert await (await Member.of(cluster, node=other)).acquire() == [(0, 1, 1)]


async def test_a_broker_that_starts_again() -> None:
    """Its sessions are gone, and what was not written."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        await ada.acknowledge([(0, 0, [ACCEPT])])
        cluster.stop_node(1)
        cluster.start_node(1)
        ada.client = await Client.to(cluster)
        assert (await ada.fetch()).error_code == 122
        assert await ada.acquire(epoch=0) == [(1, 1, 1)]


async def test_places_that_are_none() -> None:
    """Unknown topics and partitions, and groups that never began, have rows with errors."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        assert row_of(await (await Member.of(cluster)).fetch(partition=7)).error_code == 3
        assert row_of(await (await Member.of(cluster, group="strangers")).fetch()).error_code == -1
        ada = await Member.of(cluster)
        ada.topic_id = b"no such topic id"  # type: ignore[assignment]
        assert row_of(await ada.fetch()).error_code == 100
        cluster.deny("READ", "TOPIC", "t")
        assert row_of(await (await Member.of(cluster, BOB)).fetch()).error_code == 29
        cluster.deny("READ", "GROUP", "g")
        assert (await ada.fetch()).error_code == 30
        cluster.set_share_version(0)
        assert (await ada.fetch()).error_code == 35


async def test_a_topic_that_was_deleted() -> None:
    """Its partitions stay in the session until they are forgotten, with another error than unknown ones."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        cluster.delete_topic("t")
        assert [row_of(await ada.fetch()).error_code for _ in range(2)] == [3, 3]
        assert await ada.result((0, 1, [ACCEPT])) == 100


async def test_4_1_refuses_more_as_a_whole() -> None:
    """Unknown topic ids, though the session counts the request; member ids that are no UUID."""
    async with SimulatedCluster(version="4.1.2") as cluster:
        prepared(cluster, 2)
        assert (await (await Member.of(cluster, "nobody")).fetch(version=1)).error_code == -1
        ada = await Member.of(cluster)
        await ada.fetch(version=1)
        known, ada.topic_id = ada.topic_id, b"no such topic id"  # type: ignore[assignment]
        assert (await ada.fetch([(0, 0, [ACCEPT])], version=1)).error_code == -1
        assert (await ada.fetch(version=1)).error_code == 123
        ada.topic_id, ada.epoch = known, 2
        assert (await ada.acknowledge([(0, 1, [ACCEPT])], version=1)).error_code == 0


async def test_a_session_that_opens_takes_no_acknowledgements() -> None:
    """Nor is there any epoch but its next one."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        assert (await ada.fetch([(0, 0, [ACCEPT])], epoch=0)).error_code == 42
        assert (await ada.fetch(epoch=3)).error_code == 122
        await ada.fetch()
        assert (await ada.fetch(epoch=2)).error_code == 123


async def test_aborted_records_are_not_acquired() -> None:
    """By a group that reads committed ones; the markers are, and the bytes have everything."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, isolation_level="read_committed")
        cluster.produce_transaction("t", 0, 2)
        cluster.produce_transaction("t", 0, 3, commit=False)
        cluster.produce_transaction("t", 0, 1)
        assert await (await Member.of(cluster)).acquire() == [(0, 2, 1), (6, 8, 1)]
