"""Bytes for a broker come in; what came back, frame by frame, goes out, and whether the connection stayed open.

For tests that compare what a broker says with what comes through a proxy. Must never add a byte that was not asked for.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from shareproxy.protocol.headers import encode_request, sized
from shareproxy.protocol.message import Request

SECONDS = 20.0
PROBE_ID = 0x50524F42
# ApiVersions v0 is answered at any time, also before a login
PROBE = struct.pack(">ihhih", 10, 18, 0, PROBE_ID, -1)


class Heard(NamedTuple):
    """What a broker said.

    Attributes:
        frames: the answers in order, each without its size.
        open: whether it still answered requests afterwards.
    """

    frames: tuple[bytes, ...]
    open: bool


class RawConnection:
    """A connection on which a test says each byte itself.

    Args:
        address: "host:port".
        tls: context for TLS, with the server name to ask for.
    """

    def __init__(self, address: str, tls: tuple[ssl.SSLContext, str] | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS)
        if tls is not None:
            self._socket = tls[0].wrap_socket(self._socket, server_hostname=tls[1])
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes; a connection that the other side closed takes them silently."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self._socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more comes; answers are still read."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def frame(self) -> bytes | None:
        """Return the next answer without its size, None at the end of the connection."""
        try:
            size = self._answers.read(4)
            if len(size) < 4:
                return None
            return self._answers.read(int.from_bytes(size))
        except (ConnectionError, ssl.SSLError):
            return None

    def ask(self, data: bytes) -> bytes | None:
        """Send one request and return its answer."""
        self.send(data)
        return self.frame()

    def rest(self) -> Heard:
        """Return all answers that are on their way; asks whether the connection is open behind them."""
        self.send(PROBE)
        return self.until_end()

    def until_end(self) -> Heard:
        """Return all answers until the other side closes, without a word."""
        frames: list[bytes] = []
        while (frame := self.frame()) is not None:
            if frame[:4] == PROBE[8:12]:
                return Heard(tuple(frames), open=True)
            frames.append(frame)
        return Heard(tuple(frames), open=False)


def hear(address: str, data: bytes, *, closes: bool = False, end: bool = False) -> Heard:
    """Send bytes on a new connection and return what came back.

    Args:
        address: "host:port".
        data: requests with their sizes, or anything else.
        closes: the other side is expected to close: asking whether it is open could lose its last answers.
        end: say that nothing more comes.
    """
    with RawConnection(address) as connection:
        connection.send(data)
        if end:
            connection.end()
        return connection.until_end() if closes or end else connection.rest()


def request(message: Request[Any], version: int, correlation_id: int = 1, client_id: str | None = "exact") -> bytes:
    """Return a request with its size."""
    return sized(encode_request(message, version, correlation_id, client_id))


def head(api_key: int, version: int, body: bytes = b"", correlation_id: int = 1) -> bytes:
    """Return a request of any API and version, client id null, with its size."""
    return sized(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)
