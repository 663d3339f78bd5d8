"""Tell a worker when to stop: the first SIGTERM or SIGINT lets it finish, the second ends it at once.

In: signals, or a call. Out: two events. Must never: take signals away from a program that keeps them for itself, or
let a third signal wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# what shells report for a process that a signal ended
EXIT_CODE_BASE: Final = 128


class Stop:
    """Whether to stop, and how soon.

    Attributes:
        asked: set once work shall end in order.
        hurried: set once nothing may be waited for any more.
        number: the signal that came last, `None` without one.
    """

    def __init__(self) -> None:
        self.asked, self.hurried = asyncio.Event(), asyncio.Event()
        self.number: int | None = None
        self._listening = False

    @property
    def exit_code(self) -> int:
        """What the process shall end with after a second signal."""
        return EXIT_CODE_BASE + (self.number or signal.SIGINT)

    def ask(self) -> None:
        """End work in order; a second call ends it at once."""
        if not self.asked.is_set():
            self.asked.set()
            return
        self.hurried.set()
        self._listen_no_more()  # whoever sends a third one wants an end by all means

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT while this is open; nothing happens outside of the main thread."""
        loop = asyncio.get_running_loop()
        # ValueError, RuntimeError: not the main thread; NotImplementedError: Windows, where Ctrl-C cancels instead
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            for number in SIGNALS:
                loop.add_signal_handler(number, self._signalled, number)
                self._listening = True
        try:
            yield
        finally:
            self._listen_no_more()

    def _signalled(self, number: int) -> None:
        self.number = number
        self.ask()

    def _listen_no_more(self) -> None:
        if self._listening:
            self._listening = False
            loop = asyncio.get_running_loop()
            for number in SIGNALS:
                loop.remove_signal_handler(number)


async def first_of(stop: asyncio.Event, *others: asyncio.Future[Any]) -> bool:
    """Wait until an event is set or one of the futures is done; cancels none of them.

    Returns:
        Whether the event is set.
    """
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({waiting, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    return stop.is_set()
