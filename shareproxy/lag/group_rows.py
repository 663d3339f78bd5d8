"""Ask coordinators for the rows of many groups, and know early which answers are held back.

In: groups and their coordinators. Out: an answer for each group, and which groups are late.
Must never: let one group that hangs hold back the others.

DescribeShareGroupOffsets (API 90) takes many groups, so that a look costs one request per node. Measured on 4.2.2 and
4.4.0: for the end offsets in its answer a broker asks the leaders over one connection each, which takes one request at
a time; it treats "not now" as a lost connection and tries again after 2 s ± 20 %. So two groups on the same leader can
hold each other up, and so can two clients; the first question after a broker's start always waits. Of requests for two
groups 10–20 % were held back, of those for ten 53–86 %, and none of those for one group after the other. A second
question on another connection is answered in milliseconds meanwhile. Therefore:
    1. all groups of a node in one request (a few if there are very many partitions);
    2. when nothing has come for a moment (`QUIET_SECONDS`), what is late is asked for again, one group per request, on
       another connection;
    3. a node that answers then stalled because of the many groups: it is asked for one group per request for ten
       minutes. One that is silent again waits for a broker that hangs, and the caller has to do without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from shareproxy.lag.brokers import Brokers, Trouble
from shareproxy.lag.groups import Listing, Listings
from shareproxy.lag.memory import Memory
from shareproxy.lag.rounds import QUIET_SECONDS, ask_all, give_up, until_quiet
from shareproxy.protocol.ids import GroupId, NodeId

# Connections of their own: a broker answers the requests of one in order, so that nothing else may stand behind these.
ROWS: Final = "rows"
LATE: Final = "late"
# a large answer takes longer, comes as a whole, and the reading of the others takes time too
QUIET_SECONDS_PER_ROW: Final = 0.000_05
# silence costs at most this part of the time that is left, as a way without the coordinator needs some too
QUIET_SHARE: Final = 0.25
# partitions of a group that has not been seen yet, for a first guess
USUAL_ROWS: Final = 20
# a request for more would be an answer of several MiB that comes late as a whole
MOST_ROWS: Final = 20_000

Answer = Listing | Trouble
Answers = dict[GroupId, Answer]


class GroupRows:
    """One look at the rows of some groups; a context, whose end ends what is still being asked.

    Args:
        brokers: where to ask.
        memory: of this cluster.
        groups: what to ask for.
        routes: the coordinator of each, or why there is none.
        deadline: `loop.time()` seconds.
    """

    def __init__(
        self,
        brokers: Brokers,
        memory: Memory,
        groups: Sequence[GroupId],
        routes: Mapping[GroupId, NodeId | Trouble],
        deadline: float,
    ) -> None:
        self._brokers, self._memory, self._routes, self._deadline = brokers, memory, routes, deadline
        self._groups = sorted(groups, key=memory.hangs)
        self._first: Answers = {}
        self._second: Answers = {}
        self._together: set[GroupId] = set()
        self._tasks: list[asyncio.Task[object]] = []

    async def __aenter__(self) -> Self:
        self._start(self._groups, self._first, ROWS, self._split)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await give_up(self._tasks)

    def answer(self, group: GroupId) -> Answer | None:
        """Return the group's rows, or what is wrong; `None` while neither is known."""
        first, second = self._first.get(group), self._second.get(group)
        return second if isinstance(second, Listing) or first is None else first

    def late(self) -> list[GroupId]:
        """Return the groups without an answer, and those whose answer may still get better."""
        return [group for group in self._groups if _is_open(self.answer(group))]

    async def settle(self) -> list[GroupId]:
        """Wait until every group has an answer or nothing more comes; return the groups that are late."""
        await self._until_quiet(self.late)
        return self.late()

    async def settle_alone(self, groups: Sequence[GroupId]) -> list[GroupId]:
        """Ask for late groups one by one on another connection, wait again, and return those that are still late."""
        self._start(groups, self._second, LATE, _one_by_one)
        await self._until_quiet(lambda: [group for group in groups if _is_open(self.answer(group))])
        late = []
        for group in groups:
            node_id = self._routes.get(group)
            if isinstance(self._second.get(group), Listing):
                if group in self._together and not isinstance(node_id, Trouble | None):
                    self._memory.ask_alone(node_id)
            elif _is_open(self.answer(group)):
                late.append(group)
        for group in groups:
            self._memory.note_hanging(group, hangs=group in late)
        return late

    async def all_answered(self, until: float) -> None:
        """Wait for what is late, at the latest until then."""
        left = until - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.wait(self._tasks, timeout=left)

    def _start(
        self,
        groups: Sequence[GroupId],
        into: Answers,
        purpose: str,
        split: Callable[[NodeId, list[GroupId]], Iterable[list[GroupId]]],
    ) -> None:
        question = Listings(self._brokers, purpose)
        asking = ask_all(question, groups, deadline=self._deadline, routes=self._routes, split=split, into=into)
        self._tasks.append(asyncio.ensure_future(asking))

    def _split(self, node_id: NodeId, groups: list[GroupId]) -> Iterable[list[GroupId]]:
        if len(groups) == 1 or self._memory.asks_alone(node_id):
            return _one_by_one(node_id, groups)
        self._together.update(groups)
        parts: list[list[GroupId]] = [[]]
        rows = 0
        for group in groups:
            rows += self._rows(group)
            if rows > MOST_ROWS and parts[-1]:
                parts.append([])
                rows = self._rows(group)
            parts[-1].append(group)
        return parts

    def _rows(self, group: GroupId) -> int:
        known = self._memory.rows(group)
        return USUAL_ROWS if known is None else known

    async def _until_quiet(self, waiting: Callable[[], Sequence[GroupId]]) -> None:
        rows = min(sum(map(self._rows, waiting())), MOST_ROWS)
        left = self._deadline - asyncio.get_running_loop().time()
        seconds = min(QUIET_SECONDS + rows * QUIET_SECONDS_PER_ROW, left * QUIET_SHARE)
        await until_quiet(self._tasks, lambda: len(waiting()), seconds)


def _one_by_one(_: NodeId, groups: list[GroupId]) -> Iterable[list[GroupId]]:
    return [[group] for group in groups]


def _is_open(answer: Answer | None) -> bool:
    return answer is None or (isinstance(answer, Trouble) and answer.again)
