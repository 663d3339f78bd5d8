"""Get a question to a broker: a certain one, or whichever answers.

In: requests, addresses of bootstrap servers and of nodes seen in metadata. Out: answers.
Must never: keep a resolved name, or ask a broker that refused the login again at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from shareproxy.cluster.addresses import Address
from shareproxy.cluster.connection import Connection
from shareproxy.cluster.errors import BadAnswer, ClusterError, ConnectionClosed, DeadlinePassed, Unreachable
from shareproxy.cluster.metadata import Node
from shareproxy.cluster.pool import CONTROL, ConnectionPool
from shareproxy.cluster.retries import Backoff, Retry
from shareproxy.cluster.security import Security
from shareproxy.protocol.ids import NodeId
from shareproxy.protocol.message import Request, Response
from shareproxy.protocol.messages import AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest

Q = TypeVar("Q", bound=Response)
T = TypeVar("T")

Connect = Callable[[], Awaitable[tuple[Connection, bool]]]
"""Give a connection, and whether it was opened for this call."""

# one of several brokers must not use up all the time; the last attempt of a round gets what is left
LEAST_ATTEMPT_SECONDS: Final = 1.0
MOST_SHARES: Final = 3
# these change something: after a lost answer it is the caller who decides whether to send them again
CHANGING: Final = frozenset({AlterShareGroupOffsetsRequest.api_key, DeleteShareGroupOffsetsRequest.api_key})


class BrokerCalls:
    """Connections to the brokers of one cluster, and the order in which they are tried.

    Args:
        bootstrap_servers: where to begin, and where to go back to.
        security: of every connection.
        client_id: our name.
        connect_timeout: seconds for one attempt to connect.
    """

    def __init__(
        self, bootstrap_servers: Sequence[Address], security: Security, client_id: str, connect_timeout: float
    ) -> None:
        self.bootstrap_servers = tuple(bootstrap_servers)
        self.nodes: Mapping[NodeId, Node] = {}
        self._pool = ConnectionPool(security, client_id, connect_timeout)
        self._turn = 0

    def learn(self, nodes: Mapping[NodeId, Node]) -> None:
        """Take the nodes of a new Metadata answer; connections to brokers that left are retired."""
        if nodes == self.nodes:
            return
        self.nodes = dict(nodes)
        self._pool.keep_only({*(node.address for node in nodes.values()), *self.bootstrap_servers})

    def forget_nodes(self) -> None:
        """Go back to the bootstrap servers."""
        self.nodes = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def send(
        self,
        connect: Connect,
        build: Callable[[Connection], Request[Q]],
        deadline: float,
        *,
        max_version: int | None = None,
        min_version: int | None = None,
    ) -> Q:
        """Send one request; only where the connection turns out to be stale, a second time on a new one.

        Args:
            connect: gives the connection.
            build: makes the request for the connection it goes out on.
            deadline: in the event loop's time.
            max_version: use no newer version.
            min_version: use no older version.
        """
        connection, fresh = await connect()
        message = build(connection)
        try:
            return await connection.request(
                message, deadline=deadline, max_version=max_version, min_version=min_version
            )
        except BadAnswer:
            raise
        except ConnectionClosed:
            if fresh or message.api_key in CHANGING:
                raise
        # the broker may have closed an idle connection at the very moment we used it
        connection, _ = await connect()
        return await connection.request(
            build(connection), deadline=deadline, max_version=max_version, min_version=min_version
        )

    async def connection(self, address: Address | None, purpose: str, deadline: float) -> tuple[Connection, bool]:
        """Return a connection and whether it was opened for this call.

        Raises:
            ClusterError: nobody could be reached before the deadline, or nobody will have us.
        """
        if address is not None:
            return await self._pool.get(address, purpose, deadline)

        async def connect(candidate: Address | None, until: float) -> tuple[Connection, bool]:
            if candidate is None:
                usable = self._pool.usable(purpose)
                assert usable is not None
                return usable, False
            return await self._pool.get(candidate, purpose, until)

        return await self._until_one_answers(purpose, connect, deadline)

    async def ask_any(
        self, build: Callable[[Connection], Request[Q]], deadline: float, *, min_version: int | None = None
    ) -> Q:
        """Ask one broker after the other, with pauses between the rounds, until one answers.

        Raises:
            ClusterError: nobody answered before the deadline, or the same refusal is to be expected from all.
        """

        async def ask(candidate: Address | None, until: float) -> Q:
            return await self.send(
                lambda: self.connection(candidate, CONTROL, until), build, until, min_version=min_version
            )

        return await self._until_one_answers(CONTROL, ask, deadline)

    async def _until_one_answers(
        self, purpose: str, attempt: Callable[[Address | None, float], Awaitable[T]], deadline: float
    ) -> T:
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        failures: dict[Address | None, ClusterError] = {}
        while True:
            round_errors: list[ClusterError] = []
            candidates = self._candidates(purpose)
            for position, candidate in enumerate(candidates):
                left, remaining = deadline - loop.time(), len(candidates) - position
                if left <= 0:
                    break
                until = deadline
                if remaining > 1:
                    share = left / min(remaining, MOST_SHARES)
                    until = loop.time() + min(left, max(share, LEAST_ATTEMPT_SECONDS))
                try:
                    return await attempt(candidate, until)
                except ClusterError as error:
                    if error.retry is Retry.FINAL and not isinstance(error, Unreachable | ConnectionClosed):
                        raise
                    # that time ran out says less than what was found out before
                    if candidate not in failures or not isinstance(error, DeadlinePassed):
                        failures[candidate] = error
                    round_errors.append(error)
                    self._turn += 1
            if round_errors and all(error.retry is Retry.FINAL for error in round_errors):
                raise round_errors[0]
            if not await backoff.pause(deadline):
                raise _nobody_answered(list(failures.values()))

    def _candidates(self, purpose: str) -> list[Address | None]:
        """Return whom to ask: a broker we are connected to (None), then all others, from another one each time."""
        everyone = list(dict.fromkeys((*(node.address for node in self.nodes.values()), *self.bootstrap_servers)))
        start = self._turn % len(everyone)
        order: list[Address | None] = [*everyone[start:], *everyone[:start]]
        return [None, *order] if self._pool.usable(purpose) else order


def _nobody_answered(errors: Sequence[ClusterError]) -> ClusterError:
    sentences = list(dict.fromkeys(str(error) for error in errors))
    if len(sentences) == 1:
        return errors[0]
    kind = DeadlinePassed if all(isinstance(error, DeadlinePassed) for error in errors) else Unreachable
    return kind(f"no broker answered: {'; '.join(sentences) or 'no time was left'}")
