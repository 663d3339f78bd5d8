"""Workers are started, replaced, added up and stopped; they are played by small programs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from shareproxy.cluster.errors import PropertiesError
from shareproxy.cluster.security import PLAINTEXT
from shareproxy.config import CannotListen, ConfigError, Settings, load_settings
from shareproxy.observe.worker_metrics import WorkerState
from shareproxy.proxy.listening import hold
from shareproxy.service import proxy_settings
from shareproxy.testing.ports import ports_side_by_side
from shareproxy.workers import process, supervisor
from shareproxy.workers.supervisor import Supervisor, WorkersError
from tests.proxy.fake_broker import HOST, eventually, taken_port

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers need Linux"),
]

STARTED: list[Supervisor] = []
"""By the test that runs."""
StartUp = Callable[..., Awaitable[Supervisor]]


def settings(workers: int, **flags: object) -> Settings:
    """Return settings of a service on free ports."""
    ports = ports_side_by_side(3)
    listening = {"listen": f"{HOST}:{ports[0]}", "node_ports": f"{ports[1]}-{ports[2]}"}
    return load_settings(None, {}, {"bootstrap_server": f"{HOST}:1", "workers": workers, **listening, **flags})


@pytest.fixture
async def start(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartUp]:
    """Return what starts a supervisor of workers that behave as they are told; it is stopped after the test."""
    monkeypatch.setattr(process, "PROGRAM", ("-m", "tests.workers.fake_child"))
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.001)
    STARTED.clear()

    async def start_up(*behaviours: str, **flags: object) -> Supervisor:
        monkeypatch.setenv("FAKE_CHILD", ",".join(behaviours))
        told = settings(len(behaviours), **flags)
        one = Supervisor(told, proxy_settings(told, PLAINTEXT))
        STARTED.append(one)
        await one.start()
        return one

    yield start_up
    for one in STARTED:
        await one.stop(0, 0)
        assert all(state.pid is None for state in one.states())


def pids(workers: Supervisor) -> list[int | None]:
    """Return the process ids by worker."""
    return [state.pid for state in workers.states()]


async def test_all_workers_listen_when_it_has_started(start: StartUp) -> None:
    """Each is a process."""
    workers = await start("serves", "waits_not")

    assert [(state.worker, state.listening, state.restarts) for state in workers.states()] == [
        (1, True, 0),
        (2, True, 0),
    ]
    assert len({*pids(workers)} - {None}) == 2


async def test_one_ready_worker_is_enough(start: StartUp) -> None:
    """The others may still look for the cluster."""
    workers = await start("unready", "serves")

    await eventually(lambda: workers.why_not_ready() is None)
    assert workers.states()[0].ready is False


async def test_reason_is_that_of_a_worker(start: StartUp) -> None:
    """All have the same, usually."""
    workers = await start("unready", "unready")

    await eventually(lambda: workers.why_not_ready() == "not ready yet")


async def test_killed_worker_is_replaced(start: StartUp) -> None:
    """The log says how it ended, and who took its place."""
    workers = await start("serves", "serves")
    before = pids(workers)
    assert before[0] is not None

    with capture_logs() as logs:
        os.kill(before[0], signal.SIGKILL)
        await eventually(lambda: workers.states()[0].restarts == 1 and workers.states()[0].listening)

    after = pids(workers)
    assert after[0] not in (None, before[0])
    assert after[1] == before[1]
    ended, replaced = logs
    assert (ended["event"], ended["worker"], ended["pid"], ended["signal"]) == ("worker ended", 1, before[0], "SIGKILL")
    assert (replaced["event"], replaced["worker"], replaced["pid"]) == ("worker replaced", 1, after[0])


async def test_worker_that_hangs_is_killed_and_replaced(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would still send it clients."""
    workers = await start("serves", "serves")
    monkeypatch.setattr(supervisor, "SILENT_SECONDS", 0.2)
    await workers.refresh()  # now each is waited for with the new patience

    with capture_logs() as logs:
        await eventually(lambda: workers.states()[0].restarts > 0)

    assert logs[0]["event"] == "worker hangs"


async def test_workers_that_die_at_once_end_the_service(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sentence, after some attempts."""
    with (
        capture_logs() as logs,
        pytest.raises(WorkersError, match=r"worker \d ended 5 times as soon as it had started"),
    ):
        await start("crashes", "crashes")

    assert {line["signal"] for line in logs if line["event"] == "worker ended"} == {"SIGSEGV"}


async def test_worker_that_cannot_start_says_why(start: StartUp) -> None:
    """At the start there is no second attempt: the settings are wrong."""
    with pytest.raises(ConfigError, match=r"tls\.certificate: gone"):
        await start("serves", "fails")


async def test_worker_that_cannot_listen_is_no_matter_of_settings(start: StartUp) -> None:
    """An address may be gone since the supervisor held it, and come back."""
    with pytest.raises(CannotListen, match=r"^cannot listen on 192\.0\.2\.1:1: gone$"):
        await start("serves", "cannot_listen")


async def test_ports_are_kept_until_the_end(start: StartUp) -> None:
    """Nobody else takes them, though these workers do not bind them at all."""
    workers = await start("serves", "serves")
    addresses = [address for address, _ in workers._proxy_settings.addresses()]
    assert len(addresses) == 3

    for address in addresses:
        with pytest.raises(OSError, match=f"cannot listen on {address}: Address already in use"):
            hold([address])
    await workers.stop(0, 0)

    for held in hold(addresses):
        held.close()


async def test_one_that_dies_at_once_does_not_end_those_that_serve(
    start: StartUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again and again, at last every five seconds; the log says so each time."""
    monkeypatch.setattr(supervisor, "LAST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "EARLY_ENDS", 2)
    workers = await start("serves", "ends")

    with capture_logs() as logs:
        await eventually(lambda: workers.states()[1].restarts > supervisor.EARLY_ENDS + 1)

    assert workers.states()[0].restarts == 0
    assert all((line["worker"], line.get("exit_code", 7)) == (2, 7) for line in logs)
    failed = asyncio.create_task(workers.failed())
    await asyncio.sleep(0)
    assert not failed.done()
    failed.cancel()


async def test_last_one_that_dies_ends_the_service(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it serves, too."""
    monkeypatch.setattr(supervisor, "EARLY_ENDS", 2)
    workers = await start("serves", "serves")
    monkeypatch.setenv("FAKE_CHILD", "crashes,crashes")
    for pid in pids(workers):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    error = await asyncio.wait_for(workers.failed(), 30)

    assert isinstance(error, WorkersError)


async def test_taken_port_is_named_before_a_worker_starts(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, not one of each worker."""
    monkeypatch.setattr(process, "PROGRAM", ("/no/such/program",))
    with taken_port() as port, capture_logs() as logs, pytest.raises(OSError, match=f"cannot listen on {HOST}:{port}"):
        await start("serves", "serves", node_ports=f"{port}-{port}")

    assert logs == []


async def test_counters_are_added_up(start: StartUp) -> None:
    """Those of a worker that is gone stay; what it was doing does not."""
    workers = await start("serves", "serves")
    await workers.refresh()
    assert workers.meter()["counters"]["requests"] == {"Metadata": 30}
    assert workers.meter()["gauges"]["connections"] == {"1": 2}

    pid = pids(workers)[1]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: workers.states()[1].restarts == 1 and workers.states()[1].ready)

    assert workers.meter()["counters"]["requests"] == {"Metadata": 10 + 20 + 2}
    assert workers.meter()["gauges"]["connections"] == {"1": 2}


async def test_stop_is_in_order_and_side_by_side(start: StartUp) -> None:
    """The last counters are not lost, and nobody is replaced."""
    workers = await start("serves", "serves")

    with capture_logs() as logs:
        await workers.stop(0, 0)

    assert logs == []
    assert workers.why_not_ready() == "stopped"
    assert workers.meter()["counters"]["requests"] == {"Metadata": 300}
    assert workers.meter()["gauges"] == {}


async def test_worker_that_does_not_stop_is_killed(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that it had, and some more."""
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.05)
    workers = await start("stays", "stays")

    with capture_logs() as logs:
        await workers.stop(0, 0)

    assert [(line["event"], line["signal"]) for line in logs] == [("worker ended", "SIGKILL")] * 2


async def test_stop_while_it_starts_waits_for_nobody(start: StartUp) -> None:
    """Who has no clients yet is not asked to take leave of them."""
    starting = asyncio.ensure_future(start("waits", "waits"))
    await eventually(lambda: len(STARTED) == 1 and None not in pids(STARTED[0]))

    with capture_logs() as logs:
        await STARTED[0].stop(0, 3600)

    starting.cancel()
    assert logs == []
    assert pids(STARTED[0]) == [None, None]


async def test_hurry_ends_workers_now(start: StartUp) -> None:
    """They were asked to take their time before."""
    workers = await start("stays", "stays")
    stopping = asyncio.create_task(workers.stop(0, 60))
    await eventually(lambda: workers.why_not_ready() == "stopping")

    workers.hurry()
    await asyncio.wait_for(stopping, 30)

    assert pids(workers) == [None, None]


async def test_reload_reaches_all_workers(start: StartUp) -> None:
    """And those that replace them."""
    workers = await start("serves", "serves")
    pid = pids(workers)[1]
    assert pid is not None

    await workers.reload(settings(2, **{"limits.max_connections": 50}))

    await workers.refresh()
    assert workers.meter()["counters"]["limit"] == {"1": 25, "2": 25}
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: workers.states()[1].restarts == 1 and workers.states()[1].ready)
    await workers.refresh()
    assert workers.meter()["counters"]["limit"] == {"1": 25, "2": 25 + 25}  # counters of the one that is gone stay


async def test_worker_that_refuses_a_reload_is_named(start: StartUp) -> None:
    """Though this process could read everything."""
    workers = await start("serves", "refuses")

    with pytest.raises(ConfigError, match="worker 2: cannot be read"):
        await workers.reload(settings(2))


async def test_worker_that_does_not_answer_a_reload_follows_later(
    start: StartUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told; one line names it."""
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.05)
    workers = await start("serves", "serves")
    pid = pids(workers)[1]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    with capture_logs() as logs:
        await workers.reload(settings(2, **{"limits.max_connections": 50}))

    assert logs == [{"event": "worker reloads later", "log_level": "warning", "worker": 2, "pid": pid}]
    os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(supervisor, "REFRESH_SECONDS", 60.0)
    await workers.refresh()
    assert workers.meter()["counters"]["limit"] == {"1": 25, "2": 25}


async def test_worker_that_refuses_a_reload_later_is_named(start: StartUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its answer any more, and nobody else would know."""
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.05)
    workers = await start("serves", "refuses")
    pid = pids(workers)[1]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    with capture_logs() as logs:
        await workers.reload(settings(2))
        os.kill(pid, signal.SIGCONT)
        await eventually(lambda: len(logs) == 2)

    assert [line["event"] for line in logs] == ["worker reloads later", "worker not reloaded"]
    assert (logs[1]["worker"], logs[1]["error"]) == (2, "cannot be read")


async def test_certificates_are_read_here_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them is said once, and no worker is told."""
    told = settings(2, **{"tls.certificate": "/no/such/file.pem"})
    workers = Supervisor(told, proxy_settings(told, PLAINTEXT))

    with pytest.raises(PropertiesError, match=r"file\.pem"):
        await workers.start()
    with pytest.raises(PropertiesError, match=r"file\.pem"):
        await workers.reload(told)


async def test_metrics_are_about_the_workers(start: StartUp) -> None:
    """Made anew for each scrape."""
    workers = await start("serves", "serves")

    (source,) = workers.metrics()
    samples = {
        (sample.name, sample.labels["worker"]): sample.value for family in source.collect() for sample in family.samples
    }

    assert samples["shareproxy_worker_up", "1"] == 1
    assert samples["shareproxy_worker_restarts_total", "2"] == 0
    assert samples["shareproxy_worker_pid", "2"] == pids(workers)[1]
    assert isinstance(workers.states()[0], WorkerState)
