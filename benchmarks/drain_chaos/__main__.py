"""Drain for half an hour while things break: `python -m benchmarks.drain_chaos --minutes 30 --seed 1`.

Exit code 1 if a record is missing, one was archived, or the lag does not reach 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.drain_chaos.faults import Faults
from benchmarks.drain_chaos.ledger import Account, read, read_told, settle
from benchmarks.drain_chaos.producer import SteadyProducer
from benchmarks.drain_chaos.workers import Crew
from shareproxy.sync import ShareAdmin
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka

TOPIC, GROUP = "chaos", "chaos-workers"
PARTITIONS = 6
WORKERS = 4
LOCK_SECONDS = 15.0
ATTEMPTS = 5
DRAIN_SECONDS = 180.0


def main() -> int:
    """Run it and print the account."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain_chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1, help="of the order of faults")
    parser.add_argument("--rate", type=int, default=300, help="records a second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drain-chaos-") as directory, LocalKafka("4.4.0", nodes=3) as kafka:
        with ShareDriver(kafka) as driver:
            driver.create_topic(TOPIC, partitions=PARTITIONS, replication=3, configs={"min.insync.replicas": "2"})
            driver.set_group_config(
                GROUP,
                {
                    "share.auto.offset.reset": "earliest",
                    "share.record.lock.duration.ms": str(round(LOCK_SECONDS * 1000)),
                },
            )
        return run(kafka, Path(directory), arguments.minutes, arguments.seed, arguments.rate)


def run(kafka: LocalKafka, directory: Path, minutes: float, seed: int, rate: int) -> int:
    """Break things for so long, drain what is left, and settle."""
    with Crew(kafka.bootstrap_servers, GROUP, TOPIC, directory, WORKERS) as crew:
        faults = Faults(crew, kafka, seed)
        with SteadyProducer(kafka.bootstrap_servers, TOPIC, rate) as producer:
            end = time.monotonic() + minutes * 60
            while time.monotonic() < end:
                faults.go_on_until(min(end, time.monotonic() + 60))
                _show(f"{(time.monotonic() - end) / 60 + minutes:.1f} min: {len(producer.acknowledged):,} records")
        lag = _wait_for_lag_0(kafka.bootstrap_servers)
        crew.stop()
        told = read_told(directory.glob("worker-*.log"))
        account = settle(producer.acknowledged, read(crew.files), faults.times, LOCK_SECONDS, told)
        _print(account, faults, producer.failed, lag, minutes, seed)
        for words in crew.last_words:
            _show(f"a worker ended by itself, {words}")
        wrong = bool(account.missing or lag or account.unexplained)
        if wrong:
            keep = Path(tempfile.mkdtemp(prefix="drain-chaos-kept-"))
            for file in directory.iterdir():
                (keep / file.name).write_bytes(file.read_bytes())
            (keep / "faults").write_text("\n".join(map(str, faults.times)))
            _show(f"missing: {list(account.missing)[:20]}; what the workers wrote is in {keep}")
    return int(wrong)


def _wait_for_lag_0(servers: str) -> int | None:
    deadline = time.monotonic() + DRAIN_SECONDS
    lag: int | None = None
    with ShareAdmin(servers) as admin:
        while time.monotonic() < deadline:
            group = admin.lag(GROUP).groups[0]
            lag = group.lag if group.complete else None
            if lag == 0:
                break
            time.sleep(1)
    return lag


def _print(account: Account, faults: Faults, failed: int, lag: int | None, minutes: float, seed: int) -> None:
    kinds = ", ".join(f"{count} × {name}" for name, count in sorted(faults.done.items()) if count)
    print(f"\n{minutes:g} minutes, seed {seed}, {WORKERS} workers, lock {LOCK_SECONDS:g} s: {kinds}")
    print("| | |\n|---|---|")
    print(f"| offsets acknowledged to the producer | {account.produced:,} |")
    print(f"| finished by a worker | {account.finished:,} |")
    print(f"| missing | {len(account.missing)} |")
    print(f"| finished, acknowledgement lost on its way to the producer | {account.unknown} |")
    print(f"| records the producer gave up | {failed} |")
    print(f"| finished once more | {account.again:,} |")
    print(f"| of these told by a worker: acknowledgement or lock lost | {account.told:,} |")
    print(f"| told by nobody, and without a fault before | {account.unexplained} |")
    counts = ", ".join(f"{count:,} × {number}" for number, count in account.deliveries.items())
    print(f"| records by their highest delivery count (limit {ATTEMPTS}) | {counts} |")
    print(f"| lag at the end | {lag} |")


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
