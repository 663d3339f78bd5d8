"""Let something live as long as a `with` or an `async with` block.

In: how it starts and stops in an event loop. Out: the same for blocking code, in a thread of its own.
Must never: leave the thread or its loop behind.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Final, Self

START_SECONDS: Final = 30.0


class Lifetime:
    """`async with`: it lives in the running event loop; `with`: in a thread of its own, for blocking clients."""

    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None

    async def start(self) -> Self:
        """Start in the running event loop."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close everything."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), loop).result(START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        asyncio.run_coroutine_threadsafe(self.stop(), loop).result(START_SECONDS)
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), loop).result(START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
        self._thread = None

    def _inside(self) -> bool:
        """Tell whether the caller runs in the loop that this lives in."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


async def _cancel_the_rest() -> None:
    """End what was accepted while everything stopped, as `asyncio.run` does."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
