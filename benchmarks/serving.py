"""Start `shareproxy serve` as a process and talk to it with plain sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TypeVar

from shareproxy.protocol.headers import decode_response, encode_request, sized
from shareproxy.protocol.message import Request, Response
from shareproxy.testing.ports import ports_side_by_side

Q = TypeVar("Q", bound=Response)


def installed_environment() -> dict[str, str]:
    """Return the environment in which an installed package runs: its bytecode is kept from the first run on."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class PlainClient:
    """One blocking connection: a request, then its answer."""

    def __init__(self, host: str, port: int, timeout: float = 60.0) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def ask(self, request: Request[Q], version: int) -> Q:
        """Send a request and wait for its answer."""
        frame = self.exchange(encode_request(request, version, self.next_id(), "bench"))
        response: type[Q] = request.response_class  # type: ignore[assignment]
        return decode_response(response, version, frame)[1]

    def next_id(self) -> int:
        """Count up."""
        self._correlation_id += 1
        return self._correlation_id

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the answer's."""
        self._socket.sendall(sized(frame))
        size = int.from_bytes(self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self._socket.recv(min(1 << 20, size - len(chunks)))
            if not chunk:
                raise ConnectionError("the connection was closed in the middle of an answer")
            chunks += chunk
        return bytes(chunks)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@contextlib.contextmanager
def serving(bootstrap_servers: str, *flags: str, nodes: int = 8) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run `shareproxy serve` in front of a cluster; gives the process and its bootstrap port.

    The port is not waited for: `wait_for_port` does that.
    """
    ports = ports_side_by_side(nodes + 1)
    command = [sys.executable, "-m", "shareproxy", "serve", "--bootstrap-server", bootstrap_servers]
    command += ["--listen", f"127.0.0.1:{ports[0]}", "--node-ports", f"{ports[1]}-{ports[-1]}", *flags]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=installed_environment())
        try:
            yield process, ports[0]
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-4000:])
            raise
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_port(port: int, deadline_seconds: float = 30.0) -> None:
    """Return when something accepts connections on the port."""
    deadline = time.monotonic() + deadline_seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
