"""The first signal asks for an end, the second for one at once, the third does what it always does."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from shareproxy.drain.stopping import SIGNALS, Stop, first_of


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_two_signals(number: int, code: int) -> None:
    """The exit code of the second is the shell's for that signal."""
    stop = Stop()
    with stop.listening():
        os.kill(os.getpid(), number)
        await stop.asked.wait()
        assert not stop.hurried.is_set()
        os.kill(os.getpid(), number)
        await stop.hurried.wait()

        # a third one is not ours any more
        assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)

    assert stop.exit_code == code


async def test_afterwards_signals_are_as_they_were() -> None:
    """No handler is left behind."""
    with Stop().listening():
        pass

    assert all(signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler) for number in SIGNALS)


def test_outside_of_the_main_thread_there_are_no_signals() -> None:
    """It can be asked to stop all the same."""
    ended: list[bool] = []

    async def run() -> None:
        stop = Stop()
        with stop.listening():
            stop.ask()
            await stop.asked.wait()
            ended.append(True)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join(30)

    assert ended == [True]


async def test_waiting_for_the_first_of_several() -> None:
    """It tells whether that was the event, and cancels nothing."""
    stop, other = asyncio.Event(), asyncio.get_running_loop().create_future()
    other.set_result(None)
    assert not await first_of(stop, other)

    never = asyncio.get_running_loop().create_future()
    stop.set()
    assert await first_of(stop, never)
    assert not never.done()
