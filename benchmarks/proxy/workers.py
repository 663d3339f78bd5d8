"""Compare two worker processes with one where the proxy itself is the limit: `python -m benchmarks.proxy.workers`.

In: nothing. Out: connections per second of both, and their ratio. Must never: let the load or the broker take the
processors that the second worker should have.

Load, broker and proxy share the machine's processors, so on two of them a second worker can only show with work that
nearly all happens in the proxy: TLS handshakes with a certificate of 4,096 bits, as when all clients come back at once.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.proxy import frames
from benchmarks.proxy.usage import family, processor_seconds
from benchmarks.serving import serving, wait_for_port
from shareproxy.testing.kafka import LocalKafka

ROUNDS: Final = 7
SECONDS: Final = 4.0
CLIENTS: Final = 12
AT_LEAST: Final = 1.7
PATIENCE: Final = 20.0


def certificate(directory: Path) -> Path:
    """Make a certificate and its key in one file."""
    key, pem = directory / "key.pem", directory / "proxy.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-batch", "-days", "2"]
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


def compare(ports: Mapping[int, int], pids: Mapping[int, int]) -> None:
    """Let both work in turn and print the ratio of each round's rates."""
    ratios: list[float] = []
    rates: dict[int, list[float]] = {1: [], 2: []}
    costs: dict[int, list[float]] = {1: [], 2: []}
    for number in range(ROUNDS + 1):
        for workers in (1, 2) if number % 2 else (2, 1):
            before = processor_seconds(family(pids[workers]))
            count, seconds = connections(ports[workers], SECONDS)
            if number:  # the first one warms up
                rates[workers].append(count / seconds)
                costs[workers].append((processor_seconds(family(pids[workers])) - before) / count * 1e3)
        if number:
            ratios.append(rates[2][-1] / rates[1][-1])
    ratio = sorted(ratios)[len(ratios) // 2]
    for workers in (1, 2):
        rate, cost = (sorted(values[workers])[ROUNDS // 2] for values in (rates, costs))
        print(f"{workers} worker(s): {rate:.0f} TLS connections per second, {cost:.2f} ms of processor time each")
    verdict = "met" if ratio >= AT_LEAST else "not met"
    print(f"two ÷ one: {ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f}), at least {AT_LEAST}: {verdict}")


def main() -> int:
    """Print the ratio."""
    with tempfile.TemporaryDirectory() as directory, LocalKafka("4.4.0", progress=print) as kafka:
        flags = ("--tls-certificate", str(certificate(Path(directory))))
        servers = kafka.bootstrap_servers
        with (
            serving(servers, *flags, "--workers", "1") as (one, first),
            serving(servers, *flags, "--workers", "2") as (two, second),
        ):
            for port in (first, second):
                wait_for_port(port)
                connections(port, 1.0)
            compare({1: first, 2: second}, {1: one.pid, 2: two.pid})
    return 0


if __name__ == "__main__":
    sys.exit(main())
