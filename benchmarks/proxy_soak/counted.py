"""Run `shareproxy` with a thread that tells how many tasks, objects and memory blocks there are, whenever it is asked.

In: a file descriptor to answer on and the command's arguments; lines on stdin. Out: one JSON object per line.
Must never: change what the command does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

import uvloop

LOOPS: Final[list[asyncio.AbstractEventLoop]] = []


def _remembering(make: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[], asyncio.AbstractEventLoop]:
    def made() -> asyncio.AbstractEventLoop:
        LOOPS.append(make())
        return LOOPS[-1]

    return made


def _tell(descriptor: int) -> None:
    with os.fdopen(descriptor, "w") as answers:
        for line in sys.stdin:
            if line.strip() == "collect":
                gc.collect()
            tasks = sum(len(asyncio.all_tasks(loop)) for loop in LOOPS)
            counts = {"tasks": tasks, "objects": len(gc.get_objects()), "blocks": sys.getallocatedblocks()}
            print(json.dumps(counts), file=answers, flush=True)


def main() -> None:
    """Start the thread, then the command."""
    uvloop.new_event_loop = _remembering(uvloop.new_event_loop)  # type: ignore[assignment]
    asyncio.new_event_loop = _remembering(asyncio.new_event_loop)
    threading.Thread(target=_tell, args=(int(sys.argv.pop(1)),), name="counter", daemon=True).start()
    from shareproxy.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
