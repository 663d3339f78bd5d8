"""Look closer at a lag: what of it members can still be given, and what only takes up offsets.

In: a report, and what is wanted. Out: the same report with `visible` filled in.
Must never: raise for one partition, outlast the deadline, write, or be on the way of a client's request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from shareproxy.lag.brokers import Brokers
from shareproxy.lag.dead_letters import dead_letters
from shareproxy.lag.deliveries import StoredRuns
from shareproxy.lag.group_configs import group_configs
from shareproxy.lag.group_settings import NOT_ASKED, Settings, settings_of
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import LagReport, PartitionLag, Status
from shareproxy.lag.open_transactions import open_transactions
from shareproxy.lag.positions import EARLIEST, READ_COMMITTED, Positions, ask_positions
from shareproxy.lag.rounds import share_of_time
from shareproxy.lag.scan import TOO_MUCH, Scan, ScanLimits, Scanned, Scanner
from shareproxy.lag.visible_model import DeadLetter, GroupVisible, Want
from shareproxy.lag.visible_rows import Found, Wishes, partition_visible
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId

T = TypeVar("T")

# Parts of the time that is left: whoever hangs in one step leaves some for the next.
CONFIGS_SHARE: Final = 0.25
POSITIONS_SHARE: Final = 0.5

# others must get a turn on the event loop between so many rows
ROWS_AT_A_TIME: Final = 500

_NEEDS_CONFIGS: Final = Want.CONFIGS | Want.PHANTOM | Want.AGE | Want.PROJECTED | Want.DEAD_LETTERS | Want.STATES
_NEEDS_RECORDS: Final = Want.PHANTOM | Want.AGE
_NEEDS_LOG_START: Final = Want.LOG_START | Want.OPEN | Want.PROJECTED | Want.STATES | _NEEDS_RECORDS
_NEEDS_STABLE: Final = Want.OPEN | _NEEDS_RECORDS
_OUT_OF_REACH: Final = frozenset({Status.TOPIC_MISSING, Status.PARTITION_MISSING, Status.NO_LEADER, Status.TIMEOUT})


class VisibleLimits(msgspec.Struct, frozen=True):
    """How much a closer look may cost.

    Attributes:
        scan: what one look may read of records.
        groups_at_a_time: groups whose states are read side by side.
        remembered: results of scans that are kept, some hundred bytes each.
        remembered_seconds: how long a result serves: compaction takes records away without moving any offset that
            could tell.
    """

    scan: ScanLimits = ScanLimits()
    groups_at_a_time: int = 32
    remembered: int = 50_000
    remembered_seconds: float = 60.0


DEFAULT_LIMITS: Final = VisibleLimits()


class VisibleReader:
    """Look closer at the lag of share groups on one cluster.

    Args:
        brokers: where to ask.
        limits: how much that may cost.
        clock: seconds since 1970, for ages.
        monotonic: seconds from anywhere, such as `loop.time`: for how long a group has been empty, and how old the
            result of a scan is.
    """

    def __init__(
        self,
        brokers: Brokers,
        limits: VisibleLimits = DEFAULT_LIMITS,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._brokers, self._limits, self._clock, self._monotonic = brokers, limits, clock, monotonic
        self._scans: dict[tuple[object, ...], tuple[float, Scanned]] = {}
        self._empty_since: dict[GroupId, float] = {}

    async def look(self, report: LagReport, want: Want = Want.ALL, *, deadline: float) -> LagReport:
        """Return the report with a closer look at each group and partition.

        Args:
            report: of the engine, as fresh as possible.
            want: what to find out; each costs requests.
            deadline: `loop.time()` seconds; what is not known then is `None`, and a note says so.

        Source: KIP-932, KIP-1191, KIP-1226.
        """
        settings = await self._settings(report, want, deadline)
        quiet = self._quiet_groups(report, settings)
        wishes = Wishes.of(want)
        found: dict[GroupId, list[Found]] = {}
        for group in report.groups:
            found[group.group] = rows = []
            async for row in in_turns(group.partitions):
                rows.append(_begin(row, group.state, settings[group.group]))
        reachable = [item for items in found.values() for item in items if item.skipped is None]
        until = share_of_time(deadline, POSITIONS_SHARE)
        async with asyncio.TaskGroup() as tasks:
            letters = tasks.create_task(self._dead_letters(settings, want, deadline))
            await asyncio.gather(self._read_positions(reachable, want, until), self._read_states(found, wishes, until))
            if want & Want.HOLDERS:
                tasks.create_task(self._read_holders(reachable, deadline))
            await self._scan(reachable, wishes, deadline)
        now = self._clock() * 1000

        groups = []
        for group in report.groups:
            rows_now = []
            async for item in in_turns(found[group.group]):
                visible = partition_visible(item, wishes, now_ms=now, quiet=group.group in quiet)
                rows_now.append(replace(item.row, visible=visible))
            visible_group = _group_visible(settings[group.group], letters.result())
            groups.append(replace(group, partitions=tuple(rows_now), visible=visible_group))
        return replace(report, groups=tuple(groups))

    async def _settings(self, report: LagReport, want: Want, deadline: float) -> dict[GroupId, Settings]:
        names = [group.group for group in report.groups]
        if not want & _NEEDS_CONFIGS:
            return dict.fromkeys(names, NOT_ASKED)
        asked = [group.group for group in report.groups if group.partitions]
        configs = await group_configs(self._brokers, asked, deadline=share_of_time(deadline, CONFIGS_SHARE))
        return {name: settings_of(configs[name]) if name in configs else NOT_ASKED for name in names}

    def _quiet_groups(self, report: LagReport, settings: Mapping[GroupId, Settings]) -> set[GroupId]:
        """Return the groups that were seen empty, and only empty, for longer than a record lock lasts."""
        now = self._monotonic()
        quiet = set()
        for group in report.groups:
            name, lock = group.group, settings[group.group].record_lock_duration_ms
            if group.state != "Empty":
                self._empty_since.pop(name, None)
                continue
            since = self._empty_since.setdefault(name, now)
            if lock is not None and now - since > lock / 1000:
                quiet.add(name)
        if len(self._empty_since) > self._limits.remembered:
            self._empty_since.clear()
        return quiet

    async def _read_positions(self, items: Sequence[Found], want: Want, deadline: float) -> None:
        """Read log starts, last stable offsets, missing high watermarks and starts by time."""
        starts = items if want & _NEEDS_LOG_START else []
        stables = items if want & _NEEDS_STABLE else []
        ends = [item for item in items if item.end is None]
        back: dict[Wanted, int] = {}
        if want & Want.PROJECTED:
            for item in items:
                duration = item.settings.reset_duration_ms if item.row.start_offset is None else None
                if duration is not None:
                    back[item.wanted] = int(self._clock() * 1000) - duration
        brokers = self._brokers
        found_starts, found_stables, found_ends, found_back = await asyncio.gather(
            ask_positions(Positions(brokers, EARLIEST), _distinct(starts), deadline=deadline),
            ask_positions(Positions(brokers, isolation=READ_COMMITTED), _distinct(stables), deadline=deadline),
            ask_positions(Positions(brokers), _distinct(ends), deadline=deadline),
            ask_positions(Positions(brokers, back), list(back), deadline=deadline),
        )
        async for item in in_turns(items):
            wanted = item.wanted
            item.log_start, item.stable = found_starts.get(wanted), found_stables.get(wanted)
            item.restart = found_back.get(wanted)
            end = found_ends.get(wanted)
            if isinstance(end, int):
                item.end = end

    async def _read_holders(self, items: Sequence[Found], deadline: float) -> None:
        """Read who holds transactions open, where one is."""
        behind = [
            item for item in items if isinstance(item.stable, int) and item.end is not None and item.stable < item.end
        ]
        holders = await open_transactions(self._brokers, _distinct(behind), deadline=deadline)
        for item in behind:
            item.holders = holders[item.wanted]

    async def _read_states(self, found: Mapping[GroupId, Sequence[Found]], wishes: Wishes, deadline: float) -> None:
        """Read which offsets are done, where that is wanted or the count alone leaves it open."""
        turns = asyncio.Semaphore(self._limits.groups_at_a_time)
        source = StoredRuns(self._brokers)

        async def read(group: GroupId, items: Mapping[Wanted, Found]) -> None:
            async with turns:
                states = await source.stored(group, list(items), deadline=deadline)
            for wanted, item in items.items():
                item.stored = states[wanted]

        async with asyncio.TaskGroup() as tasks:
            for group, rows in found.items():
                items = {item.wanted: item for item in rows if _needs_states(item, wishes)}
                if items:
                    tasks.create_task(read(group, items))
                await asyncio.sleep(0)

    async def _scan(self, items: Sequence[Found], wishes: Wishes, deadline: float) -> None:
        """Look at the records of the ranges that are not known from an earlier look."""
        if not wishes.records:
            return
        now = self._monotonic()
        oldest = now - self._limits.remembered_seconds
        planned: list[tuple[Found, tuple[object, ...], Scan]] = []
        async for item in in_turns(items):
            scan = _plan(item, only_first=not wishes.phantom)
            if scan is None:
                continue
            key: tuple[object, ...] = (
                scan.item.topic_id,
                scan.item.partition,
                scan.first,
                scan.end,
                scan.done,
                scan.committed,
                scan.only_first,
            )
            if (known := self._scans.get(key)) is not None and known[0] > oldest:
                item.scanned = known[1]
            else:
                planned.append((item, key, scan))
        await Scanner(self._brokers, self._limits.scan).run([scan for _, _, scan in planned], deadline=deadline)
        if len(self._scans) + len(planned) > self._limits.remembered:
            self._scans.clear()
        for item, known_by, scan in planned:
            item.scanned = result = scan.result()
            worth = result.trouble is None or result.trouble is TOO_MUCH
            if worth and (known_by in self._scans or len(self._scans) < self._limits.remembered):
                self._scans[known_by] = now, result

    async def _dead_letters(
        self, settings: Mapping[GroupId, Settings], want: Want, deadline: float
    ) -> dict[str, DeadLetter]:
        if not want & Want.DEAD_LETTERS:
            return {}
        topics = {found.dead_letter_topic for found in settings.values() if found.dead_letter_topic}
        return await dead_letters(self._brokers, topics, deadline=deadline)


async def in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """Yield the items, and let others have a turn on the event loop in between."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ROWS_AT_A_TIME == 0:
            await asyncio.sleep(0)


def _begin(row: PartitionLag, state: str | None, settings: Settings) -> Found:
    skipped = None
    if row.topic_id == NO_TOPIC_ID or row.status in _OUT_OF_REACH:
        skipped = f"not looked at: {row.message or row.status.value}"
    wanted = Wanted(row.topic, row.topic_id, row.partition)
    return Found(wanted, row, settings, group_state=state, end=row.end_offset, skipped=skipped)


def _distinct(items: Sequence[Found]) -> list[Wanted]:
    """Return the partitions once each: several groups may read one."""
    return list(dict.fromkeys(item.wanted for item in items))


def _needs_states(item: Found, wishes: Wishes) -> bool:
    row = item.row
    if item.skipped is not None or row.start_offset is None:
        return False
    if wishes.states:
        return True
    if not wishes.records or row.lag == 0:
        return False
    nothing_done = row.lag is not None and row.end_offset is not None and row.end_offset - row.start_offset == row.lag
    return not nothing_done or bool(item.settings.dead_letter_topic)


def _plan(item: Found, *, only_first: bool) -> Scan | None:
    """Return what to scan of a partition; nothing if there is no lag, or the range is not known."""
    done, end = item.done(), item.visible_end()
    if done is None or end is None or item.row.lag == 0 or not isinstance(item.log_start, int):
        return None
    if only_first and done.done is None:
        return None  # the first record that is there need not be the first that waits
    known = tuple(sorted((*(done.done or ()), *done.archiving)))
    first = max(done.start, item.log_start)
    return Scan(item.wanted, first, end, known, committed=item.committed is not False, only_first=only_first)


def _group_visible(settings: Settings, letters: Mapping[str, DeadLetter]) -> GroupVisible:
    topic = settings.dead_letter_topic
    return GroupVisible(
        isolation_level=settings.isolation_level,
        auto_offset_reset=settings.auto_offset_reset,
        delivery_count_limit=settings.delivery_count_limit,
        record_lock_duration_ms=settings.record_lock_duration_ms,
        max_record_locks=settings.max_record_locks,
        dead_letter=letters.get(topic) if topic else None,
        notes=() if settings.trouble is None else (settings.trouble.message,),
    )
