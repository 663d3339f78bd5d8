"""Sides that take next to nothing: what they cost the proxy is bounded, and others do not notice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.proxy.plain_socket import WRITE_HIGH_BYTES
from shareproxy.testing.relay import FaultyRelay, Way
from tests.adversity.held import descriptors_of, resident_bytes
from tests.proxy.fake_broker import HOST, Client, FakeBroker, eventually
from tests.proxy.frames import opaque_answer, opaque_request
from tests.support.command import Served, serving

pytestmark = pytest.mark.timeout(120)

SLOW = 12
LARGE = 8 * 1024 * 1024
PIPELINED = 3
# per connection: the high mark, and what was read in the turn in which it was reached
HELD_BYTES = 2 * WRITE_HIGH_BYTES
# what an allocator and a busier process take besides
MARGIN_BYTES = 8 * 1024 * 1024
PINGS = 200


@pytest.fixture
async def served(broker: FakeBroker) -> AsyncIterator[Served]:
    """Run the proxy as a process in front of the fake broker."""
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(str(broker.address)))
        await asyncio.to_thread(served.wait_until_listening)
        yield served
        await asyncio.to_thread(stack.close)


def address_of(served: Served) -> Address:
    """Return the proxy's bootstrap port."""
    return Address(HOST, int(served.bootstrap_servers.rpartition(":")[2]))


async def assert_others_work(served: Served) -> None:
    """Do some work on a connection of one's own."""
    async with Client(address_of(served)) as neighbour:
        for number in range(PINGS):
            assert await neighbour.ask(opaque_request(number)) == opaque_answer(number, b"\1")


def assert_bounded(before: int, served: Served) -> None:
    """Hold the growth of the process against what the slow connections may have."""
    grown = resident_bytes(served.process.pid) - before
    assert grown <= SLOW * HELD_BYTES + MARGIN_BYTES, f"{grown / SLOW / 1024:.0f} KiB per slow connection"


async def test_clients_that_read_a_byte_a_second(broker: FakeBroker, served: Served) -> None:
    """Large answers wait at the broker, not here."""
    large = bytes(LARGE)
    usual = broker.reply
    broker.reply = lambda head, frame: (
        opaque_answer(head.correlation_id, large) if len(frame) > 100 else usual(head, frame)
    )
    await assert_others_work(served)
    pid = served.process.pid
    before, descriptors = resident_bytes(pid), descriptors_of(pid)
    async with FaultyRelay(*address_of(served)) as line, contextlib.AsyncExitStack() as clients:
        line.throttle(1, Way.TO_CLIENT)
        for _ in range(SLOW):
            client = await clients.enter_async_context(Client(Address(HOST, line.port)))
            client.send(b"".join(opaque_request(number, body=bytes(200)) for number in range(PIPELINED)))
        asked_before = len(broker.requests)
        await broker.until(lambda: sum(len(frame) > 100 for frame in broker.requests) >= SLOW)

        await assert_others_work(served)

        assert_bounded(before, served)
        assert len(broker.requests) - asked_before <= SLOW * 2 + PINGS  # the second answers were never begun
    await eventually(lambda: descriptors_of(pid) <= descriptors)


async def test_broker_that_does_not_read(broker: FakeBroker, served: Served) -> None:
    """Large requests wait at the clients, not here."""
    await assert_others_work(served)
    pid = served.process.pid
    before, descriptors = resident_bytes(pid), descriptors_of(pid)
    async with contextlib.AsyncExitStack() as clients:
        slow = [await clients.enter_async_context(Client(address_of(served))) for _ in range(SLOW)]
        for client in slow:
            await client.ask(opaque_request(1))
        broker.reading.clear()
        for client in slow:
            for number in range(2, 2 + PIPELINED):
                client.send(opaque_request(number, body=bytes(LARGE)))
        await eventually(lambda: all(client.writer.transport.get_write_buffer_size() for client in slow))
        sizes = [0] * SLOW

        def settled() -> bool:
            left = [client.writer.transport.get_write_buffer_size() for client in slow]
            same, sizes[:] = left == sizes, left
            return same

        async with asyncio.timeout(30):
            quiet = 0
            while quiet < 20:
                quiet = quiet + 1 if settled() else 0
                await asyncio.sleep(0.01)

        assert_bounded(before, served)
        broker.reading.set()
        for client in slow:
            assert [await client.frame() for _ in range(PIPELINED)] == [
                opaque_answer(number, b"\1") for number in range(2, 2 + PIPELINED)
            ]
    await eventually(lambda: descriptors_of(pid) <= descriptors)
