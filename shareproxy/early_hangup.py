"""Remember a SIGHUP that comes before the service listens to signals itself.

In: the signal, from the first moment of the process on. Out: whether it came. Must never: import anything that takes
time, since a signal before the first line here ends the process.
"""

from __future__ import annotations

import signal

_came = False


def remember() -> None:
    """Take the signal from now on; its usual effect would be to end the process."""
    signal.signal(signal.SIGHUP, _note)


def came() -> bool:
    """Return whether it has come since."""
    return _came


def _note(number: int, frame: object) -> None:
    del number, frame
    global _came
    _came = True
