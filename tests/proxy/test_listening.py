"""Binding ports, alone and together."""

from __future__ import annotations

import socket

import pytest

from shareproxy.cluster.addresses import Address
from shareproxy.proxy.listening import CAN_SHARE_PORTS, check_free, listen
from tests.proxy.fake_broker import HOST, taken_port


def close(sockets: list[socket.socket]) -> None:
    """Close them."""
    for listening in sockets:
        listening.close()


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
            check_free([Address(HOST, 0), Address(HOST, port)])


def test_address_of_another_machine_is_named() -> None:
    """A typing error, or an address that is gone."""
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:1234: Cannot assign"):
        listen(Address("192.0.2.1", 1234))


def test_free_ports_stay_free() -> None:
    """Looking takes nothing."""
    (taken,) = listen(Address(HOST, 0))
    address = Address(*taken.getsockname())
    taken.close()

    check_free([address])
    check_free([address])
    close(listen(address))


@pytest.mark.skipif(not CAN_SHARE_PORTS, reason="this system cannot share ports")
def test_ports_are_shared_by_those_who_agree() -> None:
    """A second process that does not say so is refused, and sees that the port is taken."""
    first = listen(Address(HOST, 0), reuse_port=True)
    address = Address(*first[0].getsockname())
    second = listen(address, reuse_port=True)

    with pytest.raises(OSError, match="in use"):
        listen(address)
    with pytest.raises(OSError, match="in use"):
        check_free([address])
    close(first + second)
