"""Writing to stdout without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import IO

import pytest

from shareproxy.cli.record_output import RecordOutput


class Pipe:
    """Both ends of a pipe."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.reading = os.fdopen(reading, "rb", buffering=0)
        self.stdout: IO[str] = os.fdopen(writing, "w")


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe to write to."""
    made = Pipe()
    yield made
    made.reading.close()
    made.stdout.close()


async def test_all_bytes_arrive_in_order(pipe: Pipe) -> None:
    """Pieces of any size, one after the other."""
    output = RecordOutput(pipe.stdout)
    pieces = [b"a" * 10, b"", b"b" * 300_000, b"c"]

    async def write() -> None:
        for piece in pieces:
            await output.write(piece)
        output.close()

    writing = asyncio.create_task(write())
    found = b""
    while len(found) < 300_011:
        found += await asyncio.to_thread(pipe.reading.read, 65_536)
    await writing

    assert found == b"".join(pieces)


async def test_reader_that_is_gone(pipe: Pipe) -> None:
    """The error is raised where the bytes were to be written."""
    pipe.reading.close()

    with pytest.raises(BrokenPipeError):
        await RecordOutput(pipe.stdout).write(b"nobody reads this")


async def test_reader_that_does_not_read_holds_nothing_up(pipe: Pipe) -> None:
    """The loop goes on while a pipe is full; waiting can be given up."""
    output = RecordOutput(pipe.stdout)
    stuck = asyncio.create_task(output.write(b"x" * 1_000_000))
    for _ in range(5):
        await asyncio.sleep(0)

    assert not stuck.done()
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    # the thread must not write into whatever gets the same descriptor next
    pipe.reading.close()
    output.close()
    assert output._thread is not None
    await asyncio.to_thread(output._thread.join, 10)
    assert not output._thread.is_alive()


async def test_pipe_that_does_not_block(pipe: Pipe) -> None:
    """Somebody may have made it so; nothing is lost."""
    os.set_blocking(pipe.stdout.fileno(), False)
    output = RecordOutput(pipe.stdout)
    writing = asyncio.create_task(output.write(b"x" * 500_000))
    found = 0
    while found < 500_000:
        found += len(await asyncio.to_thread(pipe.reading.read, 65_536))
    await writing


async def test_stdout_without_a_descriptor(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """As tests have it."""
    output = RecordOutput()
    await output.write(b"\xff1")
    await output.write(b"2")
    output.close()

    assert capsysbinary.readouterr().out == b"\xff12"
