"""Have settled records committed beside the work of a sink task, and tell what the brokers said (R12).

In: that records were settled. Out: what was confirmed and what was not.
Must never: have two commits under way, or leave an answer unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

from shareproxy.drain.source import RecordSource, Settled

# Seconds between two commits. A slower put has one of its own; quicker ones share it, as a request for each would cost
# more than the puts. Acknowledgements do not wait for it: each fetch takes those along that it finds.
EXPLICIT_SECONDS: Final = 0.1
# in implicit mode no put ever waits for an answer; how long answers may go uncounted
IMPLICIT_SECONDS: Final = 0.5


class Commits:
    """Commits of one task, one at a time.

    Args:
        source: commits.
        tell: called with each answer, and the seconds from the first poll that it covers.
        implicit: whether no put waits for an answer; else one does that comes so late that the next commit is due.
    """

    def __init__(self, source: RecordSource, tell: Callable[[Settled, float], None], *, implicit: bool) -> None:
        self._source, self._tell, self._implicit = source, tell, implicit
        self._seconds = IMPLICIT_SECONDS if implicit else EXPLICIT_SECONDS
        self._polled = inf  # unless something waits for a commit
        self._began = -inf
        self._task: asyncio.Task[None] | None = None

    def until_due(self, poll: float) -> float:
        """Return how long the next poll may wait, at most `poll`: what was settled shall not wait longer."""
        if self._polled == inf:
            return poll
        left = self._began + self._seconds - asyncio.get_running_loop().time()
        if left <= 0 and self._implicit and self._task is not None and not self._task.done():
            left = self._seconds  # the answer before it is late, and nothing waits for that one
        return min(poll, max(left, 0.0))

    async def soon(self, polled: float) -> None:
        """Have what was settled committed.

        Args:
            polled: when the poll returned that brought it, in the event loop's time.

        Raises:
            DrainError, AdminError: an earlier commit failed.
        """
        self._polled = min(self._polled, polled)
        if asyncio.get_running_loop().time() - self._began >= self._seconds:
            await self._begin()

    async def now(self, polled: float) -> None:
        """Commit what was settled, and wait for all answers; arguments and what it raises as of `soon`."""
        self._polled = min(self._polled, polled)
        await self.finish()

    async def idle(self) -> None:
        """Take it that no records came: what still waits is committed; raises as `soon`."""
        if self._polled != inf or self._task is not None:
            await self._begin()

    async def finish(self) -> None:
        """Commit what still waits, and wait for all answers; raises as `soon`."""
        await self._answered()
        if self._polled != inf:
            self._start()
            await self._answered()

    async def end(self) -> None:
        """Wait for no more answers; what was settled is sent by the source's close."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _begin(self) -> None:
        if self._task is not None and (self._task.done() or not self._implicit):
            await self._answered()
        if self._task is None and self._polled != inf:
            self._start()
            await asyncio.sleep(0)  # so that it has seen what was noted, before a fetch takes that along

    def _start(self) -> None:
        self._began = asyncio.get_running_loop().time()
        polled, self._polled = self._polled, inf
        self._task = asyncio.create_task(self._commit(polled))

    async def _answered(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})  # whoever is cancelled here does not end it: `end` does
            task, self._task = self._task, None
            task.result()

    async def _commit(self, polled: float) -> None:
        settled = await self._source.commit()
        self._tell(settled, asyncio.get_running_loop().time() - polled)
