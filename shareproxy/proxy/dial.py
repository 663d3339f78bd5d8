"""Connect a socket to the first of several addresses that takes it.

In: addresses, names among them. Out: one connected socket, or why each address failed. Must never: keep a resolved
name, or let an address that does not answer use up the time of the others (RFC 8305, "happy eyeballs").
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from shareproxy.cluster.addresses import Address

# An address that has not answered for this long is waited for beside the next one: far more than a round trip, and
# what RFC 8305 recommends.
STAGGER_SECONDS: Final = 0.25

SocketAddress = tuple[Any, ...]
"""What the socket module takes for an address of a family."""
Place = tuple[socket.AddressFamily, SocketAddress]
Attempt = Callable[[], Coroutine[Any, Any, "Dialled | None"]]


class Resolver:
    """Turns host names into addresses; who asks for the same name at the same moment shares the answer."""

    def __init__(self) -> None:
        self._asking: dict[Address, asyncio.Task[list[Place]]] = {}

    async def places_of(self, address: Address) -> list[Place]:
        """Return each address of a host once, IPv6 and IPv4 in turns, beginning with the resolver's first.

        Raises:
            OSError: the name cannot be resolved.
        """
        if numeric := numeric_places(address):
            return list(numeric)
        task = self._asking.get(address)
        if task is None:
            task = self._asking[address] = asyncio.create_task(self._ask(address))
            task.add_done_callback(functools.partial(self._asked, address))
        return await asyncio.shield(task)  # whoever gives up must not end the question of the others

    def _asked(self, address: Address, task: asyncio.Task[list[Place]]) -> None:
        del self._asking[address]
        if not task.cancelled():
            task.exception()  # there may be nobody left who waits for it

    async def _ask(self, address: Address) -> list[Place]:
        try:
            return _in_turns(await asyncio.get_running_loop().getaddrinfo(*address, type=socket.SOCK_STREAM))
        except UnicodeError:  # a label that is too long for a host name
            raise socket.gaierror(socket.EAI_NONAME, "no such host name") from None


@functools.lru_cache(256)
def numeric_places(address: Address) -> tuple[Place, ...]:
    """Return where an address lies whose host is a number already; nothing if it is a name."""
    try:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return tuple(_in_turns(socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=flags)))
    except (socket.gaierror, UnicodeError):
        return ()


class Dialled(NamedTuple):
    """A connected socket, the address that it was looked for at, and where that was."""

    socket: socket.socket
    address: Address
    place: SocketAddress


class Dial:
    """The attempts to reach one of several addresses.

    Args:
        resolver: of host names.
        addresses: in the order in which they are tried.
    """

    def __init__(self, resolver: Resolver, addresses: Sequence[Address]) -> None:
        self._resolver, self._addresses = resolver, addresses
        self._failures: dict[Address, list[str]] = {}
        self._given_up: set[tuple[Address, SocketAddress]] = set()

    async def connected(self) -> Dialled | None:
        """Return a socket that is connected to one of the addresses, None if all have failed."""
        return await _first([functools.partial(self._dial, address) for address in self._addresses])

    def give_up(self, address: Address, place: SocketAddress | None, error: OSError | TimeoutError) -> None:
        """Note that something was of no use, after all or from the beginning; `connected` does not go there again."""
        if place is not None:
            self._given_up.add((address, place))
        where = "" if place is None or place[0] == address.host else f"{place[0]} "
        self._failures.setdefault(address, []).append(where + cause(error))

    def worse_than(self, address: Address | None) -> Sequence[Address]:
        """Return the addresses that were tried before one and took longer or failed; all of them if None."""
        return self._addresses if address is None else self._addresses[: self._addresses.index(address)]

    def why(self) -> str:
        """Return one sentence with each address and its cause."""
        causes = {address: self._failures.get(address) or ["no answer in time"] for address in self._addresses}
        return "; ".join(f"{address}: {', '.join(dict.fromkeys(causes[address]))}" for address in causes)

    async def _dial(self, address: Address) -> Dialled | None:
        try:
            places = await self._resolver.places_of(address)
        except OSError as error:
            self.give_up(address, None, error)
            return None
        left = [place for place in places if (address, place[1]) not in self._given_up]
        return await _first([functools.partial(self._knock, address, *place) for place in left])

    async def _knock(self, address: Address, family: socket.AddressFamily, place: SocketAddress) -> Dialled | None:
        try:
            # asyncio sends small frames at once (TCP_NODELAY) only where the protocol is named
            knocking = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        except OSError as error:  # no more file descriptors, or no IPv6 here
            self.give_up(address, place, error)
            return None
        try:
            knocking.setblocking(False)
            await asyncio.get_running_loop().sock_connect(knocking, place)
        except OSError as error:
            knocking.close()
            self.give_up(address, place, error)
            return None
        except BaseException:
            knocking.close()
            raise
        return Dialled(knocking, address, place)


async def _first(attempts: Sequence[Attempt]) -> Dialled | None:
    """Begin one attempt after the other, until one succeeds; end the others."""
    if len(attempts) == 1:
        return await attempts[0]()
    waiting = list(reversed(attempts))
    running: set[asyncio.Task[Dialled | None]] = set()
    won: list[Dialled] = []
    try:
        while not won and (waiting or running):
            if waiting:
                running.add(asyncio.create_task(waiting.pop()()))
            done, running = await asyncio.wait(
                running, timeout=STAGGER_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            won += [place for task in done if (place := task.result()) is not None]
    finally:
        for task in running:
            task.cancel()
        late = await asyncio.gather(*running, return_exceptions=True)
        for other in (*won[1:], *late):
            if isinstance(other, Dialled):
                other.socket.close()
    return won[0] if won else None


def _in_turns(found: Sequence[tuple[Any, ...]]) -> list[Place]:
    """Order addresses so that neither family has to wait for all of the other."""
    places: list[Place] = list(dict.fromkeys((row[0], row[4]) for row in found))
    first = [place for place in places if place[0] == places[0][0]]
    second = [place for place in places if place[0] != places[0][0]]
    ordered = [place for pair in zip(first, second, strict=False) for place in pair]
    return ordered + first[len(second) :] + second[len(first) :]


def cause(error: OSError | TimeoutError) -> str:
    """Return why a connection could not be made, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return describe_os_error(error)


def describe_os_error(error: OSError) -> str:
    """Return the system's own words; the event loops put others in their place."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
