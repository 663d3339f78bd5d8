"""Tell which named partitions do not exist.

In: partition indexes by topic. Out: those at or beyond the number of partitions of their topic, by fresh Metadata.
Must never: call a partition missing by an old answer, say anything about a topic that cannot be seen, or take more or
less time for what exists: who asks may have no right to know (the broker says so later).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from shareproxy.cluster.metadata import ClusterMetadata

Places = Mapping[str, Collection[int]]


class SeesTopics(Protocol):
    """The one thing needed of a cluster client; see `lag.brokers.Brokers`."""

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Return brokers and the named topics."""
        ...


async def out_of_range(brokers: SeesTopics, asked: Places, *, deadline: float) -> dict[str, set[int]]:
    """Return which partitions certainly do not exist although their topics do.

    Args:
        brokers: where Metadata comes from.
        asked: partition indexes by topic name; negative ones are left to the broker.
        deadline: `loop.time()` seconds.

    Raises:
        ClusterError: no Metadata in time.
    """
    # one fresh look for all: a remembered topic would be answered sooner than one that is not there
    metadata = await brokers.metadata(tuple(asked), deadline=deadline)
    beyond: dict[str, set[int]] = {}
    for name, indexes in asked.items():
        topic = metadata.topics.get(name)
        if topic is not None and not topic.error_code and topic.partitions:
            count = max(topic.partitions) + 1
            if missing := {index for index in indexes if index >= count}:
                beyond[name] = missing
    return beyond
