"""Read what a sink brought to a topic."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer


async def copied(bootstrap_servers: str, topic: str, count: int) -> list[Any]:
    """Return the first records of a topic, from all of its partitions."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        found: list[Any] = []
        async with asyncio.timeout(30):
            while len(found) < count:
                found.append(await consumer.getone())
    finally:
        await consumer.stop()
    return found
