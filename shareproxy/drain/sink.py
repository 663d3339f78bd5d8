"""Say what a sink is: the class that a user writes to bring records somewhere else.

In: batches of records. Out: nothing where all of them are safe, or an outcome for each.
Must never: return before the records are durable; what `put` returned for is accepted, and never comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from shareproxy.drain.model import Headers, TimestampType


class Outcome(Enum):
    """What became of one record in a `put`."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


class Retriable(Exception):  # noqa: N818 - the words of KIP-1302
    """Raised by a sink or handler: the same records may work later; all of the batch are released.

    Args:
        after_s: seconds to wait at least before they are given back; `None` leaves it to the worker.
    """

    def __init__(self, message: str = "", *, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class Fatal(Exception):  # noqa: N818 - the words of KIP-1302
    """Raised by a sink or handler: these records will never work; all of the batch are rejected where that is safe."""


class RejectRecord(Exception):  # noqa: N818 - it names what is done
    """Raised by a converter or handler: this one record will never work."""


class SinkRecord(Protocol):
    """A record as a sink sees it; key and value are as the converters made them."""

    @property
    def topic(self) -> str:
        """Topic by name."""

    @property
    def partition(self) -> int:
        """Number within the topic."""

    @property
    def offset(self) -> int:
        """Place in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; −1 without one."""

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamp."""

    @property
    def key(self) -> Any:
        """What the key converter made of the key."""

    @property
    def value(self) -> Any:
        """What the value converter made of the value."""

    @property
    def headers(self) -> Headers:
        """Names and bytes, in order."""

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, this time included; 1 in consumer-group mode."""

    @property
    def lock_deadline(self) -> float | None:
        """When the broker may give it to somebody else, in the event loop's time; `None` in consumer-group mode."""


class TaskContext(Protocol):
    """What a task knows and can do; there are no offsets, no seek and no pause (KIP-1302)."""

    @property
    def connector(self) -> str:
        """Name of the sink connector."""

    @property
    def task_id(self) -> int:
        """Number of the task within this process, from 0."""

    @property
    def group(self) -> str:
        """Group that the records come from."""

    @property
    def share_group(self) -> bool:
        """Whether records come from a share group; else from a consumer group."""

    @property
    def topics(self) -> Sequence[str]:
        """Topics by name."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The sink's own settings, as the file has them."""

    async def renew(self) -> None:
        """Prolong the locks of the batch that is being put (Kafka 4.2); nothing to do in consumer-group mode."""


Outcomes = Sequence[Outcome]


@runtime_checkable
class Sink(Protocol):
    """Where records go. Each method may be `async` or plain; plain ones run in a thread.

    `open(topics)` and `flush()` may exist besides: `open` is called once after `start`, `flush` after each `put` and
    before anything of it is accepted; what it raises counts as if `put` had raised it. So may, of the class,
    `check(config)`, which raises ValueError for a wrong setting, and `look_ahead(config)`, a plain one that `--check`
    calls: it raises DrainError where `start` could not work, and changes nothing.
    """

    def start(self, context: TaskContext, /) -> Awaitable[None] | None:
        """Get ready; called once before the first batch."""

    def put(self, batch: Sequence[SinkRecord], /) -> Awaitable[Outcomes | None] | Outcomes | None:
        """Bring records to where they belong and return when they are durable there.

        Returns:
            `None` where all are done, or one outcome per record in their order.

        Raises:
            Retriable: all of the batch shall come again.
            Fatal: none of the batch will ever work.
        """

    def stop(self) -> Awaitable[None] | None:
        """Let go of everything; called once, also after `start` failed."""
