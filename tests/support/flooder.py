"""A process that opens thousands of plain connections to one port and holds them.

In: the port, how many, how many of them ask something. Out: counts, whenever it is asked. Must never: use up the local
ports of one address: each thousand of connections comes from another address of 127.0.0.0/8.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from tests.support.waiting import wait_until

HOST: Final = "127.0.0.1"
# files of the process itself
OWN_DESCRIPTORS: Final = 50
# ports, log and own connections of a proxy, and the clients of the real work
PROXY_DESCRIPTORS: Final = 300
PER_ADDRESS: Final = 1_000
# connection attempts under way at a time: fewer than a listener's queue holds
AT_ONCE: Final = 200
SETTLE_SECONDS: Final = 120.0
_BIND_WITHOUT_PORT: Final = 24  # IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect
# ApiVersions v0, correlation id 1, no client id
QUESTION: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
GARBAGE: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@dataclass(frozen=True)
class Flooded:
    """What became of the connections.

    Attributes:
        connected: accepted and not closed by the other side.
        answered: of those that asked, how many got an answer.
        ended: refused, reset or closed by the other side.
        waiting: attempts that are still under way or not begun.
    """

    connected: int
    answered: int
    ended: int
    waiting: int


def most_connections() -> int:
    """Return how many connections one process may have here."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OWN_DESCRIPTORS


def most_clients() -> int:
    """Return how many clients a proxy may have here: each takes two descriptors, and it keeps some for itself."""
    return (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - PROXY_DESCRIPTORS) // 2


class Flooder:
    """Such a process, for as long as a `with` block lasts.

    Args:
        port: where to.
        count: connections.
        asking: how many of them ask for the list of APIs and wait; the others are silent.
        garbage: how many of the silent ones send something that is no request.
    """

    def __init__(self, port: int, count: int, *, asking: int = 0, garbage: int = 0) -> None:
        self._arguments = [str(number) for number in (port, count, asking, garbage)]

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.flooder", *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def count(self) -> Flooded:
        """Return the counts of this moment."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Flooded(**json.loads(self._process.stdout.readline()))

    def wait_until_settled(self, *, answers: int = 0) -> Flooded:
        """Return the counts once each attempt has been accepted or refused, and so many were answered."""

        counts: list[Flooded] = []

        def settled() -> bool:
            counts.append(self.count())
            return not counts[-1].waiting and counts[-1].answered >= answers

        try:
            wait_until(settled, "the flood has come in", SETTLE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {counts[-1]}") from None
        return counts[-1]


class _Crowd:
    def __init__(self, port: int, count: int, asking: int, garbage: int) -> None:
        self._port, self._count, self._asking, self._garbage = port, count, asking, garbage
        self._poll = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self._number: dict[int, int] = {}
        self._connecting: set[int] = set()
        self.begun = self.answered = self.ended = 0

    def connect_some(self) -> None:
        while self.begun < self._count and len(self._connecting) < AT_ONCE:
            client = socket.socket()
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_IP, _BIND_WITHOUT_PORT, 1)
            client.bind((f"127.0.1.{1 + self.begun // PER_ADDRESS}", 0))
            client.connect_ex((HOST, self._port))
            number = client.fileno()
            self._open[number], self._number[number] = client, self.begun
            self._connecting.add(number)
            self._poll.register(number, select.EPOLLOUT | select.EPOLLIN | select.EPOLLRDHUP)
            self.begun += 1

    def serve(self, seconds: float) -> None:
        for number, events in self._poll.poll(seconds, 512):
            client = self._open[number]
            if number in self._connecting:
                self._connecting.discard(number)
                self._connected(number, client)
            elif events & select.EPOLLIN:
                self._received(number, client)
            else:
                self._end(number)

    def counts(self) -> dict[str, int]:
        waiting = self._count - self.begun + len(self._connecting)
        connected = len(self._open) - len(self._connecting)
        return {"connected": connected, "answered": self.answered, "ended": self.ended, "waiting": waiting}

    def _connected(self, number: int, client: socket.socket) -> None:
        mine = self._number[number]
        try:
            if mine < self._asking:
                client.send(QUESTION)
            elif mine < self._asking + self._garbage:
                client.send(GARBAGE)
            elif client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise ConnectionError
        except OSError:
            self._end(number)
        else:
            self._poll.modify(number, select.EPOLLIN | select.EPOLLRDHUP)

    def _received(self, number: int, client: socket.socket) -> None:
        try:
            data = client.recv(65_536)
        except OSError:
            data = b""
        if data:
            self.answered += 1
        else:
            self._end(number)

    def _end(self, number: int) -> None:
        self._poll.unregister(number)
        self._open.pop(number).close()
        self._connecting.discard(number)
        self.ended += 1


def main() -> None:
    """Connect, and print the counts for each line that comes, until no more come."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = _Crowd(*map(int, sys.argv[1:]))
    lines = select.poll()
    lines.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while True:
        crowd.connect_some()
        crowd.serve(0.05)
        while lines.poll(0):
            if not sys.stdin.readline():
                return
            print(json.dumps(crowd.counts()), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
