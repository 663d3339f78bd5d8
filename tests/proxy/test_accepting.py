"""Accepting clients without TLS."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from shareproxy.proxy import accepting
from shareproxy.proxy.accepting import PlainListener
from tests.proxy.fake_broker import eventually

HOST = "127.0.0.1"


class Greeter(asyncio.Protocol):
    """Notes its transport."""

    made: list[asyncio.BaseTransport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note it."""
        self.made.append(transport)


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Return a bound socket."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        yield found


def listening(bound: socket.socket) -> tuple[PlainListener, list[asyncio.BaseTransport]]:
    """Return a listener, and the transports of those who came."""
    made: list[asyncio.BaseTransport] = []

    def greeter() -> Greeter:
        found = Greeter()
        found.made = made
        return found

    listener = PlainListener(bound, greeter)
    listener.start()
    return listener, made


async def test_everybody_who_comes_is_accepted(bound: socket.socket) -> None:
    """Each is prepared for small frames and for a peer that vanishes."""
    listener, made = listening(bound)
    clients = [socket.create_connection(bound.getsockname()) for _ in range(20)]

    await eventually(lambda: len(made) == 20)

    for transport in made:
        accepted = transport.get_extra_info("socket")
        assert accepted.gettimeout() == 0
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        transport.abort()  # type: ignore[attr-defined]
    for client in clients:
        client.close()
    listener.close()


async def test_closing_refuses_who_comes_later(bound: socket.socket) -> None:
    """Those who are there stay."""
    listener, made = listening(bound)
    address = bound.getsockname()
    with socket.create_connection(address):
        await eventually(lambda: made)

        assert len(listener.sockets) == 1
        listener.close()
        listener.close()

        assert len(listener.sockets) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        assert not made[0].is_closing()
        made[0].abort()  # type: ignore[attr-defined]


class NoRoom:
    """A bound socket whose first accepts fail."""

    def __init__(self, real: socket.socket, *failures: int) -> None:
        self._real, self._failures = real, list(failures)
        self.asked = 0

    def accept(self) -> tuple[socket.socket, object]:
        """Fail, or accept."""
        self.asked += 1
        if self._failures:
            number = self._failures.pop(0)
            raise OSError(number, "Too many open files")
        return self._real.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


async def test_without_descriptors_it_waits(bound: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, one try after each pause, and the client who waited is served in the end."""
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 0.02)
    no_room = NoRoom(bound, errno.EMFILE, errno.ENFILE)
    with capture_logs() as logs:
        listener, made = listening(no_room)  # type: ignore[arg-type]
        with socket.create_connection(bound.getsockname()):
            await eventually(lambda: made)

    assert [line["event"] for line in logs] == ["no more clients accepted"] * 2
    assert no_room.asked == 3
    made[0].abort()  # type: ignore[attr-defined]
    listener.close()


async def test_closing_during_the_pause_ends_it(bound: socket.socket) -> None:
    """Nothing is accepted afterwards, as no timer stays."""
    no_room = NoRoom(bound, errno.EMFILE)
    listener, made = listening(no_room)  # type: ignore[arg-type]
    with socket.create_connection(bound.getsockname()):
        await eventually(lambda: listener._resume)
        assert listener._resume is not None
        listener.close()

    assert listener._resume.cancelled()
    assert made == []
    assert no_room.asked == 1


async def test_error_of_one_client_is_not_an_error_of_the_port(bound: socket.socket) -> None:
    """Linux reports network errors of a waiting client at its accept."""
    no_room = NoRoom(bound, errno.ECONNABORTED, errno.ENETDOWN)
    listener, made = listening(no_room)  # type: ignore[arg-type]
    with socket.create_connection(bound.getsockname()):
        await eventually(lambda: made)

    assert no_room.asked == 3
    made[0].abort()  # type: ignore[attr-defined]
    listener.close()
