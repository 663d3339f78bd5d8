"""A broker for the proxy's tests: it answers a few APIs, notes all it gets, and can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self

from shareproxy.cluster.addresses import Address
from shareproxy.protocol.headers import RequestHead, read_request_head
from shareproxy.protocol.ids import NodeId
from tests.proxy.frames import answer, api_versions, metadata, opaque_answer, share_offsets

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds until a test gives up waiting

Reply = Callable[[RequestHead, bytes], bytes | Awaitable[bytes | None] | None]


class FakeBroker:
    """One broker on a free port, between `async with` and its end.

    Args:
        node_id: what it says it is.
        tls: context of its listener, None for plain text.
    """

    def __init__(self, node_id: NodeId, tls: ssl.SSLContext | None = None) -> None:
        self.node_id, self._tls = node_id, tls
        self.address = Address(HOST, 0)
        self.requests: list[bytes] = []
        """Frames as they came, without their size."""
        self.received = bytearray()
        self.connections = 0
        self.ended = 0
        """Connections whose client sent its end."""
        self.reading = asyncio.Event()
        """Cleared: it does not read, as a broker that hangs."""
        self.reading.set()
        self.reply: Reply = self.usual_reply
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before if it was started once."""
        self._server = await asyncio.start_server(self._serve, HOST, self.address.port, ssl=self._tls)
        self.address = Address(HOST, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._server is not None:
            self._server.close()
        self.close_connections()
        self.reading.set()
        await asyncio.sleep(0)

    def close_connections(self) -> None:
        """End every connection, as a broker does with a request it does not accept."""
        for writer in self._writers:
            writer.close()

    def reset_connections(self) -> None:
        """Let all connections end as those of a process that was killed with something unread."""
        for writer in self._writers:
            linger = struct.pack("ii", 1, 0)
            writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    def usual_reply(self, head: RequestHead, frame: bytes) -> bytes | None:
        """Answer as a 4.1 broker of a cluster of one, other APIs with an empty body."""
        match head:
            case (18, version, number):
                return answer(api_versions((0, 0, 13), (3, 0, 13), (90, 0, 0)), version, number)
            case (3, version, number):
                return answer(metadata((self.node_id, *self.address)), version, number)
            case (90, version, number):
                return answer(share_offsets((0, 2, -1)), version, number)
            case (_, _, number):
                return opaque_answer(number, bytes((self.node_id,)))

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that changes when bytes or connections come or go."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._note(connections=1)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while True:
                    await self.reading.wait()
                    size = await reader.readexactly(4)
                    frame = await reader.readexactly(int.from_bytes(size))
                    self.received += size + frame
                    self.requests.append(frame)
                    await self._note()
                    reply = self.reply(read_request_head(frame), frame)
                    if isinstance(reply, Awaitable):
                        reply = await reply
                    if reply is not None:
                        writer.write(reply)
                        await writer.drain()
            finally:
                await self._note(ended=1)
        self._writers.discard(writer)
        writer.close()

    async def _note(self, *, connections: int = 0, ended: int = 0) -> None:
        self.connections += connections
        self.ended += ended
        async with self._changed:
            self._changed.notify_all()


class Client:
    """A client's socket, between `async with` and its end."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address, limit=2**30)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    async def frame(self) -> bytes:
        """Read one answer with its size."""
        async with asyncio.timeout(PATIENCE):
            size = await self.reader.readexactly(4)
            return size + await self.reader.readexactly(int.from_bytes(size))

    async def ask(self, frame: bytes) -> bytes:
        """Send one request and read its answer, sizes included."""
        self.send(frame)
        return await self.frame()

    async def rest(self) -> bytes:
        """Read to the end."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read(-1)
            except ConnectionError:
                return b""


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for something that nobody reports."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


def free_ports(count: int) -> tuple[int, int]:
    """Return the first and last of some ports in a row that were free a moment ago."""
    while True:
        low = random.randrange(20_000, 32_000 - count)
        if all(_is_free(port) for port in range(low, low + count)):
            return low, low + count - 1


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """Hold a port that nobody else can listen on."""
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        yield holder.getsockname()[1]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
