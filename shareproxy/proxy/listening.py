"""Bind the ports that clients come to.

In: addresses. Out: sockets that listen, or that only keep a port. Must never: leave some bound when one cannot be, or
take a port beside another process that did not agree to share it.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from collections.abc import Iterable
from typing import Final

from shareproxy.cluster.addresses import Address
from shareproxy.proxy.dial import describe_os_error

# Clients that come at the same moment, as after a restart; the kernel caps it at its own limit.
BACKLOG: Final = 1024
# `::` is where all addresses of a machine are bound in Kafka's listeners, those of IPv4 too
_EVERYWHERE: Final = {"::": ("::", "0.0.0.0")}
# a name such as localhost may have an address of a family that this machine does not use
_NOT_HERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
CAN_SHARE_PORTS: Final = hasattr(socket, "SO_REUSEPORT") and sys.platform.startswith("linux")
"""Whether the kernel spreads clients over processes that listen on one port; elsewhere one of them gets all."""


def listen(address: Address, *, reuse_port: bool = False) -> list[socket.socket]:
    """Listen at an address; a name may have several, port 0 is any free one, the same for all of them.

    Args:
        address: where to listen.
        reuse_port: share the port with processes of the same user that do so too (SO_REUSEPORT).

    Raises:
        OSError: its text names the address.
    """
    listening = _bind(address, reuse_port)
    try:
        for taken in listening:
            taken.listen(BACKLOG)
    except OSError as error:  # two may be bound to one port as long as none listens
        raise _failure(address, listening, error) from None
    return listening


def hold(addresses: Iterable[Address]) -> list[socket.socket]:
    """Keep addresses for processes of the same user that share their ports, and from everybody else (Linux).

    No client comes to what is returned, since it does not listen. Who listens with `reuse_port` may do so beside it,
    sooner or later; a second call, by whomever, is refused as long as these are open.

    Args:
        addresses: each with a port that is not 0.

    Raises:
        OSError: its text names the first address that is taken; nothing stays bound.
    """
    with contextlib.ExitStack() as stack:
        held: list[socket.socket] = []
        for address in addresses:
            bound = [stack.enter_context(taken) for taken in _bind(address, reuse_port=False)]
            try:
                for taken in bound:
                    _keep_without_listening(taken)
            except OSError as error:
                raise _failure(address, bound, error) from None
            held += bound
        stack.pop_all()
    return held


def _keep_without_listening(taken: socket.socket) -> None:
    """Turn a bound socket into one that only those who share the port can be bound beside.

    Of two that are bound with SO_REUSEADDR in the same moment only one can listen, so each does for a moment.
    """
    taken.listen(1)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    taken.shutdown(socket.SHUT_RDWR)  # it listens no more, and stays bound
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _bind(address: Address, reuse_port: bool) -> list[socket.socket]:
    bound: list[socket.socket] = []
    port = address.port
    try:
        for host in _EVERYWHERE.get(address.host, (address.host,)):
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, place in dict.fromkeys((row[0], row[4]) for row in found):
                try:
                    bound.append(_bound(family, (place[0], port, *place[2:]), reuse_port))
                except OSError as error:
                    if error.errno not in _NOT_HERE or not bound:
                        raise
                port = bound[0].getsockname()[1]
    except OSError as error:
        raise _failure(address, bound, error) from None
    return bound


def _failure(address: Address, bound: Iterable[socket.socket], error: OSError) -> OSError:
    for taken in bound:
        taken.close()
    return OSError(error.errno, f"cannot listen on {address}: {describe_os_error(error)}")


def _bound(family: socket.AddressFamily, place: tuple[object, ...], reuse_port: bool) -> socket.socket:
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would take a port away from another process
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.setblocking(False)
        taken.bind(place)
    except BaseException:
        taken.close()
        raise
    return taken
