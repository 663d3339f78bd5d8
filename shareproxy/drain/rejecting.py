"""Decide whether a record may be rejected without losing it against the user's will (R19, R22).

In: what the user said, whether a dead-letter queue works. Out: leave, or why not.
Must never: ask the brokers for each record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.sink_metrics import TaskMeter

# somebody may take the queue away, and somebody who reads why a task is stuck may set one up
WORKS_SECONDS: Final = 60.0
WORKS_NOT_SECONDS: Final = 5.0

Look = Callable[[], Awaitable[DeadLetterQueue]]


class ShareRejecting:
    """Rejecting in a share group: where its dead-letter queue works, or the user does not mind.

    Args:
        look: finds out about the queue.
        anyway: `reject.without.dlq`.
        meter: counts what no queue kept.
    """

    def __init__(self, look: Look, *, anyway: bool, meter: TaskMeter) -> None:
        self._look, self._anyway, self._meter = look, anyway, meter
        self._known: DeadLetterQueue | None = None
        self._looked = 0.0
        self._warned = False

    async def why_not(self) -> str | None:
        """Return why not, or `None`."""
        queue = await self._queue()
        if queue.works:
            return None
        if not self._anyway:
            return f"{queue.why}; or set reject.without.dlq=true to drop what is rejected"
        if not self._warned:
            self._warned = True
            structlog.get_logger().warning(
                "rejected records are dropped, as reject.without.dlq=true says",
                connector=self._meter.connector,
                why=queue.why,
            )
        return None

    def rejected(self, count: int) -> None:
        """Count records that no queue keeps."""
        if self._known is None or not self._known.works:
            self._meter.add("reject_without_dlq", count)

    async def _queue(self) -> DeadLetterQueue:
        now = asyncio.get_running_loop().time()
        known = self._known
        if known is None or now - self._looked > (WORKS_SECONDS if known.works else WORKS_NOT_SECONDS):
            known = self._known = await self._look()
            self._looked = asyncio.get_running_loop().time()
        return known


class GroupRejecting:
    """Rejecting in a consumer group: the record is stepped over, as nobody keeps it.

    Args:
        anyway: `reject.without.dlq`.
    """

    def __init__(self, *, anyway: bool) -> None:
        self._anyway = anyway

    async def why_not(self) -> str | None:
        """Return why not, or `None`."""
        if self._anyway:
            return None
        return "a consumer group has no dead-letter queue; set reject.without.dlq=true to step over such records"

    def rejected(self, count: int) -> None:
        """Count nothing: the source's answer tells."""
