"""Connect to an address without a task, where nothing has to be resolved, chosen or encrypted.

In: one numeric address. Out: a socket that is connected, as brokers nearby are within the same turn, or one that will
be. Must never: block, or leave a socket that nobody closes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import NamedTuple

from shareproxy.cluster.addresses import Address
from shareproxy.proxy.dial import Place
from shareproxy.proxy.plain_socket import prepare


class Begun(NamedTuple):
    """A connection that is being made, or is made already."""

    address: Address
    place: Place
    socket: socket.socket
    connected: bool


def begin(address: Address, place: Place) -> Begun:
    """Begin to connect.

    Args:
        address: what people call it.
        place: where that is.

    Raises:
        OSError: it has failed already, or there are no file descriptors left.
    """
    family, where = place
    begun = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        begun.setblocking(False)
        prepare(begun)
        connected = _connect(begun, where)
    except BaseException:
        begun.close()
        raise
    return Begun(address, place, begun, connected)


def _connect(begun: socket.socket, where: tuple[object, ...]) -> bool:
    try:
        begun.connect(where)
    except BlockingIOError:
        try:
            begun.getpeername()
        except OSError:
            return False
    return True


async def finish(begun: Begun) -> socket.socket:
    """Wait until it is connected; it is closed if that fails or takes too long for the caller.

    Raises:
        OSError: it cannot be connected.
    """
    try:
        await _until_writable(begun.socket)
        # not by connecting again, as the event loop would: other systems than Linux then call one that is connected
        # (EISCONN) or refused (EINVAL) an error of the call
        code = begun.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        begun.socket.close()
        raise
    return begun.socket


async def _until_writable(begun: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = loop.create_future()
    number = begun.fileno()
    loop.add_writer(number, _set, writable)
    try:
        await writable
    finally:
        loop.remove_writer(number)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
