"""Ask once what several callers want to know at the same time.

In: keys and calls. Out: one result for all who asked while the call ran. Must never: let one caller's cancellation or
shorter deadline end a call that others wait for, nor leave a call running that nobody waits for.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from shareproxy.cluster.errors import ClusterError, DeadlinePassed, Unreachable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Call(Generic[V]):
    def __init__(self, task: asyncio.Task[V]) -> None:
        self.task = task
        self.waiters = 0


class SharedCalls(Generic[K, V]):
    """The calls that are running now, by key."""

    def __init__(self) -> None:
        self._calls: dict[K, _Call[V]] = {}

    async def run(self, key: K, call: Callable[[float], Coroutine[Any, Any, V]], deadline: float, what: str) -> V:
        """Join the call for a key, or start it.

        Args:
            key: what is asked.
            call: takes the deadline and must keep it.
            deadline: in the event loop's time.
            what: for the message when it passes.

        Raises:
            DeadlinePassed: somebody else's call did not end before this deadline.
            ClusterError: calls were stopped; or whatever the call raises.
        """
        loop = asyncio.get_running_loop()
        while True:
            shared = self._calls.get(key)
            joined = shared is not None
            if shared is None:
                shared = self._calls[key] = _Call(loop.create_task(call(deadline)))
                shared.task.add_done_callback(functools.partial(self._forget, key, shared))
            shared.waiters += 1
            try:
                await asyncio.wait([shared.task], timeout=max(deadline - loop.time(), 0) if joined else None)
            finally:
                shared.waiters -= 1
                if shared.waiters == 0 and not shared.task.done():
                    self._forget(key, shared)
                    shared.task.cancel()
            if not shared.task.done():
                raise DeadlinePassed(f"{what} was not answered in time")
            if shared.task.cancelled():
                raise ClusterError(f"{what} was given up: the client is closed")
            error = shared.task.exception()
            if error is None:
                return shared.task.result()
            # the one who started the call may have had less time than we have
            if not joined or not isinstance(error, Unreachable) or loop.time() >= deadline:
                raise error

    async def stop(self) -> None:
        """Cancel all calls and wait for their end."""
        tasks = [shared.task for shared in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, key: K, shared: _Call[V], ended: asyncio.Task[V] | None = None) -> None:
        if self._calls.get(key) is shared:
            del self._calls[key]
        if ended is not None and not ended.cancelled():
            ended.exception()  # an error for which nobody waits any more is not worth asyncio's warning
