"""Say in one line what a worker is about to do, when it starts (R25).

In: a group, and what the consumer was asked for. Out: its settings as the brokers keep them, as a sentence and as
fields of a log line. Must never: fail a start because something cannot be seen, or guess what was not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from shareproxy.cluster.errors import ClusterError
from shareproxy.drain.dead_letter_check import DeadLetterQueue, dead_letter_queue, delivery_limit
from shareproxy.drain.model import AcquireMode
from shareproxy.lag.brokers import Brokers, trouble_from_error
from shareproxy.lag.group_configs import group_configs
from shareproxy.lag.group_settings import Settings, settings_of
from shareproxy.protocol.ids import GroupId

UNKNOWN: Final = "unknown"


class Announcement(msgspec.Struct, frozen=True):
    """What a worker is about to do.

    Attributes:
        mode: "share group" or "consumer group".
        lock_ms: how long a record is this member's; `None` where it is not known or there are no locks.
        delivery_limit: after how many deliveries a record is given up.
        dead_letters: whether what is rejected is kept; `None` where nobody can reject.
        trouble: why the group's settings are not known.
    """

    mode: str
    group: str
    topics: tuple[str, ...]
    acquire_mode: AcquireMode | None = None
    lock_ms: int | None = None
    delivery_limit: int | None = None
    isolation_level: str | None = None
    auto_offset_reset: str | None = None
    dead_letters: DeadLetterQueue | None = None
    trouble: str | None = None

    def fields(self) -> dict[str, object]:
        """Return the fields of a log line."""
        fields: dict[str, object] = {"mode": self.mode, "group": self.group, "topics": list(self.topics)}
        if self.acquire_mode is not None:
            fields |= {
                "acquire_mode": self.acquire_mode.name.lower(),
                "lock_ms": self.lock_ms,
                "delivery_limit": self.delivery_limit,
            }
        fields |= {"isolation_level": self.isolation_level, "auto_offset_reset": self.auto_offset_reset}
        if self.dead_letters is not None:
            fields["dead_letter_queue"] = self.dead_letters.topic if self.dead_letters.works else None
        if self.trouble is not None:
            fields["trouble"] = self.trouble
        return fields

    def sentence(self) -> str:
        """Return one line for a person."""
        parts = [f"{self.mode} {self.group!r}, {'topic' if len(self.topics) == 1 else 'topics'} {_list(self.topics)}"]
        if self.acquire_mode is not None:
            parts.append("lock " + (UNKNOWN if self.lock_ms is None else f"{self.lock_ms} ms"))
            parts.append(f"delivery limit {UNKNOWN if self.delivery_limit is None else self.delivery_limit}")
            parts.append(f"acquire mode {self.acquire_mode.name.lower()}")
        parts.append(f"isolation level {self.isolation_level or UNKNOWN}")
        parts.append(f"new partitions from {self.auto_offset_reset or UNKNOWN}")
        if self.dead_letters is not None:
            kept = self.dead_letters
            parts.append(f"dead-letter queue {kept.topic}" if kept.works else "no dead-letter queue")
        if self.trouble is not None:
            parts.append(f"(the group's settings are not known: {self.trouble})")
        return ", ".join(parts[:-1]) + f" {parts[-1]}" if self.trouble is not None else ", ".join(parts)


async def announcement(
    brokers: Brokers,
    group: str,
    topics: Sequence[str],
    *,
    acquire_mode: AcquireMode = AcquireMode.BATCH,
    lock_ms: int | None = None,
    deadline: float,
) -> Announcement:
    """Return what is to be said when a member of a share group starts.

    Args:
        brokers: where to ask.
        group: its name.
        topics: by name.
        acquire_mode: as the consumer was asked for it.
        lock_ms: as a broker answered it; else the group's setting.
        deadline: `loop.time()` seconds.

    Source: KIP-932, KIP-1191; issue 6, R25.
    """
    settings, limit, dead_letters = await asyncio.gather(
        _settings(brokers, group, deadline),
        delivery_limit(brokers, group, deadline=deadline),
        dead_letter_queue(brokers, group, deadline=deadline),
    )
    return Announcement(
        "share group",
        group,
        tuple(topics),
        acquire_mode,
        settings.record_lock_duration_ms if lock_ms is None else lock_ms,
        # it is never told wrong on the group, while the brokers' own may be hidden and is then Kafka's default
        limit if settings.delivery_count_limit is None else settings.delivery_count_limit,
        settings.isolation_level,
        settings.auto_offset_reset,
        dead_letters,
        None if settings.trouble is None else settings.trouble.message,
    )


async def _settings(brokers: Brokers, group: str, deadline: float) -> Settings:
    name = GroupId(group)
    try:
        return settings_of((await group_configs(brokers, [name], deadline=deadline))[name])
    except ClusterError as error:
        return Settings(trouble=trouble_from_error(error))


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
