"""A worker as people write them, which notes each record that it has finished.

In: servers, group, topic, a file. Out: a line per finished record: partition, offset, delivery count, when. The line is
in the file before the record is accepted. Must never: note a record that it has not finished.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

import shareproxy

# most records take a moment, some much longer
USUAL_SECONDS = 0.004
SLOW_SECONDS = 0.4
SLOW_ONES = 0.01


async def main() -> None:
    """Drain until SIGTERM."""
    servers, group, topic, path = sys.argv[1:]
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def handle(record: shareproxy.ShareRecord) -> None:
        await asyncio.sleep(SLOW_SECONDS if random.random() < SLOW_ONES else USUAL_SECONDS)
        line = f"{record.partition} {record.offset} {record.delivery_count} {time.time():.3f}\n"
        os.write(out, line.encode())

    await shareproxy.run(handle, group=group, topics=[topic], bootstrap_servers=servers, concurrency=8, stop_timeout=5)


if __name__ == "__main__":
    asyncio.run(main())
