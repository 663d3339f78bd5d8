"""Depth of dead-letter topics."""

from __future__ import annotations

from shareproxy.lag.dead_letters import dead_letters
from shareproxy.lag.visible_model import DeadLetter
from tests.lag.logs import Log, LogBrokers
from tests.lag.simulated_brokers import N1, T1, T2, Topic, soon


async def test_depth_is_over_all_partitions() -> None:
    """From log start to high watermark."""
    brokers = LogBrokers()
    brokers.topics["dlq.a"] = Topic(T1, [N1, N1], [10, 7])
    brokers.logs = {("dlq.a", 0): Log(4, 10), ("dlq.a", 1): Log(0, 7)}

    assert await dead_letters(brokers, ["dlq.a"], deadline=soon()) == {"dlq.a": DeadLetter("dlq.a", 13)}


async def test_missing_topic_is_a_warning() -> None:
    """Without it records are lost."""
    found = (await dead_letters(LogBrokers(), ["dlq.b"], deadline=soon()))["dlq.b"]

    assert found.depth is None
    assert "create it" in (found.message or "")


async def test_partition_without_leader() -> None:
    """Then the depth is not known, and the sentence names the partition."""
    brokers = LogBrokers()
    brokers.topics["dlq.c"] = Topic(T2, [N1, None], [10, 0])
    brokers.logs["dlq.c", 0] = Log(0, 10)

    found = (await dead_letters(brokers, ["dlq.c"], deadline=soon(0.3)))["dlq.c"]

    assert found.depth is None
    assert "partition 1" in (found.message or "")


async def test_no_topics_no_questions() -> None:
    """Nothing configured costs nothing."""
    brokers = LogBrokers()

    assert await dead_letters(brokers, [], deadline=soon()) == {}
    assert brokers.asked == []
