"""Compare two worker processes with one where the proxy itself is the limit: `python -m benchmarks.proxy.workers`.

In: nothing. Out: connections per second of both, their ratio, and nginx's as a control. Must never: let load or broker
take the processors of the second worker: nearly all work is TLS handshakes with a certificate of 4,096 bits, as when
all clients come back at once, and how much is left on this machine is told.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.proxy import frames
from benchmarks.proxy.contestants import MissingPeerError, free_port, nginx_command, running
from benchmarks.proxy.usage import family, processor_seconds
from benchmarks.serving import serving, wait_for_port
from shareproxy.testing.kafka import LocalKafka

OURS: Final = "shareproxy"
ROUNDS: Final = 5
SECONDS: Final = 3.0
CLIENTS: Final = 12
AT_LEAST: Final = 1.7
PATIENCE: Final = 20.0


def certificate(directory: Path, bits: int) -> Path:
    """Make a certificate and its key in one file."""
    key, pem = directory / "key.pem", directory / "proxy.pem"
    command = ["openssl", "req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-batch", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)
    pem.write_text(key.read_text() + pem.read_text())
    return pem


def connections(port: int, seconds: float) -> tuple[int, float]:
    """Connect, ask for ApiVersions and close, with many clients for some time; return how often, and how long."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = frames.api_versions()
    counts = [0] * CLIENTS
    failures: list[Exception] = []
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        try:
            while time.perf_counter() < end:
                plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
                with context.wrap_socket(plain) as secured:
                    secured.sendall(request)
                    if len(secured.recv(4)) != 4:
                        raise ConnectionError("no answer to ApiVersions")
                counts[number] += 1
        except Exception as error:  # a thread's own error would be lost
            failures.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(counts), time.perf_counter() - begun


class Side(NamedTuple):
    """Whoever speaks TLS in front of the broker, with so many worker processes.

    Attributes:
        name: for people.
        workers: how many processes.
        pid: of the process above them.
        port: where clients connect.
    """

    name: str
    workers: int
    pid: int
    port: int


class Round(NamedTuple):
    """What one round gave.

    Attributes:
        rate: connections per second.
        own: processor time for each of them, in ms.
        others: the same of load and broker.
        busiest: part of `own` that was one process's: a half of two workers that get as many clients.
    """

    rate: float
    own: float
    others: float
    busiest: float


def play(side: Side, broker: int) -> Round:
    """Let the load work on one of them."""
    own, others = family(side.pid), family(broker)

    def used() -> list[float]:
        return [time.process_time() + processor_seconds(others), *(processor_seconds([process]) for process in own)]

    before = used()
    count, seconds = connections(side.port, SECONDS)
    rest, *each = (after - earlier for after, earlier in zip(used(), before, strict=True))
    return Round(count / seconds, sum(each) / count * 1e3, rest / count * 1e3, max(each) / sum(each))


def compare(sides: Sequence[Side], broker: int) -> None:
    """Let all work in turns and print, for each name, the ratio of two workers to one."""
    rounds: dict[Side, list[Round]] = {side: [] for side in sides}
    for number in range(ROUNDS + 1):
        for side in sides if number % 2 else sides[::-1]:
            result = play(side, broker)
            if number:  # the first one warms up
                rounds[side].append(result)
    for side, results in rounds.items():
        rate, own, others, busiest = (statistics.median(values) for values in zip(*results, strict=True))
        print(
            f"{side.name}, {side.workers} worker(s): {rate:.0f} TLS connections per second, {own:.2f} ms of processor "
            f"time each, load and broker {others:.2f} ms; the busiest process {busiest:.0%}"
        )
    for name in dict.fromkeys(side.name for side in sides):
        one, two = (rounds[side] for side in sides if side.name == name)
        ratios = [second.rate / first.rate for first, second in zip(one, two, strict=True)]
        own, others = (statistics.median(values) for values in list(zip(*one, strict=True))[1:3])
        room = min(2.0, (os.cpu_count() or 1) * own / (own + others))
        ratio = statistics.median(ratios)
        verdict = f", at least {AT_LEAST}: {'met' if ratio >= AT_LEAST else 'not met'}" if name == OURS else ""
        print(f"{name}, two ÷ one: {ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f}){verdict}")
        print(f"  what load and broker leave on {os.cpu_count()} processors: {room:.2f}")


@contextlib.contextmanager
def control(broker: int, pem: Path, workers: int) -> Iterator[Side]:
    """Run nginx as a relay that speaks TLS: what this machine allows to somebody written in C.

    Raises:
        MissingPeerError: it cannot be had.
    """
    directory = pem.parent / f"nginx-{workers}"
    directory.mkdir()
    port = free_port()
    command = nginx_command(broker, port, directory, workers=workers, pem=pem)
    with running("nginx", command, port) as contestant:
        yield Side("nginx (control)", workers, contestant.pid, port)


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy.workers")
    parser.add_argument("--bits", type=int, default=4096, help="of the certificate; more leave less to the load")
    bits = parser.parse_args().bits
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalKafka("4.4.0", progress=print) as kafka,
        contextlib.ExitStack() as stack,
    ):
        pem = certificate(Path(directory), bits)
        sides = []
        for workers in (1, 2):
            flags = ("--tls-certificate", str(pem), "--workers", str(workers))
            process, port = stack.enter_context(serving(kafka.bootstrap_servers, *flags))
            sides.append(Side(OURS, workers, process.pid, port))
        node = kafka.nodes[0]
        try:
            sides += [stack.enter_context(control(node.port, pem, workers)) for workers in (1, 2)]
        except MissingPeerError as error:
            print(f"nginx, the control, is missing: {error}")
        for side in sides:
            wait_for_port(side.port)
            connections(side.port, 1.0)
        assert node.pid is not None
        compare(sides, node.pid)
    return 0


if __name__ == "__main__":
    sys.exit(main())
