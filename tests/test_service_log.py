"""The log of the service: its forms, and a reader that is slow, stops or goes away."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from shareproxy.config import Log
from shareproxy.service_log import LogWriter, configure_log, flush_log, libraries_logged
from shareproxy.testing.ports import ports_side_by_side
from tests.support.command import clean_environment
from tests.support.waiting import wait_until


def logged(capfd: pytest.CaptureFixture[str]) -> str:
    """Return what was logged so far."""
    flush_log()
    return capfd.readouterr().err


@pytest.fixture(autouse=True)
def usual_log() -> Iterator[None]:
    """Put structlog's own configuration back after each test."""
    yield
    structlog.reset_defaults()


def test_json_has_one_object_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    """A log collector reads level, time, event and the values; stdout stays free."""
    configure_log(Log(format="json"))
    structlog.get_logger().info("serving", listen="a:1")
    flush_log()
    captured = capfd.readouterr()
    line = json.loads(captured.err)
    assert (line["event"], line["level"], line["listen"]) == ("serving", "info", "a:1")
    assert line["timestamp"].endswith("Z")
    assert captured.out == ""


@pytest.mark.parametrize("worker", [None, 2])
def test_worker_is_named_in_each_line(capfd: pytest.CaptureFixture[str], worker: int | None) -> None:
    """Several processes write to one log; the supervisor names a worker by itself."""
    configure_log(Log(format="json"), worker=worker)
    structlog.get_logger().info("serving")
    structlog.get_logger().info("worker ended", worker=1)
    lines = [json.loads(line) for line in logged(capfd).splitlines()]
    assert [line.get("worker") for line in lines] == [worker, 1]


def test_text_is_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    """Key and value, without colour when stderr is not a terminal."""
    configure_log(Log(format="text"))
    structlog.get_logger().warning("cluster not reached", error="refused")
    text = logged(capfd)
    assert "cluster not reached" in text
    assert "error=refused" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("format", ["json", "text"])
def test_names_cannot_forge_a_line(format: Literal["json", "text"], capfd: pytest.CaptureFixture[str]) -> None:
    """Line breaks and control characters in what a client named are written out."""
    configure_log(Log(format=format))
    structlog.get_logger().warning("lag not found", group="x\n2026-11-30 [error] forged\x1b[31m")
    text = logged(capfd)
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "x\\n2026" in text


def test_lines_below_the_level_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """The level is a floor."""
    configure_log(Log(level="error", format="json"))
    structlog.get_logger().warning("not this one")
    assert logged(capfd) == ""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return the two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def fill(writing_end: int) -> int:
    """Fill a pipe; return with how many bytes."""
    os.set_blocking(writing_end, False)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += os.write(writing_end, b"." * 4096)
    os.set_blocking(writing_end, True)
    return filled


def read_exactly(reading_end: int, size: int) -> bytes:
    """Read so many bytes."""
    found = b""
    while len(found) < size:
        found += os.read(reading_end, size - len(found))
    return found


def read_lines(reading_end: int, number: int) -> list[bytes]:
    """Read so many lines, and whatever came with the last of them."""
    found = b""
    while found.count(b"\n") < number:
        found += os.read(reading_end, 65_536)
    return found.splitlines()


def log_to(writer: LogWriter) -> None:
    """Have structlog write its lines there, as JSON."""
    structlog.configure(
        processors=[structlog.processors.JSONRenderer(sort_keys=True)], logger_factory=lambda *_: writer
    )


def test_lines_keep_their_order_and_come_whole(pipe: tuple[int, int]) -> None:
    """However many are put together in one write."""
    reading, writing = pipe
    writer = LogWriter(writing)
    lines = [f"{number} {'x' * (number % 300)}" for number in range(2_000)]
    for line in lines[:150]:
        writer.put(line)
    for line in lines[150:]:
        writer.put(line.encode())

    assert read_lines(reading, len(lines)) == [line.encode() for line in lines]


def test_lines_that_come_together_are_written_together(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that wakes for each of them costs more than the lines; who waits for them does not wait for more."""
    written: list[bytes] = []
    monkeypatch.setattr("shareproxy.service_log.GATHER_SECONDS", 3600.0)
    monkeypatch.setattr(LogWriter, "_write", lambda self, piece: written.append(bytes(piece)))
    writer = LogWriter(pipe[1])

    writer.put("first")
    writer.put("second")

    assert writer.flush(30)
    assert written[0] == b"first\nsecond\n"


def test_a_full_pipe_holds_up_nobody_and_lost_lines_are_counted(pipe: tuple[int, int]) -> None:
    """In the place where they are missing, in one line; later ones come after it."""
    reading, writing = pipe
    filled = fill(writing)
    writer = LogWriter(writing, max_lines=3)
    log_to(writer)
    writer.put("in the writer's hand")
    wait_until(lambda: writer._queue.empty(), "the writer has the first line")
    for number in range(10):
        writer.put(str(number))
    assert not writer.flush(0.0)

    read_exactly(reading, filled)
    head = read_lines(reading, 5)
    assert writer.flush(60.0)
    writer.put("later")

    assert head == [b"in the writer's hand", b"0", b"1", b"2", b'{"count": 7, "event": "log lines lost"}']
    assert read_lines(reading, 1) == [b"later"]


def test_a_reader_that_went_away_is_no_error(pipe: tuple[int, int]) -> None:
    """`shareproxy serve 2>&1 | head` must go on serving, and the thread must live on."""
    reading, writing = pipe
    os.close(reading)
    writer = LogWriter(writing)
    for _ in range(2):
        writer.put("nobody reads this")
        assert writer.flush(60.0)


def test_a_pipe_that_somebody_made_non_blocking_gets_each_line(pipe: tuple[int, int]) -> None:
    """The flag belongs to all that have the pipe; the thread waits for room then."""
    reading, writing = pipe
    filled = fill(writing)
    os.set_blocking(writing, False)
    writer = LogWriter(writing)
    writer.put("x" * 10_000)
    assert not writer.flush(0.05)

    read_exactly(reading, filled)

    assert read_lines(reading, 1) == [b"x" * 10_000]


ENDS = {"returns": "", "raises": "raise ValueError", "exits": "sys.exit(3)"}


@pytest.mark.parametrize("end", ENDS)
def test_the_last_lines_are_written_however_the_process_ends(end: str) -> None:
    """They say why it ended."""
    code = (
        "import structlog, sys; from shareproxy.config import Log; from shareproxy.service_log import configure_log; "
        "configure_log(Log(format='json')); log = structlog.get_logger(); "
        "[log.info('line', number=number) for number in range(2000)]\n" + ENDS[end]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["number"] for line in lines] == list(range(2_000))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_a_service_whose_log_nobody_reads_serves_and_stops(pipe: tuple[int, int], flags: tuple[str, ...]) -> None:
    """A log collector that hangs takes the log, not the service."""
    _, writing = pipe
    fill(writing)
    ports = ports_side_by_side(9)
    command = [sys.executable, "-m", "shareproxy", "serve", "--bootstrap-server", "127.0.0.1:1", *flags]
    command += ["--listen", f"127.0.0.1:{ports[0]}", "--node-ports", f"{ports[1]}-{ports[-1]}"]
    with subprocess.Popen(command, stderr=writing, env=clean_environment()) as process:
        try:
            wait_until(lambda: process.poll() is None and accepts(ports[0]), "it listens")
            for _ in range(10):
                assert ended_by_the_proxy(ports[0])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60.0) == 0
        finally:
            process.kill()


def accepts(port: int) -> bool:
    """Tell whether somebody listens."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1.0).close()
        return True
    return False


def ended_by_the_proxy(port: int) -> bool:
    """Say something that is not Kafka, which is logged; return when the connection was ended for it."""
    with socket.create_connection(("127.0.0.1", port), 30.0) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            while client.recv(4096):
                pass
    return True


def test_what_libraries_say_goes_into_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """The event loop's own errors are lines like all others, and not a traceback over several."""
    configure_log(Log(format="json"))

    async def forgotten() -> None:
        raise ZeroDivisionError("a bug")

    async def main() -> None:
        task = asyncio.create_task(forgotten())
        await asyncio.wait([task])
        del task
        gc.collect()

    with libraries_logged():
        asyncio.run(main())
        logging.getLogger("somebody").warning("beware of %s", "this")
    logging.getLogger("somebody").info("nobody wants to know")
    error, warning = (json.loads(line) for line in logged(capfd).splitlines())

    assert (error["event"], error["level"], error["logger"]) == ("library message", "error", "asyncio")
    assert error["message"].startswith("Task exception was never retrieved")
    assert "ZeroDivisionError: a bug" in error["exception"]
    assert (warning["level"], warning["logger"], warning["message"]) == ("warning", "somebody", "beware of this")


SAYS = """
import asyncio, structlog
from shareproxy.cli.failures import say
from shareproxy.config import Settings
from shareproxy.lifecycle import run

async def main():
    for number in range(300):
        structlog.get_logger().warning("line", number=number, text="x" * 100)

run(Settings(), main)
say("that was all")
"""


def test_last_sentence_comes_behind_the_log() -> None:
    """Though the log is written by a thread."""
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True, timeout=60)

    lines = done.stderr.splitlines()
    assert [json.loads(line)["number"] for line in lines[:-1]] == list(range(300))
    assert lines[-1] == "shareproxy: that was all"


def test_last_sentence_does_not_wait_for_a_reader_for_ever(pipe: tuple[int, int]) -> None:
    """A full pipe that nobody reads must not keep the process."""
    _, writing = pipe
    fill(writing)

    done = subprocess.run([sys.executable, "-c", SAYS], stderr=writing, check=False, timeout=60)

    assert done.returncode == 0
