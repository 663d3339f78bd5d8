"""The sink worker against real Kafka: the acceptance table of KIP-1302; R numbers are those of drain.md."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.admin import ShareAdmin
from shareproxy.testing.driver import ShareDriver
from shareproxy.testing.kafka import LocalKafka
from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import clean_environment
from tests.support.file_sink import lines
from tests.support.real_kafka import VERSIONS
from tests.support.waiting import wait_until

EARLIEST = {"share.auto.offset.reset": "earliest"}
ROOT = Path(__file__).parents[2]
LOG = logging.getLogger(__name__)  # numbers of a run: `--log-cli-level=INFO` shows them
# what does not depend on the brokers' version is tried with one
NEWEST = pytest.mark.parametrize("kafka_version", VERSIONS[-1:], indirect=True, scope="session")
OLDEST_AND_NEWEST = pytest.mark.parametrize(
    "kafka_version", sorted({VERSIONS[0], VERSIONS[-1]}), indirect=True, scope="session"
)


class SinkProcess:
    """A `shareproxy sink` of its own process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self._log = process, port, log

    def metrics(self) -> dict[str, float]:
        """Return each sample by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def ready(self) -> bool:
        """Return whether /readyz says so."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz") as answer:
            return bool(answer.status == 200)
        return False

    def log(self) -> str:
        """Return what it logged so far."""
        return self._log.read_text()

    def stop(self) -> int:
        """End it in order, and return its exit code."""
        self.process.terminate()
        return self.process.wait(30)


def environment() -> dict[str, str]:
    """Return an environment in which the sinks of the tests are found."""
    return {**clean_environment(), "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def sink_process(config: Path, port: int) -> Iterator[SinkProcess]:
    """Run a worker until the end of the block."""
    log = config.with_name(f"log-{port}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "shareproxy", "sink", "--config", str(config)], stderr=output, env=environment()
        )
        try:
            yield SinkProcess(process, port, log)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def write_config(
    directory: Path, kafka: LocalKafka, connectors: dict[str, str], *, number: int = 0, worker: str = ""
) -> tuple[Path, int]:
    """Write a sink.toml; return its path and the port of its metrics."""
    port = ports_side_by_side(1)[0]
    text = [
        "[worker]",
        f'"bootstrap.servers" = "{kafka.bootstrap_servers}"',
        f'http = "127.0.0.1:{port}"',
        worker,
    ]
    for name, body in connectors.items():
        text += [f"[connectors.{name}]", body]
    config = directory / f"sink-{number}.toml"
    config.write_text("\n".join(text) + "\n")
    return config, port


def share_connector(
    name: str,
    topic: str,
    group: str,
    output: Path,
    *,
    tasks: int = 1,
    sink: str = "LineSink",
    more: str = "",
    settings: str = "",
) -> dict[str, str]:
    """Return a connector's table."""
    return {
        name: f"""
class = "tests.support.file_sink:{sink}"
topics = ["{topic}"]
"tasks.max" = {tasks}
"consumer.override.group.protocol" = "share"
"share.group.id" = "{group}"
{more}
[connectors.{name}.sink]
directory = "{output}"
{settings}
"""
    }


def lag_is_0(group: str, kafka: LocalKafka) -> bool:
    """Return whether nothing is left in the group."""

    async def ask() -> bool:
        async with ShareAdmin(kafka.bootstrap_servers, timeout=10.0) as admin:
            (found,) = (await admin.lag([group])).groups
            return bool(found.partitions) and found.complete and found.lag == 0

    return asyncio.run(ask())


def offsets(output: Path, topic: str) -> dict[int, list[int]]:
    """Return the offsets that were written, by partition, in order and with doubles."""
    found: dict[int, list[int]] = {}
    for name, partition, offset, _ in lines(output):
        if name == topic:
            found.setdefault(partition, []).append(offset)
    return {partition: sorted(each) for partition, each in found.items()}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where sinks write."""
    directory = tmp_path / "output"
    directory.mkdir()
    return directory


def test_basic_sink_r10_r12_r15_r25_r27_delivers_all_and_lag_reaches_0_over_markers(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path, output: Path
) -> None:
    """All records of transactions and others, none of the aborted ones twice, and the metrics of share mode only."""
    driver.create_topic(topic, 2)
    driver.set_group_config(group, EARLIEST)
    driver.produce(topic, [0, 1], 100)
    driver.produce_transaction(topic, [0, 1], 20)
    driver.produce(topic, [0, 1], 5)
    driver.produce_transaction(topic, [0], 1)  # a marker at the very end
    config, port = write_config(tmp_path, kafka, share_connector("orders", topic, group, output, tasks=2))

    with sink_process(config, port) as worker:
        wait_until(worker.ready, "the worker is ready")
        wait_until(lambda: len(lines(output)) >= 251, "all records are written")
        wait_until(lambda: lag_is_0(group, kafka), "lag is 0")
        metrics = worker.metrics()
        exit_code = worker.stop()

    markers = {0: {120, 126 + 1}, 1: {120}}
    ends = {0: 128, 1: 126}
    assert offsets(output, topic) == {p: [o for o in range(ends[p]) if o not in markers[p]] for p in (0, 1)}
    acknowledged = [value for name, value in metrics.items() if "record_acknowledge_total" in name]
    assert sum(acknowledged) == 251
    assert not [name for name in metrics if "partition_count" in name or "offset_commit" in name]
    assert "share group" in worker.log()
    assert exit_code == 0


@NEWEST
def test_elastic_2_to_6_loses_nothing(
    kafka: LocalKafka,
    driver: ShareDriver,
    topic: str,
    group: str,
    tmp_path: Path,
    output: Path,
) -> None:
    """A slow sink with two tasks, then with six in two processes: received ≥ N, offset by offset; times are noted."""
    driver.create_topic(topic, 2)
    for _ in range(30):
        driver.produce(topic, [0, 1], 20)
    more, slow = '"consumer.override.max.poll.records" = 20', "seconds_each = 0.002"
    for number, tasks in enumerate(((2,), (2, 4))):
        name, written = f"{group}-{number}", output / str(number)
        written.mkdir()
        driver.set_group_config(name, EARLIEST)
        configs = [
            write_config(
                tmp_path,
                kafka,
                share_connector("orders", topic, name, written, tasks=count, more=more, settings=slow),
                number=10 * number + index,
            )
            for index, count in enumerate(tasks)
        ]
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(sink_process(*config)) for config in configs]
            wait_until(lambda written=written: bool(lines(written)), "the first record is written")  # type: ignore[misc]
            began = time.monotonic()
            wait_until(lambda written=written: len(lines(written)) >= 1200, "all are written")  # type: ignore[misc]
            LOG.info("%d tasks: 1200 records of 2 ms in %.2f s", sum(tasks), time.monotonic() - began)
            wait_until(lambda name=name: lag_is_0(name, kafka), "lag is 0")  # type: ignore[misc]
            assert [worker.stop() for worker in workers] == [0] * len(workers)
        found = offsets(written, topic)
        assert {p: sorted(set(each)) for p, each in found.items()} == {0: list(range(600)), 1: list(range(600))}
        worked = {file.name.partition("-")[0] for file in written.iterdir() if file.stat().st_size}
        assert len(worked) == len(tasks)


def test_kill_9_of_a_worker_c1_c2_loses_nothing(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path, output: Path
) -> None:
    """A worker is killed in the middle of its puts; the other one finishes, and no record gets near its limit."""
    # one partition: of two, the dead members might be the only ones of one, until the coordinator gives them up (45 s)
    driver.create_topic(topic, 1)
    driver.set_group_config(group, EARLIEST)
    for _ in range(40):
        driver.produce(topic, 0, 20)
    more, slow = '"consumer.override.max.poll.records" = 20', "seconds_each = 0.005"
    table = share_connector("orders", topic, group, output, tasks=2, more=more, settings=slow)
    config, port = write_config(tmp_path, kafka, table, number=1)
    other_config, other_port = write_config(tmp_path, kafka, table, number=2)

    with sink_process(config, port) as victim:
        wait_until(lambda: bool(lines(output)), "the victim has written something")
        with sink_process(other_config, other_port) as other:
            victim.process.kill()
            wait_until(lambda: lag_is_0(group, kafka), "lag is 0")
            assert other.stop() == 0

    written = lines(output)
    assert {offset for _, _, offset, _ in written} == set(range(800))
    assert max(delivery for *_, delivery in written) < 5  # healthy records stay under the limit


@NEWEST
def test_coexistence_r1_r27_of_a_share_and_a_consumer_connector(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path, output: Path
) -> None:
    """Both get all records; each has the metrics of its own mode."""
    driver.create_topic(topic, 2)
    driver.set_group_config(group, EARLIEST)
    driver.produce(topic, [0, 1], 50)
    driver.produce_transaction(topic, [0, 1], 5)
    plain = {
        "plain": f"""
class = "tests.support.file_sink:LineSink"
topics = ["{topic}"]
"consumer.override.group.id" = "{group}-plain"
[connectors.plain.sink]
directory = "{output}"
"""
    }
    config, port = write_config(tmp_path, kafka, {**share_connector("orders", topic, group, output), **plain})

    with sink_process(config, port) as worker:
        wait_until(lambda: len(lines(output)) >= 220, "all records are written twice")
        wait_until(lambda: lag_is_0(group, kafka), "lag is 0")
        metrics = worker.metrics()
        exit_code = worker.stop()

    assert offsets(output, topic) == {p: sorted([*range(55), *range(55)]) for p in (0, 1)}
    by_connector = {
        connector: {name.partition("{")[0] for name in metrics if f'connector="{connector}"' in name}
        for connector in ("orders", "plain")
    }
    assert "shareproxy_sink_record_acquire_total" in by_connector["orders"] - by_connector["plain"]
    assert "shareproxy_sink_partition_count" in by_connector["plain"] - by_connector["orders"]
    assert exit_code == 0


@OLDEST_AND_NEWEST
def test_r11_r22_poisoned_and_oversize_records_go_to_the_dead_letter_queue_or_are_kept(
    kafka_version: str,
    kafka: LocalKafka,
    driver: ShareDriver,
    topic: str,
    group: str,
    tmp_path: Path,
    output: Path,
) -> None:
    """With a queue (4.4) the poisoned one is in it and lag reaches 0; without one it is held on its last delivery."""
    has_queues = [int(part) for part in kafka_version.split(".")] >= [4, 4]
    driver.create_topic(topic, 1)
    large = json.dumps("x" * 900_000)
    driver.produce(topic, 0, values=["1", "not JSON", "2"])
    driver.produce(topic, 0, values=[large])
    more = """
"value.converter" = "json"
"consumer.override.fetch.max.bytes" = 1000
"retry.backoff.ms" = 1
"errors.retry.delay.max.ms" = 1
"""
    kept = f"{group}-kept"
    driver.set_group_config(kept, EARLIEST | ({"share.delivery.count.limit": "2"} if has_queues else {}))
    tables = share_connector("kept", topic, kept, output, more=more)
    if has_queues:
        driver.create_topic(f"dlq.{topic}", 1, configs={"errors.deadletterqueue.group.enable": "true"})
        driver.set_group_config(group, EARLIEST | {"errors.deadletterqueue.topic.name": f"dlq.{topic}"})
        tables |= share_connector("queued", topic, group, output, more=more)
    config, port = write_config(tmp_path, kafka, tables)

    with sink_process(config, port) as worker:
        if has_queues:
            wait_until(lambda: lag_is_0(group, kafka), "lag is 0 where a queue works")
            assert driver.list_offsets({f"dlq.{topic}": [0]}) == {(f"dlq.{topic}", 0): 1}
            wait_until(lambda: "on their last deliveries" in worker.log(), "the record is held")
            held = 'shareproxy_sink_last_delivery_records{connector="kept",task="0"}'
            wait_until(lambda: worker.metrics().get(held) == 1, "it is counted")
        wait_until(lambda: len(offsets(output, topic).get(0, [])) >= (6 if has_queues else 3), "the others are written")
        wait_until(lambda: "cannot be rejected without being lost" in worker.log(), "the log says why")
        assert not worker.ready()
        assert not lag_is_0(kept, kafka)
        rejected = 'shareproxy_sink_record_reject_total{connector="kept",task="0"}'
        assert worker.metrics()[rejected] == 0
    assert set(offsets(output, topic)[0]) == {0, 2, 3}


@NEWEST
def test_bad_input_each_is_one_sentence_and_the_right_exit_code(
    kafka: LocalKafka, driver: ShareDriver, topic: str, group: str, tmp_path: Path, output: Path
) -> None:
    """A name that is taken (R6), exactly-once (R24), a sink that cannot start; no record is accepted: the lag stays."""
    driver.create_topic(topic, 1)
    driver.set_group_config(group, EARLIEST)
    driver.produce(topic, 0, 7)
    taken = f"{group}-taken"
    driver.consume(taken, [topic], max_records=7)

    def run(table: dict[str, str]) -> tuple[int, str]:
        config, _ = write_config(tmp_path, kafka, table)
        done = subprocess.run(
            [sys.executable, "-m", "shareproxy", "sink", "--config", str(config)],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=120,
        )
        (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("shareproxy: ")]
        return done.returncode, sentence

    code, sentence = run(share_connector("orders", topic, taken, output))
    assert code == 1, sentence
    assert f"the name '{taken}' is taken" in sentence
    code, sentence = run(share_connector("orders", topic, group, output, more="exactly_once = true"))
    assert code == 1, sentence
    assert "KIP-1289" in sentence
    assert "the highest API key of these brokers is" in sentence
    code, sentence = run(
        share_connector("orders", topic, group, output, sink="FailingSink", settings='fails = "start"')
    )
    assert code == 1, sentence
    assert "the sink's start failed: RuntimeError: start does not work" in sentence
    assert not lines(output)
    assert not lag_is_0(group, kafka)
