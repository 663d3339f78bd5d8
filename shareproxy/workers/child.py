"""The program of a worker process; `shareproxy serve --workers N` starts it, nobody else should.

In: the supervisor's socket as standard input. Out: an exit code. Must never: outlive its supervisor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Run one worker."""
    die_with_parent()
    # Ctrl-C and the like are the supervisor's matter; SIGTERM to one worker ends this one in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from shareproxy.workers.worker import serve  # takes a good part of a second, in which the parent may end

    return serve(socket.socket(fileno=os.dup(0)))


def die_with_parent() -> None:
    """Have the kernel end this process with its parent, even if nothing here runs any more (Linux)."""
    # where memory may not be made executable (systemd's MemoryDenyWriteExecute), loading ctypes may fail
    with contextlib.suppress(ImportError, MemoryError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
