"""The background loop: when it looks, what it survives, and who is told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shareproxy.cluster.errors import AuthenticationFailed, Unreachable
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupError, LagReport
from shareproxy.lag.visible_model import PartitionVisible, Want
from shareproxy.observe import collector as module
from shareproxy.observe.collector import Collector, CollectorSettings
from shareproxy.protocol.ids import GroupId
from tests.observe.watching import Watched, an_exporter, member, row, samples

SHORT = 0.01
LONG = 3_600.0


def a_collector(watched: Watched, **settings: object) -> Collector:
    """Return a collector without a page."""
    return Collector(watched, watched, CollectorSettings(**settings))  # type: ignore[arg-type]


async def test_it_looks_again_and_again() -> None:
    """Without anybody asking."""
    watched = Watched()
    watched.put("g", row(lag=7))
    collector = a_collector(watched, interval=SHORT)
    collector.start()
    try:
        first = await collector.next_snapshot()
        watched.put("g", row(lag=3))
        while (await collector.next_snapshot()).report.groups[0].lag != 3:
            pass
        assert first.report.groups[0].lag == 7, "a snapshot never changes"
    finally:
        await collector.stop()


async def test_a_failed_look_is_repeated_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the interval is over, and everything is well again."""
    monkeypatch.setattr(module, "FIRST_RETRY_SECONDS", SHORT)
    watched = Watched()
    watched.failure = Unreachable("nobody answers")
    collector = a_collector(watched, interval=LONG)
    collector.start()
    try:
        while collector.looks < 3:
            await asyncio.sleep(0)
        failure, watched.failure = collector.failure, None
        await collector.next_snapshot()
        assert (failure, collector.failure) == ("nobody answers", None)
        assert collector.why_not_fresh() is None
    finally:
        await collector.stop()


async def test_a_bug_ends_one_look_not_the_loop() -> None:
    """It is counted and said; the process serves others too."""
    watched = Watched()
    watched.failure = ZeroDivisionError("oops")
    collector = a_collector(watched)

    assert not await collector.look()

    assert collector.errors == {("bug", "ListGroups"): 1}
    assert collector.failure == "this is a bug: ZeroDivisionError: oops"


async def test_an_engine_that_nobody_answers_fails_the_look() -> None:
    """The reason is counted with the API that was to tell."""
    watched = Watched()
    watched.put("g", row())

    async def refuse(*_: object, **__: object) -> LagReport:
        raise AuthenticationFailed("wrong password")

    watched.report = refuse  # type: ignore[method-assign]
    collector = a_collector(watched)

    assert not await collector.look()

    assert collector.errors == {("not_authorized", "DescribeShareGroupOffsets"): 1}


async def test_lag_is_shown_although_descriptions_fail() -> None:
    """Who serves a group is worth less than its lag."""
    watched = Watched()
    watched.put("g", row())
    watched.describe_failure = Unreachable("nobody answers")
    exporter = an_exporter(watched)

    assert await exporter.collector.look()

    assert samples(exporter, "kafka_sharegroup_lag") == {("g", "t", "0"): 7}
    assert samples(exporter, "kafka_sharegroup_members") == {}
    assert samples(exporter, "shareproxy_snapshot_partial") == {(): 1}


class Looking:
    """A closer look whose end the test decides."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.wanted = failure, Want(0)

    async def look(self, report: LagReport, want: Want = Want.ALL, *, deadline: float) -> LagReport:
        """Return the report with a log start, or fail."""
        self.wanted = want
        if self.failure is not None:
            raise self.failure
        groups = [
            msgspec.structs.replace(
                group,
                partitions=tuple(
                    msgspec.structs.replace(row, visible=PartitionVisible(log_start_offset=0))
                    for row in group.partitions
                ),
            )
            for group in report.groups
        ]
        return msgspec.structs.replace(report, groups=tuple(groups))


async def test_a_snapshot_has_the_descriptions_that_were_told() -> None:
    """Those with an error are not descriptions."""
    watched = Watched()
    watched.put("a", row(), members=[member("t")])
    watched.put("b", row())
    watched.described["b"] = GroupDescription(GroupId("b"), error=GroupError(30, "GROUP_AUTHORIZATION_FAILED", "no"))
    collector = a_collector(watched)
    await collector.look()

    snapshot = collector.fresh
    assert snapshot is not None
    assert {name: len(told.members) for name, told in snapshot.descriptions.items()} == {"a": 1}


async def test_a_closer_look_is_taken_over() -> None:
    """Into the report and into the groups."""
    watched, looker = Watched(), Looking()
    watched.put("g", row())
    collector = Collector(watched, watched, CollectorSettings(want=Want.LOG_START), looker=looker)
    await collector.look()

    snapshot = collector.fresh
    assert snapshot is not None
    assert looker.wanted is Want.LOG_START
    assert snapshot.report.groups[0].partitions[0].visible is not None
    assert snapshot.groups[snapshot.report.groups[0].group].lag is snapshot.report.groups[0]


async def test_a_closer_look_that_fails_leaves_the_lag() -> None:
    """It is an addition."""
    watched = Watched()
    watched.put("g", row())
    looker = Looking(Unreachable("nobody answers"))
    collector = Collector(watched, watched, looker=looker)

    assert await collector.look()

    assert collector.errors == {("timeout", "visible"): 1}
    assert collector.fresh is not None
    assert collector.fresh.report.groups[0].lag == 7


async def test_what_is_partial_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """One line when it begins, one when it is over."""
    watched = Watched()
    watched.put("g", row())
    collector = a_collector(watched)
    watched.problems = ["the groups of broker 2 are missing"]
    await collector.look()
    await collector.look()
    watched.problems = []
    await collector.look()
    await collector.look()

    out = capsys.readouterr().out
    assert out.count("look is partial") == 1
    assert out.count("look is complete again") == 1


async def test_it_stops_in_the_middle_of_a_look() -> None:
    """And does not leave a task behind."""
    watched = Watched()
    watched.put("g", row())
    entered = asyncio.Event()

    async def hang(*_: object, **__: object) -> LagReport:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    watched.report = hang  # type: ignore[method-assign]
    collector = a_collector(watched)
    collector.start()
    await entered.wait()
    await collector.stop()

    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await a_collector(watched).stop()
