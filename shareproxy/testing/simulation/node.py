"""One node: a listening socket on 127.0.0.1 and its connections.

In: start, stop, freeze, thaw. Out: nothing; its connections answer. Must never: change its port once it has one.
"""

from __future__ import annotations

import asyncio
import socket

from shareproxy.testing.simulation.cluster_state import Broker, ClusterState
from shareproxy.testing.simulation.connection import NodeConnection, Outgoing
from shareproxy.testing.simulation.record_of_requests import RequestRecord

HOST = "127.0.0.1"
BACKLOG = 1024


class Node:
    """One node of a simulated cluster; its methods belong to the event loop that serves the cluster."""

    def __init__(self, state: ClusterState, broker: Broker, requests: RequestRecord) -> None:
        self.state, self.broker, self.requests = state, broker, requests
        self.connections: set[NodeConnection] = set()
        self.held_back: list[tuple[NodeConnection, Outgoing]] = []
        self._socket: socket.socket | None = None
        self._arriving: set[asyncio.Task[object]] = set()
        self._one_less = asyncio.Event()

    def listen(self) -> None:
        """Listen, on a free port or on the one it had before."""
        if self._socket is not None:
            return
        self._socket = listening = socket.create_server((HOST, self.broker.port), backlog=BACKLOG)
        listening.setblocking(False)
        self.broker.host, self.broker.port = HOST, listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        self.drop_connections()

    async def closed(self) -> None:
        """Return when the last connection is gone."""
        while self._arriving:
            await asyncio.wait(self._arriving)
        while self.connections:
            await self._one_less.wait()
            self._one_less.clear()

    @property
    def listens(self) -> bool:
        """Whether it takes connections."""
        return self._socket is not None

    def drop_connections(self) -> None:
        """Cut all connections."""
        for connection in list(self.connections):
            connection.drop()

    def left(self, connection: NodeConnection) -> None:
        """Take note of a connection's end."""
        self.connections.discard(connection)
        self._one_less.set()

    def thawed(self) -> None:
        """Go on with what waits."""
        held, self.held_back = self.held_back, []
        for connection, outgoing in held:
            connection.send_held_back(outgoing)
        for connection in list(self.connections):
            connection.go_on()

    def _accept(self, listening: socket.socket) -> None:
        try:
            client, _ = listening.accept()
        except OSError:  # the client has given up already
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: NodeConnection(self), client))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
