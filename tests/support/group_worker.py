"""Work off a topic with a ReconcilingCommitter, in a process of its own that a test can kill.

`python -m tests.support.group_worker BOOTSTRAP GROUP TOPIC FILE`: each record's place is in the file before it is
finished.
"""

from __future__ import annotations

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer

from shareproxy import ReconcilingCommitter


async def work(bootstrap_servers: str, group: str, topic: str, file: str) -> None:
    """Write places for ever."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        max_poll_records=5,
    )
    with open(file, "a", encoding="ascii") as ledger:  # noqa: ASYNC230 - a line is short
        async with ReconcilingCommitter(consumer, [topic], commit_interval=0.05) as records:
            async for record in records:
                ledger.write(f"{record.partition} {record.offset}\n")
                ledger.flush()
                os.fsync(ledger.fileno())
                records.finished(record)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
