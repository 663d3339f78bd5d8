"""Tell the service manager how we are: sd_notify's datagrams, as systemd.service(5) and sd_notify(3) describe them.

In: words about our state. Out: datagrams to the socket that systemd named, if it named one. Must never: hold the
process up, or hand the socket on to a child.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLES: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")


class Systemd:
    """The service manager that started us; without one, nothing is told to anybody.

    Args:
        environment: where systemd named its socket; its variables are taken out, since they are for us alone.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        named = environment.pop(SOCKET_VARIABLE, "")
        usec, pid = (environment.pop(name, "") for name in WATCHDOG_VARIABLES)
        # a leading @ stands for the zero byte of an abstract address
        self._address = "\0" + named[1:] if named.startswith("@") else named
        self._socket = None
        if named.startswith(("/", "@")) and hasattr(socket, "AF_UNIX"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        self.watchdog_seconds: float | None = None
        """Without a word for so long we are taken for dead; None if nobody watches."""
        if self._socket and usec.isdecimal() and int(usec) > 0 and pid in ("", str(os.getpid())):
            self.watchdog_seconds = int(usec) / 1_000_000
        self._status = ""

    @property
    def listens(self) -> bool:
        """Whether there is a service manager to tell anything."""
        return self._socket is not None

    def tell(self, *assignments: str, status: str = "") -> None:
        """Send one datagram; what cannot be delivered is lost.

        Args:
            assignments: such as `READY`.
            status: one sentence that `systemctl status` shows; the same again is not sent.
        """
        if status and status != self._status:
            self._status = status
            assignments = (*assignments, f"STATUS={' '.join(status.split())}")
        if self._socket is not None and assignments:
            with contextlib.suppress(OSError):
                self._socket.sendto("\n".join(assignments).encode(), self._address)

    def tell_reloading(self) -> None:
        """Say that the settings are being read again; `READY` ends it."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
