"""Say how a sink task works, and what its sink is told of it.

In: values. Out: the same, and the context of KIP-1302. Must never: show a sink offsets, seek or pause (R14).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shareproxy.drain.put_outcome import Records
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.source import RecordSource

# a stop is seen at the latest then; a poll is never cancelled, as it may hold records that nobody has seen
POLL_SECONDS: Final = 0.5


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a task works.

    Args:
        connector: name of the connector.
        task_id: number of the task.
        config: the sink's own settings.
        max_records: of one put.
        delivery_limit: after how many deliveries the brokers give a record up; `None` in a consumer group.
        tolerate_unreadable: whether records that a converter cannot read are let pass; else they are rejected.
        reject_unknown: whether unknown exceptions reject, as KIP-1302 has it; else they release, and the task fails.
        implicit: whether the next poll goes ahead of the brokers' answers.
        retry: how delays grow; `in_place` is 0.
        put_timeout: seconds of one put, `None` for no limit.
        stop_timeout: seconds that a put under way may take when the task is told to stop.
        poll: seconds after which a poll without records returns.
    """

    connector: str
    task_id: int
    config: Mapping[str, Any] = {}
    max_records: int = 500
    delivery_limit: int | None = None
    tolerate_unreadable: bool = False
    reject_unknown: bool = False
    implicit: bool = False
    retry: Retry = Retry(in_place=0)
    put_timeout: float | None = None
    stop_timeout: float = 5.0
    poll: float = POLL_SECONDS

    @property
    def name(self) -> str:
        """How a sentence names the task."""
        return f"connector {self.connector!r}, task {self.task_id}"


class Context:
    """What the sink is told of its task; see `TaskContext`."""

    def __init__(self, options: TaskOptions, source: RecordSource) -> None:
        self.connector, self.task_id, self.config = options.connector, options.task_id, options.config
        self.group, self.topics, self.share_group = source.group, source.topics, source.share_group
        self.putting: Records = ()
        self._source = source

    async def renew(self) -> None:
        """Prolong the locks of what is being put."""
        if self.putting:
            await self._source.renew(self.putting)
