"""A group's partitions without its coordinator, from the stored state."""

from __future__ import annotations

from typing import cast

import pytest

from shareproxy.lag import unlisted
from shareproxy.lag.leaders import EndOffsets
from shareproxy.lag.model import Status
from shareproxy.lag.unlisted import StateProbe
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import N1, N2, T1, T2, SimulatedBrokers, Stored, Topic, soon

G = GroupId("g")


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """Group g has stored an offset for t-0, another group for u-0."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics = {"t": Topic(T1, [N1, N1], [11, 5]), "u": Topic(T2, [N1], [9])}
    brokers.states["g", T1, 0] = Stored(0, 3, 4)
    brokers.states["other", T2, 0] = Stored(2, 0, 0)
    return brokers


async def find(brokers: SimulatedBrokers, most: int = 100) -> dict[tuple[str, int], tuple[int | None, Status | None]]:
    """Return start offset and trouble by topic and partition."""
    probe = StateProbe(brokers, EndOffsets(brokers), lambda rows: rows <= most)
    found = await probe.find(G, deadline=soon(0.5))
    return {
        (item.topic, item.partition): (
            reading.start_offset,
            None if reading.trouble is None else reading.trouble.status,
        )
        for item, reading in found.items()
    }


async def test_topics_with_a_stored_offset_are_the_groups(brokers: SimulatedBrokers) -> None:
    """With all of their partitions; a group's topic is its topic as a whole."""
    assert await find(brokers) == {("t", 0): (0, None), ("t", 1): (None, None)}


async def test_a_share_coordinator_that_hangs_hides_only_its_own(brokers: SimulatedBrokers) -> None:
    """Its partitions are there, with the reason."""
    brokers.share_coordinator = lambda partition: N2 if partition == 1 else N1
    brokers.frozen = {N2}

    assert await find(brokers) == {("t", 0): (0, None), ("t", 1): (None, Status.TIMEOUT)}


async def test_of_many_partitions_a_few_of_each_topic_are_looked_at(
    brokers: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then the others of the topics found."""
    monkeypatch.setattr(unlisted, "MOST_PROBED", 2)
    monkeypatch.setattr(unlisted, "SAMPLE", 1)

    assert await find(brokers) == {("t", 0): (0, None), ("t", 1): (None, None)}
    requests = cast("list[m.ReadShareGroupStateSummaryRequest]", brokers.sent(m.ReadShareGroupStateSummaryRequest))
    assert [sum(len(topic.partitions) for topic in request.topics) for request in requests] == [2, 1]


async def test_what_cannot_be_afforded_is_not_looked_at(brokers: SimulatedBrokers) -> None:
    """The deadline would pass over the work."""
    assert await find(brokers, most=2) == {}
    assert brokers.sent(m.ReadShareGroupStateSummaryRequest) == []


async def test_without_the_right_nothing_is_found(brokers: SimulatedBrokers) -> None:
    """CLUSTER_ACTION is needed."""
    brokers.cluster_action = False

    assert await find(brokers) == {}
