"""Calling a user's sink, async or plain."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from shareproxy.drain.sink import TaskContext
from shareproxy.drain.sink_calls import SinkCalls, SinkExited


class Context:
    """Enough of a context."""

    topics = ("orders",)


CONTEXT: TaskContext = Context()  # type: ignore[assignment]


class Plain:
    """A sink with plain methods; `result` is what put does."""

    def __init__(self, result: Any = None) -> None:
        self.calls: list[tuple[str, int]] = []
        self.result = result

    def start(self, context: Any) -> None:
        """Note."""
        self._note("start")

    def open(self, topics: Any) -> None:
        """Note."""
        self._note("open")

    def put(self, batch: Any) -> Any:
        """Note, or raise."""
        self._note("put")
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result() if callable(self.result) else self.result

    def flush(self) -> None:
        """Note."""
        self._note("flush")

    def stop(self) -> None:
        """Note."""
        self._note("stop")

    def _note(self, name: str) -> None:
        self.calls.append((name, threading.get_ident()))


async def test_plain_methods_all_run_in_one_thread_that_is_not_the_loops() -> None:
    """In order."""
    sink = Plain()
    calls = SinkCalls(sink, "sink")

    await calls.start(CONTEXT)
    await calls.put([])
    await calls.stop()

    assert [name for name, _ in sink.calls] == ["start", "open", "put", "flush", "stop"]
    threads = {thread for _, thread in sink.calls}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_async_methods_run_in_the_loop() -> None:
    """No thread is made."""

    class Async:
        def __init__(self) -> None:
            self.thread = 0

        async def start(self, context: Any) -> None:
            self.thread = threading.get_ident()

        async def put(self, batch: Any) -> str:
            return "outcomes"

        async def stop(self) -> None:
            pass

    sink = Async()
    calls = SinkCalls(sink, "sink")  # type: ignore[arg-type]
    await calls.start(CONTEXT)

    assert await calls.put([]) == "outcomes"  # type: ignore[comparison-overlap]
    assert sink.thread == threading.get_ident()
    await calls.stop()


async def test_a_plain_method_may_return_something_to_await() -> None:
    """Such as a partial of an async function."""

    async def later() -> str:
        return "later"

    calls = SinkCalls(Plain(later), "sink")

    assert await calls.put([]) == "later"  # type: ignore[comparison-overlap]
    await calls.stop()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), GeneratorExit()])
async def test_a_sink_cannot_end_the_process_or_the_loop(error: BaseException) -> None:
    """It is a failure of the sink like any other."""
    calls = SinkCalls(Plain(error), "sink")

    with pytest.raises(SinkExited, match=type(error).__name__):
        await calls.put([])
    await calls.stop()


async def test_a_sink_that_cancels_itself_does_not_cancel_us() -> None:
    """Only a cancellation from outside is one."""
    calls = SinkCalls(Plain(asyncio.CancelledError()), "sink")

    with pytest.raises(SinkExited, match=r"[Cc]ancel"):
        await calls.put([])
    await calls.stop()


async def test_a_cancelled_call_is_cancelled_and_the_thread_goes_on() -> None:
    """The plain method ends when it ends; the next one comes after it."""
    go_on, inside = threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        go_on.wait(10)

    sink = Plain(hang)
    calls = SinkCalls(sink, "sink")
    putting = asyncio.create_task(calls.put([]))
    await asyncio.to_thread(inside.wait, 10)

    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    go_on.set()
    await calls.stop()

    assert sink.calls[-1][0] == "stop"
