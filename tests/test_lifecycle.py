"""From start to end: signals, the service manager, the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from structlog.testing import capture_logs

from shareproxy.config import ConfigError, Settings
from shareproxy.lifecycle import event_loop, live, run

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="there are no signals"),
]


class Service:
    """Something that lives; it notes what is done to it."""

    def __init__(self, *, stops: bool = True, starts: bool = True) -> None:
        self.done: list[str] = []
        self.reason: str | None = None
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._hurried = asyncio.Event()
        self._begun = asyncio.Event()
        if stops:
            self._hurried.set()
        if starts:
            self._begun.set()

    async def start(self) -> None:
        """Play the part."""
        self.done.append("start")
        await self._begun.wait()

    def why_not_ready(self) -> str | None:
        """Play the part."""
        return self.reason

    async def reload(self) -> None:
        """Play the part."""
        self.done.append("reload")

    async def stop(self) -> None:
        """Play the part."""
        self.done.append("stop")
        await self._hurried.wait()
        self.done.append("stopped")

    def hurry(self) -> None:
        """Play the part."""
        self.done.append("hurry")
        self._hurried.set()

    async def failed(self) -> Exception:
        """Play the part."""
        return await asyncio.shield(self.failure)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody reports."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_stops_it_in_order(number: signal.Signals) -> None:
    """And it returns: exit code 0."""
    service = Service()
    life = asyncio.create_task(live(service, lambda: service.done.append("serving")))
    await until(lambda: "serving" in service.done)

    os.kill(os.getpid(), number)
    await life

    assert service.done == ["start", "serving", "stop", "stopped"]


async def test_second_signal_waits_for_nothing() -> None:
    """Whoever presses Ctrl-C twice means it."""
    service = Service(stops=False)
    life = asyncio.create_task(live(service, lambda: service.done.append("serving")))
    await until(lambda: "serving" in service.done)
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: "stop" in service.done)
    assert not life.done()

    with capture_logs() as logs:
        os.kill(os.getpid(), signal.SIGINT)
        await life

    assert service.done[2:] == ["stop", "hurry", "stopped"]
    assert [line["event"] for line in logs] == ["stopping at once"]


async def test_stop_that_hangs_after_a_second_signal_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that nobody can end is worse than a socket that is not closed."""
    monkeypatch.setattr("shareproxy.lifecycle.HURRY_SECONDS", 0.01)
    service = Service(stops=False)
    service.hurry = lambda: None  # type: ignore[method-assign]
    life = asyncio.create_task(live(service, lambda: service.done.append("serving")))
    await until(lambda: "serving" in service.done)
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: "stop" in service.done)

    os.kill(os.getpid(), signal.SIGTERM)
    await life

    assert "stopped" not in service.done


async def test_signal_before_it_serves_ends_it() -> None:
    """A start that takes long is given up."""
    service = Service(starts=False)
    life = asyncio.create_task(live(service, lambda: service.done.append("serving")))
    await until(lambda: service.done)

    os.kill(os.getpid(), signal.SIGTERM)
    await life

    assert service.done == ["start", "stop", "stopped"]


async def test_hangup_reloads_each_time() -> None:
    """And it goes on."""
    service = Service()
    life = asyncio.create_task(live(service, lambda: service.done.append("serving")))
    await until(lambda: "serving" in service.done)

    for _ in range(2):
        service.done.clear()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: service.done == ["reload"])
    os.kill(os.getpid(), signal.SIGTERM)
    await life

    assert service.done[-2:] == ["stop", "stopped"]


async def test_failure_to_start_is_raised() -> None:
    """It has left nothing behind that could be stopped."""
    service = Service()

    async def start() -> None:
        raise ConfigError("port 1 is taken")

    service.start = start  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="port 1 is taken"):
        await live(service)

    assert service.done == []


async def test_failure_while_it_serves_is_raised() -> None:
    """What is left is stopped in order."""
    service = Service()
    service.failure.set_result(ConfigError("no worker lives"))

    with pytest.raises(ConfigError, match="no worker lives"):
        await live(service)

    assert service.done == ["start", "stop", "stopped"]


async def test_service_manager_hears_the_whole_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready when the ports are bound, though the cluster is away; then what it waits for, reloads, and the end."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "60000")
        loop, service, heard = asyncio.get_running_loop(), Service(), list[str]()

        async def hear(word: str) -> None:
            async with asyncio.timeout(30):
                while True:
                    text = (await loop.sock_recv(manager, 4096)).decode()
                    heard.append(text)
                    if word in text:
                        return

        service.reason = "the cluster cannot be reached"
        life = asyncio.create_task(live(service))
        await hear("READY=1\nSTATUS=the cluster cannot be reached")
        await hear("WATCHDOG=1")
        service.reason = None
        await hear("STATUS=ready")
        os.kill(os.getpid(), signal.SIGHUP)
        await hear("RELOADING=1\nMONOTONIC_USEC=")
        await hear("READY=1")
        os.kill(os.getpid(), signal.SIGTERM)
        await hear("STOPPING=1\nSTATUS=stopping")
        await life

    assert "NOTIFY_SOCKET" not in os.environ


def test_event_loop_is_the_one_that_is_named() -> None:
    """`auto` is the fast one, where it is installed."""
    assert event_loop("asyncio") is asyncio.new_event_loop
    assert event_loop("uvloop") is uvloop.new_event_loop
    assert event_loop("auto") is uvloop.new_event_loop


def test_event_loop_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` does without; who names it is told."""
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert event_loop("auto") is asyncio.new_event_loop
    with pytest.raises(ConfigError, match="uvloop is not installed"):
        event_loop("uvloop")


@pytest.mark.parametrize(("name", "module"), [("asyncio", "asyncio"), ("uvloop", "uvloop")])
def test_service_runs_in_that_loop(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with a log."""
    monkeypatch.setattr("shareproxy.lifecycle.configure_log", lambda log, worker: found.append(worker))
    found: list[object] = []

    async def main() -> None:
        found.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    run(Settings(event_loop=name), main, worker=3)  # type: ignore[arg-type]

    assert found == [3, module]
