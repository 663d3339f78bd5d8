"""A connection that is over is gone at once: nothing waits for the garbage collector, which rarely comes."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.adversity.held import connections_and_sessions
from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker, eventually
from tests.proxy.frames import opaque_request

pytestmark = pytest.mark.timeout(60)

CLIENTS = 20
SENT = {
    "a request": opaque_request(1),
    "nothing": b"",
    "a TLS hello": bytes.fromhex("160301020001000100fc0303"),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "half a request": opaque_request(1)[:9],
    "a size too large": struct.pack(">i", 2**31 - 1),
}
RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Switch the garbage collector off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("end", ["in order", "by a reset"])
@pytest.mark.parametrize("sent", list(SENT))
@pytest.mark.usefixtures("no_collector")
async def test_connection_leaves_nothing_to_the_collector(
    sent: str, end: str, broker: FakeBroker, proxies: Proxies
) -> None:
    """Whatever the client sent, and however it ends."""
    proxy = await proxies.start(broker)
    for _ in range(CLIENTS):
        client = Client(proxy.bootstrap_address)
        await client.__aenter__()
        client.send(SENT[sent])
        if sent == "a request":
            await client.frame()
        elif sent in ("nothing", "half a request"):
            await eventually(lambda: proxy.connections)
        else:
            await client.rest()
        if end == "by a reset":
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await client.__aexit__(None, None, None)
    await eventually(lambda: not proxy.connections)
    await asyncio.sleep(0)

    # the last one may still be on the stack of what told of its end
    await eventually(lambda: connections_and_sessions() <= 2)
