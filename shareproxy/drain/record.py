"""Hold one record of a share group, and what it needs to be acknowledged.

In: what a batch says of a record, and the lot that it was handed over with. Out: acknowledgements, through the lot.
Must never: know of brokers, or tell a record's contents by itself (`repr` leaves them out: it ends in logs).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias

import msgspec

from shareproxy.drain.model import Acknowledgement, AckResult, Headers, TimestampType, TopicPartition

AckTicket: TypeAlias = Awaitable[AckResult]
"""What became of an acknowledgement, once it is awaited; not awaiting it is fine."""


class Lot(Protocol):
    """Records of one partition that one answer of a broker handed over: they share a lock and a session."""

    def acknowledge(self, offset: int, kind: Acknowledgement, delay: float = 0.0) -> AckTicket:
        """Note what becomes of one offset; it is sent with the next fetch or commit."""

    def lock_deadline(self, offset: int) -> float:
        """Return when the broker may give the offset to somebody else, in the event loop's time."""


# gc=False: as with records
class Origin(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What the records of one producer's batch have in common, kept once: each field of a record costs time.

    Attributes:
        topic: by name.
        partition: number within the topic.
        timestamp_type: who set the timestamps.
        delivery_count: how often they were handed out, this time included.
        lot: what they were handed over with.
    """

    topic: str
    partition: int
    timestamp_type: TimestampType
    delivery_count: int
    lot: Lot


# gc=False: a record refers to its lot, and nothing of ours refers back, so that there is no circle to look for; with
# it the collector would walk through every record held. eq=False: two records are the same only if they are one.
class ShareRecord(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record that a share group handed to this member.

    Attributes:
        offset: place in the partition.
        timestamp: milliseconds since 1970; −1 without one.
        key: what the key deserialiser made of the key; its bytes without one, `None` where there is no key.
        value: the same of the value.
        headers: names and bytes, in order.
        raw_key: the key's bytes.
        raw_value: the value's bytes.
        error: what a deserialiser raised, without its traceback; key and value are `None` then, and the record can
            still be acknowledged.
    """

    _origin: Origin
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers
    raw_key: bytes | None
    raw_value: bytes | None
    error: Exception | None = None

    def __repr__(self) -> str:
        return f"ShareRecord({self.topic}-{self.partition}, offset {self.offset}, delivery {self.delivery_count})"

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._origin.topic

    @property
    def partition(self) -> int:
        """Number within the topic."""
        return self._origin.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it is."""
        return TopicPartition(self._origin.topic, self._origin.partition)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamp."""
        return self._origin.timestamp_type

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, this time included."""
        return self._origin.delivery_count

    @property
    def lot(self) -> Lot:
        """What it was handed over with."""
        return self._origin.lot

    @property
    def lock_deadline(self) -> float:
        """When the broker may give it to somebody else, in the event loop's time; a renewal moves it."""
        return self._origin.lot.lock_deadline(self.offset)

    def accept(self) -> AckTicket:
        """Say that it is done and shall not come again."""
        return self._origin.lot.acknowledge(self.offset, Acknowledgement.ACCEPT)

    def release(self, delay: float = 0.0) -> AckTicket:
        """Give it back, so that it comes again, here or elsewhere; a delivery attempt is spent.

        Args:
            delay: seconds during which it stays locked before it is given back; no broker waits by itself.
        """
        return self._origin.lot.acknowledge(self.offset, Acknowledgement.RELEASE, delay)

    def reject(self) -> AckTicket:
        """Say that it will never work: it does not come again, and goes to the dead-letter queue if there is one."""
        return self._origin.lot.acknowledge(self.offset, Acknowledgement.REJECT)

    def renew(self) -> AckTicket:
        """Prolong its lock (Kafka 4.2)."""
        return self._origin.lot.acknowledge(self.offset, Acknowledgement.RENEW)
