"""Measure the dead-letter topics of groups (KIP-1191).

In: topic names. Out: how many offsets each holds, or a sentence on why that is not known.
Must never: create a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.leaders import Wanted, partitions_of
from shareproxy.lag.positions import EARLIEST, Positions, ask_positions
from shareproxy.lag.visible_model import DeadLetter


async def dead_letters(brokers: Brokers, topics: Collection[str], *, deadline: float) -> dict[str, DeadLetter]:
    """Return the depth of each topic: high watermark − log start over all partitions, markers included."""
    if not topics:
        return {}
    partitions = await partitions_of(brokers, topics, deadline=deadline)
    starts, ends = await asyncio.gather(
        ask_positions(Positions(brokers, EARLIEST), partitions, deadline=deadline),
        ask_positions(Positions(brokers), partitions, deadline=deadline),
    )
    by_topic: dict[str, list[Wanted]] = {}
    for item in partitions:
        by_topic.setdefault(item.topic, []).append(item)
    return {topic: _depth(topic, by_topic.get(topic, []), starts, ends) for topic in topics}


def _depth(
    topic: str, items: Collection[Wanted], starts: dict[Wanted, int | Trouble], ends: dict[Wanted, int | Trouble]
) -> DeadLetter:
    if not items:
        text = (
            f"dead-letter topic {topic!r} cannot be seen: without it records that are rejected or given up are lost; "
            "create it with errors.deadletterqueue.group.enable=true, or grant DESCRIBE on it"
        )
        return DeadLetter(topic, None, text)
    depth = 0
    for item in items:
        start, end = starts[item], ends[item]
        if isinstance(start, Trouble) or isinstance(end, Trouble):
            trouble = start if isinstance(start, Trouble) else end
            assert isinstance(trouble, Trouble)
            return DeadLetter(
                topic, None, f"partition {item.partition} of dead-letter topic {topic!r}: {trouble.message}"
            )
        depth += max(0, end - start)
    return DeadLetter(topic, depth)
