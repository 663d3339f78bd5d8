"""Plain functions run in threads that do not outlive anybody's patience."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from shareproxy.drain.handler_threads import HandlerThreads

PATIENCE = 30.0
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


async def test_a_result_and_an_error_come_back() -> None:
    """Into the event loop."""
    threads = HandlerThreads(2, "test")

    assert await threads.call(lambda number: int(str(number)) + 1, 1) == 2
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda number: 1 // int(str(number)), 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.call(lambda items: next(iter(items)), [])
    threads.stop()


async def test_so_many_run_at_once_and_no_more() -> None:
    """The barrier opens only if all of them are there."""
    threads = HandlerThreads(3, "many")
    barrier = threading.Barrier(3)
    names: set[str] = set()

    def meet(number: object) -> None:
        names.add(threading.current_thread().name)
        barrier.wait(PATIENCE)

    await asyncio.gather(*(threads.call(meet, number) for number in range(9)))

    assert names == {"many-1", "many-2", "many-3"}
    threads.stop()


async def test_no_thread_is_started_before_it_is_needed() -> None:
    """One after the other needs one."""
    threads = HandlerThreads(8, "few")

    names = {await threads.call(lambda _: threading.current_thread().name, None) for _ in range(5)}

    assert names == {"few-1"}
    threads.stop()


async def test_context_variables_are_those_of_the_caller() -> None:
    """As with `asyncio.to_thread`."""
    variable.set("mine")

    assert await HandlerThreads(1, "context").call(lambda _: variable.get(), None) == "mine"


async def test_a_call_that_nobody_waits_for_any_more() -> None:
    """Its thread is free again when it ends."""
    threads = HandlerThreads(1, "left")
    go = threading.Event()
    left = threads.call(lambda _: go.wait(PATIENCE), None)
    left.cancel()
    go.set()

    assert await threads.call(lambda _: "next", None) == "next"


def test_a_function_that_hangs_does_not_keep_the_interpreter_from_ending() -> None:
    """Threads of `concurrent.futures` would."""
    program = """
import asyncio, threading
from shareproxy.drain.handler_threads import HandlerThreads

async def main():
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_):
        loop.call_soon_threadsafe(begun.set)
        threading.Event().wait()

    HandlerThreads(1, "hanging").call(hang, None)
    await begun.wait()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
