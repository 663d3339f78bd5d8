"""Ask the brokers what a worker has to know of its group, when it has to know it.

In: the way to the brokers and a group. Out: whether a dead-letter queue works, after how many deliveries a record is
given up. Must never: ask once per record, or fail: what is not known is taken for the worse.
"""

from __future__ import annotations

import asyncio
from typing import Final

from shareproxy.cluster.cluster import Cluster
from shareproxy.drain.dead_letter_check import DeadLetterQueue, dead_letter_queue, delivery_limit

ASK_SECONDS: Final = 5.0
# asked anew after so long: somebody may have mended the queue, or broken it
RECHECK_SECONDS: Final = 60.0


class GroupQuestions:
    """Answers from memory where they are new enough.

    Args:
        cluster: where to ask; whoever opened it closes it.
        group: its name.
    """

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._asking = asyncio.Lock()
        self._queue: tuple[float, DeadLetterQueue] | None = None
        self._limit: tuple[float, int] | None = None

    async def dead_letters(self) -> DeadLetterQueue:
        """Return whether what the group rejects is kept (R22)."""
        async with self._asking:  # so that many records that fail at once ask once
            now = asyncio.get_running_loop().time()
            if self._queue is None or now - self._queue[0] >= RECHECK_SECONDS:
                self._queue = (now, await dead_letter_queue(self._cluster, self._group, deadline=now + ASK_SECONDS))
            return self._queue[1]

    async def delivery_limit(self) -> int:
        """Return after how many deliveries the brokers give a record up."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._limit is None or now - self._limit[0] >= RECHECK_SECONDS:
                self._limit = (now, await delivery_limit(self._cluster, self._group, deadline=now + ASK_SECONDS))
            return self._limit[1]
