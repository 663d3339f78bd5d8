"""Commits beside the work of a sink task: how often, what waits for them, and that no answer is missed (R12)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from shareproxy.drain.errors import DrainError
from shareproxy.drain.sink_commits import EXPLICIT_SECONDS, Commits
from shareproxy.drain.source import RecordSource, Settled
from tests.support.virtual_time import in_virtual_time

POLL = 0.5


class Source:
    """Answers a commit after so many seconds."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.began: list[float] = []
        self._seconds, self._error = seconds, error

    async def commit(self) -> Settled:
        """Answer."""
        self.began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._seconds)
        if self._error is not None:
            raise self._error
        return Settled(len(self.began))


class Told:
    """Commits over a source, and what they told."""

    def __init__(self, answer_seconds: float, *, implicit: bool = False, error: Exception | None = None) -> None:
        self.source = Source(answer_seconds, error)
        self.answers: list[tuple[int, float]] = []
        self.commits = Commits(cast("RecordSource", self.source), self._tell, implicit=implicit)

    def _tell(self, settled: Settled, seconds: float) -> None:
        self.answers.append((settled.accepted, seconds))

    async def put(self, seconds: float) -> None:
        """Take so long for a put, and have it committed."""
        polled = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        await self.commits.soon(polled)


def now() -> float:
    """Return the time."""
    return asyncio.get_running_loop().time()


def test_each_slow_put_has_a_commit_of_its_own_and_the_next_one_goes_on_meanwhile() -> None:
    """The second put ends 1 s after the first: nobody waited for the answer."""

    async def scene() -> None:
        told = Told(0.4)
        for _ in range(3):
            await told.put(1.0)
        await told.commits.finish()

        first = told.source.began[0]
        assert [began - first for began in told.source.began] == pytest.approx([0.0, 1.0, 2.0], abs=1e-6)
        assert [seconds for _, seconds in told.answers] == pytest.approx([1.4, 1.4, 1.4], abs=1e-6)

    in_virtual_time(scene())


def test_quick_puts_share_a_commit_and_the_time_counts_from_the_first_of_them() -> None:
    """A request for each would cost more than the puts."""

    async def scene() -> None:
        told = Told(0.0)
        for _ in range(10):
            await told.put(0.04)
        await told.commits.finish()

        assert len(told.source.began) < 6
        assert told.answers[1][1] == pytest.approx(3 * 0.04, abs=1e-6)

    in_virtual_time(scene())


@pytest.mark.parametrize(("implicit", "waits"), [(False, True), (True, False)])
def test_a_put_waits_for_an_answer_that_is_late_in_explicit_mode_only(implicit: bool, waits: bool) -> None:
    """Else a broker that does not answer would let any number of records come twice."""

    async def scene() -> None:
        told = Told(60.0, implicit=implicit)
        begun = now()
        await told.put(1.0)
        await told.put(1.0)

        assert (now() - begun >= 60.0) is waits
        await told.commits.end()

    in_virtual_time(scene())


def test_what_waits_for_a_commit_shortens_the_next_poll() -> None:
    """Where no more records come, the answer is asked for all the same."""

    async def scene() -> None:
        told = Told(0.0)
        nothing_waits = told.commits.until_due(POLL)
        await told.put(0.01)
        await told.put(0.01)
        await asyncio.sleep(told.commits.until_due(POLL))
        await told.commits.idle()
        await told.commits.finish()

        assert nothing_waits == POLL
        assert told.source.began[1] - told.source.began[0] == pytest.approx(EXPLICIT_SECONDS, abs=1e-6)
        assert told.commits.until_due(POLL) == POLL

    in_virtual_time(scene())


def test_now_waits_for_the_answer_of_all_that_was_settled() -> None:
    """What is under way and what came since."""

    async def scene() -> None:
        told = Told(1.0)
        await told.put(0.01)
        await told.commits.now(now())

        assert [number for number, _ in told.answers] == [1, 2]

    in_virtual_time(scene())


def test_a_commit_that_fails_is_raised_by_the_next_one() -> None:
    """The task fails with it."""

    async def scene() -> None:
        told = Told(0.0, error=DrainError("the consumer is closed"))
        await told.put(0.01)
        with pytest.raises(DrainError, match="closed"):
            await told.put(1.0)
        await told.commits.end()

    in_virtual_time(scene())


def test_one_that_is_given_up_leaves_no_commit_behind() -> None:
    """A second signal waits for no broker."""

    async def scene() -> None:
        told = Told(60.0)
        await told.put(0.01)
        waiting = asyncio.create_task(told.put(1.0))
        await asyncio.sleep(2.0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await told.commits.end()
        rest: set[asyncio.Task[Any]] = asyncio.all_tasks() - {asyncio.current_task()}

        assert not rest
        assert told.answers == []

    in_virtual_time(scene())


def test_who_does_not_wait_for_a_late_answer_does_not_poll_all_the_time() -> None:
    """In implicit mode the next commit is due while the one before has no answer: nothing can be done until then."""

    async def scene() -> None:
        told = Told(60.0, implicit=True)
        await told.put(0.01)
        await told.put(1.0)
        polls = 0
        while len(told.source.began) < 2:
            await asyncio.sleep(max(told.commits.until_due(POLL), 0.001))
            await told.commits.idle()
            polls += 1
        await told.commits.end()

        assert polls < 200

    in_virtual_time(scene())
