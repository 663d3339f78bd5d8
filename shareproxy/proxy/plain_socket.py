"""Move the bytes of one TCP connection without TLS: asyncio's transport interface, with less in between.

In: readiness of a non-blocking socket, bytes to send. Out: chunks for a protocol as they come from the kernel, each
sent on at once if the kernel takes it. Must never: copy a chunk, call the protocol from within its own write, or
close a file number that the event loop still watches.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

# What one read takes at most: half of a second-level cache, so that what is read is sent on from there.
READ_BYTES: Final = 256 * 1024
# Unsent bytes at which the protocol is told to pause, and at which it may go on. What the kernel holds comes on top,
# so that a fast connection never runs dry; this is the most that one connection can hold here.
WRITE_HIGH_BYTES: Final = 512 * 1024
WRITE_LOW_BYTES: Final = 128 * 1024
# Pieces that one system call takes: the least that POSIX promises is 16, Linux has 1,024.
_PIECES: Final = 16
# Pieces below this are cheaper to join than to hand over one by one.
_JOINED_BYTES: Final = 16 * 1024
# A peer whose machine is gone never says so: it is asked after a minute of silence, and given up a minute later.
_ALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _ALIVE if hasattr(socket, name)),
)

AVAILABLE: Final = sys.platform != "win32"
"""Whether the event loops here have `add_reader`; Windows' proactor has not."""

if sys.platform.startswith("linux"):
    # The C library gives blocks of the size of a chunk back to the kernel with each chunk, and gets them again page by
    # page, until it has seen a larger one come and go: a third of the time of a large Fetch. One that nobody touches.
    bytes(4 * 1024 * 1024)


def prepare(one: socket.socket) -> None:
    """Let a socket send small frames at once and find out when the other side's machine is gone."""
    set_option = one.setsockopt
    for level, option, value in _OPTIONS:
        set_option(level, option, value)


def reset(transport: asyncio.Transport) -> None:
    """Close now, so that the other side sees a reset instead of an end."""
    connected = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class PlainSocket(asyncio.Transport):
    """A connected socket.

    Reading begins at once. Like the event loops' own transports it reports the end of the connection once, in a later
    turn of the loop, and what was written before `close` is still sent.

    Args:
        loop: has `add_reader`.
        connected: non-blocking; this object closes it.
        protocol: told what comes.
        peer: the other side, as `accept` returns it; None to ask for it when somebody wants to know.
    """

    __slots__ = (
        "_closing",
        "_ended",
        "_fault",
        "_fd",
        "_looks_for_errors",
        "_loop",
        "_paused",
        "_peer",
        "_protocol",
        "_reading",
        "_socket",
        "_unsent",
        "_unsent_bytes",
        "receive",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        protocol: asyncio.Protocol,
        peer: Any = None,
    ) -> None:
        self._loop, self._protocol, self._peer = loop, protocol, peer
        self._socket: socket.socket | None = connected
        self._fd = connected.fileno()
        self._unsent: deque[memoryview] | None = None  # made when the kernel takes no more: most connections never do
        self._unsent_bytes = 0
        self._fault: OSError | None = None
        self._looks_for_errors = type(loop).__module__.startswith("uvloop")
        self._closing = self._ended = self._paused = False
        self._reading = True
        self.receive: Callable[[bytes], None] = protocol.data_received
        """Called with each chunk; whoever stands behind the protocol may put itself here."""
        loop.add_reader(self._fd, self._read)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if data:
            self.receive(data)
            if self._looks_for_errors and self._reading:
                self._look_for_error()
            return
        if self._fault is not None:
            self._lose(self._fault)
            return
        self.pause_reading()
        if not self._protocol.eof_received():
            self.close()

    def _look_for_error(self) -> None:
        """Watch a socket anew that was reset behind its last data: libuv then stops watching it, and would say no more.

        Asking for the error takes it away, so that the next read finds an ordinary end.
        """
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fault = OSError(code, os.strerror(code))
            self._loop.remove_reader(self._fd)
            self._loop.add_reader(self._fd, self._read)

    def pause_reading(self) -> None:
        """Take nothing from the kernel until `resume_reading`."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Go on reading."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._fd, self._read)

    def is_reading(self) -> bool:
        """Tell whether chunks may come."""
        return self._reading

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes now, or keep them until the kernel takes them; after `close` or `write_eof` they are dropped."""
        if self._socket is None or self._ended or self._closing:
            return
        if self._unsent is not None:
            self._keep(data)
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose(error)
            return
        if sent != len(data):
            self._keep(memoryview(data)[sent:])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send pieces in order, as by one `write`."""
        pieces = list(list_of_data)
        if len(pieces) > _PIECES or sum(map(len, pieces)) <= _JOINED_BYTES:
            self.write(b"".join(pieces))
            return
        if self._socket is None or self._ended or self._closing:
            return
        sent = 0
        if self._unsent is None:
            try:
                sent = self._socket.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._lose(error)
                return
        for piece in pieces:
            if sent < len(piece):
                self._keep(memoryview(piece)[sent:])
            sent = max(sent - len(piece), 0)

    def _keep(self, data: bytes | bytearray | memoryview) -> None:
        if self._unsent is None:
            self._unsent = deque()
            self._loop.add_writer(self._fd, self._flush)
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)
        if not self._paused and self._unsent_bytes > WRITE_HIGH_BYTES:
            self._paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        assert self._socket is not None
        assert self._unsent is not None
        unsent = self._unsent
        try:
            while unsent:
                sent = self._socket.send(unsent[0])
                self._unsent_bytes -= sent
                if sent < len(unsent[0]):
                    unsent[0] = unsent[0][sent:]
                    break
                unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._lose(error)
            return
        if not unsent:
            self._unsent = None
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._end(None)
                return
            if self._ended:
                self._shut()
        if self._paused and self._unsent_bytes <= WRITE_LOW_BYTES:
            self._paused = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the kernel has not taken yet."""
        return self._unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high mark."""
        return WRITE_LOW_BYTES, WRITE_HIGH_BYTES

    def can_write_eof(self) -> bool:
        """Say yes: one direction can end before the other."""
        return True

    def write_eof(self) -> None:
        """End what is sent, behind what was written before."""
        if not self._ended and self._socket is not None:
            self._ended = True
            if self._unsent is None:
                self._shut()

    def _shut(self) -> None:
        assert self._socket is not None
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._lose(error)

    # -- ending -------------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the socket is closed; `connection_lost` may still be to come."""
        return self._socket is None

    def is_closing(self) -> bool:
        """Tell whether the connection is closed or on its way there."""
        return self._closing

    def close(self) -> None:
        """Close when everything written is sent."""
        if not self._closing:
            self._closing = True
            self.pause_reading()
            if self._unsent is None:
                self._end(None)

    def abort(self) -> None:
        """Close now, whatever is unsent."""
        self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        if self._unsent is not None:
            self._unsent, self._unsent_bytes = None, 0
            self._loop.remove_writer(self._fd)
        self._end(error)

    def _end(self, error: OSError | None) -> None:
        ended = self._socket
        if ended is None:
            return
        self._closing, self._socket = True, None
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)
        ended.close()
        self._loop.call_soon(self._protocol.connection_lost, error)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `socket` or `peername`, as the event loops' transports do."""
        if self._socket is None:
            return default
        if name == "socket":
            return self._socket
        if name == "peername":
            if self._peer is not None:
                return self._peer
            try:
                return self._socket.getpeername()
            except OSError:  # it has ended already
                return default
        return default
