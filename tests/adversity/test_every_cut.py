"""A short exchange cut after every single byte, in each direction, on each side of the proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.messages import ApiVersionsRequest, MetadataRequest
from shareproxy.proxy.server import Proxy
from shareproxy.testing.relay import FaultyRelay, Way
from tests.adversity.held import held, living_connections
from tests.adversity.sevens import Sevens
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import HOST, Client, FakeBroker, eventually
from tests.proxy.frames import opaque_request, request, share_offsets_of

pytestmark = pytest.mark.timeout(120)

# a list of APIs, an answer that is rewritten, one that is filled in, and one that only passes
QUESTIONS = (
    request(ApiVersionsRequest(), 0, 1),
    request(MetadataRequest(topics=None), 1, 2),
    request(share_offsets_of({"t": [0]}), 0, 3),
    opaque_request(4, body=b"heartbeat"),
)
REASONS: Mapping[str, set[str]] = {
    "before the proxy": {"client_closed", "no_request"},
    "behind the proxy": {"broker_closed"},
}


class Relayed:
    """A proxy with a relay on each side."""

    def __init__(self, proxy: Proxy, broker: FakeBroker, front: FaultyRelay, back: FaultyRelay) -> None:
        self.proxy, self.broker, self.front, self.back = proxy, broker, front, back

    async def exchange(self) -> list[bytes]:
        """Ask all questions at once, and return the answers that came before the end."""
        answers = []
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with Client(self.front_address) as client:
                client.send(b"".join(QUESTIONS))
                for _ in QUESTIONS:
                    answers.append(await client.frame())
        return answers

    @property
    def front_address(self) -> Address:
        """Where clients connect."""
        return Address(HOST, self.front.port)

    def passed(self, where: str, way: Way) -> int:
        """Return how many bytes went one way on one side so far."""
        return (self.front if where == "before the proxy" else self.back).passed[way]


@pytest.fixture
async def relayed(broker: FakeBroker, proxies: Proxies) -> AsyncIterator[Relayed]:
    """Return a proxy between two relays."""
    async with FaultyRelay(*broker.address) as back:
        middle = FakeBroker(NodeId(1))  # never started: it only says where the relay is
        middle.address = Address(HOST, back.port)
        broker.reply = middle.usual_reply
        proxy = await proxies.start(middle, lag=Sevens())
        async with FaultyRelay(*proxy.bootstrap_address) as front:
            yield Relayed(proxy, broker, front, back)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("where", list(REASONS))
async def test_cut_at_every_byte(relayed: Relayed, where: str, way: Way) -> None:
    """Each ends in one reason and one line; both sockets close, and no descriptor, task or object stays."""
    whole = await relayed.exchange()
    assert len(whole) == len(QUESTIONS)
    length = relayed.passed(where, way)
    await eventually(lambda: not relayed.proxy.connections and not relayed.front.connections)
    await eventually(lambda: not relayed.back.connections)
    before = held()
    relay = relayed.front if where == "before the proxy" else relayed.back

    for count in range(length + 1):
        relay.cut_after(count, way)
        with capture_logs() as logs:
            answers = await relayed.exchange()
            await eventually(lambda: not relayed.proxy.connections)
            await eventually(lambda: held().within(before))
        relay.mend()

        closed = [line["reason"] for line in logs if line["event"] == "connection closed"]
        assert len(closed) == len(logs) == 1, (count, logs)
        assert closed[0] in REASONS[where], (count, logs)
        assert answers == whole[: len(answers)], count

    assert living_connections() == 0
    assert await relayed.exchange() == whole
