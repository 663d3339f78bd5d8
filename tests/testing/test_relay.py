"""The fault-injecting relay."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from shareproxy.testing.relay import FaultyRelay, Way

pytestmark = pytest.mark.timeout(60)


class Echo:
    """A server that sends back what it gets, in upper case."""

    def __init__(self) -> None:
        self.received, self.ends = bytearray(), 0
        self.writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Echo:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.close()

    @property
    def port(self) -> int:
        """Return its port."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while data := await reader.read(65_536):
                self.received += data
                writer.write(data.upper())
        except ConnectionError:
            pass
        self.ends += 1


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    """A server behind the relay."""
    async with Echo() as echo:
        yield echo


@pytest.fixture
async def relay(echo: Echo) -> AsyncIterator[FaultyRelay]:
    """A relay in front of it."""
    async with FaultyRelay("127.0.0.1", echo.port) as relay:
        yield relay


async def connect(relay: FaultyRelay) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect through the relay."""
    return await asyncio.open_connection("127.0.0.1", relay.port)


async def until(condition: object) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(20):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def test_bytes_pass_both_ways(relay: FaultyRelay) -> None:
    """Without faults it is a relay, and it counts."""
    reader, writer = await connect(relay)
    writer.write(b"hello")

    assert await reader.readexactly(5) == b"HELLO"
    assert (relay.accepted, relay.connections) == (1, 1)
    assert relay.passed == {Way.TO_SERVER: 5, Way.TO_CLIENT: 5}
    writer.close()


async def test_end_of_the_client_reaches_the_server(relay: FaultyRelay, echo: Echo) -> None:
    """And what the server still says reaches the client."""
    reader, writer = await connect(relay)
    writer.write(b"last words")
    writer.write_eof()

    assert await reader.readexactly(10) == b"LAST WORDS"
    await until(lambda: echo.ends == 1)
    writer.close()


async def test_delay_holds_chunks_back(relay: FaultyRelay) -> None:
    """They come in order, later."""
    relay.delay(0.05, Way.TO_CLIENT)
    reader, writer = await connect(relay)
    loop = asyncio.get_running_loop()
    started = loop.time()
    writer.write(b"a")

    assert await reader.readexactly(1) == b"A"
    assert loop.time() - started >= 0.04
    writer.close()


async def test_throttle_lets_so_many_bytes_pass_a_second(relay: FaultyRelay) -> None:
    """Never more than the time that went by allows; `mend` lets the rest go at once."""
    relay.throttle(1_000, Way.TO_CLIENT)
    reader, writer = await connect(relay)
    loop = asyncio.get_running_loop()
    started = loop.time()
    writer.write(b"x" * 50_000)

    await reader.readexactly(200)

    assert loop.time() - started >= 0.1
    assert relay.passed[Way.TO_CLIENT] <= 50 + 1_000 * (loop.time() - started)
    relay.mend()
    await reader.readexactly(49_800)
    writer.close()


async def test_stall_stops_one_way_until_it_is_mended(relay: FaultyRelay, echo: Echo) -> None:
    """The server gets the question, the client waits for the answer."""
    reader, writer = await connect(relay)
    relay.stall(Way.TO_CLIENT)
    writer.write(b"q")
    await until(lambda: echo.received == b"q")
    assert relay.passed[Way.TO_CLIENT] == 0

    relay.mend()

    assert await reader.readexactly(1) == b"Q"
    writer.close()


async def test_swallow_takes_everything(relay: FaultyRelay, echo: Echo) -> None:
    """All of it is read, and nothing but the end arrives."""
    _, writer = await connect(relay)
    relay.swallow(Way.TO_SERVER)
    writer.write(b"x" * 1_000_000)
    writer.write_eof()

    await until(lambda: echo.ends == 1)

    assert echo.received == b""
    assert relay.passed[Way.TO_SERVER] == 0
    writer.close()


async def test_crumbled_bytes_are_the_same(relay: FaultyRelay) -> None:
    """One write for each, nothing lost."""
    relay.crumble(1)
    reader, writer = await connect(relay)
    sent = b"abcdefgh" * 50
    writer.write(sent)

    assert await reader.readexactly(len(sent)) == sent.upper()
    writer.close()


async def test_boundaries_are_shuffled_and_nothing_else(relay: FaultyRelay) -> None:
    """Pieces of random sizes add up to what was sent."""
    relay.shuffle_boundaries(seed=7, largest=50)
    reader, writer = await connect(relay)
    sent = bytes(range(97, 123)) * 500
    writer.write(sent)

    assert await reader.readexactly(len(sent)) == sent.upper()
    writer.close()


async def test_cut_after_some_bytes(relay: FaultyRelay, echo: Echo) -> None:
    """Exactly that many arrive, then the client is reset; the next connection works."""
    relay.cut_after(3, Way.TO_SERVER)
    reader, writer = await connect(relay)
    writer.write(b"abcdef")

    with pytest.raises(ConnectionError):
        await reader.readexactly(100)
    await until(lambda: echo.ends == 1)
    assert echo.received == b"abc"
    reader, second = await connect(relay)
    second.write(b"z")
    assert await reader.readexactly(1) == b"Z"
    writer.close()
    second.close()


@pytest.mark.parametrize("reset", [True, False])
async def test_cut_ends_open_connections(relay: FaultyRelay, reset: bool) -> None:
    """By force, or in order."""
    reader, writer = await connect(relay)
    writer.write(b"a")
    await reader.readexactly(1)

    relay.cut(reset=reset)

    if reset:
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
    else:
        assert await reader.read() == b""
    await until(lambda: relay.connections == 0)
    writer.close()


async def test_half_close_leaves_the_other_way_open(relay: FaultyRelay, echo: Echo) -> None:
    """The client sees the end of the answers; its requests still pass."""
    reader, writer = await connect(relay)
    writer.write(b"a")
    await reader.readexactly(1)

    relay.half_close(Way.TO_CLIENT)

    assert await reader.read() == b""
    writer.write(b"b")
    await until(lambda: echo.received == b"ab")
    writer.close()


async def test_refused_port_comes_back(relay: FaultyRelay) -> None:
    """Nobody listens for a while; then the same port works again."""
    await relay.refuse_async()
    with pytest.raises(ConnectionRefusedError):
        await connect(relay)

    await relay.listen_async()

    _, writer = await connect(relay)
    writer.close()


async def test_ignored_attempts_hang_until_it_listens(relay: FaultyRelay) -> None:
    """Neither refused nor accepted: the attempt is given up by who made it."""
    await relay.ignore_async()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await connect(relay)

    await relay.listen_async()
    reader, writer = await connect(relay)
    writer.write(b"a")
    assert await reader.readexactly(1) == b"A"
    writer.close()


async def test_server_that_is_down_resets() -> None:
    """The client learns it at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with FaultyRelay("127.0.0.1", port) as relay:
        reader, writer = await connect(relay)
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        writer.close()


async def test_blocking_clients_use_it_in_a_thread(echo: Echo) -> None:
    """`with` gives it a thread; faults are switched from outside."""

    def talk() -> tuple[bytes, str]:
        with FaultyRelay("127.0.0.1", echo.port) as relay:
            with socket.create_connection(("127.0.0.1", relay.port), 10) as client:
                client.sendall(b"hi")
                answer = client.recv(2)
            relay.crumble(2)
            relay.refuse()
            try:
                socket.create_connection(("127.0.0.1", relay.port), 10).close()
            except ConnectionRefusedError:
                refused = "refused"
            relay.listen()
            socket.create_connection(("127.0.0.1", relay.port), 10).close()
            return answer, refused

    assert await asyncio.to_thread(talk) == (b"HI", "refused")


async def test_blocking_calls_are_refused_inside_the_loop(relay: FaultyRelay) -> None:
    """They would wait for themselves."""
    with pytest.raises(RuntimeError, match="_async"):
        relay.refuse()
