"""A worker that does what its number and its environment say; started by tests in place of the real one.

In: a supervisor's socket as standard input, and FAKE_CHILD, a Python expression of number → behaviour. Out: messages.
Must never: import what makes a real worker slow to start.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

from shareproxy.workers.messages import (
    Drain,
    Failed,
    FromWorker,
    Hurry,
    Listening,
    Reload,
    Reloaded,
    Report,
    Reported,
    Start,
    decode_to_worker,
    line,
)


def meter(requests: int) -> dict[str, dict[str, Any]]:
    """Return a few counters and a gauge."""
    return {
        "counters": {"requests": {"Metadata": requests}},
        "gauges": {"connections": {"1": 1}},
        "highest": {},
        "lowest": {},
        "histograms": {},
    }


def main() -> int:
    """Follow the behaviour until the end."""
    with socket.socket(fileno=os.dup(0)) as control, control.makefile("rb", buffering=0) as stream:

        def say(message: FromWorker) -> None:
            control.sendall(line(message))

        start = decode_to_worker(stream.readline())
        assert isinstance(start, Start)
        behaviour = os.environ.get("FAKE_CHILD", "serves").split(",")[start.worker - 1]
        if behaviour == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if behaviour == "fails":
            say(Failed("tls.certificate: gone"))
            return 2
        if behaviour == "cannot_listen":
            say(Failed("cannot listen on 192.0.2.1:1: gone", cannot_listen=True))
            return 2
        if behaviour == "waits":
            stream.read(1)  # until it is told anything
        say(Listening())
        say(Reported(0, "not ready yet" if behaviour == "unready" else "", meter(start.worker)))
        if behaviour == "ends":
            return 7
        return hear(stream, say, behaviour, start)


def hear(stream: Any, say: Any, behaviour: str, start: Start) -> int:
    """Answer messages."""
    while text := stream.readline():
        match decode_to_worker(text):
            case Report(number):
                counted = meter(start.worker * 10)
                counted["counters"]["limit"] = {str(start.worker): start.settings.limits.max_connections}
                say(Reported(number, "", counted))
            case Reload(settings):
                refused = behaviour == "refuses"
                say(Reloaded("cannot be read" if refused else ""))
                start = Start(start.worker, settings)
            case Drain() if behaviour == "stays":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case Drain() | Hurry():
                say(Reported(0, "stopping", meter(start.worker * 100)))
                return 0
            case _:
                return 9
    return 3


if __name__ == "__main__":
    sys.exit(main())
