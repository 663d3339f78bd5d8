"""Shared calls: one call for all who ask, without one caller's end being everyone's."""

from __future__ import annotations

import asyncio

import pytest

from shareproxy.cluster.errors import AuthenticationFailed, ClusterError, DeadlinePassed, Unreachable
from shareproxy.cluster.shared_calls import SharedCalls
from tests.cluster.scripted_broker import eventually, soon


class Question:
    """A call whose end a test decides."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[str]] = []
        self.deadlines: list[float] = []
        self.cancelled = 0

    async def __call__(self, deadline: float) -> str:
        self.deadlines.append(deadline)
        self.answers.append(asyncio.get_running_loop().create_future())
        try:
            return await self.answers[-1]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def test_callers_share_a_running_call() -> None:
    """And a later caller starts a new one."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    asking = asyncio.gather(*(calls.run("k", question, soon(), "it") for _ in range(5)))
    await eventually(lambda: len(question.answers) == 1)
    question.answers[0].set_result("a")
    assert await asking == ["a"] * 5

    later = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 2)
    question.answers[1].set_result("b")

    assert await later == "b"


async def test_different_questions_are_asked_apart() -> None:
    """The key tells them apart."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    asking = asyncio.gather(*(calls.run(key, question, soon(), "it") for key in "ab"))
    await eventually(lambda: len(question.answers) == 2)
    for answer in question.answers:
        answer.set_result("x")

    assert await asking == ["x", "x"]


async def test_cancelling_one_caller_does_not_hurt_the_others() -> None:
    """Not even if it is the one that started the call."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    first = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    second = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 1)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    question.answers[0].set_result("a")

    assert await second == "a"


async def test_a_call_nobody_waits_for_is_cancelled() -> None:
    """And does not stand in the way of the next one."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    asking = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 1)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    await eventually(lambda: question.cancelled == 1)
    later = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 2)
    question.answers[1].set_result("b")
    assert await later == "b"


async def test_an_error_reaches_all_callers() -> None:
    """A final one is not tried again."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    asking = asyncio.gather(*(calls.run("k", question, soon(), "it") for _ in range(3)), return_exceptions=True)
    await eventually(lambda: len(question.answers) == 1)
    question.answers[0].set_exception(AuthenticationFailed("no"))

    assert [type(outcome) for outcome in await asking] == [AuthenticationFailed] * 3
    assert len(question.answers) == 1


async def test_a_caller_with_less_time_leaves_earlier() -> None:
    """Its deadline is its own."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    patient = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 1)

    with pytest.raises(DeadlinePassed, match="it was not answered in time"):
        await calls.run("k", question, soon(0.02), "it")

    question.answers[0].set_result("a")
    assert await patient == "a"


async def test_a_caller_with_more_time_asks_again() -> None:
    """The call it joined had the shorter deadline of the one who started it."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    hasty = asyncio.ensure_future(calls.run("k", question, soon(1), "it"))
    patient = asyncio.ensure_future(calls.run("k", question, soon(5), "it"))
    await eventually(lambda: len(question.answers) == 1)
    question.answers[0].set_exception(Unreachable("nobody"))
    with pytest.raises(Unreachable):
        await hasty
    await eventually(lambda: len(question.answers) == 2)
    question.answers[1].set_result("a")

    assert await patient == "a"
    assert question.deadlines[1] > question.deadlines[0]


async def test_stopping_ends_all_calls() -> None:
    """Callers learn that the client is closed; none is cancelled."""
    calls: SharedCalls[str, str] = SharedCalls()
    question = Question()
    asking = asyncio.ensure_future(calls.run("k", question, soon(), "it"))
    await eventually(lambda: len(question.answers) == 1)

    await calls.stop()

    with pytest.raises(ClusterError, match="the client is closed"):
        await asking
