"""Run plain functions in threads, so that none of them keeps the event loop from turning.

In: calls from the event loop. Out: futures in that loop. Must never: keep the interpreter from ending while a
function hangs: threads of `concurrent.futures` would, which is why these are our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple


class _Job(NamedTuple):
    context: contextvars.Context
    function: Callable[[Any], object]
    argument: object
    future: asyncio.Future[object]


class HandlerThreads:
    """Daemon threads that are started when they are needed.

    Args:
        most: how many at most; calls beyond that wait in line.
        name: of the threads, for debuggers; a number follows.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._started = self._busy = 0

    def call(self, function: Callable[[Any], object], argument: object) -> asyncio.Future[object]:
        """Have a function called; what becomes of the future does not reach the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        future.add_done_callback(self._done)
        self._busy += 1
        if self._busy > self._started < self._most:
            self._started += 1
            number = self._started
            threading.Thread(target=self._run, args=(loop,), name=f"{self._name}-{number}", daemon=True).start()
        self._jobs.put(_Job(contextvars.copy_context(), function, argument, future))
        return future

    def stop(self) -> None:
        """Let threads end that have nothing to do; one that hangs is left to itself."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _done(self, future: asyncio.Future[object]) -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that asyncio does not complain where nobody waits for it any more

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            result: object = None
            error: BaseException | None = None
            try:
                result = job.context.run(job.function, job.argument)
            except BaseException as raised:  # also SystemExit: it would end no more than this thread
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_resolve, job.future, result, error)
            # a record may be large, and the next call far away
            del job, result, error


def _resolve(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # a future does not take it
        future.set_exception(RuntimeError(f"the handler raised StopIteration({error})"))
    else:
        future.set_exception(error)
