"""Call a user's handler with one record, and say how that ended.

In: a function, plain or `async`, and a record. Out: what shall become of the record.
Must never: block the event loop with a plain function, or take for done what did not return (R23).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from shareproxy.admin.errors import WrongArgument
from shareproxy.drain.handler_threads import HandlerThreads
from shareproxy.drain.sink import Fatal, Outcome, RejectRecord, Retriable

Handler = Callable[[Any], Awaitable[object] | object]
"""What a user writes: takes a record; returns once it is done, or raises."""


class How(Enum):
    """How a call ended."""

    DONE = "done"
    # asked for by returning Outcome.RELEASE
    GIVEN_BACK = "given_back"
    WILL_NEVER_WORK = "will_never_work"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class Ended(NamedTuple):
    """How a call ended.

    Attributes:
        how: as it says.
        error: what was raised.
        after_s: seconds that the handler asked to wait.
        running: the thread's work where it outlived the time limit; nobody can end it, and its slot is not free
            before it ends by itself.
    """

    how: How
    error: BaseException | None = None
    after_s: float | None = None
    running: asyncio.Future[object] | None = None


_BY_OUTCOME: Final = {
    Outcome.ACCEPT: How.DONE,
    Outcome.RELEASE: How.GIVEN_BACK,
    Outcome.REJECT: How.WILL_NEVER_WORK,
}


class HandlerCall:
    """Calls one handler.

    Args:
        handler: plain ones run in threads.
        concurrency: how many threads at most.
        time_limit: seconds for one record, `None` for no limit. An `async` handler is cancelled then; a plain one
            cannot be.

    Raises:
        WrongArgument: it cannot be called with one record.
    """

    def __init__(self, handler: Handler, *, concurrency: int, time_limit: float | None = None) -> None:
        _check(handler)
        self._handler, self._time_limit = handler, time_limit
        self._threads = None if _is_async(handler) else HandlerThreads(concurrency, "handler")

    async def __call__(self, record: object) -> Ended:
        """Call it and return how that ended; raises nothing but the cancellation of the caller."""
        if self._threads is None:
            return await self._within_limit(self._handler, record)
        running = self._threads.call(self._handler, record)
        # waited for from outside: neither a limit nor a cancellation may pretend that the thread has ended
        done, _ = await asyncio.wait({running}, timeout=self._time_limit)
        if not done:
            return Ended(How.TIMED_OUT, running=running)
        try:
            result = running.result()
        except BaseException as error:
            return _failed(error)
        if inspect.isawaitable(result):  # a plain function around an async one
            return await self._within_limit(lambda _: result, record)
        return _ended(result)

    def stop(self) -> None:
        """Let idle threads end."""
        if self._threads is not None:
            self._threads.stop()

    async def _within_limit(self, call: Handler, record: object) -> Ended:
        limit = asyncio.timeout(self._time_limit)
        try:
            async with limit:
                result: object = await call(record)  # type: ignore[misc]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(error)  # something that the handler waited for was cancelled, we were not
        except (Exception, SystemExit) as error:
            return Ended(How.TIMED_OUT, error) if limit.expired() else _failed(error)
        return _ended(result)


def _ended(result: object) -> Ended:
    # most handlers return nothing, or something that means something only to themselves
    return Ended(_BY_OUTCOME[result] if isinstance(result, Outcome) else How.DONE)


def _failed(error: BaseException) -> Ended:
    if isinstance(error, RejectRecord | Fatal):
        return Ended(How.WILL_NEVER_WORK, error)
    return Ended(How.FAILED, error, error.after_s if isinstance(error, Retriable) else None)


def _is_async(handler: Handler) -> bool:
    inner: object = handler
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _check(handler: object) -> None:
    if not callable(handler):
        raise WrongArgument(f"handler: {handler!r} cannot be called; give a function that takes one record")
    name = getattr(handler, "__qualname__", repr(handler))
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise WrongArgument(f"handler: {name} has a yield in it and would never run; let it return when it is done")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # built in, and says nothing of its arguments
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise WrongArgument(f"handler: {name}{signature} cannot be called with one record: {error}") from None
