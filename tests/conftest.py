"""What holds for the whole suite."""

from __future__ import annotations

import signal

from hypothesis import settings

# An example may take long on a busy machine; what is fast enough is measured in benchmarks/, not here.
settings.register_profile("suite", settings(), deadline=None)
settings.load_profile("suite")

# Shells start background jobs with Ctrl-C switched off, and children inherit that: the commands that are tested here
# would then not hear it, whatever they do.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
