"""`shareproxy consume` as a process: signals, and readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from shareproxy.testing.simulated import SimulatedCluster

SECONDS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    """A cluster with topic orders: 3 records, and 3 that no pipe holds."""
    with SimulatedCluster() as simulated:
        simulated.create_topic("orders", 1)
        simulated.produce("orders", 0, values=["a", "b", "c"])
        simulated.create_topic("large", 1)
        simulated.produce("large", 0, values=["x" * 300_000] * 3)
        yield simulated


def start(cluster: SimulatedCluster, group: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the command for a group that begins with what is there."""
    cluster.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    command: Sequence[str] = (
        *(sys.executable, "-m", "shareproxy", "consume", "--bootstrap-server", cluster.bootstrap_servers),
        *(group, *arguments),
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TERM": "dumb"})


def left(cluster: SimulatedCluster, group: str) -> int | None:
    """Return how many records the group has not accepted; `None` if none ever was."""
    [row] = cluster.list_share_group_offsets(group)
    return row.lag


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signal_ends_it_in_order(cluster: SimulatedCluster, number: signal.Signals, code: int) -> None:
    """What was written is accepted, the member leaves, and nothing is said that looks like a fault."""
    group = f"signalled-{number.name}"
    process = start(cluster, group, "orders")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]

    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (code, b"")
    assert err.decode().splitlines()[-1] == "shareproxy: 3 records written and accepted"
    assert left(cluster, group) == 0


def test_reader_that_goes_away(cluster: SimulatedCluster) -> None:
    """As with `| head -c 1`: what did not get into the pipe is not accepted, and it is no failure."""
    process = start(cluster, "headed", "large")
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"

    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()

    assert process.wait(SECONDS) == 0
    assert b"bug" not in err
    assert left(cluster, "headed") != 0


def test_reader_that_does_not_read(cluster: SimulatedCluster) -> None:
    """Stuck at a full pipe it still ends when told to, and accepts nothing of what is stuck."""
    process = start(cluster, "stuck", "large")
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"

    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    process.stdout.close()
    assert process.stderr is not None
    assert b"nobody reads what is written" in process.stderr.read()
    assert left(cluster, "stuck") != 0


def test_second_signal_ends_it_at_once(cluster: SimulatedCluster) -> None:
    """For whoever cannot wait; brokers give back what was held, as the connection is gone."""
    process = start(cluster, "hurried", "orders", "--peek", "--timeout", "60")
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"

    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)

    process.communicate(timeout=SECONDS)
    assert process.returncode == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is full")
def test_full_disk(cluster: SimulatedCluster) -> None:
    """A record that could not be written is not accepted, and the sentence says why."""
    cluster.set_group_config("full", {"share.auto.offset.reset": "earliest"})
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "shareproxy", "consume", "--bootstrap-server", cluster.bootstrap_servers),
                *("full", "orders", "-q"),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == b"shareproxy: the answer cannot be written: No space left on device\n"
    assert left(cluster, "full") == 3
