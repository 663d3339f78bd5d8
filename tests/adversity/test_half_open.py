"""Peers that are gone without a word: the kernel is told to look after them."""

from __future__ import annotations

import os
import socket

import pytest

from tests.proxy.conftest import Proxies
from tests.proxy.fake_broker import Client, FakeBroker
from tests.proxy.frames import opaque_request

pytestmark = pytest.mark.timeout(60)

# a machine that is gone is known to be so after this many seconds without a byte
NOTICED_SECONDS = 180


def sockets_with(ports: set[int]) -> list[socket.socket]:
    """Return duplicates of this process's connected sockets whose own or other end has one of these ports."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            duplicate = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            ends = {duplicate.getsockname()[1], duplicate.getpeername()[1]}
        except (OSError, IndexError):
            ends = set()
        if ends & ports:
            found.append(duplicate)
        else:
            duplicate.close()
    return found


async def test_both_sockets_are_probed_soon_enough(broker: FakeBroker, proxies: Proxies) -> None:
    """Client's and broker's socket: probes begin within minutes, and a few without an answer end the connection."""
    proxy = await proxies.start(broker)
    async with Client(proxy.bootstrap_address) as client:
        await client.ask(opaque_request(1))
        found = sockets_with({proxy.bootstrap_address.port, broker.address.port})
        probed = [each for each in found if each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
        noticed = [
            each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            + each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
            * each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            for each in probed
        ]
        for each in found:
            each.close()

    assert len(noticed) == 2  # the other two are the client's and the broker's own
    assert max(noticed) <= NOTICED_SECONDS
