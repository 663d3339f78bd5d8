"""Printing records and acknowledging them: nothing is accepted that was not written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shareproxy.cli import consume_loop
from shareproxy.cli.consume_loop import MOST_SENTENCES, Action, ConsumeLoop, End
from shareproxy.cli.record_format import text_format
from shareproxy.drain.model import Acknowledgement
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer


class Paper:
    """An output that keeps what is written, and can break or stall.

    Args:
        most: bytes that it takes; then it breaks.
        stalls: whether nobody reads.
    """

    def __init__(self, most: int | None = None, *, stalls: bool = False) -> None:
        self.written = b""
        self._most, self._stalls = most, stalls
        self.asked = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Take the bytes."""
        self.asked.set()
        if self._stalls:
            await asyncio.get_running_loop().create_future()
        if self._most is not None and len(self.written) + len(data) > self._most:
            raise BrokenPipeError(32, "Broken pipe")
        self.written += data


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for records no longer than a test needs."""
    monkeypatch.setattr(consume_loop, "LOOK_SECONDS", 0.02)


async def run(
    consumer: FakeShareConsumer,
    paper: Paper | None = None,
    *,
    stop: asyncio.Event | None = None,
    capacity: int = 2_000,
    form: str = r"%o\n",
    anything_left: Callable[[int], Awaitable[bool]] | None = None,
    **more: Any,
) -> tuple[ConsumeLoop, End, bytes]:
    """Run a loop to its end, and close the consumer."""
    paper = paper or Paper()
    loop = ConsumeLoop(consumer, text_format(form), paper, capacity=capacity, anything_left=anything_left, **more)
    async with consumer:
        end = await loop.run(stop or asyncio.Event())
    return loop, end, paper.written


def records(count: int, **more: Any) -> list[FakeRecord]:
    """Return records from offset 0 on."""
    return [FakeRecord(offset, **more) for offset in range(count)]


async def nothing(held: int) -> bool:
    """Say that nothing is left."""
    return False


async def test_count_ends_it_exactly() -> None:
    """As many records as were asked for, and no more are even fetched."""
    consumer = FakeShareConsumer(records(10))

    loop, end, written = await run(consumer, count=3)

    assert (loop.written, end, written) == (3, End.COUNT, b"0\n1\n2\n")
    assert consumer.offsets(Acknowledgement.ACCEPT) == [0, 1, 2]
    assert (consumer.asked, consumer.left_by_close) == ([3], [])


async def test_nothing_left_ends_it() -> None:
    """All that there is, then the end; acknowledgements are sent before anybody asks what is left."""
    consumer = FakeShareConsumer(records(4))
    seen: list[tuple[int, int]] = []

    async def left(held: int) -> bool:
        seen.append((held, consumer.commits))
        return len(seen) < 2

    loop, end, _ = await run(consumer, anything_left=left)

    assert (loop.written, end) == (4, End.NOTHING_LEFT)
    assert seen == [(0, 1), (0, 2)]


async def test_time_ends_it() -> None:
    """Whatever came until then is accepted."""
    consumer = FakeShareConsumer(records(2))

    loop, end, _ = await run(consumer, seconds=0.05)

    assert (loop.written, end) == (2, End.TIME)
    assert consumer.offsets(Acknowledgement.ACCEPT) == [0, 1]


async def test_peek_acknowledges_nothing() -> None:
    """What was shown is held, so that it does not come again at once, and given back by the consumer's end."""
    consumer = FakeShareConsumer(records(3))
    held: list[int] = []

    async def left(count: int) -> bool:
        held.append(count)
        return False

    loop, end, written = await run(consumer, action=Action.PEEK, anything_left=left)

    assert (loop.written, end, written) == (3, End.NOTHING_LEFT, b"0\n1\n2\n")
    assert (consumer.acknowledged, held) == ([], [3])
    assert [record.offset for record in consumer.left_by_close] == [0, 1, 2]


async def test_peek_ends_when_no_more_can_be_held() -> None:
    """Else it would wait for ever."""
    loop, end, _ = await run(FakeShareConsumer(records(600)), action=Action.PEEK, capacity=500)

    assert (loop.written, end) == (500, End.FULL)


async def test_reject() -> None:
    """Records that were written are rejected."""
    consumer = FakeShareConsumer(records(2))

    await run(consumer, action=Action.REJECT, anything_left=nothing)

    assert consumer.offsets(Acknowledgement.REJECT) == [0, 1]


async def test_broken_pipe_accepts_nothing_of_the_piece() -> None:
    """What was in a piece that was not written as a whole is given back; pieces before it stay accepted."""
    consumer = FakeShareConsumer(records(4, value=b"x" * 40_000))  # pieces are full with two of them

    with pytest.raises(BrokenPipeError):
        await run(consumer, Paper(100_000), form="%s", anything_left=nothing)

    assert consumer.offsets(Acknowledgement.ACCEPT) == [0, 1]
    assert [record.offset for record in consumer.left_by_close] == [2, 3]


async def test_large_and_empty_values() -> None:
    """A value of any size is written as a whole, and an empty one counts as written."""
    consumer = FakeShareConsumer([FakeRecord(0, b"x" * 3_000_000), FakeRecord(1, b""), FakeRecord(2, None)])

    loop, _, written = await run(consumer, form="%s", anything_left=nothing)

    assert (loop.written, len(written)) == (3, 3_000_000)
    assert consumer.offsets(Acknowledgement.ACCEPT) == [0, 1, 2]


async def test_unreadable_records_are_held_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Given back at once they would come again at once, until their attempts are spent; the others are accepted."""
    broken = FakeRecord(1, b"\xff", error=ValueError("'\\xff' is not text in UTF-8"))
    consumer = FakeShareConsumer([FakeRecord(0), broken, FakeRecord(2)])

    loop, _, written = await run(consumer, anything_left=nothing)

    assert (loop.written, loop.unreadable, written) == (2, 1, b"0\n2\n")
    assert consumer.offsets(Acknowledgement.ACCEPT) == [0, 2]
    assert consumer.left_by_close == [broken]
    assert capsys.readouterr().err == "shareproxy: orders-0, offset 1: cannot be read: '\\xff' is not text in UTF-8\n"


async def test_many_unreadable_records_are_not_all_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong deserialiser must not flood a terminal."""
    loop, _, _ = await run(FakeShareConsumer(records(50, error=ValueError("no"))), anything_left=nothing)

    assert loop.unreadable == 50
    assert len(capsys.readouterr().err.splitlines()) == MOST_SENTENCES


async def test_unconfirmed_acknowledgements_are_known() -> None:
    """A broker that does not take one is not passed over."""
    consumer = FakeShareConsumer([first := FakeRecord(0), FakeRecord(1)])
    consumer.refuse(first)

    loop, _, _ = await run(consumer, count=2)

    assert loop.unconfirmed


async def test_stop_ends_it() -> None:
    """A signal ends the waiting; what was written is accepted."""
    stop = asyncio.Event()
    consumer = FakeShareConsumer(records(1))
    paper = Paper()
    task = asyncio.create_task(run(consumer, paper, stop=stop))
    await paper.asked.wait()
    stop.set()

    _, end, _ = await task

    assert end is End.STOPPED
    assert consumer.offsets(Acknowledgement.ACCEPT) == [0]


async def test_reader_that_does_not_read_cannot_keep_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a signal what is stuck on its way is given up, and not accepted."""
    monkeypatch.setattr(consume_loop, "READER_SECONDS", 0.01)
    stop = asyncio.Event()
    consumer = FakeShareConsumer(records(2))
    paper = Paper(stalls=True)
    task = asyncio.create_task(run(consumer, paper, stop=stop))
    await paper.asked.wait()
    stop.set()

    loop, end, _ = await task

    assert (loop.written, end, consumer.acknowledged) == (0, End.STOPPED, [])
    assert "nobody reads what is written" in capsys.readouterr().err


async def test_error_of_the_consumer_comes_through() -> None:
    """What makes going on useless is not swallowed."""
    consumer = FakeShareConsumer()
    consumer.fail(RuntimeError("the right was taken away"))

    with pytest.raises(RuntimeError, match="taken away"):
        await run(consumer)
