"""Say what a closer look at share partitions found, in frozen values.

In: what the closer look read. Out: values beside a lag, and their JSON.
Must never: hold a sentinel; what is unknown is `None`, and a note says why.
"""

from __future__ import annotations

from enum import Flag, auto

import msgspec


class Want(Flag):
    """What a closer look may cost requests for."""

    LOG_END = auto()
    """Where the logs end, and so how many offsets are delivery-complete: one ListOffsets per leader. A broker's own lag
    comes without; all below bring it along. Alone it is no closer look: nothing is `visible` then."""
    LOG_START = auto()
    """Where the logs start, and so what retention deleted: one ListOffsets per leader."""
    OPEN = auto()
    """How much open transactions hold back: last stable offsets and log starts, two ListOffsets per leader."""
    PHANTOM = auto()
    """Offsets without a record that a consumer will see: batch headers are fetched; needs READ on the topic."""
    AGE = auto()
    """Age of the oldest waiting record: one batch header per partition; needs READ on the topic."""
    STATES = auto()
    """Runs of delivery states and delivery counts; needs CLUSTER_ACTION on the cluster."""
    PROJECTED = auto()
    """Lag of partitions that no member has started yet."""
    DEAD_LETTERS = auto()
    """Depth of the dead-letter topic where the group has one (KIP-1191)."""
    CONFIGS = auto()
    """Configuration of the groups: one DescribeConfigs."""
    HOLDERS = auto()
    """Who holds transactions open, as notes: DescribeProducers where the last stable offset is behind, then one
    ListTransactions per broker; needs READ on the topic, and with `OPEN` only."""
    ALL = LOG_END | LOG_START | OPEN | PHANTOM | AGE | STATES | PROJECTED | DEAD_LETTERS | CONFIGS | HOLDERS


class StateRun(msgspec.Struct, frozen=True, gc=False):
    """Neighbouring offsets that share one delivery state.

    Attributes:
        last_offset: inclusive.
        state: "available", "acquired", "acknowledged", "archiving" or "archived"; "unknown" for one that is newer.
        delivery_count: how often the records were given to a member.
    """

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "state": self.state,
            "delivery_count": self.delivery_count,
        }


class DeliveryCount(msgspec.Struct, frozen=True, gc=False):
    """How many waiting offsets were delivered that many times."""

    count: int
    offsets: int

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {"count": self.count, "offsets": self.offsets}


class PartitionVisible(msgspec.Struct, frozen=True, gc=False):
    """What a closer look found out about one share partition; offsets are counts unless they are positions.

    Attributes:
        log_start_offset: first offset that still exists.
        last_stable_offset: first offset of the oldest open transaction, else the high watermark.
        consumable_lag: offsets with a record that a member of this group can still be given now; `None` where only
            the two bounds beside it are known.
        phantom_offsets: counted by the lag although no member will ever see a record there: transaction markers,
            aborted records (read_committed), compacted or deleted ones.
        open_transaction_offsets: high watermark − last stable offset, or − log start where that lies behind it:
            a broker does not move the last stable offset when records of an open transaction are deleted.
        unavailable_offsets: offsets from the start offset on that retention deleted.
        projected_lag: lag once the first member starts, of a partition without a start offset.
        oldest_record_age_seconds: age of the first waiting record by its own timestamp, 0 or more.
        in_flight: offsets that members hold now; `in_flight_max` bounds it where it is not known.
        waiting: consumable offsets that no member holds.
        delivery_counts: of offsets that are not complete, by rising count.
        runs: delivery states from the start offset on, as last stored; what follows the last run is available.
        notes: sentences on what is not known, and what to do about it.
    """

    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    consumable_lag: int | None = None
    consumable_lag_min: int | None = None
    consumable_lag_max: int | None = None
    phantom_offsets: int | None = None
    phantom_offsets_min: int | None = None
    phantom_offsets_max: int | None = None
    open_transaction_offsets: int | None = None
    unavailable_offsets: int | None = None
    projected_lag: int | None = None
    oldest_record_age_seconds: float | None = None
    in_flight: int | None = None
    in_flight_max: int | None = None
    waiting: int | None = None
    delivery_counts: tuple[DeliveryCount, ...] | None = None
    runs: tuple[StateRun, ...] | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON keys, which stand beside those of the partition's lag."""
        counts, runs = self.delivery_counts, self.runs
        return {
            "log_start_offset": self.log_start_offset,
            "last_stable_offset": self.last_stable_offset,
            "consumable_lag": self.consumable_lag,
            "consumable_lag_min": self.consumable_lag_min,
            "consumable_lag_max": self.consumable_lag_max,
            "phantom_offsets": self.phantom_offsets,
            "phantom_offsets_min": self.phantom_offsets_min,
            "phantom_offsets_max": self.phantom_offsets_max,
            "open_transaction_offsets": self.open_transaction_offsets,
            "unavailable_offsets": self.unavailable_offsets,
            "projected_lag": self.projected_lag,
            "oldest_record_age_seconds": self.oldest_record_age_seconds,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "waiting": self.waiting,
            "delivery_counts": None if counts is None else [count.to_dict() for count in counts],
            "runs": None if runs is None else [run.to_dict() for run in runs],
            "notes": list(self.notes),
        }


class DeadLetter(msgspec.Struct, frozen=True):
    """The dead-letter topic of a group (KIP-1191).

    Attributes:
        topic: its name as configured.
        depth: offsets it holds over all partitions, from log start to high watermark; `None` if not known.
        message: why it is not known, and what to try.
    """

    topic: str
    depth: int | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {"topic": self.topic, "depth": self.depth, "message": self.message}


class GroupVisible(msgspec.Struct, frozen=True):
    """What a closer look found out about one share group; a setting that could not be read is `None`.

    Attributes:
        isolation_level: "read_uncommitted" or "read_committed".
        auto_offset_reset: "latest", "earliest" or "by_duration:…".
        delivery_count_limit: deliveries after which a record is archived.
        record_lock_duration_ms: how long a member may hold a record.
        max_record_locks: records in flight that one partition allows.
        dead_letter: `None` if none is configured or it is not known.
        notes: sentences on what is not known, and what to do about it.
    """

    isolation_level: str | None = None
    auto_offset_reset: str | None = None
    delivery_count_limit: int | None = None
    record_lock_duration_ms: int | None = None
    max_record_locks: int | None = None
    dead_letter: DeadLetter | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the documented JSON object."""
        return {
            "isolation_level": self.isolation_level,
            "auto_offset_reset": self.auto_offset_reset,
            "delivery_count_limit": self.delivery_count_limit,
            "record_lock_duration_ms": self.record_lock_duration_ms,
            "max_record_locks": self.max_record_locks,
            "dead_letter": None if self.dead_letter is None else self.dead_letter.to_dict(),
            "notes": list(self.notes),
        }
