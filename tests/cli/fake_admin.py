"""An admin client that answers from values, and how to run a command on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shareproxy.admin.results import AlterResult, DeleteResult, OffsetPlan, ShareOffset
from shareproxy.cli import connect
from shareproxy.cli.main import app
from shareproxy.lag.consumer_model import ConsumerGroupLag, ConsumerLagReport
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.listings import GroupListing
from shareproxy.lag.model import GroupLag, LagReport
from shareproxy.protocol.ids import GroupId, TopicId

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TOPIC_ID = TopicId(bytes(range(16)))
OWN_TIMEOUT = 3.0  # seconds, where a command names none


def report(*groups: GroupLag, problems: tuple[str, ...] = ()) -> LagReport:
    """A report of one moment."""
    return LagReport("cluster", TIME, groups, problems)


class FakeAdmin:
    """Answers every question with what it was given, and notes what was asked.

    Args:
        looks: one answer for each look at lag, the last for all further ones; an exception is raised.
        hangs: whether each answer comes at the last moment; the loop's clock is moved there.

    Attributes:
        deadlines: of each question, in seconds from the first one on.
    """

    def __init__(
        self,
        *looks: LagReport | Exception,
        consumer_groups: Sequence[ConsumerGroupLag] = (),
        descriptions: Sequence[GroupDescription] = (),
        listing: GroupListing | None = None,
        offsets: Sequence[ShareOffset] = (),
        plan: OffsetPlan | Exception | None = None,
        altered: AlterResult | None = None,
        deleted: DeleteResult | None = None,
        hangs: bool = False,
    ) -> None:
        self._hangs, self._now = hangs, 0.0
        self.deadlines: list[float] = []
        self._open: list[tuple[float, int, asyncio.Future[None]]] = []
        self._looks, self._consumer_groups = list(looks), consumer_groups
        self._descriptions = {described.group: described for described in descriptions}
        self._listing, self._offsets, self._plan = listing, tuple(offsets), plan
        self._altered, self._deleted = altered, deleted
        self.calls: list[tuple[str, Any]] = []

    async def _take_time(self, timeout: float | None) -> None:
        deadline = self._now + (OWN_TIMEOUT if timeout is None else timeout)
        self.deadlines.append(deadline)
        if self._hangs:
            asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._open.append((deadline, len(self.deadlines), asked))
            await asked

    @asynccontextmanager
    async def clock(self) -> AsyncIterator[None]:
        """Be the loop's clock, if this hangs: it goes on to the next deadline when there is nothing else to do."""
        if not self._hangs:
            yield
            return
        setattr(asyncio.get_running_loop(), "time", lambda: self._now)  # noqa: B010 - a method of the loop
        ticking = asyncio.create_task(self._tick())
        yield
        ticking.cancel()

    async def _tick(self) -> None:
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            if self._open:
                self._open.sort()
                self._now, _, asked = self._open.pop(0)
                asked.set_result(None)

    async def lag(self, groups: object = None, *, timeout: float | None = None, **arguments: object) -> LagReport:
        """Take the next look."""
        await self._take_time(timeout)
        self.calls.append(("lag", {"groups": groups, **arguments}))
        answer = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def consumer_lag(
        self, groups: Sequence[str], *, timeout: float | None = None, **arguments: object
    ) -> ConsumerLagReport:
        """Answer for the groups asked for."""
        await self._take_time(timeout)
        self.calls.append(("consumer_lag", {"groups": groups, **arguments}))
        found = tuple(group for group in self._consumer_groups if group.group in groups)
        return ConsumerLagReport("cluster", TIME, found)

    async def describe_groups(
        self, groups: Sequence[str], *, timeout: float | None = None
    ) -> Mapping[str, GroupDescription]:
        """Answer for the groups asked for."""
        await self._take_time(timeout)
        return {group: self._descriptions[GroupId(group)] for group in groups}

    async def list_groups(self, *, timeout: float | None = None, **arguments: object) -> GroupListing:
        """Return the listing."""
        await self._take_time(timeout)
        self.calls.append(("list_groups", arguments))
        assert self._listing is not None
        return self._listing

    async def offsets(self, group: str, *, timeout: float | None = None) -> tuple[ShareOffset, ...]:
        """Return the offsets."""
        await self._take_time(timeout)
        return self._offsets

    async def plan_offsets(
        self, group: str, target: object, *, timeout: float | None = None, **arguments: object
    ) -> OffsetPlan:
        """Return the plan."""
        await self._take_time(timeout)
        self.calls.append(("plan_offsets", (target, arguments.get("topics"))))
        if isinstance(self._plan, Exception):
            raise self._plan
        assert self._plan is not None
        return self._plan

    async def alter_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, timeout: float | None = None
    ) -> AlterResult:
        """Note the change."""
        await self._take_time(timeout)
        self.calls.append(("alter_offsets", dict(offsets)))
        assert self._altered is not None
        return self._altered

    async def delete_offsets(self, group: str, topics: Sequence[str], *, timeout: float | None = None) -> DeleteResult:
        """Note the change."""
        await self._take_time(timeout)
        self.calls.append(("delete_offsets", tuple(topics)))
        assert self._deleted is not None
        return self._deleted

    def asked(self, name: str) -> list[Any]:
        """Return the arguments of each call of a method."""
        return [arguments for called, arguments in self.calls if called == name]


def run(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin, *arguments: str) -> Result:
    """Run one command on a fake admin client."""

    def ask(settings: object, question: Callable[[Any], Awaitable[object]]) -> object:
        async def answer() -> object:
            async with admin.clock():
                return await question(admin)

        return asyncio.run(answer())

    monkeypatch.setattr(connect, "ask_admin", ask)
    command, *rest = arguments
    flags = ["--bootstrap-server", "b:9092"]
    if command == "offsets":
        return CliRunner().invoke(app, [command, rest[0], *flags, *rest[1:]])
    return CliRunner().invoke(app, [command, *flags, *rest])
