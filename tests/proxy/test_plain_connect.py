"""Connecting without a task."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.proxy import plain_connect
from shareproxy.proxy.dial import Place
from shareproxy.proxy.plain_connect import Begun, begin, finish
from tests.proxy.fake_broker import taken_port

HOST = "127.0.0.1"


def place(port: int) -> Place:
    """Return a place on this machine."""
    return socket.AF_INET, (HOST, port)


async def test_what_is_nearby_is_connected_at_once_or_soon() -> None:
    """The socket is one of ours: it does not block and sends small frames at once."""
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]

        begun = begin(Address(HOST, port), place(port))
        connected = await finish(begun) if not begun.connected else begun.socket

        with connected, listener.accept()[0]:
            assert connected.gettimeout() == 0
            assert connected.getpeername() == (HOST, port)
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_what_is_connected_already_can_be_finished() -> None:
    """Whoever does not look at `connected` loses nothing."""
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        begun = begin(Address(HOST, port), place(port))

        with await finish(begun) as connected:
            assert connected is begun.socket


async def test_refusal_closes_the_socket() -> None:
    """At the beginning or at the end, as the system likes."""
    with taken_port() as port:
        pass
    begun: Begun | None = None

    async def connect() -> None:
        nonlocal begun
        begun = begin(Address(HOST, port), place(port))
        await finish(begun)

    with pytest.raises(ConnectionRefusedError):
        await connect()

    assert begun is None or begun.socket.fileno() == -1


@pytest.mark.parametrize("second", [errno.EISCONN, errno.EINVAL, errno.EALREADY])
async def test_second_call_of_connect_is_not_needed(monkeypatch: pytest.MonkeyPatch, second: int) -> None:
    """On macOS it fails: with EISCONN where it is connected, with EINVAL where it was refused."""

    class Once(socket.socket):
        def connect(self, address: object) -> None:
            if self.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR):
                raise OSError(second, os.strerror(second))
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            super().connect(address)  # type: ignore[arg-type]
            raise BlockingIOError(errno.EINPROGRESS, "it is on its way")

        def getpeername(self) -> object:
            raise OSError(errno.ENOTCONN, "not yet")

    monkeypatch.setattr(plain_connect.socket, "socket", Once)  # type: ignore[attr-defined]
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        begun = begin(Address(HOST, port), place(port))
        assert not begun.connected

        (await finish(begun)).close()
    with pytest.raises(ConnectionRefusedError):
        await finish(begin(Address(HOST, port), place(port)))


async def test_giving_up_closes_the_socket() -> None:
    """A machine that does not answer is waited for by somebody else's clock."""
    with socket.create_server((HOST, 0), backlog=0) as full, socket.socket() as first:
        first.connect(full.getsockname())
        while True:  # until the listener's queue is full
            begun = begin(Address(*full.getsockname()[:2]), place(full.getsockname()[1]))
            if not begun.connected:
                break
            begun.socket.close()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await finish(begun)

    assert begun.socket.fileno() == -1


async def test_no_descriptor_stays_behind_an_impossible_address() -> None:
    """An address of another family is an error at once."""
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        begin(Address(HOST, 1), (socket.AF_INET, ("not an address", 1)))
