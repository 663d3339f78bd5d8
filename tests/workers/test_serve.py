"""`shareproxy serve` as processes: what clients meet when a worker dies, and how the service ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shareproxy.cluster.addresses import Address, parse_address
from shareproxy.protocol.messages import ApiVersionsRequest, ListGroupsRequest
from shareproxy.proxy.listening import hold
from shareproxy.testing.ports import ports_side_by_side
from shareproxy.testing.simulated import SimulatedCluster
from tests.proxy.fake_broker import HOST, Client, taken_port
from tests.proxy.frames import request
from tests.support.command import Served, clean_environment, run_shareproxy, serving
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers need Linux"),
]
PATIENCE = 90.0  # seconds
ADVICE = "; choose another address, or end what uses it"
ONE_AND_TWO = pytest.mark.parametrize(
    "flags", [("--event-loop", "asyncio"), ("--workers", "2", "--event-loop", "uvloop")], ids=["alone", "workers"]
)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Return a cluster of one node, in a thread of its own."""
    with SimulatedCluster() as made:
        yield made


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that nobody reports, without holding the loop."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)
    assert condition(), what


async def ready(served: Served) -> None:
    """Wait until the probe says so."""
    await asyncio.to_thread(served.wait_until_ready)


async def ended(served: Served) -> int:
    """Wait for the process, return its exit code."""
    return await asyncio.wait_for(asyncio.to_thread(served.process.wait), PATIENCE)


def http(served: Served, path: str) -> tuple[int, str]:
    """Ask the service."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{served.http_port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def workers(served: Served) -> list[int]:
    """Return the process ids of the workers that serve."""
    return [
        int(float(pid)) for pid in re.findall(r"^shareproxy_worker_pid\{.*?\} (\S+)", metrics(served), re.MULTILINE)
    ]


def metrics(served: Served) -> str:
    """Return the page of the metrics."""
    return http(served, "/metrics")[1]


def logged(served: Served, event: str) -> list[dict[str, Any]]:
    """Return the log lines of one event."""
    lines = [json.loads(line) for line in served.log().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line["event"] == event]


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked about does not."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False


class Traffic:
    """Clients that ask without end, each on a connection of its own, and come again when it is closed."""

    def __init__(self, address: Address, clients: int) -> None:
        self.answers = [0] * clients
        self.connects = [0] * clients
        self._address = address
        self._tasks = [asyncio.create_task(self._ask(number)) for number in range(clients)]

    async def _ask(self, number: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with Client(self._address) as client:
                    self.connects[number] += 1
                    while True:
                        await client.ask(request(ApiVersionsRequest(), 3))
                        self.answers[number] += 1
                        await asyncio.sleep(0.005)
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """End all clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def traffic(served: Served, clients: int = 8) -> AsyncIterator[Traffic]:
    """Keep clients busy until the block ends."""
    made = Traffic(parse_address(served.bootstrap_servers), clients)
    try:
        yield made
    finally:
        await made.stop()


async def test_killed_worker_under_traffic(cluster: SimulatedCluster) -> None:
    """Its clients come again and are served; those of the other worker never notice; nothing of it is left."""
    with serving(cluster.bootstrap_servers, "--workers", "2") as served:
        await ready(served)
        await until(lambda: len(workers(served)) == 2, "both workers serve")
        async with traffic(served) as flow:
            await until(lambda: min(flow.answers) > 10, "all clients are served")
            first = workers(served)
            before = list(flow.answers)

            os.kill(first[0], signal.SIGKILL)

            await until(lambda: logged(served, "worker replaced"), "it is replaced")
            await until(lambda: min(now - then for now, then in zip(flow.answers, before, strict=True)) > 20, "go on")
            again = [number - 1 for number in flow.connects]
        (line,) = logged(served, "worker ended")
        page = metrics(served)
        assert (line["worker"], line["pid"], line["signal"]) == (1, first[0], "SIGKILL")
        assert sum(again) <= len(again)  # once each, at most
        assert 'shareproxy_worker_restarts_total{worker="1"} 1.0' in page
        assert 'shareproxy_worker_restarts_total{worker="2"} 0.0' in page
        after = workers(served)
        assert first[1] in after
        assert first[0] not in after
        assert served.terminate() == 0
        await until(lambda: not any(map(alive, after)), "no worker is left")


async def test_clients_are_spread_over_workers(cluster: SimulatedCluster) -> None:
    """And counted together."""
    with serving(cluster.bootstrap_servers, "--workers", "2", "--log-level", "debug") as served:
        await ready(served)
        await until(lambda: metrics(served).count("shareproxy_worker_ready{") == 2, "both workers serve")
        for _ in range(40):
            async with Client(parse_address(served.bootstrap_servers)) as client:
                await client.ask(request(ApiVersionsRequest(), 3))
        await until(lambda: len(logged(served, "connection closed")) >= 40, "all are closed")
        page = metrics(served)
        lines = [line for line in logged(served, "connection closed") if line["reason"] == "client_closed"]

    assert {line["worker"] for line in lines} == {1, 2}
    (counted,) = re.findall(r'^shareproxy_proxy_requests_total\{.*api="ApiVersions".*\} (\S+)', page, re.MULTILINE)
    assert float(counted) == 40


async def test_supervisor_that_is_killed_leaves_nothing(cluster: SimulatedCluster) -> None:
    """A new one can begin at once."""
    with serving(cluster.bootstrap_servers, "--workers", "2") as served:
        await ready(served)
        await until(lambda: len(workers(served)) == 2, "both workers serve")
        orphans = workers(served)

        served.process.kill()
        served.process.wait()

        await until(lambda: not any(map(alive, orphans)), "the workers end")
        for held in hold([parse_address(served.bootstrap_servers), Address(HOST, served.node_port(1))]):
            held.close()


async def test_one_worker_can_be_told_to_end(cluster: SimulatedCluster) -> None:
    """SIGTERM ends it in order, and another one takes its place."""
    with serving(cluster.bootstrap_servers, "--workers", "2") as served:
        await ready(served)
        await until(lambda: len(workers(served)) == 2, "both workers serve")

        os.kill(workers(served)[0], signal.SIGTERM)

        await until(lambda: logged(served, "worker replaced"), "it is replaced")
        (line,) = logged(served, "worker ended")
        assert (line["exit_code"], line["level"]) == (0, "info")
        assert served.terminate() == 0


@ONE_AND_TWO
async def test_stop_lets_answers_arrive(cluster: SimulatedCluster, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Nobody new comes in, what is in flight is answered, exit code 0."""
    config = tmp_path / "shareproxy.toml"
    config.write_text("stop_timeout = 600")
    with serving(cluster.bootstrap_servers, *flags, "--config", str(config)) as served:
        await ready(served)
        address = parse_address(served.bootstrap_servers)
        async with Client(address) as client, Client(address) as idle:
            await client.ask(request(ApiVersionsRequest(), 3))
            await idle.ask(request(ApiVersionsRequest(), 3))
            cluster.freeze_node(1)
            client.send(request(ListGroupsRequest(), 4, 7))
            await until(lambda: cluster.requests.count(ListGroupsRequest.api_key), "the broker has it")

            served.process.terminate()
            assert await idle.rest() == b""
            assert http(served, "/readyz") == (503, "stopping\n")
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(*address)
            cluster.thaw_node(1)
            answer = await client.frame()
            assert answer[4:8] == b"\0\0\0\7"
            assert await client.rest() == b""
        assert await ended(served) == 0
        assert "Traceback" not in served.log()


@ONE_AND_TWO
async def test_second_signal_ends_it_now(cluster: SimulatedCluster, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Also in the time that load balancers are given; exit code 0."""
    config = tmp_path / "shareproxy.toml"
    config.write_text("stop_timeout = 600\nstop_delay = 600")
    with serving(cluster.bootstrap_servers, *flags, "--config", str(config)) as served:
        await ready(served)
        address = parse_address(served.bootstrap_servers)
        served.process.terminate()
        await until(lambda: http(served, "/readyz") == (503, "stopping\n"), "it is not ready any more")
        async with Client(address) as client:  # and still lets clients in
            await client.ask(request(ApiVersionsRequest(), 3))

            served.process.send_signal(signal.SIGINT)

            assert await client.rest() == b""
        assert await ended(served) == 0
        assert "Traceback" not in served.log()


@ONE_AND_TWO
async def test_reload_from_the_file(cluster: SimulatedCluster, flags: tuple[str, ...], tmp_path: Path) -> None:
    """New limits hold for all; a bad file changes nothing; one line each."""
    config = tmp_path / "shareproxy.toml"
    config.write_text("[limits]\nmax_connections = 100\n")
    with serving(cluster.bootstrap_servers, *flags, "--config", str(config)) as served:
        await ready(served)
        config.write_text("lag_timeout = 1.0\n[limits]\nmax_connections = 1\n")
        served.process.send_signal(signal.SIGHUP)
        await until(lambda: logged(served, "settings reloaded"), "it has read the settings again")
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(parse_address(served.bootstrap_servers))) for _ in range(6)
            ]
            asked = [client.ask(request(ApiVersionsRequest(), 3)) for client in clients]
            answers = await asyncio.gather(*asked, return_exceptions=True)
        config.write_text("[limits]\nmax_connections = none\n")
        served.process.send_signal(signal.SIGHUP)
        await until(lambda: logged(served, "settings not reloaded"), "it has tried")
        (taken,), (refused,) = logged(served, "settings reloaded"), logged(served, "settings not reloaded")
        assert served.terminate() == 0

    assert 1 <= sum(isinstance(answer, bytes) for answer in answers) <= 2
    assert (taken["changed"], taken["needs_restart"]) == (["limits.max_connections"], ["lag_timeout"])
    assert str(config) in refused["error"]


def test_taken_port_is_named_once() -> None:
    """No worker is started for it."""
    with taken_port() as port:
        flags = ("--bootstrap-server", f"{HOST}:1", "--workers", "2", "--listen", f"{HOST}:{port}")
        done = run_shareproxy("serve", *flags)

    assert done.returncode == 1
    assert done.stderr == f"shareproxy: cannot listen on {HOST}:{port}: Address already in use{ADVICE}\n"


def test_of_two_services_that_start_together_one_serves(tmp_path: Path) -> None:
    """The other one says so, with an exit code that lets a service manager try again."""
    ports = ports_side_by_side(2)
    flags = ["--bootstrap-server", f"{HOST}:1", "--workers", "2"]
    flags += ["--listen", f"{HOST}:{ports[0]}", "--node-ports", f"{ports[1]}-{ports[1]}"]
    logs = [tmp_path / "one.log", tmp_path / "other.log"]
    with contextlib.ExitStack() as stack:
        both = []
        for log in logs:
            output = stack.enter_context(log.open("wb"))
            command = [sys.executable, "-m", "shareproxy", "serve", *flags]
            both.append(subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment()))
            stack.callback(both[-1].wait)
            stack.callback(both[-1].terminate)

        wait_until(lambda: any(one.poll() is not None for one in both), "one of them ends", PATIENCE)
        refused = 0 if both[0].poll() is not None else 1
        wait_until(lambda: '"serving"' in logs[1 - refused].read_text(), "the other one serves", PATIENCE)

        assert both[refused].returncode == 1
        assert logs[refused].read_text() == (
            f"shareproxy: cannot listen on {HOST}:{ports[0]}: Address already in use{ADVICE}\n"
        )
        assert both[1 - refused].poll() is None


def test_http_address_that_is_not_known_is_named() -> None:
    """As a port that is taken: it may be known later."""
    done = run_shareproxy("serve", "--bootstrap-server", f"{HOST}:1", "--http", "no-such-host.invalid:1234")

    assert done.returncode == 1
    assert done.stderr.startswith("shareproxy: http: cannot listen on no-such-host.invalid:1234: ")
    assert done.stderr.count("\n") == 1


def test_port_0_is_no_port_for_several() -> None:
    """Each would have another one."""
    done = run_shareproxy("serve", "--bootstrap-server", f"{HOST}:1", "--workers", "2", "--listen", f"{HOST}:0")

    assert done.returncode == 2
    assert "names none" in done.stderr


def test_system_that_cannot_share_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told what to do instead."""
    from shareproxy.config import ConfigError, Settings
    from shareproxy.workers import serve

    monkeypatch.setattr(serve, "CAN_SHARE_PORTS", False)
    with pytest.raises(ConfigError, match="leave the setting at 1"):
        serve.serve_with_workers(Settings(bootstrap_server=f"{HOST}:1", workers=2))
