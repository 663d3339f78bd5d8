"""Start the command line: quickly, and so that signals and closed standard streams do no harm from the first moment."""

from __future__ import annotations

import gc
import os
import signal
import sys

from shareproxy import early_hangup

# until the command is loaded, Python would answer Ctrl-C with a traceback; the system's own answer is the silent end
# that shells show as 130
signal.signal(signal.SIGINT, signal.SIG_DFL)
# to a service this signal means to read its settings again, which it has yet to read; not to end
if sys.platform != "win32" and sys.argv[1:2] in (["serve"], ["exporter"], ["sink"]):
    early_hangup.remember()
# what is loaded stays: looking through it for garbage, again and again while it grows, takes a tenth of a short command
gc.disable()


def _open_closed_streams() -> None:
    """Open the null device in place of standard streams that the caller closed (`2>&-`).

    What is opened next would take their file descriptors: a log would be written into a client's connection, and
    libuv ends the process when it is to close one of them.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))  # noqa: SIM115 - lives as long as the process


def main() -> None:
    """Run the command line; the console script calls this."""
    _open_closed_streams()
    from shareproxy.cli.main import main as run

    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        gc.freeze()  # nor is there a point in looking for garbage at the end
