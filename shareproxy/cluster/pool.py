"""Keep one connection per broker address and purpose.

In: addresses and purposes. Out: connections that can be used now. Must never: open the same connection twice at the
same time, or hand out one whose login is about to end or whose broker is stuck with a request nobody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.security import Security
from shareproxy.cluster.shared_calls import SharedCalls

# A broker works on the requests of one connection one after the other, and some take half a minute (share-lag §4.5):
# questions about the cluster itself must not wait behind those.
CONTROL: Final = "control"
DATA: Final = "data"

Slot = tuple[Address, str]


class ConnectionPool:
    """The open connections of one cluster.

    Args:
        security: of every connection.
        client_id: our name.
        connect_timeout: seconds for one attempt, login included.
    """

    def __init__(self, security: Security, client_id: str, connect_timeout: float) -> None:
        self._security, self._client_id, self._connect_timeout = security, client_id, connect_timeout
        self._slots: dict[Slot, Connection] = {}
        self._retired: list[Connection] = []
        self._opening: SharedCalls[Slot, Connection] = SharedCalls()
        self._large_answers = asyncio.Lock()
        self._closed = False

    def usable(self, purpose: str) -> Connection | None:
        """Return a live connection to any broker, if there is one that suits the purpose."""
        for address, its_purpose in list(self._slots):
            if its_purpose == purpose and (connection := self._live((address, purpose))):
                return connection
        return self._idle(None) if purpose == CONTROL else None

    async def get(self, address: Address, purpose: str, deadline: float) -> tuple[Connection, bool]:
        """Return the connection for an address and a purpose, and whether it was opened for this call.

        Raises:
            ClusterError: it cannot be opened; see `Connection.open`.
        """
        slot = (address, purpose)
        connection = self._live(slot)
        if connection is None and purpose == CONTROL:
            connection = self._idle(address)
            if connection is None and self._live((address, DATA)) is None:
                slot = (address, DATA)  # the first connection serves both until it is busy
        if connection is not None:
            return connection, False
        if self._closed:
            raise ClusterError("the client is closed")

        async def open_slot(until: float) -> Connection:
            until = min(until, asyncio.get_running_loop().time() + self._connect_timeout)
            opened = await Connection.open(address, self._security, client_id=self._client_id, deadline=until)
            opened.large_answers = self._large_answers
            self._slots[slot] = opened
            return opened

        return await self._opening.run(slot, open_slot, deadline, f"{address}: the connection"), True

    def keep_only(self, addresses: Collection[Address]) -> None:
        """Retire the connections to all other addresses."""
        for slot in [slot for slot in self._slots if slot[0] not in addresses]:
            self._retire(slot)

    async def close(self) -> None:
        """Close everything, also what is being opened."""
        self._closed = True
        await self._opening.stop()
        connections = [*self._slots.values(), *self._retired]
        self._slots.clear()
        self._retired.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    def _live(self, slot: Slot) -> Connection | None:
        connection = self._slots.get(slot)
        if connection is None:
            return None
        if connection.closed:
            del self._slots[slot]
            return None
        if connection.worn:
            self._retire(slot)
            return None
        return connection

    def _idle(self, address: Address | None) -> Connection | None:
        """Return a connection on which a short question does not wait."""
        for slot in list(self._slots):
            if address is None or slot[0] == address:
                connection = self._live(slot)
                if connection is not None and connection.idle:
                    return connection
        return None

    def _retire(self, slot: Slot) -> None:
        connection = self._slots.pop(slot)
        connection.retire()
        self._retired = [retired for retired in self._retired if not retired.finished]
        self._retired.append(connection)
