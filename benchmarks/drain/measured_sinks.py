"""Sinks that only let the worker be measured.

In: records. Out: nothing. Must never: do work that a sink would not do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from shareproxy.drain.sink import SinkRecord, TaskContext

SECONDS_EACH = 0.002


class NoOpSink:
    """Has everything it is given."""

    async def start(self, context: TaskContext) -> None:
        """Need nothing."""

    async def put(self, batch: Sequence[SinkRecord]) -> None:
        """Say that they are safe."""

    async def stop(self) -> None:
        """Hold nothing."""


class SlowSink(NoOpSink):
    """Takes 2 ms for each record, as something on the other side of a network does."""

    async def put(self, batch: Sequence[SinkRecord]) -> None:
        """Wait."""
        await asyncio.sleep(SECONDS_EACH * len(batch))


class StalledSink(NoOpSink):
    """Never comes back from a put."""

    stalled = False

    async def put(self, batch: Sequence[SinkRecord]) -> None:
        """Hold the records for good."""
        StalledSink.stalled = True
        await asyncio.get_running_loop().create_future()


def sink_class(kind: type[Any]) -> str:
    """Return how `sink.toml` names a sink of this module."""
    return f"{kind.__module__}:{kind.__qualname__}"
