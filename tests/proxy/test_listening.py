"""Binding ports, alone and together."""

from __future__ import annotations

import contextlib
import itertools
import socket

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.proxy import listening as room
from shareproxy.proxy.listening import CAN_SHARE_PORTS, hold, listen
from shareproxy.testing.ports import ports_side_by_side
from tests.proxy.fake_broker import HOST, taken_port
from tests.support.waiting import wait_until


def close(sockets: list[socket.socket]) -> None:
    """Close them."""
    for listening in sockets:
        listening.close()


def free_address() -> Address:
    """Return one that nobody is bound to."""
    return Address(HOST, ports_side_by_side(1)[0])


def accepted(waiting: socket.socket) -> int:
    """Return how many clients the kernel has led to a socket."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            waiting.accept()[0].close()
            count += 1
    return count


def wait_until_led(clients: list[socket.socket], sharing: list[socket.socket]) -> None:
    """Return when the kernel has led all clients to sockets that share a port."""
    met = itertools.accumulate(sum(map(accepted, sharing)) for _ in itertools.count())
    wait_until(lambda: next(met) == len(clients), "all clients are led to those who listen")


def test_port_0_is_a_free_one() -> None:
    """For tests."""
    listening = listen(Address(HOST, 0))

    assert [one.getsockname()[0] for one in listening] == [HOST]
    socket.create_connection(listening[0].getsockname()).close()
    close(listening)


def test_name_with_two_families_has_one_port() -> None:
    """`localhost` may be 127.0.0.1 and ::1."""
    listening = listen(Address("localhost", 0))

    assert len({one.getsockname()[1] for one in listening}) == 1
    close(listening)


def test_ipv6_is_listened_on() -> None:
    """Where there is some."""
    listening = listen(Address("::1", 0))

    socket.create_connection(("::1", listening[0].getsockname()[1])).close()
    close(listening)


def test_every_ipv6_address_means_every_ipv4_address_too() -> None:
    """As in Kafka's own listeners; with sockets of their own, so that peers have their usual names."""
    listening = listen(Address("::", 0))
    port = listening[0].getsockname()[1]

    socket.create_connection(("::1", port)).close()
    socket.create_connection((HOST, port)).close()
    accepted, peer = listening[1].accept()
    accepted.close()
    close(listening)

    assert peer[0] == HOST


def test_taken_port_is_named_and_nothing_stays_bound() -> None:
    """The message is for a person."""
    with taken_port() as port:
        with pytest.raises(OSError, match=f"cannot listen on {HOST}:{port}: Address already in use"):
            listen(Address(HOST, port))
        with pytest.raises(OSError, match=f"cannot listen on {HOST}:{port}: Address already in use"):
            hold([free := free_address(), Address(HOST, port)])
        close(listen(free))


def test_address_of_another_machine_is_named() -> None:
    """A typing error, or an address that is gone."""
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:1234: Cannot assign"):
        listen(Address("192.0.2.1", 1234))


@pytest.mark.skipif(not CAN_SHARE_PORTS, reason="this system cannot share ports")
def test_port_that_another_one_listens_on_in_the_same_moment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two can be bound until one of them listens."""
    address = free_address()
    bind = room._bind

    def bind_beside(where: Address, reuse_port: bool) -> list[socket.socket]:
        bound, beside = bind(where, reuse_port), bind(where, reuse_port)
        beside[0].listen()
        rivals.extend(beside)
        return bound

    rivals: list[socket.socket] = []
    monkeypatch.setattr(room, "_bind", bind_beside)

    with pytest.raises(OSError, match=f"cannot listen on {HOST}:{address.port}: Address already in use"):
        hold([address])
    monkeypatch.undo()
    close(rivals)
    close(listen(address))


@pytest.mark.skipif(not CAN_SHARE_PORTS, reason="this system cannot share ports")
def test_held_port_is_for_those_who_share_it_alone() -> None:
    """Also before they come, and after they have gone; the one that holds it meets no client."""
    address = free_address()
    held = hold([address])
    for _ in range(2):
        with pytest.raises(OSError, match="in use"):
            hold([address])
        with pytest.raises(OSError, match="in use"):
            listen(address)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

        sharing = [listen(address, reuse_port=True)[0] for _ in range(2)]
        with pytest.raises(OSError, match="in use"):
            hold([address])
        clients = [socket.create_connection(address) for _ in range(20)]
        wait_until_led(clients, sharing)
        close(sharing + clients)

    close(held)
    close(listen(address))


@pytest.mark.skipif(not CAN_SHARE_PORTS, reason="this system cannot share ports")
def test_port_of_connections_that_have_ended_can_be_held() -> None:
    """The kernel remembers them for a minute, after a restart too."""
    (before,) = listen(Address(HOST, 0))
    address = Address(*before.getsockname())
    with socket.create_connection(address) as client:
        before.setblocking(True)
        before.accept()[0].close()
        assert client.recv(1) == b""
    before.close()

    close(hold([address]))


@pytest.mark.skipif(not CAN_SHARE_PORTS, reason="this system cannot share ports")
def test_ports_are_shared_by_those_who_agree() -> None:
    """A second process that does not say so is refused, and sees that the port is taken."""
    first = listen(Address(HOST, 0), reuse_port=True)
    address = Address(*first[0].getsockname())
    second = listen(address, reuse_port=True)

    with pytest.raises(OSError, match="in use"):
        listen(address)
    with pytest.raises(OSError, match="in use"):
        hold([address])
    close(first + second)
