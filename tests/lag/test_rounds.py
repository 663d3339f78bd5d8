"""Many items, many brokers, one deadline."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence

import pytest

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import TIMED_OUT, Trouble
from shareproxy.lag.model import Status
from shareproxy.lag.rounds import all_versions, ask_all, give_up, route_all
from shareproxy.protocol.ids import NodeId
from tests.lag.simulated_brokers import N1, N2, SimulatedBrokers, soon, unreachable

AGAIN = Trouble(Status.ERROR, 16, "moved", again=True)
FINAL = Trouble(Status.NOT_AUTHORIZED, 31, "no right")


class Scripted:
    """A question about letters: each answers with its capital."""

    def __init__(self, nodes: Mapping[str, NodeId | Trouble]) -> None:
        self.nodes = dict(nodes)
        self.answer: Callable[[NodeId, str], str | Trouble] = lambda _, item: item.upper()
        self.fresh: list[bool] = []
        self.calls: list[tuple[NodeId, tuple[str, ...]]] = []
        self.error: ClusterError | None = None
        self.stuck: set[NodeId] = set()

    async def route(self, items: Sequence[str], *, fresh: bool, deadline: float) -> Mapping[str, NodeId | Trouble]:
        """Return the broker of each letter."""
        self.fresh.append(fresh)
        return {item: self.nodes[item] for item in items}

    async def ask(self, node_id: NodeId, items: Sequence[str], *, deadline: float) -> Mapping[str, str | Trouble]:
        """Answer, fail, or hang."""
        self.calls.append((node_id, tuple(items)))
        if node_id in self.stuck:
            await asyncio.get_running_loop().create_future()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return {item: self.answer(node_id, item) for item in items}


async def test_each_broker_is_asked_once_about_all_its_items() -> None:
    """Requests grow with brokers, not with items."""
    question = Scripted({"a": N1, "b": N2, "c": N1})

    answers = await ask_all(question, "abc", deadline=soon())

    assert answers == {"a": "A", "b": "B", "c": "C"}
    assert sorted(question.calls) == [(N1, ("a", "c")), (N2, ("b",))]


async def test_only_what_failed_is_asked_again_with_fresh_routes() -> None:
    """A moved coordinator is looked up anew; the other answers stand."""
    question = Scripted({"a": N1, "b": N1})

    def moved(node_id: NodeId, item: str) -> str | Trouble:
        question.nodes["b"] = N2
        return AGAIN if (node_id, item) == (N1, "b") else item.upper()

    question.answer = moved

    answers = await ask_all(question, "ab", deadline=soon())

    assert answers == {"a": "A", "b": "B"}
    assert question.calls == [(N1, ("a", "b")), (N2, ("b",))]
    assert question.fresh == [False, True]


async def test_given_routes_save_the_first_look_up() -> None:
    """Routes that are already known are used once."""
    question = Scripted({"a": N2})

    answers = await ask_all(question, "a", deadline=soon(), routes={"a": N1})

    assert (answers, question.calls, question.fresh) == ({"a": "A"}, [(N1, ("a",))], [])


async def test_a_final_trouble_is_not_asked_again() -> None:
    """A missing right does not come back by asking."""
    question = Scripted({"a": N1, "b": FINAL})
    question.answer = lambda _, item: FINAL

    answers = await ask_all(question, "ab", deadline=soon())

    assert answers == {"a": FINAL, "b": FINAL}
    assert len(question.calls) == 1


async def test_a_broken_connection_is_asked_again() -> None:
    """A cluster error is one attempt, not the end."""
    question = Scripted({"a": N1})
    question.error = unreachable()

    assert await ask_all(question, "a", deadline=soon()) == {"a": "A"}


async def test_a_slow_broker_does_not_hold_back_the_others_retries() -> None:
    """While one broker hangs, another's item is retried and answered; the hanging one's is a time-out."""
    question = Scripted({"a": N1, "b": N2})
    question.stuck = {N1}
    tries: list[str] = []

    def second_time(_: NodeId, item: str) -> str | Trouble:
        tries.append(item)
        return AGAIN if len(tries) == 1 else item.upper()

    question.answer = second_time

    answers = await ask_all(question, "ab", deadline=soon(0.2))

    assert answers == {"a": TIMED_OUT, "b": "B"}


async def test_the_last_trouble_stands_when_time_runs_out() -> None:
    """A coordinator that loads for too long is reported as loading, not as a time-out."""
    question = Scripted({"a": N1})
    question.answer = lambda _, item: AGAIN

    assert await ask_all(question, "a", deadline=soon(0.05)) == {"a": AGAIN}


async def test_nothing_is_asked_about_nothing() -> None:
    """No items, no requests."""
    question = Scripted({})

    assert await ask_all(question, "", deadline=soon()) == {}
    assert await route_all(question, "", deadline=soon()) == {}
    assert question.fresh == []


async def test_an_error_while_routing_is_everybodys_trouble() -> None:
    """If no broker can be found, every item says so."""

    class Lost(Scripted):
        async def route(self, items: Sequence[str], *, fresh: bool, deadline: float) -> Mapping[str, NodeId | Trouble]:
            raise unreachable("nobody is there")

    routes = await route_all(Lost({}), "ab", deadline=soon())
    answers = await ask_all(Lost({}), "ab", deadline=soon(0.05))

    for found in (*routes.values(), *answers.values()):
        assert isinstance(found, Trouble)
        assert found.message == "nobody is there"


async def test_routing_keeps_the_deadline() -> None:
    """A look-up that hangs is a time-out."""

    class Stuck(Scripted):
        async def route(self, items: Sequence[str], *, fresh: bool, deadline: float) -> Mapping[str, NodeId | Trouble]:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("the deadline ends this first")

    assert await route_all(Stuck({}), "a", deadline=soon(0.02)) == {"a": TIMED_OUT}


async def test_cancelling_the_asker_cancels_the_questions() -> None:
    """Nobody goes on asking for an answer that nobody reads."""
    question = Scripted({"a": N1, "b": N2})
    question.stuck = {N1, N2}
    before = asyncio.all_tasks()
    task = asyncio.create_task(ask_all(question, "ab", deadline=soon()))
    while len(question.calls) < 2:
        await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert asyncio.all_tasks() == before


async def test_versions_of_all_brokers_with_one_that_hangs() -> None:
    """A frozen broker is a trouble, not the end of the others."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.frozen = {N2}

    found = await all_versions(brokers, [N1, N2], deadline=soon(0.05))

    assert not isinstance(found[N1], Trouble)
    assert isinstance(found[N2], Trouble)


async def test_given_up_tasks_have_ended_and_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Whether they ran, had failed, had been cancelled or had a result."""

    async def fail() -> None:
        raise ValueError

    async def wait() -> None:
        await asyncio.sleep(60)

    tasks = [asyncio.ensure_future(each()) for each in (fail, wait, wait)]
    tasks.append(asyncio.ensure_future(asyncio.sleep(0)))
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.sleep(0)
    await give_up(tasks)

    assert [task.done() for task in tasks] == [True] * 4
    assert tasks[1].cancelled()
    del tasks
    gc.collect()
    assert caplog.records == []
