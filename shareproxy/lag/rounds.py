"""Ask many partitions of many brokers, in parallel, again where that may help, until one deadline.

In: items, a way to find each item's broker, a way to ask one broker. Out: an answer or a trouble for every item.
Must never: let one slow or broken broker hold back what the others answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from shareproxy.cluster.errors import ClusterError
from shareproxy.cluster.retries import Backoff
from shareproxy.lag.brokers import TIMED_OUT, Brokers, Offered, Trouble, trouble_from_error
from shareproxy.protocol.ids import NodeId

# a moved leader or coordinator is known again after some tens of milliseconds; a loading one takes seconds
FIRST_PAUSE: Final = 0.025
LONGEST_PAUSE: Final = 0.5

# Whoever is asked keeps the deadline; this guards against one that does not. It comes later, so that it does not cut
# off an error that is just being raised.
GRACE: Final = 0.02

# A healthy broker answers within milliseconds. Whoever is silent for so long while others answer is worked around.
QUIET_SECONDS: Final = 0.35
STEPS: Final = 5

T = TypeVar("T", bound=Hashable)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

Split = Callable[[NodeId, list[T]], Iterable[list[T]]]
"""Cut one broker's items into those of single requests."""


def share_of_time(deadline: float, part: float) -> float:
    """Return the deadline of a step that may take a part of the time that is left."""
    now = asyncio.get_running_loop().time()
    return now + (deadline - now) * part


class Router(Protocol[T]):
    """A way to find each item's broker."""

    async def route(self, items: Sequence[T], *, fresh: bool, deadline: float) -> Mapping[T, NodeId | Trouble]:
        """Return each item's broker; `fresh` after a failure: trust no cache."""
        ...


class Question(Router[T], Protocol[T, A_co]):
    """One kind of request that is asked of several brokers at a time."""

    async def ask(self, node_id: NodeId, items: Sequence[T], *, deadline: float) -> Mapping[T, A_co | Trouble]:
        """Ask one broker once about its items."""
        ...


async def ask_all(
    question: Question[T, A],
    items: Sequence[T],
    *,
    deadline: float,
    routes: Mapping[T, NodeId | Trouble] | None = None,
    split: Split[T] | None = None,
    into: dict[T, A | Trouble] | None = None,
) -> dict[T, A | Trouble]:
    """Return an answer for every item, at the latest at the deadline.

    Args:
        question: how to route and to ask.
        items: what to ask about.
        deadline: `loop.time()` seconds; what is open then is the last trouble seen, or a time-out.
        routes: brokers already looked up, for the first attempt.
        split: cuts one broker's items into those of single requests; without it one request has all of them.
        into: takes the answers one by one as they come, for a caller that does not wait for all of them.
    """
    answers: dict[T, A | Trouble] = {} if into is None else into
    if not items:
        return answers
    try:
        async with asyncio.timeout_at(deadline + GRACE):
            await _Attempts(question, answers, deadline, split).settle(items, routes, 0)
    except TimeoutError:
        pass
    if len(answers) < len(items):
        for item in items:
            answers.setdefault(item, TIMED_OUT)
    return answers


async def until_quiet(tasks: Collection[asyncio.Task[Any]], open_: Callable[[], int], seconds: float) -> None:
    """Wait until tasks are done, nothing is open any more, or nothing has come for some time.

    Args:
        tasks: what brings the answers.
        open_: counts what is open.
        seconds: of silence.
    """
    # in steps: while this process is busy with large answers, much time may pass in few steps
    before, quiet = open_(), 0
    while before and quiet < STEPS:
        done, _ = await asyncio.wait(tasks, timeout=max(seconds / STEPS, 0))
        if len(done) == len(tasks):
            return
        now = open_()
        quiet = quiet + 1 if now == before else 0
        before = now


async def give_up(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and wait until it has ended; what the tasks return or raise is of no interest."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.gather(*running, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # asyncio warns of those that nobody looked at


async def route_all(question: Router[T], items: Sequence[T], *, deadline: float) -> dict[T, NodeId | Trouble]:
    """Return the broker of every item, or the trouble, at the latest at the deadline."""
    if not items:
        return {}
    try:
        async with asyncio.timeout_at(deadline + GRACE):
            return dict(await question.route(items, fresh=False, deadline=deadline))
    except ClusterError as error:
        return dict.fromkeys(items, trouble_from_error(error))
    except TimeoutError:
        return dict.fromkeys(items, TIMED_OUT)


async def all_versions(
    brokers: Brokers, nodes: Collection[NodeId], *, deadline: float
) -> dict[NodeId, Offered | Trouble]:
    """Return what each broker offers, or the trouble, at the latest at the deadline."""

    async def versions(node_id: NodeId) -> Offered | Trouble:
        try:
            async with asyncio.timeout_at(deadline + GRACE):
                return await brokers.versions(node_id, deadline=deadline)
        except ClusterError as error:
            return trouble_from_error(error)
        except TimeoutError:
            return TIMED_OUT

    async with asyncio.TaskGroup() as tasks:
        running = {node_id: tasks.create_task(versions(node_id)) for node_id in nodes}
    return {node_id: task.result() for node_id, task in running.items()}


class _Attempts(Generic[T, A]):
    """The attempts of one call of `ask_all`; each broker's items go on by themselves."""

    def __init__(
        self, question: Question[T, A], answers: dict[T, A | Trouble], deadline: float, split: Split[T] | None = None
    ) -> None:
        self._question, self._answers, self._deadline, self._split = question, answers, deadline, split

    async def settle(self, items: Sequence[T], routes: Mapping[T, NodeId | Trouble] | None, attempt: int) -> None:
        """Route and ask; comes back when each item is answered or may not be asked again."""
        if routes is None:
            try:
                routes = await self._question.route(items, fresh=attempt > 0, deadline=self._deadline)
            except ClusterError as error:
                trouble = trouble_from_error(error)
                await self._take(dict.fromkeys(items, trouble), attempt)
                return
        by_node: dict[NodeId, list[T]] = {}
        lost: dict[T, A | Trouble] = {}
        for item in items:
            node_id = routes[item]
            if isinstance(node_id, Trouble):
                lost[item] = node_id
            else:
                by_node.setdefault(node_id, []).append(item)
        requests = [
            (node_id, part)
            for node_id, share in by_node.items()
            for part in ((share,) if self._split is None else self._split(node_id, share))
        ]
        if len(requests) == 1 and not lost:
            await self._ask(*requests[0], attempt)
            return
        async with asyncio.TaskGroup() as tasks:
            for node_id, part in requests:
                tasks.create_task(self._ask(node_id, part, attempt))
            if lost:
                tasks.create_task(self._take(lost, attempt))

    async def _ask(self, node_id: NodeId, items: list[T], attempt: int) -> None:
        try:
            answers = await self._question.ask(node_id, items, deadline=self._deadline)
        except ClusterError as error:
            answers = dict.fromkeys(items, trouble_from_error(error))
        await self._take(answers, attempt)

    async def _take(self, answers: Mapping[T, A | Trouble], attempt: int) -> None:
        """Keep the answers; ask again for those that may still get better."""
        self._answers.update(answers)
        again = [item for item, answer in answers.items() if isinstance(answer, Trouble) and answer.again]
        if not again:
            return
        if await Backoff(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 16))).pause(self._deadline):
            await self.settle(again, None, attempt + 1)
