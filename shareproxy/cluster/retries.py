"""Decide what to do after a failure, and how long to wait before doing it.

In: error codes, a deadline in the event loop's time. Out: one of three kinds of retry, pauses with jitter.
Must never: sleep past a deadline.
"""

from __future__ import annotations

import asyncio
import random
from enum import Enum
from typing import Final

from shareproxy.protocol.errors import ErrorCode


class Retry(Enum):
    """What helps after a failure."""

    HERE = "here"
    """The same node may answer a little later."""
    ELSEWHERE = "elsewhere"
    """Another node may answer: read metadata or find the coordinator again first."""
    FINAL = "final"
    """Asking again gives the same answer."""


_HERE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,  # the broker lost *its* connection to another one
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_LEADER_EPOCH,  # this broker has not heard of the election yet
        ErrorCode.OFFSET_NOT_AVAILABLE,  # the new leader has not caught up with its high watermark yet
        51,  # CONCURRENT_TRANSACTIONS
        89,  # THROTTLING_QUOTA_EXCEEDED
    }
)
_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # also seen for a second after a topic was made
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REBOOTSTRAP_REQUIRED,
        41,  # NOT_CONTROLLER
        103,  # INCONSISTENT_TOPIC_ID
    }
)


def classify(code: int) -> Retry:
    """Return what helps after a Kafka error code; a code this program does not know is final.

    Raises:
        ValueError: 0 is not a failure.
    """
    if code == ErrorCode.NONE:
        raise ValueError("error code 0 is not a failure")
    if code in _HERE:
        return Retry.HERE
    return Retry.ELSEWHERE if code in _ELSEWHERE else Retry.FINAL


class Backoff:
    """Pause between attempts: twice as long each time, with jitter so that clients do not come in step.

    Args:
        first: seconds of the first pause.
        most: seconds no pause exceeds, before jitter.
    """

    JITTER: Final = 0.2

    def __init__(self, first: float = 0.05, most: float = 1.0) -> None:
        self._next, self._most = first, most

    async def pause(self, deadline: float) -> bool:
        """Sleep for the next pause; return False at once where nothing would be left before the deadline."""
        delay = self._next * random.uniform(1 - self.JITTER, 1 + self.JITTER)
        self._next = min(self._next * 2, self._most)
        if asyncio.get_running_loop().time() + delay >= deadline:
            return False
        await asyncio.sleep(delay)
        return True
