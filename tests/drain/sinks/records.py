"""Records and contexts for tests of sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shareproxy.drain.model import Headers, TimestampType


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record as sinks see it."""

    topic: str = "orders"
    partition: int = 0
    offset: int = 0
    timestamp: int = 1_700_000_000_000
    timestamp_type: TimestampType = TimestampType.CREATE
    key: Any = None
    value: Any = None
    headers: Headers = ()
    delivery_count: int = 1
    lock_deadline: float | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """A context as sinks see it."""

    config: Mapping[str, Any]
    connector: str = "orders"
    task_id: int = 0
    group: str = "share-orders"
    share_group: bool = True
    topics: Sequence[str] = ("orders",)

    async def renew(self) -> None:
        """Do nothing."""


def records(count: int, *, first: int = 0, **parts: Any) -> list[Record]:
    """Return records of one partition."""
    return [Record(offset=offset, **{"value": {"n": offset}, **parts}) for offset in range(first, first + count)]
