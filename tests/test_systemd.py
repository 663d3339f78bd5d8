"""What the service manager is told, by datagrams on a real socket."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shareproxy.systemd import READY, Systemd

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no service manager of this kind")


class Manager:
    """A service manager's socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(10)
        self.environment = {"NOTIFY_SOCKET": address, "PATH": "/bin"}

    def heard(self) -> list[str]:
        """Return the assignments of the next datagram."""
        return self.socket.recv(4096).decode().split("\n")


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """Return one that listens at a path, or at an abstract address."""
    if request.param == "abstract" and not sys.platform.startswith("linux"):
        pytest.skip("abstract addresses are Linux's")
    made = Manager(str(tmp_path / "notify") if request.param == "path" else f"@shareproxy-test-{os.getpid()}")
    yield made
    made.socket.close()


def test_state_and_status_are_one_datagram(manager: Manager) -> None:
    """The status is one line, whatever it says."""
    systemd = Systemd(manager.environment)

    systemd.tell(READY, status="the cluster cannot be reached:\n refused")
    systemd.close()

    assert manager.heard() == ["READY=1", "STATUS=the cluster cannot be reached: refused"]


def test_same_status_is_not_told_again(manager: Manager) -> None:
    """Nobody wants it each second."""
    systemd = Systemd(manager.environment)

    systemd.tell(status="ready")
    systemd.tell(status="ready")
    systemd.tell(status="stopping")
    systemd.close()

    assert [manager.heard(), manager.heard()] == [["STATUS=ready"], ["STATUS=stopping"]]


def test_reloading_has_a_time(manager: Manager) -> None:
    """Of the clock that systemd compares it with (Type=notify-reload)."""
    systemd = Systemd(manager.environment)
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000

    systemd.tell_reloading()
    systemd.close()

    first, second = manager.heard()
    name, _, usec = second.partition("=")
    assert (first, name) == ("RELOADING=1", "MONOTONIC_USEC")
    assert before <= int(usec) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def test_its_variables_are_taken_out(manager: Manager) -> None:
    """Workers must not speak for the service."""
    Systemd(manager.environment).close()

    assert manager.environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_watchdog_is_for_this_process(manager: Manager, variables: dict[str, str], seconds: float | None) -> None:
    """As sd_watchdog_enabled decides."""
    systemd = Systemd(manager.environment | variables)
    systemd.close()

    assert systemd.watchdog_seconds == seconds


def test_without_a_manager_nothing_is_told() -> None:
    """From a shell, or in a container."""
    systemd = Systemd({})
    systemd.tell(READY)

    assert not systemd.listens
    assert Systemd({"WATCHDOG_USEC": "1000000"}).watchdog_seconds is None


def test_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """The service lives on."""
    systemd = Systemd({"NOTIFY_SOCKET": str(tmp_path / "nobody")})

    systemd.tell(READY)
    systemd.close()
    systemd.tell(READY)

    assert not systemd.listens
