"""Get a question to a broker: a certain one, or whichever answers.

In: requests, addresses of bootstrap servers and of nodes seen in metadata. Out: answers.
Must never: keep a resolved name, or ask a broker that refused the login again at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
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
from shareproxy.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
)

Q = TypeVar("Q", bound=Response)
T = TypeVar("T")

Connect = Callable[[], Awaitable[tuple[Connection, bool]]]
"""Give a connection, and whether it was opened for this call."""

# A broker that hangs must not use up the time: where one is silent for so long, the next is asked as well, and the
# first answer counts. Long enough for a login over a long line, so that few brokers are asked for nothing.
STAGGER_SECONDS: Final = 0.3
# these change something: after a lost answer it is the caller who decides whether to send them again
CHANGING: Final = frozenset(
    {AlterShareGroupOffsetsRequest.api_key, DeleteGroupsRequest.api_key, DeleteShareGroupOffsetsRequest.api_key}
)


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
        self.sent: Counter[int] = Counter()
        self._pool = ConnectionPool(security, client_id, connect_timeout)
        self.trouble: str | None = None
        """Why the last round of questions to all brokers was in vain; None if somebody has answered since."""
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
        self.sent[message.api_key] += 1
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
        message = build(connection)
        self.sent[message.api_key] += 1
        return await connection.request(message, deadline=deadline, max_version=max_version, min_version=min_version)

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
                if usable is not None:
                    return usable, False
                # somebody else has taken it, or it has just been closed
                candidate = next(address for address in self._candidates(purpose) if address is not None)
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
            waiting = deque(self._candidates(purpose))
            running: dict[asyncio.Future[T], Address | None] = {}
            round_errors: list[ClusterError] = []
            try:
                while (waiting or running) and loop.time() < deadline:
                    for done in await self._next_ended(waiting, running, attempt, deadline):
                        candidate = running.pop(done)
                        error = done.exception()
                        if error is None:
                            # whoever was asked before and is silent still is not asked first the next time
                            self._turn += len(running)
                            self.trouble = None
                            return done.result()
                        if not isinstance(error, ClusterError):
                            raise error
                        if error.retry is Retry.FINAL and not isinstance(error, Unreachable | ConnectionClosed):
                            raise error
                        # that time ran out says less than what was found out before
                        if candidate not in failures or not isinstance(error, DeadlinePassed):
                            failures[candidate] = error
                        round_errors.append(error)
                        self._turn += 1
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
            if round_errors and all(error.retry is Retry.FINAL for error in round_errors):
                raise round_errors[0]
            nobody = _nobody_answered(list(failures.values()))
            self.trouble = str(nobody)
            if not await backoff.pause(deadline):
                raise nobody

    @staticmethod
    async def _next_ended(
        waiting: deque[Address | None],
        running: dict[asyncio.Future[T], Address | None],
        attempt: Callable[[Address | None, float], Awaitable[T]],
        deadline: float,
    ) -> set[asyncio.Future[T]]:
        """Start one more attempt, and return those that end before it is time for another."""
        if waiting:
            candidate = waiting.popleft()
            running[asyncio.ensure_future(attempt(candidate, deadline))] = candidate
        ended, _ = await asyncio.wait(
            running,
            timeout=STAGGER_SECONDS if waiting else None,  # attempts keep the deadline themselves
            return_when=asyncio.FIRST_COMPLETED,
        )
        return ended

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
