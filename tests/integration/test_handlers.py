"""Workers for handlers against real brokers: the ten lines of the README, the example, one of two that is killed."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import shareproxy
from shareproxy import RejectRecord, Retriable, Retry, ShareAdmin, ShareRecord
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import clean_environment
from tests.support.real_kafka import VERSIONS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize(
    "kafka_version", list(dict.fromkeys((VERSIONS[0], VERSIONS[-1]))), indirect=True, scope="session"
)

ROOT = Path(__file__).parent.parent.parent
RECORDS = 300
STOP_SECONDS = 30.0
PATIENCE = 60.0


class Worker:
    """A worker in a process of its own, and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process, self._output = process, output

    def lines(self) -> list[str]:
        """Return the whole lines so far."""
        return self._output.read_text(encoding="utf-8").split("\n")[:-1]

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)


@contextmanager
def worker(kafka: LocalKafka, directory: Path, name: str, *command: str, **environment: str) -> Iterator[Worker]:
    """Run a worker; its output and its log go to files."""
    output, log = directory / f"{name}.out", directory / f"{name}.log"
    variables = clean_environment() | {"SHAREPROXY_BOOTSTRAP_SERVER": kafka.bootstrap_servers} | environment
    with output.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=err, env=variables, cwd=ROOT)
    try:
        yield Worker(process, output)
    except BaseException:
        sys.stderr.write(f"{name}:\n{log.read_text(encoding='utf-8')}\n")
        raise
    finally:
        process.kill()
        process.wait()


async def drained(kafka: LocalKafka, group: str) -> None:
    """Wait until the lag of a group is 0; what brokers say of it trails until they are asked for more records."""
    async with ShareAdmin(kafka.bootstrap_servers, timeout=15.0) as admin, asyncio.timeout(PATIENCE):
        async for snapshot in admin.watch(group, interval=0.2):
            [row] = snapshot.report.groups
            if row.partitions and all(partition.lag == 0 for partition in row.partitions):
                return


def prepare(driver: ShareDriver, topic: str, group: str, partitions: int = 1) -> None:
    """Make a topic, and let the group begin at its start."""
    driver.create_topic(topic, partitions)
    driver.set_group_config(group, {"share.auto.offset.reset": "earliest"})


def ask(address: str, path: str) -> str:
    """Return what a worker answers with 200, else nothing."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def orders(driver: ShareDriver, topic: str, first: int, count: int) -> None:
    """Produce JSON orders in batches of ten: Kafka 4.1 hands out whole batches only."""
    for start in range(first, first + count, 10):
        driver.produce(topic, 0, values=[json.dumps({"id": number}) for number in range(start, start + 10)])


def test_the_readmes_worker_empties_the_demos_queue(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """Word for word, but for the names."""
    prepare(driver, topic, group, 2)
    driver.produce(topic, [0, 1], 7)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    script_text = next(block for block in blocks if "shareproxy.run_worker(" in block)
    assert len([line for line in script_text.splitlines() if line]) <= 10
    script = tmp_path / "worker.py"
    script_text = script_text.replace('"order-workers"', repr(group)).replace('"orders"', repr(topic))
    script.write_text(script_text, encoding="utf-8")

    expected = {f"{topic}-{partition}, offset {offset}" for partition in (0, 1) for offset in range(7)}

    def printed(running: Worker) -> set[str]:
        return {line.split(":")[0] for line in running.lines()}

    with worker(kafka, tmp_path, "readme", str(script)) as running:
        # at least once: a record may be there twice
        wait_until(lambda: printed(running) == expected, "all records are printed")
        asyncio.run(drained(kafka, group))
        code = running.stop()

    assert code == 0


def test_one_of_two_example_workers_is_killed_and_nothing_is_lost(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path
) -> None:
    """Both work on one partition, and some records fail first; each is done in the end, and lag is 0."""
    prepare(driver, topic, group)
    health = [f"127.0.0.1:{port}" for port in ports_side_by_side(2)]
    command = ("examples/worker.py", topic, group)
    trouble = {"FAIL_SHARE": "0.2", "ORDER_SECONDS": "0.05"}

    def done() -> set[int]:
        found = (re.fullmatch(r"order (\d+) done, delivery \d+", line) for line in killed.lines() + kept.lines())
        return {int(match[1]) for match in found if match}

    with (
        worker(kafka, tmp_path, "killed", *command, HEALTH=health[0], **trouble) as killed,
        worker(kafka, tmp_path, "kept", *command, HEALTH=health[1], **trouble) as kept,
    ):
        wait_until(lambda: all(ask(address, "/readyz") for address in health), "both have partitions")
        orders(driver, topic, 0, RECORDS)
        wait_until(lambda: len(killed.lines()) >= 20 and len(kept.lines()) >= 20, "both work")
        killed.process.kill()
        killed.process.wait()
        orders(driver, topic, RECORDS, 20)
        wait_until(lambda: len(done()) >= RECORDS + 20, "all orders are done")
        asyncio.run(drained(kafka, group))
        metrics = ask(health[1], "/metrics")
        code = kept.stop()

    assert code == 0
    assert done() == set(range(RECORDS + 20))
    accepted = re.search(rf'^shareproxy_worker_outcomes_total{{group="{group}",outcome="accept"}} (\S+)', metrics, re.M)
    assert accepted is not None
    assert float(accepted[1]) >= 20


async def test_failing_records_are_tried_again_and_rejected_ones_are_kept(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str
) -> None:
    """Retries spend no delivery where locks can be renewed; without a dead-letter queue nothing is rejected."""
    prepare(driver, topic, group)
    driver.produce(topic, 0, 20)
    tries: Counter[int] = Counter()
    deliveries: dict[int, int] = {}
    stop, rejected = asyncio.Event(), asyncio.Event()

    def handle(record: ShareRecord) -> None:  # a plain function: it runs in a thread
        tries[record.offset] += 1
        deliveries[record.offset] = record.delivery_count
        if record.offset == 7 and record.delivery_count == 1:
            raise RejectRecord("this one is bad")
        if record.offset % 5 == 0 and tries[record.offset] < 3:
            raise Retriable("not yet")
        if record.offset == 7:
            loop.call_soon_threadsafe(rejected.set)

    loop = asyncio.get_running_loop()
    running = asyncio.create_task(
        shareproxy.run(
            handle,
            group=group,
            topics=topic,
            bootstrap_servers=kafka.bootstrap_servers,
            retry=Retry(first_s=0.2, max_s=1.0),
            stop=stop,
            signals=False,
        )
    )
    async with asyncio.timeout(60):
        await rejected.wait()
        await drained(kafka, group)
        stop.set()
        result = await running

    assert set(tries) == set(range(20))
    assert all(tries[offset] == 3 for offset in (0, 5, 10, 15))
    assert all(deliveries[offset] == 1 for offset in (0, 5, 10, 15))
    assert deliveries[7] == 2
    assert (result.accepted, result.rejected) == (20, 0)
