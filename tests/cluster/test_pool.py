"""The pool: one connection per address and purpose, replaced when it is no good any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shareproxy.cluster.errors import ClusterError, DeadlinePassed
from shareproxy.cluster.pool import CONTROL, DATA, ConnectionPool
from shareproxy.cluster.security import PLAINTEXT
from shareproxy.protocol.messages import (
    ApiVersionsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
)
from tests.cluster.scripted_broker import SILENCE, ScriptedBroker, eventually, soon


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    """A broker that answers ApiVersions."""
    async with ScriptedBroker() as started:
        yield started


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    """An empty pool."""
    made = ConnectionPool(PLAINTEXT, "test", 5.0)
    yield made
    await made.close()


async def test_concurrent_opens_share_one_attempt(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """Ten callers, one connection."""
    got = await asyncio.gather(*(pool.get(broker.address, DATA, soon()) for _ in range(10)))

    assert len({id(connection) for connection, _ in got}) == 1
    assert broker.connections == 1
    again, fresh = await pool.get(broker.address, DATA, soon())
    assert (again, fresh) == (got[0][0], False)


async def test_purposes_do_not_wait_for_each_other(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """A short question uses the idle connection, and its own one while that is busy."""
    broker.on(ListGroupsRequest, lambda _: SILENCE)
    control, _ = await pool.get(broker.address, CONTROL, soon())
    data, _ = await pool.get(broker.address, DATA, soon())
    assert control is data
    busy = asyncio.ensure_future(data.request(ListGroupsRequest(), deadline=soon()))
    await eventually(lambda: not data.idle)

    control, fresh = await pool.get(broker.address, CONTROL, soon())

    assert control is not data
    assert fresh
    assert (await pool.get(broker.address, CONTROL, soon()))[0] is control
    busy.cancel()


async def test_large_answers_are_read_one_after_the_other(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """Of all connections: each takes the event loop for some milliseconds. A small one does not wait."""
    groups = [ListGroupsResponseListedGroup("g" * 100) for _ in range(1_000)]
    broker.on(ListGroupsRequest, lambda request: ListGroupsResponse(groups=[] if request.states_filter else groups))
    first, _ = await pool.get(broker.address, DATA, soon())
    other, _ = await pool.get(broker.address, "other", soon())
    async with first.large_answers:
        large = asyncio.ensure_future(other.request(ListGroupsRequest(), deadline=soon()))
        await eventually(lambda: broker.count(ListGroupsRequest) == 1 and other.idle)

        small = await other.request(ListGroupsRequest(states_filter=["x"]), deadline=soon())

        assert small.groups == []
        assert not large.done()
    assert len((await large).groups) == 1_000


async def test_a_closed_connection_is_replaced(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """The broker came back."""
    first, _ = await pool.get(broker.address, DATA, soon())
    await first.close()
    assert pool.usable(DATA) is None

    second, fresh = await pool.get(broker.address, DATA, soon())

    assert fresh
    assert not second.closed


async def test_a_connection_is_replaced_before_its_login_ends(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """The old one is closed when nobody uses it (KIP-368)."""
    first, _ = await pool.get(broker.address, DATA, soon())
    first.expires_at = asyncio.get_running_loop().time()

    second, fresh = await pool.get(broker.address, DATA, soon())

    assert fresh
    assert second is not first
    await eventually(lambda: first.finished)


async def test_a_stuck_connection_is_replaced(
    broker: ScriptedBroker, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New requests do not wait behind one that everybody has given up."""
    monkeypatch.setattr("shareproxy.cluster.pipeline.STALL_SECONDS", 0.0)
    broker.on(ListGroupsRequest, lambda _: SILENCE)
    first, _ = await pool.get(broker.address, DATA, soon())
    with pytest.raises(DeadlinePassed):
        await first.request(ListGroupsRequest(), deadline=soon(0.02))

    second, _ = await pool.get(broker.address, DATA, soon())

    assert second is not first
    await eventually(lambda: first.finished)


async def test_connections_to_brokers_that_left_are_closed(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """Those to the others stay."""
    async with ScriptedBroker() as other:
        stays, _ = await pool.get(broker.address, DATA, soon())
        leaves, _ = await pool.get(other.address, DATA, soon())

        pool.keep_only({broker.address})

        await eventually(lambda: leaves.finished)
        assert not stays.closed


async def test_an_attempt_has_its_own_limit(broker: ScriptedBroker) -> None:
    """A broker that accepts and is silent costs the connect timeout, not the caller's whole time."""
    broker.on(ApiVersionsRequest, lambda _: SILENCE)
    pool = ConnectionPool(PLAINTEXT, "test", connect_timeout=0.05)

    with pytest.raises(DeadlinePassed):
        await pool.get(broker.address, DATA, soon(60))

    await pool.close()


async def test_who_waits_for_the_attempt_of_another_is_told_the_address(
    broker: ScriptedBroker, pool: ConnectionPool
) -> None:
    """In words that can stand behind `node 2 at`."""
    broker.on(ApiVersionsRequest, lambda _: SILENCE)
    patient = asyncio.ensure_future(pool.get(broker.address, DATA, soon()))
    await eventually(lambda: broker.count(ApiVersionsRequest) == 1)

    with pytest.raises(DeadlinePassed, match=f"^{broker.address}: the connection was not answered in time"):
        await pool.get(broker.address, DATA, soon(0.02))
    patient.cancel()


async def test_closing_ends_an_attempt(broker: ScriptedBroker, pool: ConnectionPool) -> None:
    """Whoever waits for it is told, and nothing is opened afterwards."""
    broker.on(ApiVersionsRequest, lambda _: SILENCE)
    opening = asyncio.ensure_future(pool.get(broker.address, DATA, soon()))
    await eventually(lambda: broker.count(ApiVersionsRequest) == 1)

    await pool.close()

    with pytest.raises(ClusterError, match="closed"):
        await opening
    with pytest.raises(ClusterError, match="the client is closed"):
        await pool.get(broker.address, DATA, soon())
