"""A sink worker in the process of the service: its state is where the service shows its own."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shareproxy import sink_beside as room
from shareproxy.config import ConfigError, Settings
from shareproxy.drain.sink_metrics import TaskState
from shareproxy.service import Service
from shareproxy.sink_beside import sink_beside
from tests.drain.test_worker import FakeParts
from tests.support.waiting import wait_until

SINK = """
[worker]
"bootstrap.servers" = "localhost:9092"
"consumer.group.protocol" = "share"
"task.shutdown.graceful.timeout.ms" = 500
[connectors.orders]
class = "files"
topics = "orders"
"tasks.max" = 2
"""


@pytest.fixture
async def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """Run a service that has nothing but HTTP and a sink worker over fake consumers."""
    monkeypatch.setattr(room, "BrokerParts", lambda **_: FakeParts())
    (tmp_path / "sink.toml").write_text(SINK)
    settings = Settings(
        bootstrap_server="127.0.0.1:1", http="127.0.0.1:0", sink=str(tmp_path / "sink.toml"), stop_timeout=0.0
    )
    service = Service(settings, with_proxy=False, with_exporter=False)
    await service.start()
    yield service
    await service.stop()


async def get(service: Service, path: str) -> tuple[int, str]:
    """Return status and body."""
    assert service.http is not None
    url = f"http://127.0.0.1:{service.http.port}{path}"

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


async def test_each_task_is_on_metrics(beside: Service) -> None:
    """With the state that it is in."""
    status, page = await get(beside, "/metrics")

    assert status == 200
    for task in "01":
        assert f'shareproxy_sink_task_state{{connector="orders",state="running",task="{task}"}} 1.0' in page
    assert "shareproxy_build_info" in page


async def test_each_task_is_in_the_json(beside: Service) -> None:
    """With its state, the reason where it does not run, and its counts."""
    assert beside.sink is not None
    beside.sink.worker.meters[1].be(TaskState.WAITING, "orders-0@5 waits 1.0 s")

    status, body = await get(beside, "/api/v1/sinks")
    first, second = json.loads(body)["tasks"]

    assert status == 200
    assert (first["connector"], first["task"], first["share_group"]) == ("orders", 0, True)
    assert (first["state"], first["why"]) == ("running", None)
    assert (second["state"], second["why"]) == ("waiting", "orders-0@5 waits 1.0 s")
    assert first["counts"]["record_acknowledge"] == 0


async def test_the_service_is_not_ready_while_a_task_is_not(beside: Service) -> None:
    """The reason is the task's."""
    assert beside.sink is not None
    beside.sink.worker.meters[0].be(TaskState.FAILED, "the sink's put failed: no disk")

    status, reason = await get(beside, "/readyz")

    assert status == 503
    assert "connector 'orders', task 0: the sink's put failed: no disk" in reason
    assert beside.why_not_ready() == reason.strip()


async def test_the_tasks_end_with_the_service(beside: Service) -> None:
    """Their members leave the group."""
    assert beside.sink is not None
    worker = beside.sink.worker

    await beside.stop()

    wait_until(lambda: all(meter.state is TaskState.STOPPED for meter in worker.meters), "all tasks are stopped")
    assert worker.unclean == []


def test_a_file_that_is_wrong_is_named() -> None:
    """As `shareproxy sink` does."""
    with pytest.raises(ConfigError, match=r"nowhere/sink\.toml: cannot be read"):
        sink_beside("nowhere/sink.toml")
