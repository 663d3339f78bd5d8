"""Start the command line: quickly, and so that Ctrl-C is silent from the first moment on."""

from __future__ import annotations

import gc
import signal

# until the command is loaded, Python would answer Ctrl-C with a traceback; the system's own answer is the silent end
# that shells show as 130
signal.signal(signal.SIGINT, signal.SIG_DFL)
# what is loaded stays: looking through it for garbage, again and again while it grows, takes a tenth of a short command
gc.disable()


def main() -> None:
    """Run the command line; the console script calls this."""
    from shareproxy.cli.main import main as run

    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        gc.freeze()  # nor is there a point in looking for garbage at the end
