"""One worker of `shareproxy demo --drain`, as people write them: a handler, and `shareproxy.run`.

In: servers, group, topic, a file. Out: a line for each finished record, `PARTITION OFFSET DELIVERY_COUNT`, in the file
before the record is accepted. Must never: note a record that it has not finished.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import shareproxy

SECONDS_EACH: Final = 0.05
AT_ONCE: Final = 6
STOP_SECONDS: Final = 3.0


async def work(servers: str, group: str, topic: str, file: str) -> None:
    """Drain until SIGTERM."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def handle(record: shareproxy.ShareRecord) -> None:
        await asyncio.sleep(SECONDS_EACH)
        # one write for a line: a kill leaves all of it or nothing
        os.write(out, f"{record.partition} {record.offset} {record.delivery_count}\n".encode())

    await shareproxy.run(
        handle,
        group=group,
        topics=[topic],
        bootstrap_servers=servers,
        concurrency=AT_ONCE,
        stop_timeout=STOP_SECONDS,
    )


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
