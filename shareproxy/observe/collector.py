"""Look at the watched groups again and again, in the background.

In: the lag engine, a directory of groups. Out: the newest `Snapshot`, counters, and why there is none to show.
Must never: ask Kafka because somebody asks us, show an old number as a new one, or let one bad group or broker hide
the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from shareproxy.cluster.errors import ClusterError
from shareproxy.lag.brokers import Trouble, trouble_from_error
from shareproxy.lag.descriptions import GroupDescription
from shareproxy.lag.model import GroupError, GroupLag, LagReport
from shareproxy.lag.rounds import share_of_time
from shareproxy.lag.slices import Slices
from shareproxy.lag.visible_model import Want
from shareproxy.observe.directory import Directory
from shareproxy.observe.history import History, Watched
from shareproxy.observe.snapshot import TROUBLE, CollectError, GroupView, NameFilter, Snapshot
from shareproxy.protocol.errors import ErrorCode
from shareproxy.protocol.ids import GroupId

LIST_GROUPS: Final = "ListGroups"
DESCRIBE_OFFSETS: Final = "DescribeShareGroupOffsets"
DESCRIBE_GROUPS: Final = "ShareGroupDescribe"
LOOK_CLOSER: Final = "visible"
# a broker that hangs while it is to list its groups must leave time for those of the others
FINDING_SHARE: Final = 0.4
# after a look that failed the next one comes sooner than usual: 1 s, 2 s, 4 s … up to the interval
FIRST_RETRY_SECONDS: Final = 1.0
# between two looks even where each takes longer than the interval
LEAST_PAUSE: Final = 0.1
# the group went away between the two questions, or its name now belongs to a group of another type
GONE: Final = frozenset({"GROUP_ID_NOT_FOUND", "NOT_A_SHARE_GROUP"})
NOT_YET: Final = "NOTHING_INITIALIZED"

# new troubles of one look that have a line of their own in the log
MOST_LINES: Final = 10

Publish = Callable[[Snapshot], Awaitable[None]]


class Engine(Protocol):
    """The part of `LagEngine` that is used here."""

    async def report(
        self, groups: Sequence[str] | None, *, topics: Collection[str] | None = None, timeout: float | None = None
    ) -> LagReport:
        """Return the lag of groups; raises only if nobody answered at all."""
        ...


class Looker(Protocol):
    """The part of `VisibleReader` that is used here."""

    async def look(self, report: LagReport, want: Want = ..., *, deadline: float) -> LagReport:
        """Return the report with what a closer look found."""
        ...


class CollectorSettings(NamedTuple):
    """What to look at, and how often.

    Attributes:
        interval: seconds from one look to the next.
        timeout: seconds for one look; a closer look has as many again.
        stale_after: intervals after which the last look is not shown any more.
        groups: names of groups, applied before their lag is asked for.
        topics: names of topics.
        internal_topics: whether Kafka's own topics are shown.
        want: what a closer look is to find, where one is given to the collector.
    """

    interval: float = 15.0
    timeout: float = 3.0
    stale_after: int = 4
    groups: NameFilter = NameFilter()
    topics: NameFilter = NameFilter()
    internal_topics: bool = False
    want: Want = Want.LOG_START | Want.OPEN


class Collector:
    """Keep the newest snapshot.

    Args:
        engine: tells the lag.
        directory: tells which groups there are, and their members.
        settings: what to look at.
        looker: looks closer, if that is wanted.
        publish: awaited with each new snapshot before it can be asked for, such as the rendering of it.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        settings: CollectorSettings = CollectorSettings(),  # noqa: B008 - frozen
        *,
        looker: Looker | None = None,
        publish: Publish | None = None,
    ) -> None:
        self.settings = settings
        self.errors: Counter[tuple[str, str]] = Counter()
        self.clamped = 0
        self.looks = 0
        self.last_success: float | None = None
        self.last_duration: float | None = None
        self.failure: str | None = None
        self._engine, self._directory, self._looker, self._publish = engine, directory, looker, publish
        self._history = History(settings.topics, internal_topics=settings.internal_topics)
        self._snapshot: Snapshot | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._said: frozenset[str] = frozenset()
        self._asking = LIST_GROUPS
        self._log = structlog.get_logger()

    @property
    def stale_seconds(self) -> float:
        """Age from which a snapshot is not shown any more."""
        return self.settings.interval * self.settings.stale_after + self.settings.timeout

    @property
    def age(self) -> float | None:
        """Seconds since the last successful look, `None` if there was none."""
        return None if self._snapshot is None else asyncio.get_running_loop().time() - self._snapshot.monotonic

    @property
    def fresh(self) -> Snapshot | None:
        """The newest snapshot, `None` if there is none or it is too old to be shown."""
        return None if self.why_not_fresh() else self._snapshot

    def why_not_fresh(self) -> str | None:
        """Return `None` if there is a snapshot to show, else the reason in one sentence."""
        age = self.age
        because = f": {self.failure}" if self.failure else ""
        if age is None:
            return f"the share groups have not been read yet{because}"
        if age > self.stale_seconds:
            return f"the last successful look at the share groups is {age:.0f} s old{because}"
        return None

    async def next_snapshot(self) -> Snapshot:
        """Wait for the next look, and return what it found."""
        await self._changed.wait()
        assert self._snapshot is not None
        return self._snapshot

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name="collector")

    async def stop(self) -> None:
        """End, and wait for the end."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            started = loop.time()
            interval = self.settings.interval
            if await self.look():
                failures = 0
            else:
                interval = min(interval, FIRST_RETRY_SECONDS * 2.0**failures)
                failures = min(failures + 1, 10)
            await asyncio.sleep(max(started + interval - loop.time(), LEAST_PAUSE))

    async def look(self) -> bool:
        """Look once; whatever goes wrong is counted and said, never raised."""
        self.looks += 1
        started = asyncio.get_running_loop().time()
        try:
            snapshot = await self._look(started)
            if self._publish is not None:
                await self._publish(snapshot)
        except ClusterError as error:
            self._fail(trouble_from_error(error).status.value, self._asking, str(error))
            return False
        except Exception as error:  # a bug of ours: the next look may be luckier, and the process serves others too
            self._fail("bug", self._asking, f"this is a bug: {type(error).__name__}: {error}")
            self._log.exception("look failed")
            return False
        finally:
            self.last_duration = asyncio.get_running_loop().time() - started
        self._snapshot, self.failure, self.last_success = snapshot, None, time.time()
        self.errors.update((error.reason, error.api) for error in snapshot.errors)
        self._say(snapshot.errors)
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def _look(self, started: float) -> Snapshot:
        loop = asyncio.get_running_loop()
        deadline = started + self.settings.timeout
        names, errors = await self._names(deadline)
        self._asking = DESCRIBE_OFFSETS
        describing = asyncio.ensure_future(self._descriptions(names, deadline, errors))
        try:
            # also without names: the report says which cluster it is
            report = await self._engine.report(names, timeout=max(deadline - loop.time(), 0.0))
            read = loop.time()
            descriptions = await describing
        finally:
            describing.cancel()
        groups = await self._watched(report, descriptions, errors)
        report = LagReport(
            report.cluster_id,
            report.time,
            tuple(view.lag for view in groups.values()),
            (*(error.message for error in errors if error.api == LIST_GROUPS), *report.problems),
        )
        if self._looker is not None:
            report = await self._closer(self._looker, report, groups, errors)
        return Snapshot(report.time, read, loop.time() - started, report, groups, tuple(errors))

    async def _names(self, deadline: float) -> tuple[list[GroupId], list[CollectError]]:
        """Return the groups to ask for.

        Where a broker did not list its groups, those of the last look are asked for by name: they are not gone.
        """
        self._asking = LIST_GROUPS
        found, problems = await self._directory.groups(share_of_time(deadline, FINDING_SHARE))
        names = {group: None for group in found if self.settings.groups.matches(group)}
        if problems and self._snapshot is not None:
            names.update(dict.fromkeys(self._snapshot.groups))
        return sorted(names), [CollectError("unlisted", LIST_GROUPS, sentence) for sentence in problems]

    async def _descriptions(
        self, names: Sequence[GroupId], deadline: float, errors: list[CollectError]
    ) -> Mapping[GroupId, GroupDescription]:
        """Return who serves the groups; without that their lag is worth showing all the same."""
        try:
            return await self._directory.describe(names, deadline) if names else {}
        except ClusterError as error:
            errors.append(CollectError(trouble_from_error(error).status.value, DESCRIBE_GROUPS, str(error)))
            return {}

    async def _watched(
        self, report: LagReport, descriptions: Mapping[GroupId, GroupDescription], errors: list[CollectError]
    ) -> dict[GroupId, GroupView]:
        slices = Slices()
        self._history.begin()
        groups: dict[GroupId, GroupView] = {}
        for found in report.groups:
            if found.error is not None and found.error.name in GONE:
                continue
            if found.group in groups and not found.partitions:
                continue  # listed twice while its coordinator moved: the one that knows it is the newer
            watched = await self._history.take(found, slices)
            description = descriptions.get(found.group)
            self._note(watched, description, errors)
            groups[found.group] = GroupView(watched.lag, description, watched.completed, watched.resets)
            await slices.turn()
        return groups

    def _note(self, watched: Watched, description: GroupDescription | None, errors: list[CollectError]) -> None:
        """Count and say what is wrong with a group: each reason once, however many partitions it has."""
        group, lag = watched.lag.group, watched.lag
        self.clamped += watched.clamped
        if lag.error is not None and lag.error.name != NOT_YET:
            errors.append(_group_error(lag.error, DESCRIBE_OFFSETS))
        of_status = {row.status: row for row in lag.partitions if row.status in TROUBLE}
        for status, row in of_status.items():
            where = f"group {group!r}, {row.topic}-{row.partition}"
            errors.append(CollectError(status.value, DESCRIBE_OFFSETS, f"{where}: {row.message or status.value}"))
        if description is not None and description.error is not None and description.error.name not in GONE:
            errors.append(_group_error(description.error, DESCRIBE_GROUPS))
        if watched.duplicates:
            errors.append(CollectError("duplicate", DESCRIBE_OFFSETS, f"group {group!r} has partitions twice"))
        for row in watched.newly_beyond_end:
            self._log.warning(
                "start offset beyond the end",
                group=group, topic=row.topic, partition=row.partition, start_offset=row.start_offset,
                end_offset=row.end_offset,
            )  # fmt: skip

    async def _closer(
        self, looker: Looker, report: LagReport, groups: dict[GroupId, GroupView], errors: list[CollectError]
    ) -> LagReport:
        """Look closer; a failure of that leaves the plain lag as it is."""
        deadline = asyncio.get_running_loop().time() + self.settings.timeout
        self._asking = LOOK_CLOSER
        try:
            report = await looker.look(report, self.settings.want, deadline=deadline)
        except ClusterError as error:
            trouble: Trouble = trouble_from_error(error)
            errors.append(CollectError(trouble.status.value, LOOK_CLOSER, str(error)))
            return report
        for lag in report.groups:
            view = groups[lag.group]
            groups[lag.group] = GroupView(lag, view.description, view.completed, view.resets)
        return report

    def _fail(self, reason: str, api: str, sentence: str) -> None:
        self.errors[reason, api] += 1
        if sentence != self.failure:
            self._log.warning("look failed", reason=reason, error=sentence)
        self.failure = sentence

    def _say(self, errors: Sequence[CollectError]) -> None:
        """Log what is new among the errors: one line per change, not per look."""
        now = {error.message: error for error in errors}
        new = [error for message, error in now.items() if message not in self._said]
        for error in new[:MOST_LINES]:
            self._log.warning("look is partial", reason=error.reason, api=error.api, error=error.message)
        if len(new) > MOST_LINES:
            self._log.warning("look is partial", more=len(new) - MOST_LINES, see="/api/v1/groups")
        if self._said and not now:
            self._log.info("look is complete again")
        self._said = frozenset(now)


def _group_error(error: GroupError, api: str) -> CollectError:
    reason = error.name.lower() if error.code != ErrorCode.REQUEST_TIMED_OUT else "timeout"
    return CollectError(reason, api, error.message)


__all__ = ["Collector", "CollectorSettings", "Engine", "GroupLag", "Looker"]
