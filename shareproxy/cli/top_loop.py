"""Run `top`: looks at intervals, keys at any time, a new screen whenever something changed.

In: something to look with, a terminal or an output. Out: screens, or snapshots as text.
Must never: let keys wait for a look, or a bug in a callback go unseen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from shareproxy.admin.errors import AccessDenied, AdminError
from shareproxy.cli.terminal import Terminal
from shareproxy.cli.top_history import History, Look
from shareproxy.cli.top_screen import Moment, draw, page_of, snapshot, table_of
from shareproxy.cli.top_state import State, press

TICK_SECONDS: Final = 1.0  # the clock and the age of what is shown go on

LookOnce = Callable[[], Awaitable[Look]]


def is_final(error: AdminError) -> bool:
    """Return whether trying again does harm: a login that fails again and again gets an account locked."""
    # a right that is missing has Kafka's code, a login that failed has none
    return isinstance(error, AccessDenied) and error.code is None


class Top:
    """The screen, its keys and the looks behind it.

    Args:
        look: looks once.
        history: where looks go.
        state: what the person chose so far.
        terminal: where the screen is.
        iterations: looks after which it ends; `None` for no end.
    """

    def __init__(
        self, look: LookOnce, history: History, state: State, terminal: Terminal, iterations: int | None = None
    ) -> None:
        self._look, self._history, self._terminal, self._iterations = look, history, terminal, iterations
        self.state = state
        self._seen_at: float | None = None
        self._changed = asyncio.Event()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> int | None:
        """Run until the person ends it.

        Returns:
            The number of the signal that ended it, `None` if it was none.

        Raises:
            AdminError: a login failed.
        """
        looker = asyncio.create_task(self._look_on())
        ticker = asyncio.create_task(self._tick())
        try:
            with self._terminal.taken(self._guarded_keys, self._guarded_draw) as ended:
                self._guarded_draw()
                ends: set[asyncio.Future[Any]] = {looker, ticker, ended, self._done}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (looker, ticker):
                task.cancel()
            await asyncio.gather(looker, ticker, return_exceptions=True)
        for finished in (self._done, looker, ticker):
            if finished.done() and not finished.cancelled():
                finished.result()
        return ended.result() if ended.done() else None

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._iterations is None or self._history.looks < self._iterations:
            started = loop.time()
            try:
                self._history.add(await self._look())
                self._seen_at = loop.time()
            except AdminError as error:
                if is_final(error):
                    raise
                self._history.fail(str(error))
            self._guarded_draw()
            await self._until_due(started)

    async def _until_due(self, started: float) -> None:
        """Wait out the interval, which may change meanwhile, and any pause."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            left = None if self.state.paused else started + self.state.interval - loop.time()
            if left is not None and left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._guarded_draw()

    def _guarded_keys(self, keys: list[str]) -> None:
        self._guard(lambda: self._press(keys))

    def _guarded_draw(self) -> None:
        self._guard(self._draw)

    def _guard(self, step: Callable[[], None]) -> None:
        # what a callback raises would only be logged by the event loop
        try:
            step()
        except Exception as error:
            if not self._done.done():
                self._done.set_exception(error)

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            if key == "ctrl-l":
                self._terminal.forget()
                continue
            shown = table_of(self._history, self.state).names
            self.state = press(self.state, key, shown, page_of(self._terminal.size()[1]))
        self._changed.set()
        if not self.state.quit:
            self._draw()
        elif not self._done.done():
            self._done.set_result(None)

    def _draw(self) -> None:
        age = None if self._seen_at is None else asyncio.get_running_loop().time() - self._seen_at
        moment = Moment(time.strftime("%H:%M:%S"), age, unicode=self._terminal.unicode)
        self._terminal.draw(draw(self._history, self.state, moment, *self._terminal.size()))


async def print_snapshots(
    look: LookOnce,
    history: History,
    state: State,
    *,
    iterations: int | None,
    width: int | None,
    unicode: bool,
    tell: Callable[[str], None],
) -> None:
    """Print one table after another, as `top -b` does.

    Args:
        look: looks once.
        history: where looks go.
        state: how to sort, and how often to look.
        iterations: number of looks; `None` for no end.
        width: columns to fit into; `None` for no limit.
        unicode: whether the output takes more than ASCII.
        tell: takes the reason why a look failed.

    Raises:
        AdminError: the last look failed, or a login did.
    """
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        failure: AdminError | None = None
        try:
            history.add(await look())
        except AdminError as error:
            if is_final(error):
                raise
            history.fail(str(error))
            failure = error
        last = iterations is not None and history.looks >= iterations
        if failure is None:
            moment = Moment(time.strftime("%H:%M:%S"), 0.0, unicode=unicode)
            if history.looks > 1:
                print()
            for line in snapshot(history, state, moment, width):
                print(line)
            # a reader at the other end of a pipe waits for it
            print(end="", flush=True)
            for problem in history.report.problems if history.report else ():
                tell(problem)
        elif last:
            raise failure
        else:
            tell(str(failure))
        if last:
            return
        await asyncio.sleep(max(0.0, started + state.interval - loop.time()))
