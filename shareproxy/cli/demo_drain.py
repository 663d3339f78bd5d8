"""`shareproxy demo --drain`: a backlog, two workers, then six, one of them killed; and what became of each offset.

In: a running Kafka. Out: the lag once a second until it is 0, and an account.
Must never: call a record finished that no worker has noted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from shareproxy.cli.failures import ExitCode, say
from shareproxy.cli.tables import speaks_unicode

if TYPE_CHECKING:
    from shareproxy.cli.demo import Steps
    from shareproxy.sync import ShareAdmin
    from shareproxy.testing.kafka import LocalKafka

TOPIC: Final = "parcels"
GROUP: Final = "parcel-workers"
PARTITIONS: Final = 4
RECORDS: Final = 8_000
BATCH: Final = 100
FEW, MANY = 2, 6
# how much of the backlog is left when more workers come, and when one is killed
MORE_AT: Final = 0.75
KILL_AT: Final = 0.45
LOOK_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 150.0
STOP_SECONDS: Final = 10.0
BAR_WIDTH: Final = 40

Place = tuple[int, int]
"""Partition and offset."""


class Account(NamedTuple):
    """What became of all records.

    Attributes:
        written: offsets that the brokers acknowledged.
        missing: of these, finished by nobody.
        again: how often a record was finished once more.
        again_killed: of these, how many the killed worker had finished and not yet acknowledged.
    """

    written: int
    missing: tuple[Place, ...]
    again: int
    again_killed: int


def settle(written: set[Place], files: Iterable[Path], killed: Path | None) -> Account:
    """Compare what was written with what workers noted.

    Args:
        written: acknowledged offsets.
        files: one for each worker.
        killed: the file of the worker that was killed.
    """
    finished: Counter[Place] = Counter()
    by_killed: set[Place] = set()
    for file in files:
        found = _finished(file)
        finished.update(found)
        if file == killed:
            by_killed = set(found)
    again = {place: count - 1 for place, count in finished.items() if count > 1}
    return Account(
        len(written),
        tuple(sorted(written - finished.keys())),
        sum(again.values()),
        sum(count for place, count in again.items() if place in by_killed),
    )


def lag_line(lag: int, backlog: int, workers: int, rate: float) -> str:
    """Return one look as a line: a bar, the lag, who works, and how fast."""
    full, rest = ("█", "·") if speaks_unicode() else ("#", ".")
    # what is not done shows, however little it is
    width = min(-(-lag * BAR_WIDTH // max(backlog, 1)), BAR_WIDTH)
    return f"{full * width}{rest * (BAR_WIDTH - width)} lag {lag:>6,}   {workers} workers   {rate:>6,.0f} records/s"


def drain(cluster: LocalKafka, records: int, steps: Steps) -> ExitCode:
    """Write a backlog and drain it."""
    from shareproxy.sync import ShareAdmin

    written = _write_backlog(cluster, records)
    steps.say(f"topic {TOPIC}: {len(written):,} records in {PARTITIONS} partitions; nobody works on them yet")
    with (
        tempfile.TemporaryDirectory(prefix="shareproxy-demo-") as directory,
        _Crew(cluster.bootstrap_servers, Path(directory)) as crew,
        ShareAdmin(cluster.bootstrap_servers) as admin,
    ):
        crew.start(FEW)
        steps.say(f"{FEW} workers, each a process of its own, in share group {GROUP}")
        drained = _watch(admin, crew, len(written), steps)
        crew.stop()
        account = settle(written, crew.files, crew.killed)
    _print_account(account, drained, steps)
    if drained and not account.missing:
        steps.say("the lag is 0 and nothing is lost")
        return ExitCode.DONE
    if account.missing:
        say(f"records were lost, such as partition and offset {account.missing[:5]}; please report this")
    else:
        say(f"the lag did not come down to 0 within {DRAIN_SECONDS:g} s; is this machine very busy?")
    return ExitCode.NO


def _write_backlog(cluster: LocalKafka, records: int) -> set[Place]:
    from shareproxy.testing.driver import ShareDriver

    written: set[Place] = set()
    with ShareDriver(cluster) as driver:
        driver.create_topic(TOPIC, PARTITIONS)
        driver.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        each = max(records // PARTITIONS, 1)
        for begin in range(0, each, BATCH):
            offsets = driver.produce(TOPIC, range(PARTITIONS), min(BATCH, each - begin))
            written.update((partition, offset) for partition, found in offsets.items() for offset in found)
    return written


def _watch(admin: ShareAdmin, crew: _Crew, backlog: int, steps: Steps) -> bool:
    """Show the lag until it is 0; let more workers come meanwhile, and kill one. Returns whether it came to 0."""
    began = time.monotonic()
    looked, before = began, backlog
    while (now := time.monotonic()) < began + DRAIN_SECONDS:
        lag = _lag(admin)
        if lag is not None:
            steps.say(lag_line(lag, backlog, crew.size, max(before - lag, 0) / max(now - looked, LOOK_SECONDS)))
            looked, before = now, lag
            if lag <= backlog * MORE_AT and crew.size < MANY and crew.killed is None:
                crew.start(MANY - crew.size)
                steps.say(f"{MANY - FEW} more workers; nobody tells the first {FEW}")
            elif lag <= backlog * KILL_AT and crew.killed is None:
                number = crew.kill()
                steps.say(f"kill -9 {number}: one worker is gone, with records in its hands")
            if lag == 0 and crew.killed is not None:
                return True
        crew.check()
        time.sleep(max(now + LOOK_SECONDS - time.monotonic(), 0.0))
    return False


def _lag(admin: ShareAdmin) -> int | None:
    """Return the group's lag; `None` until its members have joined and each partition is known."""
    from shareproxy.admin.errors import AdminError

    try:
        group = admin.lag(GROUP).groups[0]
    except AdminError:
        return None
    return group.lag if group.complete and len(group.partitions) == PARTITIONS else None


def _print_account(account: Account, drained: bool, steps: Steps) -> None:
    steps.say("the account, by partition and offset:")
    rows = (
        ("records written", account.written),
        ("finished by a worker", account.written - len(account.missing)),
        ("lost", len(account.missing)),
        ("finished a second time", account.again),
        ("… after the killed worker, before it could say so", account.again_killed),
        ("lag at the end", "0" if drained else "not 0"),
    )
    for words, value in rows:
        print(f"{words:<52} {value:>8,}" if isinstance(value, int) else f"{words:<52} {value:>8}", flush=True)


def _finished(file: Path) -> list[Place]:
    """Return what a worker noted; a line that a kill cut off was not finished."""
    found: list[Place] = []
    if not file.exists():
        return found
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            partition, offset, _ = line.split()
            found.append((int(partition), int(offset)))
    return found


class _Crew:
    """The workers' processes."""

    def __init__(self, servers: str, directory: Path) -> None:
        self._servers, self._directory = servers, directory
        self._running: dict[Path, subprocess.Popen[bytes]] = {}
        self._started = 0
        self.files: list[Path] = []
        self.killed: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    @property
    def size(self) -> int:
        """How many work now."""
        return len(self._running)

    def start(self, count: int) -> None:
        """Start so many more."""
        for _ in range(count):
            self._started += 1
            file = self._directory / f"finished-{self._started}"
            command = [sys.executable, "-m", "shareproxy.cli.demo_worker", self._servers, GROUP, TOPIC, str(file)]
            with _log_of(file).open("wb") as log:
                environment = {name: text for name, text in os.environ.items() if not name.startswith("SHAREPROXY_")}
                self._running[file] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            self.files.append(file)

    def kill(self) -> int:
        """Kill the first one, without a warning; returns its process id."""
        self.killed = next(iter(self._running))
        process = self._running.pop(self.killed)
        process.kill()
        process.wait()
        return process.pid

    def check(self) -> None:
        """See that nobody has ended by himself.

        Raises:
            KafkaFailed: one has; the text is what it said last.
        """
        from shareproxy.testing.kafka import KafkaFailed

        for file, process in self._running.items():
            if process.poll() is not None:
                words = _log_of(file).read_text(errors="replace").strip().rpartition("\n")[2]
                raise KafkaFailed(f"a worker ended with exit code {process.returncode}: {words}")

    def stop(self) -> None:
        """End all in order."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def _log_of(file: Path) -> Path:
    return file.with_suffix(".log")
