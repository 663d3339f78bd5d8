"""A TCP relay that does to a connection what networks do: delay, stall, slow down, cut, half-close, crumble, swallow.

In: an address to relay to, and faults that are switched on and off while it runs. Out: an address to connect to.
Must never: change, lose or reorder bytes that it passes, unless a fault says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable, Collection, Coroutine, Iterator
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from shareproxy.testing.lifetime import START_SECONDS, Lifetime

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65_536
# a throttled direction passes this many pieces a second, or single bytes if that is more than its share
PIECES_PER_SECOND: Final = 20
# connections that wait for a listener that never accepts: one more than its queue holds, and every further one hangs
WAITING_CONNECTIONS: Final = 3
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

T = TypeVar("T")


class Way(StrEnum):
    """A direction through the relay."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"


BOTH: Final = (Way.TO_SERVER, Way.TO_CLIENT)


class _Faults:
    """What happens to the bytes of one direction, on all connections."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.rate: float | None = None
        self.swallows = False
        self.cut_after: int | None = None
        self.pieces: Callable[[bytes], Iterator[bytes]] | None = None
        self.open = asyncio.Event()
        self.open.set()


class FaultyRelay(Lifetime):
    """A relay in front of one address, for as long as a `with` or an `async with` block lasts.

    With `async with` it runs in the running event loop; with `with` in a thread of its own, for blocking clients.
    All methods may be called from any thread. Faults hold for connections that are open and for those to come, until
    `mend`; `way` is the direction they are for, both if it is not given.

    Args:
        host, port: where to relay to.
        listen_port: port on 127.0.0.1, 0 for any free one.

    Attributes:
        accepted: number of connections so far.
        passed: bytes passed on so far, by direction.
    """

    def __init__(self, host: str, port: int, *, listen_port: int = 0) -> None:
        self._target, self._listen_port = (host, port), listen_port
        self.accepted = 0
        self.passed = dict.fromkeys(BOTH, 0)
        self._faults: dict[Way, _Faults] = {}
        self._lines: set[_Line] = set()
        self._server: asyncio.Server | None = None
        self._deaf: list[socket.socket] = []

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._faults = {way: _Faults() for way in BOTH}
        await self._listen()
        return self

    async def stop(self) -> None:
        """Stop listening and reset all connections."""
        await self._stop_listening()
        for line in list(self._lines):
            line.end(reset=True)
        await asyncio.gather(*(line.task for line in list(self._lines)), return_exceptions=True)

    @property
    def address(self) -> str:
        """Where to connect, "127.0.0.1:port"; the same after `refuse`, `ignore` and `listen`."""
        return f"{HOST}:{self._listen_port}"

    @property
    def port(self) -> int:
        """The port to connect to."""
        return self._listen_port

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._lines)

    # -- faults -------------------------------------------------------------------------------------------------------

    def delay(self, seconds: float, way: Way | None = None) -> None:
        """Hold every chunk back for some time; order is kept."""
        self._set(way, "delay", seconds)

    def throttle(self, bytes_per_second: float, way: Way | None = None) -> None:
        """Pass on at most so many bytes a second on each connection; what is more waits, and buffers fill up."""
        self._set(way, "rate", bytes_per_second)

    def stall(self, way: Way | None = None) -> None:
        """Read nothing more and pass nothing on, so that buffers fill up; `mend` lets everything go on."""
        self._each(_ways(way), lambda each: self._faults[each].open.clear())

    def swallow(self, way: Way | None = None) -> None:
        """Read everything and pass nothing on: a black hole."""
        self._set(way, "swallows", True)

    def crumble(self, size: int = 1, way: Way | None = None) -> None:
        """Pass bytes on in pieces of a fixed size, each in a write of its own."""

        def pieces(data: bytes) -> Iterator[bytes]:
            return (data[start : start + size] for start in range(0, len(data), size))

        self._set(way, "pieces", pieces)

    def shuffle_boundaries(self, seed: int, largest: int = 5_000, way: Way | None = None) -> None:
        """Pass bytes on in pieces of random sizes, the same for the same seed and chunks."""
        source = random.Random(seed)

        def pieces(data: bytes) -> Iterator[bytes]:
            position = 0
            while position < len(data):
                stop = position + source.randint(1, largest)
                yield data[position:stop]
                position = stop

        self._set(way, "pieces", pieces)

    def cut_after(self, count: int, way: Way) -> None:
        """Reset a connection once that many more bytes went that way; counted over all connections, once."""
        self._set(way, "cut_after", count)

    def cut(self, *, reset: bool = True) -> None:
        """End all open connections now, by a reset or in order."""
        self._each(self._lines, lambda line: line.end(reset=reset))

    def half_close(self, way: Way) -> None:
        """End one direction of all open connections, as a side that has nothing more to say; the other goes on."""
        self._each(self._lines, lambda line: line.half_close(way))

    def refuse(self) -> None:
        """Stop listening; open connections stay."""
        self._run(self._stop_listening())

    def ignore(self) -> None:
        """Take no more connections and refuse none: attempts hang, as at a firewall that drops packets. Linux only."""
        self._run(self.ignore_async())

    def listen(self) -> None:
        """Listen again after `refuse` or `ignore`, on the same port."""
        self._run(self._listen())

    def mend(self) -> None:
        """Switch all faults off but `refuse` and `ignore`."""

        def all_off(way: Way) -> None:
            faults = self._faults[way]
            faults.delay, faults.rate = 0.0, None
            faults.swallows, faults.cut_after, faults.pieces = False, None, None
            faults.open.set()

        self._each(BOTH, all_off)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _set(self, way: Way | None, name: str, value: object) -> None:
        self._each(_ways(way), lambda each: setattr(self._faults[each], name, value))

    def _each(self, things: Collection[T], work: Callable[[T], None]) -> None:
        """Do something to each of these, in the loop that the relay runs in."""

        async def run() -> None:
            for thing in list(things):
                work(thing)

        if self._inside():
            for thing in list(things):
                work(thing)
        else:
            self._run(run())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None, "the relay is not running"
        if self._inside():
            work.close()
            raise RuntimeError("refuse, ignore and listen block: call them from another thread, or use the _async ones")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def refuse_async(self) -> None:
        """Do as `refuse`, from the loop that the relay runs in."""
        await self._stop_listening()

    async def ignore_async(self) -> None:
        """Do as `ignore`, from the loop that the relay runs in."""
        await self._stop_listening()
        self._deaf = _deaf_listener(self._listen_port)

    async def listen_async(self) -> None:
        """Do as `listen`, from the loop that the relay runs in."""
        await self._listen()

    async def _listen(self) -> None:
        self._hear()
        self._server = await asyncio.start_server(self._accept, HOST, self._listen_port)
        self._listen_port = self._server.sockets[0].getsockname()[1]

    def _hear(self) -> None:
        for held in self._deaf:
            held.close()
        self._deaf = []

    async def _stop_listening(self) -> None:
        self._hear()
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        line = _Line(self, task, writer)
        self._lines.add(line)
        try:
            await line.run(reader, *self._target)
        finally:
            self._lines.discard(line)


class _Line:
    """One connection through the relay."""

    def __init__(self, relay: FaultyRelay, task: asyncio.Task[None], client: asyncio.StreamWriter) -> None:
        self.task = task
        self._relay, self._client = relay, client
        self._writers: dict[Way, asyncio.StreamWriter] = {Way.TO_CLIENT: client}
        self._pumps: dict[Way, asyncio.Task[None]] = {}
        self._ended = False

    async def run(self, client: asyncio.StreamReader, host: str, port: int) -> None:
        """Relay until both directions have ended."""
        try:
            server, self._writers[Way.TO_SERVER] = await asyncio.open_connection(host, port)
        except OSError:
            self.end(reset=True)  # as the server does
            return
        if self._ended:
            self.end(reset=True)
            return
        self._pumps = {
            Way.TO_SERVER: asyncio.ensure_future(self._pump(Way.TO_SERVER, client)),
            Way.TO_CLIENT: asyncio.ensure_future(self._pump(Way.TO_CLIENT, server)),
        }
        try:
            await asyncio.gather(*self._pumps.values(), return_exceptions=True)
        finally:
            for pump in self._pumps.values():
                pump.cancel()
            self.end(reset=False)

    def end(self, *, reset: bool) -> None:
        """Close both sockets."""
        self._ended = True
        for pump in self._pumps.values():
            pump.cancel()
        for writer in self._writers.values():
            if reset:
                raw = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                writer.transport.abort()
            else:
                writer.close()

    def half_close(self, way: Way) -> None:
        """End one direction."""
        pump, writer = self._pumps.get(way), self._writers.get(way)
        if pump is not None and writer is not None:
            pump.cancel()
            with contextlib.suppress(OSError):
                writer.write_eof()

    async def _pump(self, way: Way, reader: asyncio.StreamReader) -> None:
        faults, writer = self._relay._faults[way], self._writers[way]
        try:
            while True:
                await faults.open.wait()
                data = await reader.read(CHUNK_BYTES)
                if faults.delay:
                    await asyncio.sleep(faults.delay)
                await faults.open.wait()
                if not data:
                    writer.write_eof()
                    return
                for piece in faults.pieces(data) if faults.pieces else (data,):
                    if not faults.swallows:
                        await self._pass(way, faults, writer, piece)
        except OSError:
            self.end(reset=True)  # the end of one side by force is the end of both

    async def _pass(self, way: Way, faults: _Faults, writer: asyncio.StreamWriter, piece: bytes) -> None:
        while piece and (rate := faults.rate) is not None:
            size = max(1, int(rate / PIECES_PER_SECOND))
            await self._pass_now(way, faults, writer, piece[:size])
            piece = piece[size:]
            await asyncio.sleep(size / rate)
        if piece:
            await self._pass_now(way, faults, writer, piece)

    async def _pass_now(self, way: Way, faults: _Faults, writer: asyncio.StreamWriter, piece: bytes) -> None:
        cut = faults.cut_after
        if cut is not None:
            piece = piece[:cut]
            faults.cut_after = cut - len(piece)
        if piece:
            writer.write(piece)
            await writer.drain()
            self._relay.passed[way] += len(piece)
        if cut is not None and faults.cut_after == 0:
            faults.cut_after = None
            self.end(reset=True)
            raise ConnectionResetError("cut")
        if faults.pieces is not None:
            await asyncio.sleep(0)  # let each piece leave by itself


def _deaf_listener(port: int) -> list[socket.socket]:
    """Listen and never accept, with a full queue: Linux then drops further attempts to connect."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(0)
    held = [listener]
    for _ in range(WAITING_CONNECTIONS):
        waiting = socket.socket()
        waiting.setblocking(False)
        waiting.connect_ex((HOST, port))
        held.append(waiting)
    return held


def _ways(way: Way | None) -> tuple[Way, ...]:
    return BOTH if way is None else (way,)
