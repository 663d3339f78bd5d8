"""Which named partitions do not exist."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from shareproxy.cluster.errors import Unreachable
from shareproxy.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from shareproxy.lag.partition_counts import out_of_range
from shareproxy.protocol.ids import NO_TOPIC_ID


class Topics:
    """Metadata alone."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self.looks: list[tuple[Collection[str] | None, float]] = []

    async def metadata(
        self, topics: Collection[str] | None = (), *, deadline: float, max_age: float = 0.0
    ) -> ClusterMetadata:
        """Answer, and note how old the answer might be."""
        self.looks.append((topics, max_age))
        return ClusterMetadata("c", None, {}, {name: _topic(name, self._counts.get(name)) for name in topics or ()})


def _topic(name: str, count: int | None) -> TopicMetadata:
    if count is None:
        return TopicMetadata(name, NO_TOPIC_ID, error_code=3)
    return TopicMetadata(name, NO_TOPIC_ID, partitions={index: PartitionMetadata(index) for index in range(count)})


async def test_index_beyond_the_last_partition_does_not_exist() -> None:
    """It is what a broker would wait half a minute for."""
    topics = Topics({"t": 3, "u": 1})

    assert await out_of_range(topics, {"t": [0, 3, 9], "u": [0]}, deadline=0) == {"t": {3, 9}}


@pytest.mark.parametrize("asked", [{"t": [0]}, {"t": [9]}, {"hidden": [0]}, {"t": [0], "hidden": [9]}], ids=str)
async def test_what_exists_costs_what_does_not(asked: dict[str, list[int]]) -> None:
    """One look at the present, whatever it shows: the time must not tell what the client may have no right to know."""
    topics = Topics({"t": 3})

    await out_of_range(topics, asked, deadline=0)

    assert topics.looks == [(tuple(asked), 0)]


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
