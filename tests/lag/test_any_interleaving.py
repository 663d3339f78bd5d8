"""Whatever happens in whatever order, the lag that the engine finds is the lag that counting finds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shareproxy.cluster.addresses import parse_addresses
from shareproxy.cluster.cluster import Cluster
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import GroupLag, LagReport, PartitionLag, SourceChoice, Status
from shareproxy.lag.visible import VisibleReader
from shareproxy.lag.visible_model import PartitionVisible, Want
from shareproxy.testing import SimulatedCluster
from shareproxy.testing.simulation.consumer import SimulatedConsumer
from tests.lag.share_model import ACQUIRED, DELIVERY_LIMIT, DONE, VERDICTS, Group, Kafka, Log, SharePartition

VERSIONS = ("4.1.2", "4.2.1", "4.4.0")
NODES = 3
MEMBERS = {"a": 500, "b": 3}  # and how many records a poll brings
TRANSACTIONS = ("tx-1", "tx-2")
MOST_PARTITIONS = 3
PATIENCE = 20.0
NOW = 1_900_000_000
AUTO, BROKER, SUMMARY, BATCHES = SourceChoice.AUTO, SourceChoice.BROKER, SourceChoice.SUMMARY, SourceChoice.BATCHES

# mostly the first, so that something comes together there
PARTITIONS = st.sampled_from((0, 0, 0, 0, 1, 2))
SMALL = st.integers(0, 5)
MEMBER = st.sampled_from(sorted(MEMBERS))
NODE = st.integers(1, NODES)
VERDICT = st.sampled_from((*VERDICTS, *VERDICTS, "none"))


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return a strategy for one kind of step."""
    return st.tuples(st.just(name), *arguments)


ANSWERS = st.lists(VERDICT, min_size=1, max_size=5)
PRODUCE = step("produce", PARTITIONS, st.integers(1, 4))
CONSUME = step("consume", MEMBER, ANSWERS)
TRANSACTION = step(
    "transaction",
    PARTITIONS,
    st.integers(1, 3),
    st.sampled_from(TRANSACTIONS),
    st.sampled_from(("commit", "abort", "open")),
)
# what happens most
USUAL = st.one_of(
    PRODUCE,
    TRANSACTION,
    CONSUME,
    CONSUME,
    step("poll", MEMBER),
    step("acknowledge", MEMBER, ANSWERS),
    step("look"),
)
SELDOM = st.one_of(
    step("end transaction", st.sampled_from(TRANSACTIONS), st.booleans()),
    step("delete records", PARTITIONS, SMALL),
    step("compact", PARTITIONS, st.integers(0, 255)),
    step("expire locks"),
    step("leave", MEMBER),
    step("alter", PARTITIONS, st.integers(0, 20)),
    step("add partition"),
    step("recreate topic", st.booleans()),
    step("move leader", PARTITIONS, st.none() | NODE),
    step("move group coordinator", NODE),
    step("move share coordinator", PARTITIONS, NODE),
)
STORIES = st.tuples(
    step("produce", st.just(0), st.integers(1, 9)),
    CONSUME,
    st.lists(st.one_of(USUAL, USUAL, USUAL, SELDOM), min_size=15, max_size=40),
).map(lambda parts: [parts[0], parts[1], *parts[2]])


class World:
    """The simulated cluster and the model; both are told the same."""

    def __init__(self, cluster: SimulatedCluster, kafka: Kafka, *, committed: bool, earliest: bool) -> None:
        self.cluster, self.kafka = cluster, kafka
        self.logs = [Log()]
        self.group = Group(kafka, committed=committed, earliest=earliest)
        self.existed = False
        self.compactions = 0
        self._consumers: dict[str, SimulatedConsumer] = {}
        self._time = (NOW - 10_000) * 1000
        cluster.create_topic("t")
        cluster.set_group_config(
            "g",
            {
                "share.auto.offset.reset": "earliest" if earliest else "latest",
                "share.isolation.level": "read_committed" if committed else "read_uncommitted",
                "share.delivery.count.limit": str(DELIVERY_LIMIT),
            },
        )

    def do(self, name: str, *arguments: Any) -> None:
        """Take one step; one that is not possible now is none."""
        getattr(self, "_" + name.replace(" ", "_"))(*arguments)

    def _tick(self) -> int:
        self._time += 1000
        return self._time

    # -- records ------------------------------------------------------------------------------------------------------

    def _produce(self, partition: int, count: int) -> None:
        if partition < len(self.logs) and self.logs[partition].led:
            time = self._tick()
            self.cluster.produce("t", partition, count, timestamp=time)
            self.logs[partition].append(count, time)

    def _transaction(self, partition: int, count: int, transaction: str, how: str) -> None:
        if partition < len(self.logs) and self.logs[partition].led:
            time = self._tick()
            self.cluster.produce_transaction(
                "t", partition, count, leave_open=True, transactional_id=transaction, timestamp=time
            )
            self.logs[partition].append(count, time, transaction)
            if how != "open":
                self._end_transaction(transaction, how == "commit")

    def _end_transaction(self, transaction: str, commit: bool) -> None:
        self.cluster.end_transaction(commit=commit, transactional_id=transaction)
        for log in self.logs:
            log.end_transaction(transaction, self._time, commit=commit)

    def _delete_records(self, partition: int, count: int) -> None:
        if partition < len(self.logs):
            log = self.logs[partition]
            log.log_start = min(log.log_start + count, log.end)
            self.cluster.delete_records("t", partition, log.log_start)

    def _compact(self, partition: int, pattern: int) -> None:
        if partition >= len(self.logs):
            return
        self.compactions += 1
        log = self.logs[partition]
        for at, slot in enumerate(log.offsets[: log.stable_end]):
            if not slot.marker and at >= log.log_start and pattern >> at % 8 & 1:
                slot.compacted = True
        self.cluster.compact("t", partition, [at for at, slot in enumerate(log.offsets) if not slot.compacted])

    # -- members ------------------------------------------------------------------------------------------------------

    def _poll(self, member: str) -> None:
        most = MEMBERS[member]
        consumer = self._consumers.get(member)
        if consumer is None:
            consumer = self._consumers[member] = self.cluster.open_consumer("g", ["t"], {"max.poll.records": str(most)})
        polled = consumer.poll(otherwise="none")
        self.existed = True
        assert polled.errors == {}
        got = {(row.partition, row.offset) for row in polled.records}
        assert got == self.group.poll(member, self.logs, most)

    def _consume(self, member: str, pattern: Sequence[str]) -> None:
        self._poll(member)
        self._acknowledge(member, pattern)

    def _acknowledge(self, member: str, pattern: Sequence[str]) -> None:
        if member not in self._consumers:
            return
        mine = self.group.members[member]
        theirs = {
            (index, at)
            for other in self.group.members
            if other != member
            for index, share in self.group.partitions.items()
            for at in share.held_by(other)
        }
        answers: dict[tuple[int, int], str] = {}
        for number, place in enumerate(sorted(mine - theirs)):
            verdict = pattern[number % len(pattern)]
            if verdict != "none":
                answers[place] = verdict
        if not answers:
            return
        acks: dict[str | int, Any] = {f"t-{index}-{at}": verdict for (index, at), verdict in answers.items()}
        # a look that told a share coordinator of a higher leader epoch would make this fail
        assert self._consumers[member].acknowledge(acks, otherwise="none") == {}
        mine.difference_update(answers)
        for index in dict.fromkeys(index for index, _ in answers):
            rows = {at: VERDICTS[verdict] for (other, at), verdict in answers.items() if other == index}
            self.group.partitions[index].acknowledge(rows)

    def _expire_locks(self) -> None:
        if self.existed:
            self.cluster.expire_locks("g")
            for share in self.group.partitions.values():
                share.expire()

    def _leave(self, member: str) -> None:
        if member in self._consumers:
            self._consumers.pop(member).close()
            self.group.leave(member)

    # -- administrators -----------------------------------------------------------------------------------------------

    def _alter(self, partition: int, start: int) -> None:
        if self.group.members or partition >= len(self.logs):
            return
        self.cluster.alter_offsets("g", {"t": {partition: start}})
        if self.kafka.alters:
            self.existed = True
            if partition not in self.group.partitions:
                self.group.begin(self.logs)
            self.group.partitions[partition].alter(start)

    def _add_partition(self) -> None:
        if len(self.logs) < MOST_PARTITIONS:
            self.logs.append(Log())
            self.cluster.add_partitions("t", len(self.logs))
            if self.group.members:
                self.group.begin(self.logs)

    def _recreate_topic(self, everybody_leaves: bool) -> None:
        for member in list(self._consumers):
            # a member cannot answer for records of a topic that is gone
            if everybody_leaves or self.group.members[member]:
                self._leave(member)
        self.cluster.delete_topic("t")
        self.cluster.create_topic("t")
        self.logs, self.group.partitions = [Log()], {}
        if self.group.members:
            self.group.begin(self.logs)

    def _move_leader(self, partition: int, node: int | None) -> None:
        if partition < len(self.logs):
            self.cluster.move_leader("t", partition, node)
            self.logs[partition].led = node is not None
            if partition in self.group.partitions:
                self.group.partitions[partition].memory = None

    def _move_group_coordinator(self, node: int) -> None:
        self.cluster.move_group_coordinator("g", node)

    def _move_share_coordinator(self, partition: int, node: int) -> None:
        if self.group.partitions:
            self.cluster.move_share_coordinator("g", "t", partition, node)


# -- judging -----------------------------------------------------------------------------------------------------------


def judge_lag(row: PartitionLag, share: SharePartition, source: SourceChoice) -> None:
    """Hold one row against the model."""
    kafka, log = share.kafka, share.log
    derived = source is BATCHES or (source is AUTO and not kafka.counts)
    where = f"{source} {row}"
    assert row.start_offset == share.start or not log.led, where
    if share.start is None:
        expected = {Status.NO_START_OFFSET}
        expected |= set() if log.led else {Status.NO_LEADER}
        expected |= {Status.UNSUPPORTED} if source is SUMMARY and not kafka.counts else set()
        assert row.lag is None, where
        assert row.status in expected, where
    elif not kafka.counts and source in (SUMMARY, BROKER):
        assert row.lag is None, where
        assert row.status is Status.UNSUPPORTED or (row.status is Status.NO_LEADER and not log.led), where
    elif not log.led:
        assert (row.lag, row.status) == (None, Status.NO_LEADER), where
    elif share.start > log.end:
        assert (row.lag, row.status) == (0, Status.START_BEYOND_END), where
    else:
        done = share.done_in_states() if derived else share.done
        assert done is not None
        assert (row.lag, row.status) == (len(share.waiting(done)), Status.OK), where
        assert row.end_offset == log.end, where
        assert row.exact is (not derived or not share.committed or row.lag == 0), where
        if source is not BROKER and (source is not AUTO or derived):
            assert row.delivery_complete_count == len(done), where
        assert row.delivery_complete_count in (None, len(done)), where


def judge_group(found: GroupLag, world: World, source: SourceChoice) -> None:
    """Hold a group against the model: every partition it knows, and no other."""
    shares = world.group.partitions
    topic_id = {row.topic_id for row in found.partitions}
    assert [(row.topic, row.partition) for row in found.partitions] == [("t", index) for index in sorted(shares)]
    assert len(topic_id) == (1 if shares else 0)
    assert (found.error is None) == bool(shares), found.error
    if world.existed:
        assert found.state == ("Stable" if world.group.members else "Empty")
    for row in found.partitions:
        judge_lag(row, shares[row.partition], source)
    assert found.lag == sum(row.lag or 0 for row in found.partitions)
    assert found.complete is (bool(shares) and all(row.lag is not None for row in found.partitions))


def within(exact: int | None, least: int | None, most: int | None, number: int, where: object) -> None:
    """Hold a number or its bounds against what was counted."""
    assert least is not None, where
    assert most is not None, where
    assert least <= number <= most, f"{number} counted; {where}"
    assert exact == (least if least == most else None), where


def judge_visible(row: PartitionLag, share: SharePartition) -> None:
    """Hold a closer look against the model."""
    seen, log = row.visible, share.log
    where = f"{row}"
    assert seen is not None
    if not log.led:
        assert seen.consumable_lag is None, where
        return
    assert (seen.log_start_offset, seen.last_stable_offset) == (log.log_start, log.stable_end), where
    assert seen.open_transaction_offsets == log.end - max(log.stable_end, log.log_start), where
    if share.start is None:
        assert seen.projected_lag == (log.end - log.log_start if share.earliest else 0), where
        assert seen.consumable_lag is None, where
        return
    assert seen.unavailable_offsets == max(0, log.log_start - share.start), where
    assert seen.in_flight_max is not None, where
    assert share.in_flight <= seen.in_flight_max or share.memory is None or row.lag == 0, where
    if row.lag is None:
        return
    done = share.done if share.done is not None else share.done_in_states()
    records = share.consumable()
    within(seen.consumable_lag, seen.consumable_lag_min, seen.consumable_lag_max, len(records), where)
    phantom = len(share.phantom(done))
    within(seen.phantom_offsets, seen.phantom_offsets_min, seen.phantom_offsets_max, phantom, where)
    if not any(slot.compacted for slot in log.offsets):
        assert seen.consumable_lag == len(records), where
    judge_states(seen, share, where)
    if records and seen.consumable_lag == len(records):
        assert seen.oldest_record_age_seconds == NOW - log.offsets[records[0]].timestamp / 1000, where


def judge_states(seen: PartitionVisible, share: SharePartition, where: str) -> None:
    """Hold runs and delivery counts against the states that are written."""
    assert seen.runs is not None, where
    assert share.start is not None
    first = max(share.start, share.log.log_start)
    written = {at: (held.state, held.deliveries) for at, held in share.written.items() if at >= first}
    runs = {
        at: (run.state, run.delivery_count) for run in seen.runs for at in range(run.first_offset, run.last_offset + 1)
    }
    assert runs == written, where
    counts: dict[int, int] = {}
    for state, deliveries in written.values():
        if state not in DONE:
            counts[deliveries] = counts.get(deliveries, 0) + 1
    assert {row.count: row.offsets for row in seen.delivery_counts or ()} == counts, where
    assert ACQUIRED not in {run.state for run in seen.runs}, where


# -- playing -----------------------------------------------------------------------------------------------------------


class Lookers:
    """Engines that live through the whole story, each with what it remembers."""

    def __init__(self, cluster: Cluster) -> None:
        self.engines: Mapping[SourceChoice, LagEngine] = {
            source: LagEngine(cluster, source=source, timeout=PATIENCE) for source in (AUTO, BROKER, SUMMARY, BATCHES)
        }
        self._cluster, self._compactions = cluster, 0
        self._reader = VisibleReader(cluster, clock=lambda: NOW)

    async def look(self, world: World) -> None:
        """Look with all of them, and judge what they say."""
        reports = {source: await engine.report(["g"]) for source, engine in self.engines.items()}
        for source, report in reports.items():
            judge_group(group_of(report), world, source)
        if world.compactions != self._compactions:
            # compaction moves no offset that could tell what is remembered of the records from what is there
            self._compactions, self._reader = world.compactions, VisibleReader(self._cluster, clock=lambda: NOW)
        deadline = asyncio.get_running_loop().time() + PATIENCE
        closer = group_of(await self._reader.look(reports[AUTO], Want.ALL, deadline=deadline))
        for row in closer.partitions:
            judge_visible(row, world.group.partitions[row.partition])


def group_of(report: LagReport) -> GroupLag:
    """Return the only group."""
    [group] = report.groups
    return group


async def play(version: str, steps: Sequence[tuple[Any, ...]], *, committed: bool, earliest: bool) -> None:
    """Take all steps, and look where the story says so and at the end."""
    async with (
        SimulatedCluster(NODES, version, internal_partitions=4, broker_patience=0.02) as simulated,
        Cluster(parse_addresses(simulated.bootstrap_servers)) as cluster,
    ):
        world, lookers = World(simulated, Kafka(version), committed=committed, earliest=earliest), Lookers(cluster)
        for name, *arguments in steps:
            if name == "look":
                await lookers.look(world)
            else:
                world.do(name, *arguments)
        await lookers.look(world)


# steps, then whether the group reads committed records only
KNOWN = {
    "records deleted past the start of an open transaction": (
        [
            ("produce", 0, 2),
            ("consume", "a", ["accept"]),
            ("transaction", 0, 4, "tx-1", "open"),
            ("delete records", 0, 4),
            ("look",),
            ("consume", "a", ["accept"]),
            ("look",),
            ("end transaction", "tx-1", True),
        ],
        True,
    ),
    "all records of an open transaction deleted": (
        [
            ("produce", 0, 3),
            ("consume", "b", ["accept"]),
            ("transaction", 0, 3, "tx-1", "open"),
            ("delete records", 0, 5),
            ("delete records", 0, 5),
        ],
        True,
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("story", KNOWN)
async def test_stories_that_went_wrong_once(version: str, story: str) -> None:
    """Each was found by the test below."""
    steps, committed = KNOWN[story]

    await play(version, steps, committed=committed, earliest=True)


@pytest.mark.timeout(1200)  # finding the smallest story of a failure takes its time
@pytest.mark.parametrize("version", VERSIONS)
@given(steps=STORIES, committed=st.booleans(), earliest=st.sampled_from((True, True, True, False)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_lag_is_what_counting_finds(
    version: str, steps: Sequence[tuple[Any, ...]], committed: bool, earliest: bool
) -> None:
    """Lag, status, consumable and phantom offsets agree with a count over single offsets, by every source."""
    asyncio.run(play(version, steps, committed=committed, earliest=earliest))
