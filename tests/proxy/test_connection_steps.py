"""One client connection whose answers or requests wait for work of the proxy's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.errors import Unreachable
from shareproxy.lag.model import AskedRow
from shareproxy.protocol.ids import GroupId
from shareproxy.protocol.messages import DescribeShareGroupOffsetsRequest
from shareproxy.proxy.out_of_range import Places
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import answer as answer_frame
from tests.proxy.frames import opaque_answer, opaque_request, request, share_offsets, share_offsets_of

pytestmark = pytest.mark.timeout(60)


class Filler:
    """Works out lag when it is told to."""

    def __init__(self) -> None:
        self.asked, self.go, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fill(self, group: GroupId, rows: Sequence[AskedRow], *, deadline: float) -> Mapping[tuple[str, int], int]:
        """Play the part."""
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {(row.topic, row.partition): 7 for row in rows}

    async def out_of_range(self, asked: Places, *, deadline: float) -> Places:
        """Say that all topics have one partition; wait without end for a topic named `slow`, fail for `broken`."""
        self.asked.set()
        if "slow" in asked:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if "broken" in asked:
            raise Unreachable("no broker answered")
        return {topic: {index for index in indexes if index > 0} for topic, indexes in asked.items()}


async def test_answers_wait_for_the_lag_before_them(broker: FakeBroker, proxies: Proxies) -> None:
    """Order is kept, and nothing is read from the broker meanwhile."""
    filler = Filler()
    proxy = await proxies.start(broker, lag=filler)
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1) + request(DescribeShareGroupOffsetsRequest(), 1, 2) + opaque_request(3))
        broker.reply = lambda head, frame: (
            answer_frame(share_offsets((0, 2, -1)), 1, 2)
            if head.api_key == 90
            else opaque_answer(head.correlation_id, b"\1")
        )
        assert await client.frame() == opaque_answer(1, b"\1")
        await filler.asked.wait()
        await broker.until(lambda: len(broker.requests) == 3)
        assert not client.reader._buffer  # type: ignore[attr-defined]
        filler.go.set()

        assert await client.frame() == answer_frame(share_offsets((0, 2, 7)), 1, 2)
        assert await client.frame() == opaque_answer(3, b"\1")


async def test_no_second_broker_when_the_first_ends_during_the_step(broker: FakeBroker, proxies: Proxies) -> None:
    """The answer that is due still comes; another broker would know nothing of this client's login."""
    filler = Filler()
    proxy = await proxies.start(broker, lag=filler)
    async with Client(proxy.bootstrap_address) as client:
        client.send(request(DescribeShareGroupOffsetsRequest(), 1, 1))
        broker.reply = lambda head, frame: answer_frame(share_offsets((0, 2, -1)), 1, 1)
        await filler.asked.wait()
        [connection] = proxy._around.open
        broker.reset_connections()
        while connection._broker is not None:  # its end is noticed by writing
            client.send(opaque_request(2))
            await asyncio.sleep(0)
        client.send(opaque_request(3))
        sent = connection.client_bytes
        client.send(opaque_request(4))
        await eventually(lambda: connection.client_bytes > sent)
        filler.go.set()

        assert await client.frame() == answer_frame(share_offsets((0, 2, 7)), 1, 1)
        assert await client.rest() == b""
    assert broker.connections == 1


async def test_lag_that_the_broker_knows_passes_at_once(broker: FakeBroker, proxies: Proxies) -> None:
    """Nobody is asked, and the answers behind it follow."""
    filler = Filler()
    proxy = await proxies.start(broker, lag=filler)
    known = answer_frame(share_offsets((0, 2, 9)), 1, 1)
    broker.reply = lambda head, frame: known if head.api_key == 90 else opaque_answer(head.correlation_id)
    async with Client(proxy.bootstrap_address) as client:
        client.send(request(DescribeShareGroupOffsetsRequest(), 1, 1) + opaque_request(2))

        assert await client.frame() == known
        assert await client.frame() == opaque_answer(2)
    assert not filler.asked.is_set()


async def test_partition_that_does_not_exist_is_never_asked_for(broker: FakeBroker, proxies: Proxies) -> None:
    """Its row is answered here, in order with everything around it."""
    proxy = await proxies.start(broker, lag=Filler())
    broker.reply = lambda head, frame: (
        answer_frame(share_offsets((0, 2, 9)), 1, 2) if head.api_key == 90 else opaque_answer(head.correlation_id)
    )
    async with Client(proxy.bootstrap_address) as client:
        client.send(opaque_request(1) + request(share_offsets_of({"t": [0, 5]}), 1, 2) + opaque_request(3))

        assert await client.frame() == opaque_answer(1)
        assert await client.frame() == answer_frame(share_offsets((0, 2, 9), (5, -1, -1), leader_epochs=(5, 0)), 1, 2)
        assert await client.frame() == opaque_answer(3)
    sent = request(share_offsets_of({"t": [0]}), 1, 2)
    assert broker.received == opaque_request(1) + sent + opaque_request(3)


@pytest.mark.parametrize("topic", ["broken", "slow"])
async def test_request_goes_on_unchanged_if_nothing_can_be_found_out(
    broker: FakeBroker, proxies: Proxies, topic: str
) -> None:
    """The proxy's own trouble with Metadata is not the client's."""
    proxy = await proxies.start(broker, lag=Filler(), lag_timeout=0.05)
    frame = request(share_offsets_of({topic: [0, 5]}), 1, 2)
    broker.reply = lambda head, frame: answer_frame(share_offsets((0, 2, 9)), 1, 2)
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            assert await client.ask(frame) == answer_frame(share_offsets((0, 2, 9)), 1, 2)

    assert broker.received == frame
    assert "partitions not looked up" in [line["event"] for line in logs]


async def test_client_that_leaves_during_a_lookup_ends_it(broker: FakeBroker, proxies: Proxies) -> None:
    """Nobody waits for it any more."""
    filler = Filler()
    proxy = await proxies.start(broker, lag=filler)
    async with Client(proxy.bootstrap_address) as client:
        client.send(request(share_offsets_of({"slow": [0]}), 1))
        await filler.asked.wait()

    await asyncio.wait_for(filler.cancelled.wait(), 10)
    await eventually(lambda: proxy.connections == 0)


async def test_client_that_leaves_during_the_step_ends_it(broker: FakeBroker, proxies: Proxies) -> None:
    """Nobody waits for the answer any more."""
    filler = Filler()
    proxy = await proxies.start(broker, lag=filler)
    async with Client(proxy.bootstrap_address) as client:
        client.send(request(DescribeShareGroupOffsetsRequest(), 1))
        broker.reply = lambda head, frame: answer_frame(share_offsets((0, 2, -1)), 1, 1)
        await filler.asked.wait()

    await asyncio.wait_for(filler.cancelled.wait(), 10)
    await eventually(lambda: proxy.connections == 0)


async def test_unreadable_lag_answer_closes(broker: FakeBroker, proxies: Proxies) -> None:
    """What cannot be read cannot be filled."""
    proxy = await proxies.start(broker, lag=Filler())
    broker.reply = lambda head, frame: opaque_answer(1, b"\x7f")
    with capture_logs() as logs:
        async with Client(proxy.bootstrap_address) as client:
            client.send(request(DescribeShareGroupOffsetsRequest(), 1))
            assert await client.rest() == b""

    assert [line["reason"] for line in logs] == ["malformed_answer"]
