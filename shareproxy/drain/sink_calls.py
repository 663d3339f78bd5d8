"""Call a user's sink: `async` methods in the event loop, plain ones in a thread of their own.

In: a sink. Out: the results of its methods, within a time. Must never: let a plain method block the event loop, on
which heartbeats and renewals run, or keep the process from ending because one hangs.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from shareproxy.drain.sink import Outcomes, Sink, SinkRecord, TaskContext

Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class SinkExited(Exception):  # noqa: N818 - it says what happened
    """A sink tried to end the process, or cancelled itself."""


class _Thread:
    """One daemon thread: a sink's plain methods see one thread only, as many client libraries want."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._name = name

    async def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((loop, answer, function, arguments))
        return await answer

    def end(self) -> None:
        """Let the thread end after its last job."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, answer, function, arguments = job
            result: Any = None
            failure: BaseException | None = None
            if answer.cancelled():  # given up before it began
                continue
            try:
                result = function(*arguments)
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(_resolve, answer, result, failure)
            except RuntimeError:  # the loop has ended: nobody waits any more
                return


def _resolve(answer: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if answer.done():
        return
    if failure is None:
        answer.set_result(result)
    elif isinstance(failure, Exception) and not isinstance(failure, StopIteration):
        answer.set_exception(failure)
    else:  # SystemExit and its like would end the event loop
        answer.set_exception(SinkExited(f"it raised {type(failure).__name__}: {failure}"))


class SinkCalls:
    """A sink whose methods can all be awaited.

    Args:
        sink: the user's.
        name: of the thread, if one is needed.
    """

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink: Final = sink
        self._thread: Final = _Thread(name)

    async def start(self, context: TaskContext) -> None:
        """Start it; then `open(topics)`, once, if it has that."""
        await self._call(self._sink.start, context)
        opened = getattr(self._sink, "open", None)
        if callable(opened):
            await self._call(opened, tuple(context.topics))

    async def put(self, batch: Sequence[SinkRecord]) -> Outcomes | None:
        """Give it records; then `flush()`, if it has that: only after it they are safe."""
        outcomes: Outcomes | None = await self._call(self._sink.put, batch)
        flush = getattr(self._sink, "flush", None)
        if callable(flush):
            await self._call(flush)
        return outcomes

    async def stop(self) -> None:
        """Stop it."""
        try:
            await self._call(self._sink.stop)
        finally:
            self._thread.end()

    async def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        task = asyncio.current_task()
        try:
            if inspect.iscoroutinefunction(method):
                return await method(*arguments)
            result = await self._thread.run(method, arguments)
            return await result if inspect.isawaitable(result) else result
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            raise SinkExited("it cancelled itself") from None
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            raise SinkExited(f"it raised {type(error).__name__}: {error}") from error
