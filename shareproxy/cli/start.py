"""Start the command line so that Ctrl-C is silent from the first moment on."""

from __future__ import annotations

import signal

# until the command is loaded, Python would answer Ctrl-C with a traceback; the system's own answer is the silent end
# that shells show as 130
signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the command line; the console script calls this."""
    from shareproxy.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
