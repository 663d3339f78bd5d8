"""Accept TCP connections without TLS on one bound socket.

In: a bound socket, what makes a protocol. Out: connections as `PlainSocket`s. Must never: spin when the process has
no file descriptors left, or keep other work waiting while many clients come at once.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from shareproxy.proxy.plain_socket import PlainSocket, prepare

# Clients that come at the same moment, as after a restart; the kernel caps it at its own limit.
BACKLOG: Final = 1024
# After an accept that failed for want of something: as long as asyncio waits.
PAUSE_SECONDS: Final = 1.0
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# What a socket accepted from another one has of it: all of these on Linux, nothing for certain elsewhere.
_INHERITS: Final = sys.platform.startswith("linux")


class PlainListener:
    """Accepts until it is closed.

    Args:
        bound: non-blocking and bound; this object closes it.
        make_protocol: called for each connection.
    """

    def __init__(self, bound: socket.socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._loop = asyncio.get_running_loop()
        self._bound, self._make_protocol = bound, make_protocol
        self._resume: asyncio.TimerHandle | None = None
        self._accepting = False

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """The socket, nothing when it is closed."""
        return () if self._bound.fileno() < 0 else (self._bound,)

    def start(self) -> None:
        """Listen.

        Raises:
            OSError: somebody else listens there.
        """
        self._bound.setblocking(False)
        prepare(self._bound)
        self._bound.listen(BACKLOG)
        self._go_on()

    def close(self) -> None:
        """Stop; connections stay."""
        if self._resume is not None:
            self._resume.cancel()
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._bound.fileno())
        self._bound.close()

    def _go_on(self) -> None:
        self._resume, self._accepting = None, True
        self._loop.add_reader(self._bound.fileno(), self._accept)

    def _accept(self) -> None:
        # one per turn of the loop: what is open already has its turn in between, and nobody is asked for in vain
        try:
            connected, peer = self._bound.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if error.errno in _SCARCE:
                self._wait(error)
            return  # else an error of that connection's network, which Linux reports here
        connected.setblocking(False)
        if not _INHERITS:
            prepare(connected)
        self._take(connected, peer)

    def _take(self, connected: socket.socket, peer: Any) -> None:
        protocol = self._make_protocol()
        protocol.connection_made(PlainSocket(self._loop, connected, protocol, peer))

    def _wait(self, error: OSError) -> None:
        self._accepting = False
        self._loop.remove_reader(self._bound.fileno())
        self._resume = self._loop.call_later(PAUSE_SECONDS, self._go_on)
        structlog.get_logger().error("no more clients accepted", error=error.strerror, again_seconds=PAUSE_SECONDS)
