"""What becomes of acknowledgements."""

from __future__ import annotations

import pytest

from shareproxy.protocol.messages import ShareFetchRequestForgottenTopic
from shareproxy.testing import SimulatedCluster
from tests.testing.simulation.share_member import ACCEPT, GAP, REJECT, RELEASE, RENEW, Clock, Member, acquired, prepared

BOB = "bob-bob-bob-bob-bob-bA"


def lag(cluster: SimulatedCluster) -> int | None:
    """Return the lag of the one partition."""
    [row] = cluster.list_share_group_offsets("g")
    return row.lag


async def test_all_kinds() -> None:
    """Lag falls with each offset that is done, and what is released comes again."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 10)
        ada = await Member.of(cluster)
        await ada.fetch()
        assert await ada.result((0, 1, [ACCEPT]), (2, 5, [RELEASE, ACCEPT, RELEASE, REJECT]), (6, 6, [GAP])) == 0
        assert lag(cluster) == 5
        assert await ada.acquire() == [(2, 2, 2), (4, 4, 2)]
        assert await ada.result((0, 1, [ACCEPT])) == 0  # below the start


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(3, 3, [ACCEPT])], 121),
        ([(1, 1, [ACCEPT]), (3, 4, [ACCEPT])], 121),
        ([(1, 2, [ACCEPT]), (2, 2, [ACCEPT])], 121),
        ([(1, 2, [ACCEPT] * 3)], 42),
        ([(1, 2, [])], 42),
        ([(2, 1, [ACCEPT])], 42),
        ([(2, 2, [ACCEPT]), (1, 1, [ACCEPT])], 42),
        ([(1, 1, [9])], 42),
        ([(1, 1, [RENEW])], 42),
        ([(9, 10, [ACCEPT])], 42),
    ],
)
async def test_all_or_nothing(batches: list[tuple[int, int, list[int]]], code: int) -> None:
    """One bad range, and none of the partition's counts."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 10)
        ada = await Member.of(cluster)
        await ada.fetch()
        await ada.acknowledge([(3, 3, [ACCEPT])])
        assert await ada.result(*batches) == code
        assert lag(cluster) == 9
        assert await ada.result((0, 2, [ACCEPT]), (4, 9, [ACCEPT])) == 0


async def test_records_of_others() -> None:
    """Nobody acknowledges what another holds."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        await bob.fetch()
        answer = await bob.acknowledge([(0, 0, [ACCEPT])])
        [row] = answer.responses[0].partitions
        assert (row.error_code, row.error_message) == (121, "Member is not the owner of offset")


async def test_epochs() -> None:
    """79 opens no session; errors of partitions count as requests of the session, others do not."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        assert (await ada.acknowledge(epoch=0)).error_code == 123
        assert (await ada.acknowledge(epoch=1)).error_code == 122
        await ada.fetch()
        assert (await ada.acknowledge(epoch=5)).error_code == 123
        assert await ada.result((7, 7, [ACCEPT]), epoch=1) == 42
        assert await ada.result((0, 0, [ACCEPT]), epoch=2) == 0
        assert (await ada.acknowledge(epoch=2)).error_code == 123


async def test_opening_again_keeps_what_is_held() -> None:
    """It can be acknowledged in the new session."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada = await Member.of(cluster)
        await ada.fetch()
        assert await ada.acquire(epoch=0) == []
        assert await ada.result((0, 1, [ACCEPT])) == 0


async def test_locks_run_out() -> None:
    """Then they are another's, who waits for them; the first one is too late."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        cluster.set_group_config("g", {"share.record.lock.duration.ms": "40"})
        clock = Clock(cluster)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        await bob.fetch(max_wait_ms=0)
        waiting = await bob.parked(cluster, max_wait_ms=60_000)
        clock.now += 0.041
        assert acquired(await waiting) == [(0, 1, 2)]
        assert await ada.result((0, 1, [ACCEPT])) == 121


async def test_locks_are_renewed() -> None:
    """From the renewal on they last as long again, and no attempt is counted."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada, clock = await Member.of(cluster), Clock(cluster)
        await ada.fetch()
        for _ in range(3):
            clock.now += 29
            assert await ada.result((0, 1, [RENEW]), renews=True) == 0
        assert await ada.result((0, 1, [RENEW, ACCEPT]), renews=True) == 0
        cluster.set_group_config("g", {"share.renew.acknowledge.enable": "false"})
        assert await ada.result((0, 0, [RENEW]), renews=True) == 121


async def test_attempts_are_limited() -> None:
    """Before the last one a bad record is singled out; after it the record is given up."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 4, delivery_count_limit="3")
        ada = await Member.of(cluster)
        got = [await ada.acquire()]
        for _ in range(3):
            await ada.acknowledge([(got[-1][0][0], got[-1][0][1], [RELEASE])])
            got.append(await ada.acquire())
        assert got == [[(0, 3, 1)], [(0, 3, 2)], [(0, 0, 3)], [(1, 1, 3)]]
        assert lag(cluster) == 3


async def test_forgetting_a_partition_cuts_off_what_is_held_of_it() -> None:
    """Closing gives back only what belongs to the session."""
    async with SimulatedCluster() as cluster:
        prepared(cluster, 2)
        ada, bob = await Member.of(cluster), await Member.of(cluster, BOB)
        await ada.fetch()
        request = ada.request()
        request.forgotten_topics_data = [ShareFetchRequestForgottenTopic(ada.topic_id, [0])]
        await ada.client.ask(request)
        await ada.acknowledge(epoch=-1)
        assert await bob.acquire() == []
        assert cluster.end_share_sessions("g", bob.member_id) == 1
        cluster.expire_locks("g")
        assert await bob.acquire(epoch=0) == [(0, 1, 2)]


async def test_a_connection_that_was_replaced() -> None:
    """The session that was opened again lives on when the first connection ends; in 4.1 it does not."""
    for version, code in (("4.4.0", 0), ("4.1.2", 122)):
        newest = 1 if version == "4.1.2" else 2
        async with SimulatedCluster(version=version) as cluster:
            prepared(cluster, 2)
            first, second = await Member.of(cluster), await Member.of(cluster)
            await first.fetch(version=newest)
            await second.fetch(version=newest)
            await first.disconnect(cluster)
            assert (await second.acknowledge(version=newest)).error_code == code
