"""A worker of many tasks over fake consumers: starting, failing, starting again, stopping."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shareproxy.admin.errors import AccessDenied, NotAShareGroup
from shareproxy.config import CannotListen, ConfigError
from shareproxy.drain import worker as worker_room
from shareproxy.drain.dead_letter_check import DeadLetterQueue
from shareproxy.drain.errors import DrainError
from shareproxy.drain.events import PartitionRefused
from shareproxy.drain.model import Acknowledgement, TopicPartition
from shareproxy.drain.share_source import ShareSource
from shareproxy.drain.sink import Sink
from shareproxy.drain.sink_config import ConnectorSettings, load_sink_settings
from shareproxy.drain.sink_metrics import TaskMeter, TaskState
from shareproxy.drain.sink_task import TaskFailed
from shareproxy.drain.worker import SinkWorker
from shareproxy.testing.ports import ports_side_by_side
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer
from tests.drain.task_run import ScriptedSink

TWO = """
[worker]
"bootstrap.servers" = "localhost:9092"
"consumer.group.protocol" = "share"
"task.shutdown.graceful.timeout.ms" = 500
{worker}
[connectors.orders]
class = "files"
topics = "orders"
"tasks.max" = 2
"retry.backoff.ms" = 1
"errors.retry.delay.max.ms" = 1
[connectors.mails]
class = "files"
topics = "mails"
"retry.backoff.ms" = 1
"errors.retry.delay.max.ms" = 1
"""


class FakeParts:
    """Parts of a worker whose consumers and sinks a test holds in its hands."""

    def __init__(self) -> None:
        self.consumers: dict[tuple[str, int], list[FakeShareConsumer]] = {}
        self.sinks: dict[str, list[ScriptedSink]] = {}
        self.puts: dict[str, Any] = {}
        self.start_errors: dict[str, Exception] = {}
        self.check_errors: dict[str, Exception] = {}
        self.queue = DeadLetterQueue(True, "dlq.x")
        self.closed = False

    async def check(self, connector: ConnectorSettings) -> Sequence[str]:
        """Fail if the test wants it."""
        if connector.name in self.check_errors:
            raise self.check_errors[connector.name]
        return [f"share group {connector.consumer.group!r}"]

    def sink(self, connector: ConnectorSettings) -> Sink:
        """Make a sink that does what the test wants."""
        sink = ScriptedSink(self.puts.get(connector.name, lambda batch: None))
        error = self.start_errors.get(connector.name)
        if error is not None:

            async def start(context: Any) -> None:
                raise error

            sink.start = start  # type: ignore[method-assign]
        self.sinks.setdefault(connector.name, []).append(sink)
        return sink

    def source(self, connector: ConnectorSettings, meter: TaskMeter) -> ShareSource:
        """Make a source over a new fake consumer."""
        consumer = FakeShareConsumer(group=connector.consumer.group, topics=connector.topics)
        self.consumers.setdefault((connector.name, meter.task_id), []).append(consumer)

        def make(on_event: Any) -> FakeShareConsumer:
            consumer.on_event = on_event
            return consumer

        return ShareSource(make, on_event=meter.on_event)

    async def dead_letters(self, connector: ConnectorSettings) -> DeadLetterQueue:
        """Tell what the test says."""
        return self.queue

    async def delivery_limit(self, connector: ConnectorSettings) -> int:
        """Kafka's default."""
        return 5

    async def close(self) -> None:
        """Note it."""
        self.closed = True


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start failed tasks again at once."""
    monkeypatch.setattr(worker_room, "FIRST_RESTART_SECONDS", 0.01)


def worker_of(tmp_path: Path, parts: FakeParts, worker: str = "") -> SinkWorker:
    """Return a worker of two connectors with three tasks."""
    file = tmp_path / "sink.toml"
    file.write_text(TWO.format(worker=worker))
    return SinkWorker(load_sink_settings(file), parts)


async def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def get(port: int | None, path: str) -> tuple[int, str]:
    """Ask the worker over HTTP."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


async def test_each_task_of_each_connector_has_a_consumer_and_a_sink_of_its_own(tmp_path: Path) -> None:
    """All in one process."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()

    assert {(name, task): len(made) for (name, task), made in parts.consumers.items()} == {
        ("orders", 0): 1,
        ("orders", 1): 1,
        ("mails", 0): 1,
    }
    assert (len(parts.sinks["orders"]), len(parts.sinks["mails"])) == (2, 1)
    assert worker.why_not_ready() is None
    await worker.stop()


async def test_a_failing_task_starts_again_and_is_visible_meanwhile(tmp_path: Path) -> None:
    """With a consumer and a sink anew; the other tasks go on."""
    parts = FakeParts()
    tries = []

    def put(batch: Any) -> None:
        tries.append(batch)
        if len(tries) == 1:
            raise ValueError("odd")

    parts.puts["mails"] = put
    worker = worker_of(tmp_path, parts)
    await worker.start()
    mails = next(meter for meter in worker.meters if meter.connector == "mails")
    seen: list[TaskState] = []
    be = mails.be

    def watch(state: TaskState, why: str | None = None) -> None:
        be(state, why)
        seen.append(state)
        if state is TaskState.FAILED:
            assert worker.why_not_ready() == "connector 'mails', task 0: the sink's put failed: ValueError: odd"

    mails.be = watch  # type: ignore[method-assign]
    parts.consumers["mails", 0][0].give(FakeRecord(0, topic="mails"))
    await until(lambda: len(parts.consumers["mails", 0]) == 2 and mails.state is TaskState.RUNNING)
    parts.consumers["mails", 0][1].give(FakeRecord(0, topic="mails", delivery_count=2))
    await until(lambda: parts.consumers["mails", 0][1].offsets(Acknowledgement.ACCEPT) == [0])

    assert TaskState.FAILED in seen
    assert mails.counts["task_failures"] == 1
    assert len(parts.consumers["orders", 0]) == 1
    assert parts.sinks["mails"][0].calls[-1] == "stop"
    await worker.stop()


async def test_a_consumer_that_fails_is_made_anew(tmp_path: Path) -> None:
    """Such as when a right was taken away and given back."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()
    parts.consumers["orders", 1][0].fail(NotAShareGroup("gone"))

    await until(lambda: len(parts.consumers["orders", 1]) == 2)

    assert parts.consumers["orders", 1][0].closed
    await worker.stop()


async def test_r13_stop_ends_all_tasks_in_order(tmp_path: Path) -> None:
    """Consumers closed, sinks stopped, nothing unclean."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()

    await worker.stop()

    assert all(consumer.closed for made in parts.consumers.values() for consumer in made)
    assert all(sink.calls[-1] == "stop" for made in parts.sinks.values() for sink in made)
    assert [meter.state for meter in worker.meters] == [TaskState.STOPPED] * 3
    assert (worker.unclean, parts.closed, worker.why_not_ready()) == ([], True, "stopping")


async def test_a_second_signal_lets_go_of_a_put_that_hangs(tmp_path: Path) -> None:
    """Nothing of it is accepted."""
    parts = FakeParts()
    inside = asyncio.Event()

    async def put(batch: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    parts.puts["mails"] = put
    worker = worker_of(tmp_path, parts, '"log.level" = "error"')
    await worker.start()
    parts.consumers["mails", 0][0].give(FakeRecord(0, topic="mails"))
    await inside.wait()

    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    worker.hurry()
    async with asyncio.timeout(5):
        await stopping

    assert parts.consumers["mails", 0][0].offsets(Acknowledgement.ACCEPT) == []


async def test_bad_input_where_no_task_can_start_the_first_failure_is_raised(tmp_path: Path) -> None:
    """And nothing is left running."""
    parts = FakeParts()
    parts.start_errors = {"orders": OSError("no database"), "mails": OSError("no server")}
    worker = worker_of(tmp_path, parts)

    with pytest.raises(TaskFailed, match="connector 'orders', task 0: the sink's start failed: OSError: no database"):
        await worker.start()

    assert parts.closed


async def test_one_connector_that_cannot_start_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """It is tried again, and /readyz says why."""
    parts = FakeParts()
    parts.start_errors = {"mails": OSError("no server")}
    worker = worker_of(tmp_path, parts)
    await worker.start()

    assert "connector 'mails', task 0" in str(worker.why_not_ready())
    parts.start_errors.clear()
    await until(lambda: worker.why_not_ready() is None)
    await worker.stop()


async def test_bad_input_what_the_check_refuses_starts_nothing(tmp_path: Path) -> None:
    """No consumer is made."""
    parts = FakeParts()
    parts.check_errors["mails"] = NotAShareGroup("group 'share-mails' is a consumer group")

    with pytest.raises(NotAShareGroup):
        await worker_of(tmp_path, parts).start()

    assert parts.consumers == {}
    assert parts.closed


async def test_check_returns_a_line_for_each_connector(tmp_path: Path) -> None:
    """R25's, and takes no record."""
    parts = FakeParts()

    assert await worker_of(tmp_path, parts).check() == [
        "connector 'orders': share group 'share-orders'",
        "connector 'mails': share group 'share-mails'",
    ]
    assert parts.consumers == {}


async def test_probes_and_metrics_are_served(tmp_path: Path) -> None:
    """All three paths."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts, f'http = "127.0.0.1:{ports_side_by_side(1)[0]}"')
    await worker.start()

    assert await get(worker.port, "/livez") == (200, "alive\n")
    assert await get(worker.port, "/readyz") == (200, "ready\n")
    status, text = await get(worker.port, "/metrics")
    assert status == 200
    assert 'shareproxy_sink_task_state{connector="orders",state="running",task="1"} 1.0' in text
    parts.consumers["mails", 0][0].assignment = frozenset()
    assert await get(worker.port, "/readyz") == (
        503,
        "connector 'mails', task 0: group 'share-mails' has assigned no partition yet; do its topics exist?\n",
    )
    await worker.stop()


async def test_bad_input_an_address_that_cannot_be_listened_on(tmp_path: Path) -> None:
    """Exit code 1: it may mend; a wrong one is 2."""
    parts = FakeParts()
    advice = "'nonsense' is not HOST:PORT; write for instance 127.0.0.1:9465"
    with pytest.raises(ConfigError, match=rf'\[worker\] "http": {advice}$'):
        await worker_of(tmp_path, parts, 'http = "nonsense"').start()
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(CannotListen, match=r'\[worker\] "http": cannot listen on 127\.0\.0\.1'):
        await worker_of(tmp_path, parts, f'http = "127.0.0.1:{port}"').start()
    server.close()
    await server.wait_closed()


async def test_settings_are_not_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGHUP says so."""
    await worker_of(tmp_path, FakeParts()).reload()

    assert "settings are read at the start only" in capsys.readouterr().out


def denied(topic: str) -> AccessDenied:
    """Return what a consumer raises that may not read a topic."""
    text = f"this user may not read topic {topic!r}: READ on the topic is needed"
    return AccessDenied(text, 29, operation="READ", resource=f"topic {topic!r}")


async def made(parts: FakeParts, task: tuple[str, int], count: int) -> None:
    """Wait until a task has had so many consumers."""
    await until(lambda: len(parts.consumers[task]) >= count)


async def deny(parts: FakeParts, name: str, task: int, *, times: int) -> None:
    """Deny a task its topic so many times in a row, once it has joined."""
    for number in range(times):
        await made(parts, (name, task), number + 1)
        consumer = parts.consumers[name, task][number]
        consumer.emit(PartitionRefused(TopicPartition(name, 0), 29))
        consumer.fail(denied(name))


async def test_where_every_task_is_denied_its_topics_the_worker_cannot_go_on(tmp_path: Path) -> None:
    """It says which right is missing on what; the command ends with 4."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()
    failed = asyncio.create_task(worker.failed())

    await asyncio.gather(*(deny(parts, *task, times=worker_room.DENIALS) for task in list(parts.consumers)))

    async with asyncio.timeout(10):
        error = await failed
    assert isinstance(error, AccessDenied)
    assert (error.operation, error.resource) == ("READ", "topic 'orders'")
    assert str(error).startswith("connector 'orders', task 0: this user may not read topic 'orders': READ")
    await worker.stop()


async def test_a_denied_connector_does_not_end_the_others(tmp_path: Path) -> None:
    """It is tried again, and seen in the probes."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()
    failed = asyncio.create_task(worker.failed())

    await deny(parts, "mails", 0, times=worker_room.DENIALS)
    await until(lambda: len(parts.consumers["mails", 0]) > worker_room.DENIALS)

    assert not failed.done()
    failed.cancel()
    await worker.stop()


async def test_a_denial_that_passes_is_forgotten(tmp_path: Path) -> None:
    """Somebody grants the right, and another task is denied much later."""
    parts = FakeParts()
    worker = worker_of(tmp_path, parts)
    await worker.start()
    failed = asyncio.create_task(worker.failed())

    for task in list(parts.consumers):
        await deny(parts, *task, times=worker_room.DENIALS - 1)
        await made(parts, task, worker_room.DENIALS)
        parts.consumers[task][-1].fail(DrainError("another reason"))
        await made(parts, task, worker_room.DENIALS + 1)
        parts.consumers[task][-1].fail(denied(task[0]))
        await made(parts, task, worker_room.DENIALS + 2)

    assert not failed.done()
    failed.cancel()
    await worker.stop()
