"""Let the load process run every row against every contestant, in turns.

In: contestants and rows. Out: what each round gave. Must never: run two contestants at the same time.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.proxy import frames
from benchmarks.proxy.contestants import HOST, Contestant
from benchmarks.proxy.table import Row

Result = dict[str, float]
Ask = Callable[[dict[str, Any]], Result]


class Work(NamedTuple):
    """What is measured for a row.

    Attributes:
        row: in the table.
        work: of the load process.
        frame: the request.
        in_flight: at a time.
        requests: per round, each on a connection of its own if that is what it costs.
        per_gigabyte: whether the cost is per GB; else it is per request, in µs.
    """

    row: Row
    work: str
    frame: bytes
    in_flight: int
    requests: int
    per_gigabyte: bool = False

    def cost(self, result: Result) -> float:
        """Return the processor time per unit."""
        return result["cpu"] * 1e9 / result["bytes"] if self.per_gigabyte else result["cpu"] * 1e6 / self.requests

    def rate(self, result: Result) -> float:
        """Return MB or requests per second."""
        return result["bytes"] / 1e6 / result["seconds"] if self.per_gigabyte else self.requests / result["seconds"]


PRODUCE: Final = Row("produce, 1 KiB records in batches of 128 KiB, s/GB", 1.5, 1.0)
BATCHES: Final = Row("produce, batches of 16 KiB, 5 in flight, s/GB", 1.5, 1.0)
FETCH: Final = Row("fetch of 1 MiB, s/GB", 2.0, 1.0)
SMALL: Final = Row("small request (ListOffsets), 1 in flight, µs", 1.6, 1.1)
PIPELINED: Final = Row("small requests, 64 in flight, µs", 1.4, 1.0)
CONNECT: Final = Row("connect + ApiVersions + close, µs", 1.6, 1.1)
IDLE: Final = Row("KiB per idle connection", 1.5, 1.0)
LATENCY: Final = Row("added latency p50, µs", 3, 2)


def works(broker: int, share: float) -> list[Work]:
    """Make the topics and return all timed rows, with a part of their work."""
    frames.make_topic(HOST, broker, "written")
    read = frames.make_topic(HOST, broker, "read")
    large, small = frames.produce("written", frames.LARGE_BATCH), frames.produce("written", frames.SMALL_BATCH)
    with load_process() as ask:  # something to read: 2 MiB
        for batch in (frames.produce("read", frames.SMALL_BATCH),):
            ask(job("stream", 0, broker, batch, count=140, in_flight=5))
    offsets = frames.list_offsets("read")
    return [
        Work(PRODUCE, "stream", large, 5, int(800 * share), per_gigabyte=True),
        Work(BATCHES, "stream", small, 5, int(3_000 * share), per_gigabyte=True),
        Work(FETCH, "stream", frames.fetch(read), 2, int(400 * share), per_gigabyte=True),
        Work(SMALL, "one_by_one", offsets, 1, int(2_500 * share)),
        Work(PIPELINED, "stream", offsets, 64, int(6_000 * share)),
        Work(CONNECT, "connect", frames.api_versions(), 1, int(500 * share)),
    ]


def job(work: str, pid: int, port: int, frame: bytes, **more: float) -> dict[str, Any]:
    """Return a job for the load process; with pid 0 it looks at itself."""
    return {"name": str(port), "work": work, "pid": pid, "port": port, "frame": frame.hex(), **more}


@contextlib.contextmanager
def load_process() -> Iterator[Ask]:
    """Run the load process; gives a call that has a job done.

    The call raises RuntimeError if the job fails.
    """
    command = [sys.executable, "-m", "benchmarks.proxy.load"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answered = process.stdin, process.stdout

    def ask(what: dict[str, Any]) -> Result:
        asked.write(json.dumps(what | {"pid": what["pid"] or process.pid}) + "\n")
        asked.flush()
        result: dict[str, Any] = json.loads(answered.readline() or '{"error": "the load process has ended"}')
        if "error" in result:
            raise RuntimeError(result["error"])
        return result

    try:
        yield ask
    finally:
        asked.close()
        process.wait(30)
        answered.close()


def play(
    ask: Ask, contestants: Sequence[Contestant], rows: Sequence[Work], rounds: int
) -> Iterator[tuple[Work, str, Result]]:
    """Give each result; the first round of each row warms up and is thrown away."""
    for work in rows:
        for number in range(rounds + 1):
            turn = number % len(contestants)
            for contestant in (*contestants[turn:], *contestants[:turn]):
                count = work.requests if number else max(work.requests // 4, 1)
                wanted = job(
                    work.work, contestant.pid, contestant.port, work.frame, count=count, in_flight=work.in_flight
                )
                result = ask(wanted)
                if number:
                    yield work, contestant.label, result
