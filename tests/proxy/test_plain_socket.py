"""Sockets without TLS: the same promises as the event loops' own transports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from shareproxy.proxy.plain_socket import READ_BYTES, WRITE_HIGH_BYTES, WRITE_LOW_BYTES, PlainSocket, prepare, reset
from tests.proxy.fake_broker import eventually

MIB = 1024 * 1024


class Receiver(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self, *, stays_after_end: bool = False) -> None:
        self.received: list[bytes] = []
        self.events: list[str] = []
        self.lost: list[Exception | None] = []
        self._stays_after_end = stays_after_end

    def data_received(self, data: bytes) -> None:
        """Note it."""
        self.received.append(data)

    def eof_received(self) -> bool:
        """Note it."""
        self.events.append("end")
        return self._stays_after_end

    def connection_lost(self, error: Exception | None) -> None:
        """Note it."""
        self.lost.append(error)

    def pause_writing(self) -> None:
        """Note it."""
        self.events.append("pause")

    def resume_writing(self) -> None:
        """Note it."""
        self.events.append("resume")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return our end of a TCP connection, not blocking, and the other one, blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        other, _ = listener.accept()
        ours.setblocking(False)
        other.settimeout(10)
        with other:
            yield ours, other


Pair = tuple[socket.socket, socket.socket]


def plain(pair: Pair, receiver: Receiver) -> PlainSocket:
    """Return our end as a transport."""
    return PlainSocket(asyncio.get_running_loop(), pair[0], receiver)


async def read_all(other: socket.socket, size: int) -> bytes:
    """Read from the other end while the loop goes on."""
    got = bytearray()
    other.setblocking(False)
    while len(got) < size:
        got += await asyncio.get_running_loop().sock_recv(other, MIB)
    return bytes(got)


async def test_chunks_come_as_they_are(pair: Pair) -> None:
    """What one send wrote is one chunk, up to the size of a read."""
    receiver = Receiver()
    transport = plain(pair, receiver)

    pair[1].sendall(b"one")
    await eventually(lambda: receiver.received)
    pair[1].sendall(bytes(3 * READ_BYTES))
    await eventually(lambda: sum(map(len, receiver.received)) == 3 + 3 * READ_BYTES)

    assert receiver.received[0] == b"one"
    assert max(map(len, receiver.received)) <= READ_BYTES
    transport.abort()


async def test_another_may_receive(pair: Pair) -> None:
    """Whoever stands behind the protocol gets the chunks without the detour."""
    receiver, direct = Receiver(), list[bytes]()
    transport = plain(pair, receiver)
    transport.receive = direct.append

    pair[1].sendall(b"x")
    await eventually(lambda: direct)

    assert receiver.received == []
    transport.abort()


async def test_nothing_is_read_while_paused(pair: Pair) -> None:
    """Pausing and resuming may be said twice."""
    receiver = Receiver()
    transport = plain(pair, receiver)
    transport.pause_reading()
    transport.pause_reading()
    pair[1].sendall(b"waits")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not transport.is_reading()
    assert receiver.received == []

    transport.resume_reading()
    transport.resume_reading()
    await eventually(lambda: receiver.received)

    assert b"".join(receiver.received) == b"waits"
    transport.abort()


async def test_writing_beyond_what_the_kernel_takes_pauses_the_protocol(pair: Pair) -> None:
    """Order is kept, the marks are honoured, and everything arrives."""
    receiver = Receiver()
    transport = plain(pair, receiver)
    sent = bytearray()
    while "pause" not in receiver.events:
        piece = bytes([len(sent) // MIB % 256]) * MIB
        transport.write(piece)
        sent += piece
    assert transport.get_write_buffer_size() > WRITE_HIGH_BYTES
    assert transport.get_write_buffer_limits() == (WRITE_LOW_BYTES, WRITE_HIGH_BYTES)
    transport.writelines([b"a" * MIB, b"b" * MIB])
    transport.write(b"end")
    sent += b"a" * MIB + b"b" * MIB + b"end"

    assert await read_all(pair[1], len(sent)) == sent
    assert receiver.events == ["pause", "resume"]
    assert transport.get_write_buffer_size() == 0
    transport.abort()


PIECES = ([b"a", b"b"], [b"a" * 40_000, b"b" * 50_000, b"c"], [bytes([number]) for number in range(60)])


@pytest.mark.parametrize("pieces", PIECES)
async def test_pieces_arrive_as_one(pair: Pair, pieces: list[bytes]) -> None:
    """Few large pieces, many small ones: the same bytes."""
    transport = plain(pair, Receiver())

    transport.writelines(pieces)

    assert await read_all(pair[1], len(b"".join(pieces))) == b"".join(pieces)
    transport.abort()


async def test_closing_sends_what_was_written(pair: Pair) -> None:
    """The end comes behind the last byte, and is reported once, in a later turn."""
    receiver = Receiver()
    transport = plain(pair, receiver)
    transport.write(bytes(16 * MIB))
    transport.close()
    transport.close()
    transport.write(b"too late")
    assert transport.is_closing()
    assert receiver.lost == []

    assert len(await read_all(pair[1], 16 * MIB)) == 16 * MIB
    await eventually(lambda: receiver.lost)

    assert pair[1].recv(1) == b""
    assert receiver.lost == [None]
    assert transport.ended
    assert transport.get_extra_info("socket") is None


async def test_abort_drops_what_was_written(pair: Pair) -> None:
    """Nothing is waited for."""
    receiver = Receiver()
    transport = plain(pair, receiver)
    transport.write(bytes(16 * MIB))

    transport.abort()
    assert receiver.lost == []
    await eventually(lambda: receiver.lost)

    assert receiver.lost == [None]
    assert transport.get_write_buffer_size() == 0


async def test_end_of_the_other_side_closes(pair: Pair) -> None:
    """As with any transport whose protocol does not want to go on."""
    receiver = Receiver()
    plain(pair, receiver)

    pair[1].close()
    await eventually(lambda: receiver.lost)

    assert receiver.events == ["end"]
    assert receiver.lost == [None]


async def test_protocol_may_go_on_after_the_end(pair: Pair) -> None:
    """One direction ends, the other does not; then ours ends behind what was written."""
    receiver = Receiver(stays_after_end=True)
    transport = plain(pair, receiver)
    pair[1].shutdown(socket.SHUT_WR)
    await eventually(lambda: receiver.events)

    transport.write(bytes(16 * MIB))
    assert transport.can_write_eof()
    transport.write_eof()
    transport.write(b"too late")

    assert len(await read_all(pair[1], 16 * MIB)) == 16 * MIB
    assert await asyncio.get_running_loop().sock_recv(pair[1], 1) == b""
    assert receiver.lost == []
    transport.abort()


async def test_reset_is_reported_with_its_error(pair: Pair) -> None:
    """By a read, and by a write."""
    receiver = Receiver()
    plain(pair, receiver)

    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    pair[1].close()
    await eventually(lambda: receiver.lost)

    assert isinstance(receiver.lost[0], ConnectionResetError)


async def test_reset_right_behind_data_is_reported(pair: Pair) -> None:
    """Both are there when the loop looks: uvloop's stops watching then."""
    receiver = Receiver()
    pair[1].sendall(b"last words")
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    pair[1].close()

    plain(pair, receiver)
    await eventually(lambda: receiver.lost)

    assert b"".join(receiver.received) == b"last words"
    assert isinstance(receiver.lost[0], ConnectionResetError)


async def test_write_to_a_socket_that_was_reset_is_reported_later(pair: Pair) -> None:
    """Never from within the call that wrote."""
    receiver = Receiver()
    transport = plain(pair, receiver)
    transport.pause_reading()
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    pair[1].close()

    while not transport.ended:
        transport.write(b"x")
        assert receiver.lost == []
    await eventually(lambda: receiver.lost)

    assert isinstance(receiver.lost[0], ConnectionError)


async def test_it_tells_who_is_there(pair: Pair) -> None:
    """The names that the event loops use."""
    transport = plain(pair, Receiver())

    assert transport.get_extra_info("peername") == pair[1].getsockname()
    assert transport.get_extra_info("socket") is pair[0]
    assert transport.get_extra_info("ssl_object", "none") == "none"
    transport.abort()


def test_prepared_sockets_send_at_once_and_notice_dead_peers() -> None:
    """A machine that is gone is noticed in minutes; Linux alone would take two hours."""
    with socket.socket() as one:
        prepare(one)

        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def test_reset_is_seen_by_the_other_side(pair: Pair) -> None:
    """Not as an end."""
    transport = plain(pair, Receiver())

    reset(transport)

    with pytest.raises(ConnectionResetError):
        pair[1].recv(1)
    reset(transport)  # of what is closed already: nothing happens
