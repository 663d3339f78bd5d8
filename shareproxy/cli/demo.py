"""`shareproxy demo`: a real Kafka, a share group with a backlog, and Kafka's own tool getting the lag through us."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from shareproxy.testing.driver import ShareDriver
    from shareproxy.testing.kafka import LocalKafka

TOPIC = "orders"
GROUP = "order-workers"
START_SECONDS = 30.0
NODE_PORTS = 4
WAIT_SECONDS = 0.5


@click.command()
@click.option("--kafka", metavar="VERSION", help="Kafka to start, 4.1 or newer.  [default: 4.4.0]")
@click.option("--stay", is_flag=True, help="Keep Kafka and the proxy running at the end, until Ctrl-C.")
@click.option(
    "--drain", "draining", is_flag=True, help="Show workers that empty a backlog instead, one of them killed."
)
@click.option("--records", type=click.IntRange(100, 1_000_000), help="Backlog of --drain.  [default: 8000]")
@with_exit_code
def demo(kafka: str | None, stay: bool, draining: bool, records: int | None) -> ExitCode:
    """Start a real Kafka, a share group with a backlog and the proxy, and ask Kafka's own tool through it.

    Needs Java 17 or newer and Maven, which fetches Kafka the first time. Everything is stopped again at the end, with
    --stay after Ctrl-C: for a worker of yours, or any other client.
    """
    if draining and stay:
        raise ConfigError("--stay and --drain are two demos; leave one of them out")
    if records is not None and not draining:
        raise ConfigError("--records is the backlog of --drain; give --drain too, or leave it out")
    from shareproxy.testing.kafka import SUPPORTED_VERSIONS, KafkaFailed, LocalKafka, MissingTool

    newest = SUPPORTED_VERSIONS[-1]
    if kafka is not None and not re.match(r"4\.[1-9]|[5-9]|\d\d", kafka):
        raise ConfigError(
            f"Kafka {kafka!r} has no share groups to look at; choose one of {', '.join(SUPPORTED_VERSIONS)}"
        )
    steps = Steps()
    try:
        with LocalKafka(kafka or newest, progress=steps.say) as cluster:
            steps.say(f"Kafka {cluster.version} is up at {cluster.bootstrap_servers}")
            if draining:
                from shareproxy.cli.demo_drain import RECORDS, drain

                return drain(cluster, RECORDS if records is None else records, steps)
            make_backlog(cluster, steps)
            with proxy_in_front_of(cluster.bootstrap_servers) as address:
                steps.say(f"shareproxy is up at {address}")
                # the tool of 4.1 does not know of lag at all, so the newest one asks in every case
                code = show_lag(LocalKafka(newest, progress=steps.say), address, steps)
                if stay and code is ExitCode.DONE:
                    stay_up(cluster.bootstrap_servers, steps)
                elif code is ExitCode.DONE:
                    steps.say("for a worker of yours (see README.md) keep it running: shareproxy demo --stay")
                return code
    except (MissingTool, KafkaFailed) as error:
        say(str(error))
        return ExitCode.USAGE if isinstance(error, MissingTool) else ExitCode.NO


class Steps:
    """Say what happens and when."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print one step with the seconds since the start."""
        print(f"[{time.monotonic() - self._started:5.1f} s] {text}", file=sys.stderr, flush=True)


def make_backlog(cluster: LocalKafka, steps: Steps) -> None:
    """Let a share consumer work on a topic and leave most of it undone."""
    from shareproxy.testing.driver import ShareDriver

    with ShareDriver(cluster) as driver:
        driver.create_topic(TOPIC, 2)
        driver.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for partition in (0, 1):
            driver.produce(TOPIC, partition, 7)
        work_on_some(driver)
        for partition in (0, 1):
            driver.produce(TOPIC, partition, 4)
    steps.say(
        f"topic {TOPIC}: 2 partitions of 11 records; share group {GROUP}: of each partition it "
        "accepted 0, 1 and 5, rejected 6 and gave 2 to 4 back, so that 7 are left to do"
    )


def work_on_some(driver: ShareDriver) -> None:
    """Accept three records of each partition, reject one, and give the others back."""
    acks = {0: "accept", 1: "accept", 5: "accept", 6: "reject"}
    driver.share_consume(GROUP, [TOPIC], acks, otherwise="release", max_records=14)  # type: ignore[arg-type]


@contextlib.contextmanager
def proxy_in_front_of(bootstrap_servers: str) -> Iterator[str]:
    """Run `shareproxy serve` as its own process; gives the address for clients.

    Raises:
        KafkaFailed: it was not ready in time.
    """
    from shareproxy.testing.kafka import KafkaFailed
    from shareproxy.testing.ports import ports_side_by_side

    ports = ports_side_by_side(NODE_PORTS + 1)
    address = f"127.0.0.1:{ports[0]}"
    command = [sys.executable, "-m", "shareproxy", "serve", "--bootstrap-server", bootstrap_servers]
    command += ["--listen", address, "--node-ports", f"{ports[1]}-{ports[-1]}", "--log-level", "warning"]
    process = subprocess.Popen(command, env=os.environ | {"SHAREPROXY_CONFIG": ""})
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _accepts(ports[0]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise KafkaFailed("shareproxy serve did not start; its log is above")
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait()


def show_lag(tool: LocalKafka, address: str, steps: Steps) -> ExitCode:
    """Print what Kafka's own tool says through the proxy."""
    from shareproxy.testing.kafka import SHARE_GROUP_COMMAND

    arguments = ["--bootstrap-server", address, "--describe", "--group", GROUP, "--offsets"]
    steps.say(f"Kafka's own tool, through the proxy: kafka-share-groups.sh {shlex.join(arguments)}")
    done = tool.java(SHARE_GROUP_COMMAND, *arguments)
    sys.stderr.write(done.stderr)
    print(done.stdout.strip(), flush=True)
    lags = _lag_column(done.stdout)
    if lags == ["7", "7"]:
        steps.say("the lag of each partition is 7, as it should be")
        return ExitCode.DONE
    say(f"the LAG column should hold 7 twice, but holds {lags}; please report this")
    return ExitCode.NO


def stay_up(bootstrap_servers: str, steps: Steps) -> None:
    """Say how to reach the cluster, and wait for Ctrl-C or SIGTERM."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        steps.say(
            f"all of it stays up until Ctrl-C; elsewhere: export SHAREPROXY_BOOTSTRAP_SERVER={bootstrap_servers} and "
            f"run a worker of group {GROUP} on topic {TOPIC}, such as the one in README.md"
        )
        while not stopped.wait(WAIT_SECONDS):  # in slices: a wait without an end does not let signals in everywhere
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lag_column(table: str) -> list[str]:
    lines = [line.split() for line in table.splitlines() if line.strip()]
    heading = next((number for number, cells in enumerate(lines) if "LAG" in cells), None)
    if heading is None:
        return []
    column = lines[heading].index("LAG")
    return [cells[column] for cells in lines[heading + 1 :] if len(cells) > column]


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
