"""Say what a worker for handlers is made of: what it needs of others, how it works, what it has done.

In: nothing. Out: protocols and frozen structs. Must never: do anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Protocol

import msgspec

from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.model import AckResult
from shareproxy.drain.retry_delay import Retry


class HandledRecord(Protocol):
    """What is needed of a record; see `ShareRecord`."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; −1 without one."""

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, this time included."""

    @property
    def lock_deadline(self) -> float:
        """When the broker may give it to somebody else, in the event loop's time."""

    @property
    def error(self) -> Exception | None:
        """Why its key or value could not be read."""

    def accept(self) -> Awaitable[AckResult]:
        """Say that it is done."""

    def release(self, delay: float = 0.0) -> Awaitable[AckResult]:
        """Give it back."""

    def reject(self) -> Awaitable[AckResult]:
        """Say that it will never work."""


class HandlerConsumer(Protocol):
    """What is needed of a consumer; see `ShareConsumer`."""

    @property
    def can_renew(self) -> bool:
        """Whether locks are prolonged while records are held."""

    @property
    def assignment(self) -> Collection[object]:
        """Partitions that records may come from."""

    @property
    def lost(self) -> str | None:
        """Why no records can come now, where no broker is reached."""

    async def start(self) -> None:
        """Join the group."""

    async def close(self) -> None:
        """Release what is held and leave."""

    async def get_batch(self, max_records: int | None = None, timeout: float | None = None) -> Sequence[HandledRecord]:
        """Wait for records."""

    async def commit(self) -> object:
        """Send what was acknowledged."""


class Questions(Protocol):
    """What has to be known of the group; see `GroupQuestions`."""

    async def dead_letters(self) -> DeadLetterQueue:
        """Return whether what the group rejects is kept."""

    async def delivery_limit(self) -> int:
        """Return after how many deliveries the brokers give a record up."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works; see `shareproxy.run`."""

    concurrency: int = 8
    prefetch: int = 8
    max_waiting: int = 200
    retry: Retry = Retry()
    stop_timeout: float = 25.0
    reject_without_dlq: bool = False

    @property
    def most(self) -> int:
        """How many records are held at most."""
        return self.concurrency + self.prefetch + self.max_waiting


class WorkerResult(msgspec.Struct, frozen=True):
    """What a worker has done.

    Attributes:
        accepted: records that were done, and the broker knows it.
        released: records given back, as the broker confirmed.
        rejected: records that will not come again, as the broker confirmed.
        lock_lost: records whose lock ran out during their handling; others may have had them too.
        unconfirmed: records whose acknowledgement was refused or never answered; they may come again.
        abandoned: records whose handler had not ended when the time to stop was over; they come again.
    """

    accepted: int
    released: int
    rejected: int
    lock_lost: int
    unconfirmed: int
    abandoned: int
