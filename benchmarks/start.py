"""Time `shareproxy serve` from exec to its first correct Metadata answer, and read its memory at rest."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from benchmarks.serving import PlainClient, serving
from shareproxy.protocol.messages import MetadataRequest
from shareproxy.testing.kafka import LocalKafka

ROUNDS = 7
TARGET_SECONDS = 0.7
TARGET_MIB = 60.0


def first_answer(port: int, started: float) -> float:
    """Return the seconds until Metadata names a broker on one of our ports."""
    while True:
        try:
            client = PlainClient("127.0.0.1", port, timeout=5.0)
            brokers = client.ask(MetadataRequest(topics=[]), 12).brokers
            client.close()
        except OSError:
            time.sleep(0.002)
            continue
        if brokers and all(port < broker.port <= port + 8 for broker in brokers):
            return time.perf_counter() - started
        time.sleep(0.002)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def main() -> int:
    """Print both figures."""
    seconds, memory = [], []
    with LocalKafka("4.4.0", progress=print) as kafka:
        for number in range(ROUNDS + 1):
            started = time.perf_counter()
            with serving(kafka.bootstrap_servers) as (process, port):
                answered = first_answer(port, started)
                if number:  # the first run writes the bytecode that an installed package already has
                    seconds.append(answered)
                    memory.append(resident_mib(process.pid))
    print(f"exec to first correct Metadata: {statistics.median(seconds):.2f} s median (at most {TARGET_SECONDS})")
    print(f"  {', '.join(f'{value:.2f}' for value in seconds)}")
    print(f"memory at rest: {statistics.median(memory):.0f} MiB (at most {TARGET_MIB:.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
