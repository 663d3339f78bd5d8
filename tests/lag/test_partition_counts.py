"""Which named partitions do not exist."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from shareproxy.cluster.errors import Unreachable
from shareproxy.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from shareproxy.lag.partition_counts import out_of_range
from shareproxy.protocol.ids import NO_TOPIC_ID


class Topics:
    """Metadata alone: an aged answer, and what is true now."""

    def __init__(self, aged: dict[str, int], fresh: dict[str, int] | None = None) -> None:
        self._aged, self._fresh = aged, aged if fresh is None else fresh
        self.fresh_looks: list[Collection[str] | None] = []

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Answer from the one or the other."""
        if not max_age:
            self.fresh_looks.append(topics)
        counts = self._aged if max_age else self._fresh
        return ClusterMetadata("c", None, {}, {name: _topic(name, counts.get(name)) for name in topics or ()})


def _topic(name: str, count: int | None) -> TopicMetadata:
    if count is None:
        return TopicMetadata(name, NO_TOPIC_ID, error_code=3)
    return TopicMetadata(name, NO_TOPIC_ID, partitions={index: PartitionMetadata(index) for index in range(count)})


async def test_existing_partitions_cost_no_fresh_look() -> None:
    """A topic seldom loses partitions."""
    topics = Topics({"t": 3})

    assert await out_of_range(topics, {"t": [0, 2]}, deadline=0) == {}
    assert topics.fresh_looks == []


async def test_index_beyond_the_last_partition_does_not_exist() -> None:
    """It is what a broker would wait half a minute for; only the doubtful topic is looked at again."""
    topics = Topics({"t": 3, "u": 1})

    assert await out_of_range(topics, {"t": [0, 3, 9], "u": [0]}, deadline=0) == {"t": {3, 9}}
    assert topics.fresh_looks == [("t",)]


async def test_added_partition_exists() -> None:
    """An old answer is not believed when it says no."""
    assert await out_of_range(Topics({"t": 1}, {"t": 2}), {"t": [1]}, deadline=0) == {}


async def test_negative_index_is_left_to_the_broker() -> None:
    """It refuses the whole group for it."""
    assert await out_of_range(Topics({"t": 1}), {"t": [-1]}, deadline=0) == {}


async def test_topic_that_cannot_be_seen_is_left_to_the_broker() -> None:
    """It may exist: our own identity may not be allowed to see it."""
    assert await out_of_range(Topics({}), {"hidden": [99]}, deadline=0) == {}


async def test_trouble_is_the_callers() -> None:
    """Without Metadata nothing is said to be missing."""

    class Down(Topics):
        async def metadata(
            self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
        ) -> ClusterMetadata:
            raise Unreachable("no broker answered")

    with pytest.raises(Unreachable):
        await out_of_range(Down({}), {"t": [0]}, deadline=0)
