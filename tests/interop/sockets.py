"""A process comes in; the addresses that it and its children are connected to go out, as Linux shows them in /proc.

Must never be taken for proof alone: a connection shorter than the time between two looks is not seen.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
LISTEN = "0A"  # state of a socket that has no other end


def remote_addresses(session: int) -> set[tuple[str, int]]:
    """Return the other ends of all TCP connections of the processes of one session.

    Args:
        session: process id of the session's first process.
    """
    found: set[tuple[str, int]] = set()
    for process in _processes(session):
        with contextlib.suppress(OSError):  # it has just ended
            inodes = set(_socket_inodes(process))
            for table in ("tcp", "tcp6"):
                found |= set(_remotes((process / "net" / table).read_text(), inodes))
    return found


def _processes(session: int) -> Iterator[Path]:
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # the program's name may hold spaces and brackets; after it: state, parent, group, session
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                yield process


def _socket_inodes(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                yield target[8:-1]


def _remotes(table: str, inodes: set[str]) -> Iterator[tuple[str, int]]:
    for line in table.splitlines()[1:]:
        columns = line.split()
        remote, state, inode = columns[2], columns[3], columns[9]
        if inode in inodes and state != LISTEN:
            yield _address(remote)


def _address(text: str) -> tuple[str, int]:
    digits, port = text.split(":")
    # words of four bytes, each in the machine's own order, which is little-endian wherever Kafka's clients are tested
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw), int(port, 16)
    mapped = raw[:12] == b"\0" * 10 + b"\xff\xff"
    host = socket.inet_ntop(socket.AF_INET, raw[12:]) if mapped else socket.inet_ntop(socket.AF_INET6, raw)
    return host, int(port, 16)
