"""How `top` asks the cluster."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

import pytest

from shareproxy.admin.errors import AdminError, CannotReach
from shareproxy.cli.top_looks import ClusterLooks, InThread
from shareproxy.lag.descriptions import GroupDescription, Member
from shareproxy.lag.listings import GroupListing, ListedGroup
from shareproxy.lag.model import GroupError, GroupLag, LagReport
from shareproxy.lag.visible_model import Want
from shareproxy.protocol.ids import GroupId, NodeId

MEMBER = Member("m", "c", "/127.0.0.1", None, 1, (), ())


class FakeAdmin:
    """Has two groups, and notes what it is asked."""

    def __init__(self, *, describes: bool = True) -> None:
        self.asked: list[object] = []
        self.closed = False
        self._describes = describes

    async def __aenter__(self) -> Self:
        return self

    async def close(self) -> None:
        self.closed = True

    async def list_groups(self) -> GroupListing:
        names = ("orders", "payments")
        return GroupListing(
            tuple(ListedGroup(GroupId(name), "share", "Stable", NodeId(1)) for name in names), ("broker 2: no answer",)
        )

    async def lag(self, groups: Sequence[str] | None, *, want: Want | None) -> LagReport:
        self.asked.append((groups, want))
        names = ("orders", "payments") if groups is None else groups
        return LagReport("c1", datetime.now(UTC), tuple(GroupLag(GroupId(name)) for name in names), ("slow",))

    async def describe_groups(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        if not self._describes:
            raise CannotReach("gone")
        bad = GroupError(1, "X", "x")
        return {
            name: GroupDescription(GroupId(name), members=(MEMBER, MEMBER), error=bad if name == "payments" else None)
            for name in groups
        }


async def test_all_groups_are_asked_for_at_once() -> None:
    """Without a pattern the brokers say which groups there are."""
    admin = FakeAdmin()
    look = await ClusterLooks(lambda: admin, None, Want.AGE).look()
    assert admin.asked == [(None, Want.AGE)]
    assert [group.group for group in look.report.groups] == ["orders", "payments"]


async def test_only_groups_that_match_are_asked_for() -> None:
    """A pattern is found anywhere in the name; brokers that did not list theirs are named."""
    admin = FakeAdmin()
    look = await ClusterLooks(lambda: admin, re.compile("^pay"), None).look()
    assert admin.asked == [(["payments"], None)]
    assert look.report.problems == ("broker 2: no answer", "slow")


async def test_nobody_is_asked_when_no_group_matches() -> None:
    """No names would mean something else."""
    admin = FakeAdmin()
    look = await ClusterLooks(lambda: admin, re.compile("nothing"), None).look()
    assert admin.asked == []
    assert look.report.groups == ()
    assert look.report.problems == ("broker 2: no answer",)


async def test_rates_are_those_since_the_last_look() -> None:
    """The first has none."""
    looks = ClusterLooks(FakeAdmin, None, None)
    assert (await looks.look()).rates == {}
    assert set((await looks.look()).rates) == {"orders", "payments"}


async def test_members_are_counted_where_they_are_known() -> None:
    """A group that could not be described has no number of members, not none."""
    look = await ClusterLooks(FakeAdmin, None, None).look()
    assert look.members == {"orders": 2}


async def test_lag_is_shown_although_members_are_not_known() -> None:
    """It is what one came for."""
    look = await ClusterLooks(lambda: FakeAdmin(describes=False), None, None).look()
    assert len(look.report.groups) == 2
    assert look.members == {}


async def test_the_cluster_is_opened_again_when_that_failed() -> None:
    """As after a restart of all brokers."""
    tries: list[int] = []

    def open_admin() -> FakeAdmin:
        tries.append(1)
        if len(tries) == 1:
            raise CannotReach("nobody there")
        return FakeAdmin()

    looks = ClusterLooks(open_admin, None, None)
    with pytest.raises(AdminError):
        await looks.look()
    await looks.look()
    await looks.look()
    assert len(tries) == 2


async def test_closing_closes_what_was_opened() -> None:
    """And is harmless before."""
    admin = FakeAdmin()
    looks = ClusterLooks(lambda: admin, None, None)
    await looks.close()
    assert not admin.closed
    await looks.look()
    await looks.close()
    assert admin.closed


async def test_work_runs_in_another_thread() -> None:
    """So that this one is free for keys; what it raises comes out here."""

    async def where() -> int:
        return threading.get_ident()

    async def fail() -> None:
        raise CannotReach("nobody there")

    with InThread() as thread:
        assert await thread.run(where()) != threading.get_ident()
        with pytest.raises(CannotReach):
            await thread.run(fail())


async def test_work_is_cancelled_with_its_caller() -> None:
    """A look that hangs ends with the screen."""
    began, ended = threading.Event(), threading.Event()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with InThread() as thread:
        task = asyncio.create_task(thread.run(hang()))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 30)


def test_the_last_work_may_fail() -> None:
    """Closing a cluster that is gone is no error any more."""

    async def fail() -> None:
        raise CannotReach("nobody there")

    with InThread() as thread:
        thread.finish(fail())
