"""Soak the proxy: real Kafka, clients that come and go, floods; then ten thousand connections that only wait.

`python -m benchmarks.proxy_soak --minutes 20`. Exit code 1 if memory grows, something stays behind, or work fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.proxy_soak.churn import FLOOD, KINDS_OF_WORK, Churn
from benchmarks.proxy_soak.samples import FLAT_KIB_PER_MINUTE, Sample, Watched, fit
from benchmarks.serving import wait_for_port
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.ports import ports_side_by_side
from tests.support.flooder import Flooder, most_clients, most_connections
from tests.support.load import LibrdkafkaLoad
from tests.support.scenarios import many_partitions
from tests.support.waiting import wait_until

EVERY: Final = 10.0
# Pools and caches fill up first, and every flood may be the highest so far: the first half is not counted.
WARM_UP: Final = 0.5
# blocks of Python's allocator at rest, collected: a leak of one object per thousand connections shows
BLOCKS_AT_REST: Final = 2_000
IDLE: Final = 10_000
SETTLE_SECONDS: Final = 60.0
MORE: Final = 2_000
# on a busy machine a broker may take its time to accept a crowd; what is measured here is not how quickly
PROXY_SETTINGS: Final = {
    "SHAREPROXY_LIMITS_MAX_CONNECTIONS": "100000",
    "SHAREPROXY_LIMITS_CONNECT_TIMEOUT": "30",
    "SHAREPROXY_LOG_LEVEL": "error",
}
KAFKA_PROPERTIES: Final = {"socket.listen.backlog.size": 1024}
# an allocator keeps what ten thousand connections took; a second ten thousand must find it there
SECOND_CROWD_KIB: Final = 4_096


@contextlib.contextmanager
def watched_proxy(kafka: LocalKafka, workers: int, log: Path) -> Iterator[tuple[Watched, str]]:
    """Run the proxy as a process that can be asked for its tasks; with several workers, as people run it."""
    ports = ports_side_by_side(4)
    arguments = ["serve", "--bootstrap-server", kafka.bootstrap_servers, "--listen", f"127.0.0.1:{ports[0]}"]
    arguments += ["--node-ports", f"{ports[1]}-{ports[-1]}"]
    environment = os.environ | PROXY_SETTINGS
    read, write = os.pipe()
    if workers == 1:
        command = [sys.executable, "-m", "benchmarks.proxy_soak.counted", str(write), *arguments]
    else:
        command = [sys.executable, "-m", "shareproxy", *arguments, "--workers", str(workers)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=environment, pass_fds=(write,), text=True
        )
    os.close(write)
    try:
        wait_for_port(ports[0])
        yield Watched(process, read if workers == 1 else None), f"127.0.0.1:{ports[0]}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def show(sample: Sample) -> None:
    """Print one sample."""
    print(
        f"  {sample.minute:6.1f} min  {sample.kib / 1024:7.1f} MiB  {sample.descriptors:6} descriptors  "
        f"{'?' if sample.tasks is None else sample.tasks:>5} tasks  "
        f"{'?' if sample.objects is None else sample.objects:>7} objects  "
        f"{'?' if sample.blocks is None else sample.blocks:>8} blocks{'' if sample.quiet else '  (flood)'}",
        flush=True,
    )


def at_rest(watched: Watched, minute: float) -> Sample:
    """Return a sample once connections have gone, or what is left after a minute."""
    before = watched.sample(minute, quiet=True, collect=True)
    deadline, same = time.monotonic() + SETTLE_SECONDS, 0
    while time.monotonic() < deadline and same < 5:
        time.sleep(1.0)
        now = watched.sample(minute, quiet=True, collect=True)
        same = same + 1 if (now.descriptors, now.tasks) == (before.descriptors, before.tasks) else 0
        before = now
    return before


def soak(watched: Watched, servers: str, topic: str, group: str, minutes: float) -> int:
    """Let clients come and go; return how many things are wrong."""
    wrong = 0
    # every kind of work once, and a flood larger than those to come: later ones must find the memory that it took
    with (
        Churn(servers, topic, group, floods=False) as churn,
        LibrdkafkaLoad(servers, f"{topic}-load", rate=200) as load,
    ):
        port = int(servers.rpartition(":")[2])
        with Flooder(port, 2 * FLOOD, asking=FLOOD) as flood:
            flood.wait_until_settled(answers=FLOOD)
        wait_until(lambda: len(churn.done) == len(KINDS_OF_WORK), f"there were {', '.join(KINDS_OF_WORK)}", 300)
        load.acked.wait_for_more(200, "the first records")
    first = at_rest(watched, 0.0)
    print("at rest, after a little of everything:")
    show(first)
    begun = time.monotonic()
    samples = []
    print(f"{minutes:g} minutes of churn:")
    with Churn(servers, topic, group) as churn, LibrdkafkaLoad(servers, f"{topic}-soak", rate=200) as load:
        while (minute := (time.monotonic() - begun) / 60) < minutes:
            time.sleep(EVERY)
            samples.append(watched.sample(minute, quiet=churn.quiet))
            show(samples[-1])
        load.finish()
    last = at_rest(watched, (time.monotonic() - begun) / 60)
    print("at rest again:")
    show(last)
    line = fit([each for each in samples if each.quiet and each.minute >= minutes * WARM_UP])
    wrong += line.verdict != "flat"
    print(
        f"resident memory: {line.kib_per_minute:+.1f} ± {line.error:.1f} KiB/min in the second half, without floods: "
        f"{line.verdict} (flat: certainly at most {FLAT_KIB_PER_MINUTE:g}); at rest {(last.kib - first.kib):+} KiB"
    )
    print(f"descriptors at rest: {first.descriptors} before, {last.descriptors} after")
    wrong += last.descriptors > first.descriptors
    if first.tasks is not None and last.tasks is not None:
        print(f"tasks at rest: {first.tasks} before, {last.tasks} after")
        wrong += last.tasks > first.tasks
    if first.blocks is not None and last.blocks is not None:
        print(f"Python's memory blocks at rest: {last.blocks - first.blocks:+,} (at most {BLOCKS_AT_REST:+,})")
        wrong += last.blocks - first.blocks > BLOCKS_AT_REST
    print(f"records acknowledged and consumed: {len(load.acked.values):,}, lost {len(load.acked.failures)}")
    print("done: " + ", ".join(f"{count:,} {what}" for what, count in churn.done.most_common()))
    for failure in churn.failures[:10]:
        print(f"failed: {failure}")
    return wrong + bool(load.acked.failures) + bool(churn.failures)


def hold_idle(watched: Watched, servers: str, topic: str, wanted: int, workers: int) -> int:
    """Hold connections that have asked once, while others work, and again; return how many things are wrong."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(wanted, most_connections(), workers * most_clients())
    if count < wanted:
        print(
            f"{count:,} connections instead of {wanted:,}: a process may have {hard:,} files here, a client takes two"
        )
    wrong, port = 0, int(servers.rpartition(":")[2])
    before = at_rest(watched, 0.0)
    with LibrdkafkaLoad(servers, f"{topic}-idle", rate=200) as load:
        load.acked.wait_for_more(MORE, "before")
        with_load = watched.sample(0.0, quiet=True, collect=True)
        crowds = []
        for time_of in ("first", "second"):
            load.acked.longest_gap()
            with Flooder(port, count, asking=count) as crowd:
                found = crowd.wait_until_settled(answers=count)
                coming = load.acked.longest_gap()
                load.acked.wait_for_more(MORE, "produced beside them")
                load.consumed.wait_for_more(MORE, "consumed beside them")
                crowds.append(watched.sample(0.0, quiet=True, collect=True))
                still, beside = crowd.count(), load.acked.longest_gap()
            print(f"{time_of} crowd: {still.connected:,} connections held, {found.answered:,} had asked")
            show(crowds[-1])
            print(f"  longest time without an acknowledged record: {coming:.2f} s as they came, {beside:.2f} s then")
            wrong += still.connected < count
            wait_until(lambda: at_rest(watched, 0.0).descriptors < count, "the crowd has gone")
        load.finish()
    after = at_rest(watched, 0.0)
    print(f"each took {(crowds[0].kib - with_load.kib) / count:.1f} KiB")
    print(f"the second crowd took {crowds[1].kib - crowds[0].kib:+,} KiB more than the first had left for it")
    for when, sample in (("before", before), ("after", after)):
        print(f"at rest {when}:")
        show(sample)
    wrong += crowds[1].kib - crowds[0].kib > SECOND_CROWD_KIB
    return wrong + (after.descriptors > before.descriptors) + bool(load.acked.failures)


def main() -> int:
    """Run both parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy_soak")
    parser.add_argument("--minutes", type=float, default=20.0, help="of churn; 0 for none")
    parser.add_argument("--idle", type=int, default=IDLE, help="connections that only wait; 0 for none")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kafka", default="4.4.0")
    wanted = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wrong = 0
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="proxy-soak-")))
        kafka = stack.enter_context(LocalKafka(wanted.kafka, properties=KAFKA_PROPERTIES))
        with ShareDriver(kafka) as driver:
            layout = many_partitions(driver, "soak-share", "soak-group", 6)
            for topic in ("soak", "soak-load", "soak-soak", "soak-idle"):
                driver.create_topic(topic, 6, configs={"retention.bytes": str(8 * 1024 * 1024)})
        log = directory / "proxy.log"
        watched, servers = stack.enter_context(watched_proxy(kafka, wanted.workers, log))
        try:
            if wanted.minutes:
                wrong += soak(watched, servers, "soak", layout.group, wanted.minutes)
            if wanted.idle:
                wrong += hold_idle(watched, servers, "soak", wanted.idle, wanted.workers)
        except BaseException:
            sys.stderr.write(log.read_text(errors="replace")[-4000:])
            raise
        errors = log.read_text(errors="replace").splitlines()
        if errors:
            print(f"{len(errors)} lines of level error in the log, the first: {errors[0][:500]}")
        wrong += bool(errors)
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("nothing wrong" if not wrong else f"wrong: {wrong}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
