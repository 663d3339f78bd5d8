"""Send requests to one port as fast as answers come, and read what the proxy in between uses meanwhile.

In: jobs as JSON lines. Out: results as JSON lines. A process of its own; it never decodes: answers to the same
request have the same size, so counting bytes is enough. Must never: cost more than what it measures.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.proxy.usage import family, processor_seconds, resident_bytes

HOST = "127.0.0.1"
_BUFFER = bytearray(1 << 20)

Job = dict[str, Any]


def connected(port: int) -> socket.socket:
    """Return a connected socket that sends at once."""
    found = socket.create_connection((HOST, port), 60)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def exchange(connection: socket.socket, frame: bytes) -> int:
    """Send one frame and take its answer; return the answer's size with its size prefix."""
    connection.sendall(frame)
    got = bytearray()
    while len(got) < 4 or len(got) < 4 + int.from_bytes(got[:4]):
        chunk = connection.recv(1 << 20)
        if not chunk:
            raise ConnectionError("closed before the answer")
        got += chunk
    return len(got)


class Meter:
    """Processor time of a process and of this one, and wall time, between `start` and `stop`."""

    def __init__(self, pid: int) -> None:
        self._processes = family(pid)
        self._begun = self._now()

    def _now(self) -> tuple[float, float, float]:
        return processor_seconds(self._processes), time.process_time(), time.perf_counter()

    def stop(self) -> Job:
        """Return what was used since the beginning."""
        used = [after - before for after, before in zip(self._now(), self._begun, strict=True)]
        return {"cpu": used[0], "own_cpu": used[1], "seconds": used[2]}


def stream(job: Job, frame: bytes) -> Job:
    """Keep so many requests in flight until so many are answered."""
    with connected(job["port"]) as connection:
        size = exchange(connection, frame)
        for _ in range(job.get("warm_up", 3)):
            if exchange(connection, frame) != size:
                raise ValueError("answers to the same request differ in size")
        wanted, in_flight = job["count"], job["in_flight"]
        sent = answered = got = 0
        receive, send, buffer = connection.recv_into, connection.sendall, _BUFFER
        meter = Meter(job["pid"])
        while answered < wanted:
            room = min(answered + in_flight, wanted) - sent
            if room:
                send(frame * room if len(frame) < 4096 else frame)
                sent += room if len(frame) < 4096 else 1
                if sent < min(answered + in_flight, wanted):
                    continue
            count = receive(buffer)
            if not count:
                raise ConnectionError("closed in between")
            got += count
            answered = got // size
        return meter.stop() | {"bytes": wanted * max(size, len(frame))}


def one_by_one(job: Job, frame: bytes) -> Job:
    """Send a request when the last one is answered; note how long each takes."""
    clock = time.perf_counter
    with connected(job["port"]) as connection:
        size = exchange(connection, frame)
        for _ in range(job.get("warm_up", 20)):
            exchange(connection, frame)
        receive, send, buffer = connection.recv_into, connection.sendall, _BUFFER
        times = []
        meter = Meter(job["pid"])
        for _ in range(job["count"]):
            begun = clock()
            send(frame)
            got = 0
            while got < size:
                count = receive(buffer)
                if not count:
                    raise ConnectionError("closed in between")
                got += count
            times.append(clock() - begun)
        return meter.stop() | {"p50": statistics.median(times)}


def connect(job: Job, frame: bytes) -> Job:
    """Connect, ask, close, again and again."""
    exchange_once(job["port"], frame)
    meter = Meter(job["pid"])
    for _ in range(job["count"]):
        exchange_once(job["port"], frame)
    time.sleep(0.1)  # the proxy closes its side
    return meter.stop()


def exchange_once(port: int, frame: bytes) -> None:
    """One short life of a connection."""
    with connected(port) as connection:
        exchange(connection, frame)


def idle(job: Job, frame: bytes) -> Job:
    """Open connections that have spoken once; return the memory that they take, and what small requests cost then."""
    held: list[socket.socket] = []
    try:
        exchange_once(job["port"], frame)
        before = resident_bytes(family(job["pid"]))
        for _ in range(job["count"]):
            held.append(connected(job["port"]))
            exchange(held[-1], frame)
        after = resident_bytes(family(job["pid"]))
        beside = one_by_one(job | {"count": job["beside"]}, frame)
        for connection in (held[0], held[-1]):
            exchange(connection, frame)  # none was dropped meanwhile
        return {"bytes": after - before, "p50": beside["p50"]}
    finally:
        for connection in held:
            connection.close()


WORKS = {"stream": stream, "one_by_one": one_by_one, "connect": connect, "idle": idle}


def jobs() -> Iterator[Job]:
    """Read jobs until there are no more."""
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Work on jobs."""
    for job in jobs():
        try:
            result = WORKS[job["work"]](job, bytes.fromhex(job["frame"]))
        except Exception as error:
            result = {"error": f"{job['name']}, {job['work']}: {type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
