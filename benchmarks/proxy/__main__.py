"""Compare what shareproxy costs with a bare relay and with Envoy, in front of one real broker.

In: nothing but options. Out: the peers' table. Must never: give a figure without the ones it is compared with.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.proxy import frames
from benchmarks.proxy.contestants import (
    Contestant,
    MissingPeerError,
    envoy,
    envoy_command,
    free_port,
    nginx,
    nginx_command,
    own_command,
    own_floor_command,
    running,
)
from benchmarks.proxy.load import exchange_once
from benchmarks.proxy.rounds import IDLE, LATENCY, SMALL, Ask, job, load_process, play, works
from benchmarks.proxy.table import (
    DIRECT,
    ENVOY,
    FLOOR,
    OURS,
    OURS_ASYNCIO,
    Row,
    at_most,
    floor_table,
    peers_table,
    spread,
)
from benchmarks.proxy.usage import family, resident_bytes
from shareproxy.testing.kafka import LocalKafka

# nothing that grows: old segments go while new ones come
BROKER: dict[str, str | int] = {
    "auto.create.topics.enable": "true",
    "num.partitions": 1,
    "log.segment.bytes": 64 << 20,
    "log.retention.bytes": 192 << 20,
    "log.retention.check.interval.ms": 2_000,
    "log.segment.delete.delay.ms": 0,
    "group.share.enable": "true",
}
WITH_MANY = {"SHAREPROXY_LIMITS_MAX_CONNECTIONS": "30000", "SHAREPROXY_LIMITS_MAX_CONNECTIONS_PER_ADDRESS": "30000"}


class Options(NamedTuple):
    """From the command line."""

    rounds: int
    share: float
    only: str
    idle: int
    held: int


def options() -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proxy", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds of each row")
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of the work in two rounds: does it run at all?"
    )
    parser.add_argument("--share", type=float, default=1.0, help="part of the work of each round, on a busy machine")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--idle", type=int, default=2_000, help="idle connections whose memory is measured")
    parser.add_argument(
        "--held", type=int, default=10_000, help="idle connections held by shareproxy; 0 to leave it out"
    )
    found = parser.parse_args()
    if found.quick:
        return Options(2, 0.02, found.only, 50, 0)
    return Options(found.rounds, found.share, found.only, found.idle, found.held)


Samples = dict[str, list[float]]
"""One number per round, by contestant."""
Commands = dict[str, Callable[[int], list[str]]]
"""From the port where it should listen to the command, by contestant."""


def commands(broker: int, directory: Path) -> Commands:
    """Return how to start each proxy; one that cannot be had is said to be missing."""
    found: Commands = {}
    try:
        nginx()
        found[FLOOR] = lambda port: nginx_command(broker, port, directory)
        print("floor: nginx `stream`, one process, buffers of 64 KiB")
    except MissingPeerError as error:
        found[FLOOR] = lambda port: own_floor_command(broker, port)
        print(f"floor: a relay of ours in Python, as nginx cannot be had: {error}")
    try:
        envoy()
        found[ENVOY] = lambda port: envoy_command(broker, port, directory)
        print("Envoy: 1.40.0, `tcp_proxy`, one worker thread")
    except MissingPeerError as error:
        print(f"Envoy is missing: {error}")
    found[OURS] = lambda port: own_command("shareproxy", broker, port)
    found[OURS_ASYNCIO] = lambda port: own_command("benchmarks.proxy.on_asyncio", broker, port)
    return found


def answered(port: int, seconds: float = 120.0) -> None:
    """Return when a request through a port has been answered."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return exchange_once(port, frames.api_versions())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def at_rest(found: Commands, ask: Ask, idle: int, rounds: int) -> tuple[Samples, Samples, Samples]:
    """Measure start, memory at rest and memory per idle connection, each in fresh processes."""
    started: dict[str, list[float]] = defaultdict(list)
    resident: dict[str, list[float]] = defaultdict(list)
    per_connection: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for label, command in found.items():
            port = free_port()
            begun = time.perf_counter()
            with running(label, command(port), port, **WITH_MANY) as contestant:
                answered(port)
                started[label].append((time.perf_counter() - begun) * 1e3)
                resident[label].append(resident_bytes(family(contestant.pid)) / 2**20)
                result = ask(job("idle", contestant.pid, port, frames.api_versions(), count=idle, beside=20))
                per_connection[label].append(result["bytes"] / 1024 / idle)
    return started, resident, per_connection


@contextlib.contextmanager
def all_running(found: Commands, broker: int) -> Iterator[list[Contestant]]:
    """Run all proxies beside one another; only one of them works at a time."""
    with contextlib.ExitStack() as stack:
        contestants = [Contestant(DIRECT, os.getpid(), broker)]
        for label, command in found.items():
            port = free_port()
            contestants.append(stack.enter_context(running(label, command(port), port, **WITH_MANY)))
            answered(port)
        yield contestants


def hold(broker: int, ask: Ask, count: int) -> None:
    """Hold many idle connections while small requests go on."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    workers = 1 if files > 2 * count + 200 else 2  # each connection has two sockets
    port = free_port()
    with running(OURS, own_command("shareproxy", broker, port, "--workers", str(workers)), port, **WITH_MANY) as ours:
        port -= 1  # the bootstrap port: a worker that does not know node 1 yet would refuse its port
        answered(port)
        frame = frames.api_versions()
        alone = ask(job("one_by_one", ours.pid, port, frame, count=1_000, in_flight=1))
        begun = time.perf_counter()
        held = ask(job("idle", ours.pid, port, frame, count=count, beside=1_000))
        seconds = time.perf_counter() - begun
        print(
            f"{count:,} idle connections held by {workers} worker(s), {files:,} open files each: "
            f"{held['bytes'] / 2**20:.0f} MiB more; a small request beside them takes "
            f"{held['p50'] * 1e6:.0f} µs (p50), {alone['p50'] * 1e6:.0f} without them; all in {seconds:.0f} s"
        )


def main() -> int:
    """Print the tables."""
    chosen = options()
    with contextlib.suppress(ValueError, OSError):  # two for each connection of the proxy; only root may have more
        resource.setrlimit(resource.RLIMIT_NOFILE, (65_536, 65_536))
    with tempfile.TemporaryDirectory() as directory, LocalKafka("4.4.0", properties=BROKER, progress=print) as kafka:
        broker = kafka.nodes[0].port
        found = commands(broker, Path(directory))
        rows = [work for work in works(broker, chosen.share) if chosen.only in work.row.name]
        costs: dict[Row, dict[str, list[float]]] = {work.row: defaultdict(list) for work in rows}
        rates: dict[str, dict[str, list[float]]] = {}
        latencies: dict[str, list[float]] = defaultdict(list)
        with load_process() as ask:
            with all_running(found, broker) as contestants:
                for work, label, result in play(ask, contestants, rows, chosen.rounds):
                    costs[work.row][label].append(work.cost(result))
                    name = work.row.name.rpartition(",")[0] + (", MB/s" if work.per_gigabyte else ", per second")
                    rates.setdefault(name, defaultdict(list))[label].append(work.rate(result))
                    if work.row is SMALL:
                        latencies[label].append(result["p50"] * 1e6)
            if latencies:
                direct = statistics.median(latencies[DIRECT])
                costs[LATENCY] = {
                    label: [value - direct for value in values]
                    for label, values in latencies.items()
                    if label != DIRECT
                }
                print(f"small request, 1 in flight, direct: {spread(latencies[DIRECT])} µs p50")
            if not chosen.only or chosen.only in "idle":
                started, resident, costs[IDLE] = at_rest(found, ask, chosen.idle, 1 if chosen.share < 0.1 else 3)
                print()
                for what, values, bound, aim in (("start, ms", started, 700, 400), ("at rest, MiB", resident, 60, 40)):
                    others = ", ".join(f"{label} {spread(numbers)}" for label, numbers in values.items())
                    print(at_most(what, statistics.median(values[OURS]), bound, aim) + f"; {others}")
            print(f"\n{peers_table(costs)}\n\n{floor_table(rates, 0.9)}\n", flush=True)
            if chosen.held and (not chosen.only or chosen.only in "held"):
                hold(broker, ask, chosen.held)
    return 0


if __name__ == "__main__":
    sys.exit(main())
