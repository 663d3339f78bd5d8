"""A closer look at reports, over a cluster in memory."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import GroupLag, LagReport
from shareproxy.lag.scan import ScanLimits
from shareproxy.lag.visible import VisibleLimits, VisibleReader
from shareproxy.lag.visible_model import DeliveryCount, PartitionVisible, StateRun, Want
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.logs import Log, LogBrokers
from tests.lag.simulated_brokers import N1, N2, T1, T2, Group, Stored, Topic, soon, unreachable

NOW = 100.0
COMMITTED = {"share.isolation.level": "read_committed"}
UNCOMMITTED = {"share.isolation.level": "read_uncommitted"}


@dataclass
class Scene:
    """A cluster with one group, and a reader that looks at it."""

    brokers: LogBrokers
    reader: VisibleReader

    async def report(self, *groups: str) -> LagReport:
        """Ask the engine."""
        return await LagEngine(self.brokers).report(groups or ["g"])

    async def look(self, want: Want = Want.ALL, *, seconds: float = 5.0) -> GroupLag:
        """Report, then look closer."""
        report = await self.report()
        return (await self.reader.look(report, want, deadline=soon(seconds))).groups[0]

    async def row(self, want: Want = Want.ALL, partition: int = 0) -> PartitionVisible:
        """Return what was found about a partition."""
        visible = (await self.look(want)).partitions[partition].visible
        assert visible is not None
        return visible


def scene(log: Log, stored: Stored, settings: dict[str, str] | int = UNCOMMITTED, *, state: str = "Empty") -> Scene:
    """Return a cluster with one partition."""
    brokers = LogBrokers()
    brokers.topics["orders"] = Topic(T1, [N1], [log.end])
    brokers.logs["orders", 0] = log
    brokers.groups["g"] = Group(state=state)
    brokers.states["g", T1, 0] = stored
    brokers.settings["g"] = settings
    return Scene(brokers, VisibleReader(brokers, clock=lambda: NOW))


def mixed() -> Log:
    """Return 3 committed, 5 aborted and 2 committed records, each with its marker."""
    return Log().transaction(3, 7, commit=True).transaction(5, 7, commit=False).transaction(2, 8, commit=True)


@pytest.mark.parametrize(("settings", "consumable"), [(UNCOMMITTED, 10), (COMMITTED, 5)])
async def test_phantoms_of_transactions(settings: dict[str, str], consumable: int) -> None:
    """What is a record depends on the isolation level of the group."""
    row = await scene(mixed(), Stored(0, count=0), settings).row()

    assert (row.consumable_lag, row.phantom_offsets) == (consumable, 13 - consumable)
    assert (row.consumable_lag_min, row.consumable_lag_max) == (consumable, consumable)
    assert (row.log_start_offset, row.last_stable_offset, row.open_transaction_offsets) == (0, 13, 0)
    assert row.oldest_record_age_seconds == 99.0


async def test_fully_consumed_topic_with_a_marker() -> None:
    """The start offset may look behind: the batches tell that the marker alone is open."""
    stored = Stored(0, epoch=3, count=13, batches=[(0, 12, 2)])
    found = scene(mixed().transaction(0, 9, commit=True), stored)

    row = await found.row()

    assert (row.consumable_lag, row.phantom_offsets, row.oldest_record_age_seconds) == (0, 1, None)
    [request] = found.brokers.fetched
    assert request.topics[0].partitions[0].fetch_offset == 13


async def test_nothing_waits_without_lag() -> None:
    """Nothing is fetched for it."""
    found = scene(mixed(), Stored(0, epoch=3, count=13, batches=[(0, 12, 2)]))

    row = await found.row()

    assert (row.consumable_lag, row.phantom_offsets, row.in_flight, row.waiting) == (0, 0, 0, 0)
    assert found.brokers.fetched == []


async def test_open_transaction() -> None:
    """Its tail is neither waiting nor phantom for who reads committed records."""
    log = mixed().add(4)
    log.stable = 13
    found = scene(log, Stored(0, count=0), COMMITTED)
    found.brokers.producers = [m.DescribeProducersResponseProducerState(9, 0, 3, 40_000, 0, 13)]
    found.brokers.transactional_ids = {9: "billing"}

    row = await found.row()

    assert (row.consumable_lag, row.phantom_offsets, row.open_transaction_offsets) == (5, 8, 4)
    assert "a transaction of 'billing' is open from offset 13 on; its last record is 60 s old" in row.notes


async def test_holder_that_may_not_be_seen() -> None:
    """A note names the right; nobody is asked where no transaction is open."""
    log = mixed().add(4)
    log.stable = 13
    found = scene(log, Stored(0, count=0), COMMITTED)
    found.brokers.may_read = False
    quiet = scene(mixed(), Stored(0, count=0))

    assert any("who holds a transaction open" in note and "READ" in note for note in (await found.row()).notes)
    await quiet.row()
    assert quiet.brokers.sent(m.DescribeProducersRequest) == []


async def test_deleted_records_that_are_done() -> None:
    """Which offsets are done comes from the batches, clipped at the log start."""
    log = Log(6, 10)
    log.end = 6
    log.add(4)
    found = scene(log, Stored(0, epoch=1, count=4, batches=[(1, 4, 2), (5, 7, 0)]))

    row = await found.row()

    assert (row.consumable_lag, row.phantom_offsets, row.unavailable_offsets) == (4, 2, 6)
    assert row.runs == (StateRun(6, 7, "available", 1),)
    assert row.delivery_counts == (DeliveryCount(1, 2),)


async def test_without_the_batches_only_a_range_is_known() -> None:
    """The note names the right that would change it."""
    log = Log(6, 6)
    log.add(4)
    found = scene(log, Stored(0, epoch=1, count=4, batches=[(1, 4, 2)]))
    found.brokers.cluster_action = False

    row = await found.row(Want.PHANTOM | Want.AGE)

    assert (row.consumable_lag, row.consumable_lag_min, row.consumable_lag_max) == (None, 0, 4)
    assert (row.phantom_offsets, row.phantom_offsets_min, row.phantom_offsets_max) == (None, 2, 6)
    assert row.oldest_record_age_seconds is None
    assert any("CLUSTER_ACTION" in note for note in row.notes)


async def test_archiving_records_are_not_consumable() -> None:
    """Batches are read where a dead-letter topic is configured, even if nothing is done."""
    settings = {**UNCOMMITTED, "errors.deadletterqueue.topic.name": "dlq.orders"}
    found = scene(Log().add(10), Stored(0, epoch=1, count=0, batches=[(2, 4, 3)]), settings)

    group = await found.look()

    row = group.partitions[0].visible
    assert row is not None
    assert (row.consumable_lag, row.phantom_offsets) == (7, 0)
    assert group.visible is not None
    assert group.visible.dead_letter is not None
    assert group.visible.dead_letter.depth is None


async def test_leader_archived_in_memory_only() -> None:
    """A count above that of the batches is of aborted or compacted records: what is left stays exact."""
    row = await scene(mixed(), Stored(0, epoch=1, count=9, batches=[(0, 3, 2)]), COMMITTED).row()

    assert (row.consumable_lag, row.phantom_offsets) == (2, 2)


async def test_state_that_went_on_between_report_and_look() -> None:
    """The newer state wins."""
    found = scene(Log().add(10), Stored(0, epoch=1, count=2, batches=[(0, 1, 2)]))
    report = await found.report()
    found.brokers.states["g", T1, 0] = Stored(5, epoch=1, count=1, batches=[(6, 6, 2)])

    [group] = (await found.reader.look(report, deadline=soon())).groups

    row = group.partitions[0].visible
    assert row is not None
    assert (row.consumable_lag, row.phantom_offsets) == (4, 0)


async def test_unknown_isolation_level() -> None:
    """Exact where it makes no difference, else a range with the right to ask for."""
    plain = await scene(Log().add(10), Stored(0, count=0), 30).row()
    assert (plain.consumable_lag, plain.phantom_offsets) == (10, 0)

    row = await scene(mixed(), Stored(0, count=0), 30).row()
    assert (row.consumable_lag_min, row.consumable_lag_max) == (5, 10)
    assert any("DESCRIBE_CONFIGS" in note for note in row.notes)


async def test_missing_right_to_read() -> None:
    """Bounds and a note; the rest is there."""
    found = scene(mixed(), Stored(0, count=0))
    found.brokers.may_read = False

    row = await found.row()

    assert (row.consumable_lag, row.consumable_lag_min, row.consumable_lag_max) == (None, 0, 13)
    assert row.oldest_record_age_seconds is None
    assert row.log_start_offset == 0
    assert any("READ on the topic" in note for note in row.notes)


@pytest.mark.parametrize(
    ("reset", "projected"),
    [("latest", 0), ("earliest", 9), ("by_duration:PT10S", 5), ("by_duration:soon", None), ("newest", None)],
)
async def test_lag_before_the_first_member(reset: str, projected: int | None) -> None:
    """It follows from where the group would start."""
    log = Log(1, 1).add(9)
    found = scene(log, Stored(-1), {**UNCOMMITTED, "share.auto.offset.reset": reset})
    found.brokers.times["orders", 0] = 5

    row = await found.row()

    assert row.projected_lag == projected
    assert (row.consumable_lag, row.phantom_offsets, row.unavailable_offsets) == (None, None, None)
    assert row.in_flight_max == 9
    if projected is None:
        assert any(reset in note for note in row.notes)


async def test_projection_that_no_record_is_young_enough_for() -> None:
    """Then the group starts at the end."""
    found = scene(Log().add(9), Stored(-1), {"share.auto.offset.reset": "by_duration:PT10S"})

    assert (await found.row(Want.PROJECTED)).projected_lag == 0


async def test_projection_without_configuration() -> None:
    """Unknown, with the right to ask for."""
    row = await scene(Log().add(9), Stored(-1), 30).row()

    assert row.projected_lag is None
    assert any("DESCRIBE_CONFIGS" in note for note in row.notes)


async def test_members_that_may_have_started() -> None:
    """With members in the group a projection is only that."""
    found = scene(Log().add(9), Stored(-1), {"share.auto.offset.reset": "earliest"}, state="Stable")

    row = await found.row()

    assert row.projected_lag == 9
    assert any("may have started" in note for note in row.notes)


async def test_in_flight_is_known_to_be_none_after_a_lock() -> None:
    """Only of a group that was seen empty for longer."""
    found = scene(Log().add(5), Stored(0, count=0), {**UNCOMMITTED, "share.record.lock.duration.ms": "30000"})
    seconds = [10.0]
    found.reader = VisibleReader(found.brokers, clock=lambda: NOW, monotonic=lambda: seconds[0])

    first = await found.row()
    seconds[0] = 40.0
    assert (await found.row()).in_flight is None
    seconds[0] = 40.1
    later = await found.row()
    found.brokers.groups["g"].state = "Stable"
    with_members = await found.row()

    assert (first.in_flight, first.in_flight_max, first.waiting) == (None, 5, None)
    assert (later.in_flight, later.in_flight_max, later.waiting) == (0, 0, 5)
    assert with_members.in_flight is None


async def test_record_locks_bound_what_is_in_flight() -> None:
    """As far as the broker tells them (4.4)."""
    settings = {**UNCOMMITTED, "share.partition.max.record.locks": "3"}

    row = await scene(Log().add(5), Stored(0, count=0), settings).row()

    assert row.in_flight_max == 3


async def test_result_of_a_scan_is_kept_while_nothing_moves() -> None:
    """A new end is a new question."""
    found = scene(mixed(), Stored(0, count=0))
    await found.row()
    await found.row()
    assert len(found.brokers.fetched) == 1

    found.brokers.logs["orders", 0].add(1)
    found.brokers.topics["orders"].ends[0] += 1
    row = await found.row()

    assert (row.consumable_lag, len(found.brokers.fetched)) == (11, 2)


async def test_result_of_a_scan_ages() -> None:
    """Compaction takes records away without moving any offset that could tell."""
    found, now = scene(Log().add(10), Stored(0, count=0)), [0.0]
    found.reader = VisibleReader(found.brokers, clock=lambda: NOW, monotonic=lambda: now[0])
    await found.row()

    found.brokers.logs["orders", 0] = Log().add(4, span=10)
    now[0] = 59.0
    young = await found.row()
    now[0] = 61.0
    old = await found.row()

    assert (young.consumable_lag, young.phantom_offsets) == (10, 0)
    assert (old.consumable_lag_max, old.phantom_offsets_min) == (4, 6)
    assert len(found.brokers.fetched) == 2


async def test_memory_is_bounded() -> None:
    """What is remembered is dropped rather than more kept."""
    found = scene(mixed(), Stored(0, count=0))
    found.reader = VisibleReader(found.brokers, VisibleLimits(remembered=0), clock=lambda: NOW)
    await found.row()
    await found.row()

    assert len(found.brokers.fetched) == 2


async def test_limit_of_a_look() -> None:
    """What is beyond is between nothing and everything."""
    log = Log()
    for _ in range(10):
        log.add(10)
    found = scene(log, Stored(0, count=0))
    found.reader = VisibleReader(found.brokers, VisibleLimits(ScanLimits(partition_offsets=30)), clock=lambda: NOW)

    row = await found.row()

    assert (row.consumable_lag, row.consumable_lag_min, row.consumable_lag_max) == (None, 30, 100)
    assert row.oldest_record_age_seconds == 99.0
    assert any("limit of one look" in note for note in row.notes)


async def test_only_what_is_wanted_is_asked_for() -> None:
    """Each wish costs requests of its own."""
    found = scene(mixed(), Stored(0, count=0))
    report = await found.report()

    async def kinds(want: Want) -> set[str]:
        found.brokers.asked.clear()
        await found.reader.look(report, want, deadline=soon())
        return {type(message).__name__ for _, message in found.brokers.asked}

    assert await kinds(Want(0)) == set()
    assert await kinds(Want.LOG_START) == {"ListOffsetsRequest"}
    assert await kinds(Want.OPEN) == {"ListOffsetsRequest"}
    assert await kinds(Want.CONFIGS) == {"DescribeConfigsRequest"}
    assert await kinds(Want.AGE) == {"DescribeConfigsRequest", "ListOffsetsRequest", "FetchRequest"}
    assert "ReadShareGroupStateRequest" in await kinds(Want.STATES)


async def test_age_alone_reads_one_batch() -> None:
    """It is enough."""
    log = Log().add(5).add(5)

    row = await scene(log, Stored(0, count=0)).row(Want.AGE)

    assert (row.oldest_record_age_seconds, row.consumable_lag) == (99.0, None)


async def test_record_without_a_timestamp() -> None:
    """Its age is not known."""
    row = await scene(Log().add(1, first_time=-1, newest_time=-1), Stored(0, count=0)).row(Want.AGE)

    assert row.oldest_record_age_seconds is None
    assert any("timestamp" in note for note in row.notes)


async def test_bad_partition_does_not_hide_the_others() -> None:
    """Leaderless, frozen, or fine: each for itself, and in time."""
    brokers = LogBrokers(nodes=2)
    brokers.topics["orders"] = Topic(T1, [N1, N2, None], [10, 10, 0])
    brokers.logs = {("orders", index): Log().add(10) for index in range(2)}
    brokers.groups["g"] = Group()
    for index in range(3):
        brokers.states["g", T1, index] = Stored(0, count=0)
    brokers.settings["g"] = UNCOMMITTED
    found = Scene(brokers, VisibleReader(brokers, clock=lambda: NOW))
    report = await found.report()
    brokers.frozen.add(N2)

    [group] = (await found.reader.look(report, deadline=soon(0.5))).groups

    good, frozen, leaderless = [row.visible for row in group.partitions]
    assert good is not None
    assert frozen is not None
    assert leaderless is not None
    assert good.consumable_lag == 10
    assert frozen.consumable_lag is None
    assert any("time" in note for note in frozen.notes)
    assert any("leader" in note for note in leaderless.notes)


async def test_two_groups_share_questions() -> None:
    """One ListOffsets of a kind per leader; each has its own answer."""
    found = scene(mixed(), Stored(0, count=0))
    found.brokers.groups["h"] = Group()
    found.brokers.states["h", T1, 0] = Stored(9, count=0)
    found.brokers.settings["h"] = COMMITTED
    report = await found.report("g", "h")
    found.brokers.asked.clear()

    groups = (await found.reader.look(report, deadline=soon())).groups

    rows = [group.partitions[0].visible for group in groups]
    assert [row.consumable_lag for row in rows if row] == [10, 2]
    assert len(found.brokers.sent(m.ListOffsetsRequest)) == 2


async def test_group_with_an_error() -> None:
    """It has nothing to look at, and does no harm."""
    found = scene(mixed(), Stored(0, count=0))
    found.brokers.hidden_groups.add("g")

    group = await found.look()

    assert (group.partitions, group.error is None) == ((), False)
    assert group.visible is not None


async def test_nobody_answers() -> None:
    """Every number is unknown, and nothing is raised."""
    found = scene(mixed(), Stored(0, count=0))
    report = await found.report()
    found.brokers.faults.append(lambda _, message: unreachable())

    [group] = (await found.reader.look(report, deadline=soon(0.3))).groups

    row = group.partitions[0].visible
    assert row is not None
    assert (row.log_start_offset, row.consumable_lag, row.runs) == (None, None, None)
    assert row.notes


async def test_recreated_topic_is_another_question() -> None:
    """Results of scans go by topic id."""
    found = scene(mixed(), Stored(0, count=0))
    await found.row()
    found.brokers.topics["orders"].topic_id = T2
    found.brokers.states["g", T2, 0] = found.brokers.states.pop(("g", T1, 0))
    found.brokers.logs["orders", 0] = Log().add(13)

    assert (await found.row()).consumable_lag == 13
    assert GroupId("g") == "g"
