"""`shareproxy.run` and `run_worker`: a worker from its arguments to its end, against a simulated cluster."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

import shareproxy
from shareproxy.admin.errors import AccessDenied, CannotReach, NotAShareGroup, WrongArgument
from shareproxy.cli.failures import ExitCode
from shareproxy.drain.errors import DrainError
from shareproxy.drain.events import AssignmentChanged, ConsumerEvent
from shareproxy.drain.handlers import EXIT_CODES, INTERRUPTED
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.sink import RejectRecord
from shareproxy.service_log import flush_log
from shareproxy.testing import SimulatedCluster
from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import clean_environment
from tests.support.waiting import wait_until

PATIENCE = 60.0


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Twelve mails in a topic of one partition."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("mails", 1)
        cluster.set_group_config("mailers", {"share.auto.offset.reset": "earliest"})
        cluster.produce("mails", 0, 12)
        yield cluster


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Undo the log that a worker sets up where its program has none: other tests look for theirs elsewhere."""
    yield
    if structlog.is_configured():
        flush_log()
        structlog.reset_defaults()


async def nothing(record: object) -> None:
    """Handle it at once."""


def run(cluster: SimulatedCluster, handler: Any = nothing, **options: Any) -> Any:
    """Return a worker for the mails, to be awaited."""
    options = {"group": "mailers", "topics": "mails", "bootstrap_servers": cluster.bootstrap_servers} | options
    return shareproxy.run(handler, **options)


async def test_an_async_handler_gets_each_record(cluster: SimulatedCluster) -> None:
    """Values as the deserialiser made them; the event of the assignment reaches the caller."""
    stop, values, events = asyncio.Event(), list[str](), list[ConsumerEvent]()

    async def handle(record: shareproxy.ShareRecord) -> None:
        values.append(record.value)
        if len(values) == 12:
            stop.set()

    async with asyncio.timeout(PATIENCE):
        result = await run(cluster, handle, stop=stop, value_deserializer=bytes.decode, on_event=events.append)

    assert sorted(values) == sorted(f"value-{number}" for number in range(12))
    assert result.accepted == 12
    assert any(isinstance(event, AssignmentChanged) for event in events)


async def test_a_plain_handler_never_holds_up_the_event_loop(cluster: SimulatedCluster) -> None:
    """It waits for the loop, which would be for ever if it ran there."""
    stop, done = asyncio.Event(), list[int]()
    loop = asyncio.get_running_loop()

    def handle(record: shareproxy.ShareRecord) -> None:
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        assert turned.wait(PATIENCE)
        done.append(record.offset)
        if len(done) == 12:
            loop.call_soon_threadsafe(stop.set)

    async with asyncio.timeout(PATIENCE):
        result = await run(cluster, handle, stop=stop, concurrency=3)

    assert (sorted(done), result.accepted) == (list(range(12)), 12)


async def test_the_brokers_are_asked_for_a_dead_letter_queue(cluster: SimulatedCluster) -> None:
    """There is none: what was rejected comes again."""
    stop, seen = asyncio.Event(), list[int]()

    async def handle(record: shareproxy.ShareRecord) -> None:
        if record.offset == 3:
            seen.append(record.delivery_count)
            if record.delivery_count < 3:
                raise RejectRecord("this one")
            stop.set()

    async with asyncio.timeout(PATIENCE):
        result = await run(cluster, handle, stop=stop, retry=Retry(first_s=0.01, max_s=0.01))

    assert seen == [1, 2, 3]
    assert (result.rejected, result.released) == (0, 2)


async def test_health_says_when_it_is_ready_and_what_it_did(cluster: SimulatedCluster) -> None:
    """Over HTTP, on the address that was given."""
    stop, count = asyncio.Event(), 0
    address = f"127.0.0.1:{ports_side_by_side(1)[0]}"
    pages: list[str] = []

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    async def handle(record: shareproxy.ShareRecord) -> None:
        nonlocal count
        count += 1
        if count == 12:
            pages.extend([await asyncio.to_thread(get, path) for path in ("/readyz", "/metrics")])
            stop.set()

    async with asyncio.timeout(PATIENCE):
        await run(cluster, handle, stop=stop, health=address)

    assert pages[0] == "ready\n"
    assert 'shareproxy_worker_records_total{group="mailers"} 12.0' in pages[1]


async def test_an_address_that_is_taken_ends_it_before_it_joins(cluster: SimulatedCluster) -> None:
    """With a sentence."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DrainError, match=f"health: cannot listen on 127.0.0.1:{port}"):
            await run(cluster, health=f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"handler": "not a function"}, "handler: 'not a function' cannot be called"),
        ({"concurrency": 0}, "concurrency: 0 is not a whole number"),
        ({"prefetch": -1}, "prefetch: -1 is not"),
        ({"max_waiting": 0}, "max_waiting"),
        ({"time_limit": 0}, "time_limit: 0 is not a number of seconds"),
        ({"stop_timeout": -1}, "stop_timeout"),
        ({"retry": Retry(factor=0)}, "retry: factor=0"),
        ({"retry": 5}, r"retry: 5 is no Retry; write retry=Retry\("),
        ({"value_deserializer": "jsn"}, "value_deserializer: 'jsn' is none of .* nor a function"),
        ({"health": "9465"}, "health: '9465' is not HOST:PORT; write for instance 127.0.0.1:9465"),
        ({"health": "nowhere"}, "health: 'nowhere' is not HOST:PORT; write for instance 127.0.0.1:9465"),
        ({"group": ""}, "group: '' is not the name"),
        ({"topics": []}, "topics: none is named"),
        ({"topics": "mails.*"}, "is a pattern, and share groups have none"),
        ({"bootstrap_servers": "kafka"}, "bootstrap_servers: .*no port"),
        ({"acknowledgement": "implicit"}, "acknowledgement: a worker acknowledges and renews by itself"),
        ({"renew": False}, "renew: a worker acknowledges and renews by itself"),
        ({"auto_offset_reset": "earliest"}, "set share.auto.offset.reset with kafka-configs.sh"),
        ({"bootstrap_servers": None}, "bootstrap_servers: none is given; .*SHAREPROXY_BOOTSTRAP_SERVER"),
    ],
)
async def test_what_cannot_be_used_is_a_sentence(
    options: dict[str, Any], says: str, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent."""
    monkeypatch.delenv("SHAREPROXY_BOOTSTRAP_SERVER", raising=False)

    with pytest.raises(WrongArgument, match=says):
        await run(cluster, **options)


async def test_brokers_and_their_property_file_come_from_the_environment(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both or none: a file for one cluster is not for another."""
    monkeypatch.setenv("SHAREPROXY_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    monkeypatch.setenv("SHAREPROXY_COMMAND_CONFIG", str(tmp_path / "missing.properties"))

    with pytest.raises(WrongArgument, match=r"command_config: .*missing\.properties"):
        await run(cluster, bootstrap_servers=None)
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(PATIENCE):
        assert (await run(cluster, stop=stop)).accepted == 0


async def test_a_group_of_another_type_is_named(cluster: SimulatedCluster) -> None:
    """R6: it cannot be joined."""
    cluster.commit_offsets("billing", {"mails": {0: 5}})

    with pytest.raises(NotAShareGroup, match="billing"):
        await run(cluster, group="billing")


# run_worker, in a process of its own

SCRIPT = """
import asyncio, sys
import shareproxy

async def handle(record):
    print(record.offset, flush=True)
    {body}

shareproxy.run_worker(handle, group="mailers", topics="mails", {options})
print("ended", flush=True)
"""


def script(tmp_path: Path, servers: str, body: str = "", options: str = "") -> subprocess.Popen[str]:
    """Start a script that runs a worker."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=body, options=options))
    return subprocess.Popen(
        [sys.executable, str(path)],
        env=clean_environment() | {"SHAREPROXY_BOOTSTRAP_SERVER": servers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return so many lines of its output."""
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_script_in_order(number: int, cluster: SimulatedCluster, tmp_path: Path) -> None:
    """All that was begun is accepted; the script goes on after the call, and ends with 0."""
    with script(tmp_path, cluster.bootstrap_servers, "await asyncio.sleep(0.2)", "concurrency=12") as process:
        offsets = read_lines(process, 12)
        os.kill(process.pid, number)
        out, log = process.communicate(timeout=PATIENCE)

    assert sorted(map(int, offsets)) == list(range(12))
    assert (process.returncode, out) == (0, "ended\n")
    assert re.search(r'"accepted":12\b', log)
    assert "Traceback" not in log


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_script_at_once(
    number: int, code: int, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """A handler that would take an hour more is left alone."""
    with script(tmp_path, cluster.bootstrap_servers, "await asyncio.sleep(3600)", "stop_timeout=3000") as process:
        read_lines(process, 8)
        os.kill(process.pid, number)
        log = ""
        assert process.stderr is not None
        while "waiting for handlers" not in log:
            log = process.stderr.readline()
            assert log, "it ended without waiting for its handlers"
        os.kill(process.pid, number)
        out, log = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in log
    wait_until(lambda: [found.state for found in cluster.list_share_groups()] == ["Empty"], "it has left the group")


@pytest.mark.parametrize(
    ("servers", "options", "code", "says"),
    [
        (
            "127.0.0.1:1",
            "request_timeout=1.0",
            3,
            "127.0.0.1:1: connection refused; check that the brokers run, and SHAREPROXY_BOOTSTRAP_SERVER",
        ),
        (
            "",
            "bootstrap_servers='127.0.0.1:1', request_timeout=1.0",
            3,
            "127.0.0.1:1: connection refused; check that the brokers run, and bootstrap_servers",
        ),
        ("127.0.0.1:1", "concurrency=0", 2, "concurrency"),
        ("127.0.0.1:1", "isolation_level='read_committed'", 2, "share.isolation.level"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_an_exit_code(
    servers: str, options: str, code: int, says: str, tmp_path: Path
) -> None:
    """No traceback of ours."""
    with script(tmp_path, servers, options=options) as process:
        out, errors = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in errors
    sentence = errors.splitlines()[-1]
    assert sentence.startswith("shareproxy: ")
    assert says in sentence


def test_scripts_end_with_the_codes_of_the_commands() -> None:
    """One table for both."""
    codes = dict(EXIT_CODES)
    assert codes[WrongArgument] == ExitCode.USAGE
    assert codes[CannotReach] == ExitCode.UNREACHABLE
    assert codes[AccessDenied] == ExitCode.NOT_AUTHORIZED
    assert codes[DrainError] == ExitCode.NO
    assert int(ExitCode.INTERRUPTED) == INTERRUPTED
