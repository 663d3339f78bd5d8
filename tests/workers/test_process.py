"""One worker process and its socket."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from shareproxy.config import Settings, Tls
from shareproxy.testing.ports import ports_side_by_side
from shareproxy.workers import process
from shareproxy.workers.messages import Drain, Failed, Listening, Reload, Reloaded, Reported, Start
from shareproxy.workers.process import WorkerProcess
from tests.proxy.fake_broker import taken_port

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers need Linux"),
]
FAKE = ("-m", "tests.workers.fake_child")
START = Start(1, Settings(bootstrap_server="a:1", tls=Tls(certificate="c", key_password="hunter2")))


def shown_of(pid: int) -> list[bytes]:
    """Return what everybody on the machine can see of a process."""
    return [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start fakes, here."""
    monkeypatch.setattr(process, "PROGRAM", FAKE)


async def test_messages_go_both_ways() -> None:
    """In order, until the process ends; its exit code is told."""
    worker = await WorkerProcess.start(START)
    assert await worker.receive() == Listening()
    assert isinstance(await worker.receive(), Reported)

    worker.send(Reload(START.settings))
    assert await worker.receive() == Reloaded("")
    worker.send(Drain(0, 0))
    assert isinstance(await worker.receive(), Reported)

    assert await worker.receive() is None
    assert await worker.end() == 0


async def test_worker_that_cannot_listen_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one, beside somebody who does not share the port."""
    monkeypatch.undo()
    with taken_port() as port:
        (free,) = ports_side_by_side(1)
        settings = Settings(bootstrap_server="127.0.0.1:1", listen=f"127.0.0.1:{port}", node_ports=f"{free}-{free}")
        worker = await WorkerProcess.start(Start(1, settings))

        assert await worker.receive() == Failed(f"cannot listen on 127.0.0.1:{port}: Address already in use", True)
        assert await worker.receive() is None
        assert await worker.end() == 2


async def test_settings_are_not_shown_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither arguments nor environment have the password."""
    monkeypatch.setenv("SHAREPROXY_TLS_KEY_PASSWORD", "hunter2")
    worker = await WorkerProcess.start(START)
    await worker.receive()

    assert not any(b"hunter2" in shown for shown in shown_of(worker.pid))
    worker.send(Drain(0, 0))
    await worker.end()


async def test_signal_that_ended_it_is_told() -> None:
    """As a negative number."""
    worker = await WorkerProcess.start(START)
    await worker.receive()
    os.kill(worker.pid, signal.SIGKILL)

    while await worker.receive() is not None:
        pass
    assert await worker.end() == -signal.SIGKILL


async def test_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind."""
    monkeypatch.setattr(process, "END_SECONDS", 0.01)
    monkeypatch.setattr(process, "PROGRAM", ("-c", "import os, time; os.close(0); time.sleep(60)"))
    worker = await WorkerProcess.start(START)

    assert await worker.receive() is None
    assert await worker.end() == -signal.SIGKILL


async def test_what_is_no_message_ends_the_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of another version, or one whose memory is damaged."""
    monkeypatch.setattr(process, "PROGRAM", ("-c", 'import os; os.write(0, b\'{"type": "poem"}\\n\')'))
    worker = await WorkerProcess.start(START)

    assert await worker.receive() is None
    await worker.end()


async def test_program_that_is_not_there_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no socket is left."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(FileNotFoundError):
        await WorkerProcess.start(START)


async def test_ctrl_c_is_not_for_workers() -> None:
    """They have a process group of their own."""
    worker = await WorkerProcess.start(START)
    await worker.receive()

    assert os.getpgid(worker.pid) != os.getpgid(0)
    worker.send(Drain(0, 0))
    await worker.end()
