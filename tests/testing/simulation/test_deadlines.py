"""What happens when time has passed."""

from __future__ import annotations

import asyncio
import threading

from shareproxy.testing.simulation.deadlines import Deadlines


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_work_is_done_in_the_order_of_its_moments() -> None:
    """Whatever the order in which it was asked for."""
    deadlines, done = Deadlines(), list[str]()
    deadlines.start()
    all_due = asyncio.Event()
    now = deadlines.now()
    deadlines.at(now + 0.03, "all", all_due.set)
    deadlines.at(now + 0.02, "late", lambda: done.append("late"))
    deadlines.at(now + 0.01, "soon", lambda: done.append("soon"))
    await all_due.wait()
    assert done == ["soon", "late"]
    deadlines.close()


async def test_a_key_has_one_moment_the_earliest() -> None:
    """A later one is not noted: the work looks for itself what comes next."""
    clock = Clock()
    deadlines, done, all_due = Deadlines(clock), list[str](), asyncio.Event()
    deadlines.at(110.0, "key", lambda: done.append("first"))
    deadlines.at(120.0, "key", lambda: done.append("later"))
    deadlines.at(105.0, "key", lambda: done.append("earlier"))
    deadlines.at(130.0, "other", all_due.set)
    clock.now = 200.0
    deadlines.start()
    await all_due.wait()
    assert done == ["earlier"]
    deadlines.close()


async def test_other_threads_may_ask() -> None:
    """The work is done in the event loop all the same."""
    deadlines, where = Deadlines(), asyncio.get_running_loop().create_future()
    deadlines.start()
    thread = threading.Thread(
        target=lambda: deadlines.at(deadlines.now(), "key", lambda: where.set_result(threading.current_thread()))
    )
    thread.start()
    assert await where is threading.current_thread()
    thread.join()
    deadlines.close()


async def test_nothing_happens_after_the_end() -> None:
    """What was asked for is forgotten, and what is asked for later waits for another start."""
    clock = Clock()
    deadlines, done = Deadlines(clock), list[str]()
    deadlines.start()
    deadlines.at(100.0, "key", lambda: done.append("before"))
    deadlines.close()
    deadlines.at(100.0, "key", lambda: done.append("after"))
    await asyncio.sleep(0)
    assert done == []
