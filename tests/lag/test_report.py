"""Reports: rows from coordinators, completed from other sources, errors for groups without an answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from shareproxy.cluster.errors import DeadlinePassed
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.groups import FoundGroup
from shareproxy.lag.model import GroupLag, Source, SourceChoice, Status
from shareproxy.lag.report import Reporter
from shareproxy.lag.slices import Slices
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId, NodeId
from shareproxy.protocol.message import Request
from tests.lag.simulated_brokers import (
    KAFKA_4_0,
    KAFKA_4_1,
    N1,
    N2,
    T1,
    T2,
    T3,
    Fault,
    Group,
    SimulatedBrokers,
    Stored,
    Topic,
    soon,
)

G = GroupId("g")
BATCHES = [(0, 1, 2), (3, 3, 0), (5, 5, 2), (6, 6, 4)]
AUTO, BROKER, SUMMARY, FROM_BATCHES = SourceChoice.AUTO, SourceChoice.BROKER, SourceChoice.SUMMARY, SourceChoice.BATCHES


@pytest.fixture
def brokers() -> SimulatedBrokers:
    """One 4.4 broker: group g has KIP-1226's picture in t-0, nothing acknowledged in t-1, an altered start in u-0."""
    brokers = SimulatedBrokers()
    brokers.topics = {"t": Topic(T1, [N1, N1], [11, 5]), "u": Topic(T2, [N1], [9])}
    brokers.groups["g"] = Group(state="Empty")
    brokers.states["g", T1, 0] = Stored(0, 3, 4, BATCHES)
    brokers.states["g", T1, 1] = Stored(-1)
    brokers.states["g", T2, 0] = Stored(2, 0, 0)
    return brokers


async def report(
    brokers: SimulatedBrokers, choice: SourceChoice = AUTO, topics: frozenset[str] | None = None, seconds: float = 5.0
) -> GroupLag:
    """Report on group g."""
    [group] = await Reporter(brokers, choice).named([G], topics, soon(seconds))
    return group


def lags(group: GroupLag) -> dict[tuple[str, int], int | None]:
    """Return lag by topic and partition."""
    return {(row.topic, row.partition): row.lag for row in group.partitions}


ALL = {("t", 0): 7, ("t", 1): None, ("u", 0): 7}


@pytest.mark.parametrize("choice", list(SourceChoice))
async def test_every_source_reports_the_same(brokers: SimulatedBrokers, choice: SourceChoice) -> None:
    """Whatever is pinned, the lag of each partition is the same on 4.2 and later."""
    group = await report(brokers, choice)

    assert lags(group) == ALL
    assert (group.state, group.error, group.complete) == ("Empty", None, False)
    assert (group.lag, group.partitions_known, group.partitions_total) == (14, 2, 3)
    source = Source.BROKER if choice is AUTO else Source(choice.value)
    assert [row.source for row in group.partitions] == [source, None, source]


async def test_auto_asks_nobody_where_the_broker_knows(brokers: SimulatedBrokers) -> None:
    """No share coordinator is read; ListOffsets only shows the end beside the lag."""
    await report(brokers)

    assert brokers.sent(m.ReadShareGroupStateSummaryRequest) == []
    assert [row.partition_index for request in _list_offsets(brokers) for row in request.topics[0].partitions] == [0]


async def test_kafka_4_1_is_read_from_batches(brokers: SimulatedBrokers) -> None:
    """The rows have the stored epoch, so that one request per coordinator is enough."""
    brokers.apis[N1] = dict(KAFKA_4_1)
    for stored in brokers.states.values():
        stored.count = -1

    group = await report(brokers)

    assert lags(group) == ALL
    assert [row.source for row in group.partitions] == [Source.BATCHES, None, Source.BATCHES]
    assert brokers.sent(m.ReadShareGroupStateSummaryRequest) == []
    assert sorted(brokers.epochs_sent()) == [0, 3]


@pytest.mark.parametrize(("level", "exact"), [("read_uncommitted", True), ("read_committed", False)])
async def test_batches_of_a_read_committed_group_are_an_upper_bound(
    brokers: SimulatedBrokers, level: str, exact: bool
) -> None:
    """Aborted records that are archived in memory only are missing from the batches."""
    brokers.groups["g"].isolation = level

    group = await report(brokers, FROM_BATCHES)

    assert [row.exact for row in group.partitions] == [exact, None, exact]


async def test_pinned_to_the_broker_kafka_4_1_is_unsupported(brokers: SimulatedBrokers) -> None:
    """Start and end are shown, no lag is made up, and the sentence says what to do."""
    brokers.apis[N1] = dict(KAFKA_4_1)

    group = await report(brokers, BROKER)

    row = group.partitions[0]
    assert (row.start_offset, row.end_offset, row.lag, row.status) == (0, 11, None, Status.UNSUPPORTED)
    assert "use the lag source auto or batches" in (row.message or "")


async def test_without_cluster_action_4_1_has_start_and_end_only(brokers: SimulatedBrokers) -> None:
    """An upper bound is not passed off as a lag."""
    brokers.apis[N1] = dict(KAFKA_4_1)
    brokers.cluster_action = False

    group = await report(brokers)

    row = group.partitions[0]
    assert (row.start_offset, row.end_offset, row.leader_epoch) == (0, 11, 3)
    assert (row.lag, row.status, row.error_code) == (None, Status.NOT_AUTHORIZED, 31)


async def test_a_real_minus_one_is_told_from_unknown(brokers: SimulatedBrokers) -> None:
    """Start one beyond the end: the end offset decides."""
    brokers.states["g", T2, 0] = Stored(10, 0, 0)

    group = await report(brokers, BROKER)

    row = group.partitions[2]
    assert (row.lag, row.status, row.start_offset, row.end_offset) == (0, Status.START_BEYOND_END, 10, 9)


async def test_a_count_shows_up_when_nothing_is_produced_between_reports(brokers: SimulatedBrokers) -> None:
    """The first report cannot know the count beside the broker's lag; the second brackets the broker's answer."""
    reporter = Reporter(brokers, AUTO)

    [first] = await reporter.named([G], None, soon())
    [second] = await reporter.named([G], None, soon())
    brokers.topics["t"].ends[0] += 1
    [third] = await reporter.named([G], None, soon())

    counts = [group.partitions[0].delivery_complete_count for group in (first, second, third)]
    assert counts == [None, 4, None]


async def test_an_error_row_that_passes_is_read_again(brokers: SimulatedBrokers) -> None:
    """The leader moved while the broker asked it (6): asked again by name."""
    row = m.DescribeShareGroupOffsetsResponsePartition(0, 0, 0, -1, 6)
    topic = m.DescribeShareGroupOffsetsResponseTopic("t", T1, [row])
    group = m.DescribeShareGroupOffsetsResponseGroup("g", [topic])
    brokers.fail_once(m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse(groups=[group]))

    assert lags(await report(brokers)) == {("t", 0): 7}


async def test_a_leaderless_partition_is_answered_at_once(brokers: SimulatedBrokers) -> None:
    """Its row has no lag, the others have theirs, and it is not asked for again."""
    brokers.topics["u"].leaders[0] = None

    group = await report(brokers)

    assert lags(group) == {**ALL, ("u", 0): None}
    assert group.partitions[2].status is Status.NO_LEADER
    assert len(brokers.sent(m.DescribeShareGroupOffsetsRequest)) == 1


class TestNoAnswer:
    """Groups without rows."""

    async def test_unknown(self, brokers: SimulatedBrokers) -> None:
        """The group does not exist."""
        [group] = await Reporter(brokers, AUTO).named([GroupId("nosuch")], None, soon())

        assert group.error is not None
        assert (group.error.code, group.error.name) == (69, "GROUP_ID_NOT_FOUND")
        assert (group.lag, group.complete, group.partitions) == (0, False, ())

    async def test_another_type(self, brokers: SimulatedBrokers) -> None:
        """The group is no share group."""
        brokers.groups["c"] = Group(kind="classic")

        [group] = await Reporter(brokers, AUTO).named([GroupId("c")], None, soon())

        assert group.error is not None
        assert group.error.name == "NOT_A_SHARE_GROUP"

    async def test_nothing_initialized(self, brokers: SimulatedBrokers) -> None:
        """The group is there, but has no state."""
        brokers.groups["new"] = Group(state="Stable")

        [group] = await Reporter(brokers, AUTO).named([GroupId("new")], None, soon())

        assert group.error is not None
        assert (group.error.name, group.state, group.complete) == ("NOTHING_INITIALIZED", "Stable", False)

    async def test_not_authorized(self, brokers: SimulatedBrokers) -> None:
        """The group may not be seen."""
        brokers.hidden_groups = {"g"}

        group = await report(brokers)

        assert group.error is not None
        assert (group.error.code, group.partitions) == (30, ())

    async def test_topics_not_authorized(self, brokers: SimulatedBrokers) -> None:
        """Kafka leaves hidden topics out of the rows without a word; the description tells."""
        brokers.states.clear()
        refused = m.ShareGroupDescribeResponseDescribedGroup(29, "no", "g")
        brokers.fail_once(m.ShareGroupDescribeRequest, m.ShareGroupDescribeResponse(groups=[refused]))

        group = await report(brokers)

        assert group.error is not None
        assert group.error.code == 29

    async def test_switched_off(self, brokers: SimulatedBrokers) -> None:
        """Feature share.version is 0."""
        brokers.switched_on = False

        group = await report(brokers)

        assert group.error is not None
        assert group.error.code == 35

    async def test_kafka_4_0(self, brokers: SimulatedBrokers) -> None:
        """No lag is possible."""
        brokers.apis[N1] = dict(KAFKA_4_0)

        group = await report(brokers)

        assert group.error is not None
        assert "4.1" in group.error.message

    async def test_one_bad_group_in_many(self, brokers: SimulatedBrokers) -> None:
        """Names keep their order, and the good one its rows."""
        brokers.hidden_groups = {"hidden"}

        groups = await Reporter(brokers, AUTO).named([GroupId("hidden"), G, GroupId("nosuch")], None, soon())

        assert [group.group for group in groups] == ["hidden", "g", "nosuch"]
        assert [group.error and group.error.code for group in groups] == [30, None, 69]
        assert lags(groups[1]) == ALL


class TestTopics:
    """Reports on some topics only."""

    async def test_other_topics_are_left_out(self, brokers: SimulatedBrokers) -> None:
        """Only the named topic's rows."""
        assert lags(await report(brokers, topics=frozenset({"u"}))) == {("u", 0): 7}

    async def test_a_topic_without_state_has_rows_without_lag(self, brokers: SimulatedBrokers) -> None:
        """It exists, the group has never initialized it."""
        brokers.topics["v"] = Topic(T3, [N1, N1], [1, 1])

        group = await report(brokers, topics=frozenset({"v"}))

        assert [(row.topic, row.partition, row.lag, row.status) for row in group.partitions] == [
            ("v", 0, None, Status.NO_START_OFFSET),
            ("v", 1, None, Status.NO_START_OFFSET),
        ]

    async def test_a_topic_that_does_not_exist_is_an_error_beside_the_others(self, brokers: SimulatedBrokers) -> None:
        """A typing error is not silence."""
        group = await report(brokers, topics=frozenset({"u", "nosuch"}))

        assert lags(group) == {("u", 0): 7}
        assert group.error is not None
        assert "'nosuch' cannot be seen" in group.error.message
        assert not group.complete

    async def test_an_unknown_group_is_said_before_its_topics(self, brokers: SimulatedBrokers) -> None:
        """The first thing that is wrong."""
        [group] = await Reporter(brokers, AUTO).named([GroupId("nosuch")], frozenset({"u"}), soon())

        assert group.error is not None
        assert group.error.code == 69


class TestSlowBrokers:
    """Whoever hangs must not hide the others."""

    async def test_a_hanging_coordinator_costs_only_its_own_groups(self, brokers: SimulatedBrokers) -> None:
        """Groups of the other coordinator are complete."""
        brokers.apis[N2] = dict(brokers.apis[N1])
        brokers.groups["far"] = Group(N2)
        brokers.frozen = {N2}

        groups = await Reporter(brokers, AUTO).named([G, GroupId("far")], None, soon(0.3))

        assert lags(groups[0]) == ALL
        assert groups[1].error is not None
        assert groups[1].error.code == 7

    async def test_a_new_client_finds_rows_in_the_stored_state(self, brokers: SimulatedBrokers) -> None:
        """Nobody is subscribed, nothing is remembered: topics with an offset stored by the group are its own."""
        brokers.topics["v"] = Topic(T3, [N1], [5])
        brokers.states["other", T3, 0] = Stored(1, 0, 0)
        brokers.hangs = _listing

        group = await report(brokers, seconds=1.0)

        assert lags(group) == ALL
        assert {row.source for row in group.partitions} == {Source.SUMMARY, None}
        assert group.error is not None
        assert "some may be missing" in group.error.message
        assert "its coordinator, broker 1, is alive but holds the answer back" in group.error.message

    @pytest.mark.parametrize(("frozen", "words"), [(False, "broker 1, is alive"), (True, "does not answer")])
    async def test_only_who_is_silent_is_said_not_to_answer(
        self, brokers: SimulatedBrokers, *, frozen: bool, words: str
    ) -> None:
        """A coordinator that lists its groups waits for somebody else; one that was only remembered may be gone."""
        brokers.hangs = _listing
        route = FoundGroup(G, "Stable", N1, listed=not frozen)

        [group] = await Reporter(brokers, AUTO).found([route], None, soon(1.0))

        assert group.error is not None
        assert words in group.error.message

    async def test_a_coordinator_without_rows_is_said_to_be_alive(self, brokers: SimulatedBrokers) -> None:
        """Where the state may not be read either."""
        brokers.cluster_action = False
        brokers.hangs = _listing

        group = await report(brokers, seconds=1.0)

        assert group.error is not None
        assert group.error.code == 7
        assert "its coordinator, broker 1, is alive" in group.error.message

    async def test_rows_that_come_late_count_where_the_state_may_not_be_read(self, brokers: SimulatedBrokers) -> None:
        """Without CLUSTER_ACTION only the coordinator can tell, so that it is waited for."""
        brokers.cluster_action = False
        brokers.hangs = lambda _, message: _listing(_, message) and len(brokers.sent(type(message))) > 1
        reporter = Reporter(brokers, AUTO)
        row = m.DescribeShareGroupOffsetsResponsePartition(0, 0, 3, 7)
        topic = m.DescribeShareGroupOffsetsResponseTopic("t", T1, [row])
        late = m.DescribeShareGroupOffsetsResponse(groups=[m.DescribeShareGroupOffsetsResponseGroup("g", [topic])])
        with brokers.held() as gate:
            brokers.fail_once(m.DescribeShareGroupOffsetsRequest, late)
            asyncio.get_running_loop().call_later(0.6, gate.set)
            [group] = await reporter.named([G], None, soon(2.0))

        assert lags(group) == {("t", 0): 7}
        assert group.partitions[0].source is Source.BROKER

    async def test_groups_of_a_silent_node_stay_in_the_list(self, brokers: SimulatedBrokers) -> None:
        """With the rows that can be known, and a sentence about the node."""
        brokers.apis[N2] = dict(brokers.apis[N1])
        brokers.groups["far"] = Group(N2)
        brokers.states["far", T1, 0] = Stored(1, 3, 0)
        engine = LagEngine(brokers, timeout=1.0)
        await engine.report(None)
        brokers.frozen = {N2}

        found = await engine.report(None)

        assert {group.group: lags(group) for group in found.groups} == {"g": ALL, "far": {("t", 0): 10}}
        assert [problem for problem in found.problems if "broker 2" in problem]

    async def test_rows_known_from_the_last_report_are_read_without_the_coordinator(
        self, brokers: SimulatedBrokers
    ) -> None:
        """A coordinator that waits for a dead broker keeps its rows back; the state sources have them."""
        reporter = Reporter(brokers, AUTO)
        await reporter.named([G], None, soon())
        brokers.faults.append(_never(m.DescribeShareGroupOffsetsRequest))

        [group] = await reporter.named([G], None, soon(0.5))

        assert lags(group) == ALL
        assert group.partitions[0].source is Source.SUMMARY

    async def test_rows_of_subscribed_topics_are_read_without_the_coordinator(self, brokers: SimulatedBrokers) -> None:
        """Without a last report, members tell which topics there are."""
        brokers.groups["g"].subscribed = ["t"]
        brokers.faults.append(_never(m.DescribeShareGroupOffsetsRequest))

        group = await report(brokers, seconds=0.5)

        assert lags(group) == {("t", 0): 7, ("t", 1): None}

    async def test_the_end_beside_the_lag_is_not_waited_for_to_the_last(self, brokers: SimulatedBrokers) -> None:
        """A leader that hangs costs the end offset, not the lag."""
        brokers.apis[N2] = dict(brokers.apis[N1])
        brokers.topics["u"].leaders[0] = N2
        brokers.faults.append(
            lambda node_id, message: m.ListOffsetsResponse() if isinstance(message, m.ListOffsetsRequest) else None
        )

        group = await report(brokers, seconds=0.3)

        assert lags(group) == ALL
        assert group.partitions[0].end_offset is None


class TestContradictions:
    """A lag below zero although the start does not lie beyond the end."""

    async def test_is_read_again(self, brokers: SimulatedBrokers) -> None:
        """State and end of different moments, while a leader changes."""
        row = m.DescribeShareGroupOffsetsResponsePartition(0, 0, 3, -3)
        topic = m.DescribeShareGroupOffsetsResponseTopic("t", T1, [row])
        raced = m.DescribeShareGroupOffsetsResponse(groups=[m.DescribeShareGroupOffsetsResponseGroup("g", [topic])])
        brokers.fail_once(m.DescribeShareGroupOffsetsRequest, raced)

        [row_] = (await report(brokers)).partitions

        assert (row_.lag, row_.status, row_.source) == (7, Status.OK, Source.SUMMARY)

    async def test_that_stays_is_no_number(self, brokers: SimulatedBrokers) -> None:
        """More is completed than the log holds: its leader lost records."""
        brokers.states["g", T1, 0] = Stored(0, 3, 14)

        row = (await report(brokers)).partitions[0]

        assert (row.lag, row.status) == (None, Status.ERROR)
        assert "lost records" in (row.message or "")

    @pytest.mark.parametrize("choice", list(SourceChoice))
    async def test_a_start_beyond_the_end_is_none(self, brokers: SimulatedBrokers, choice: SourceChoice) -> None:
        """It was set by hand: 0, with a status of its own, and not read again."""
        brokers.states["g", T1, 0] = Stored(50, 0, 0)

        row = (await report(brokers, choice)).partitions[0]

        assert (row.lag, row.status) == (0, Status.START_BEYOND_END)


class TestRollingUpgrade:
    """Nodes of different versions in one cluster."""

    async def test_an_old_share_coordinator_under_a_new_coordinator(self, brokers: SimulatedBrokers) -> None:
        """Its summaries have no count, so that the broker's lag is unset: its partitions come from batches."""
        brokers.apis[N2] = dict(KAFKA_4_1)
        brokers.share_coordinator = lambda partition: N2 if partition == 0 else N1
        for stored in brokers.states.values():
            stored.count = -1

        group = await report(brokers)

        assert lags(group) == ALL
        assert [row.source for row in group.partitions] == [Source.BATCHES, None, Source.BATCHES]

    async def test_a_new_share_coordinator_under_an_old_coordinator(self, brokers: SimulatedBrokers) -> None:
        """The coordinator tells no lag; the share coordinator's summary does."""
        brokers.apis = {N1: dict(KAFKA_4_1), N2: dict(brokers.apis[N1])}
        brokers.share_coordinator = lambda _: N2

        group = await report(brokers)

        assert lags(group) == ALL
        assert [row.source for row in group.partitions] == [Source.SUMMARY, None, Source.SUMMARY]


async def test_a_topic_made_again_has_no_lag_of_the_old_one(brokers: SimulatedBrokers) -> None:
    """Rows remembered from before keep their place, and say that the topic is gone."""
    reporter = Reporter(brokers, AUTO)
    await reporter.named([G], None, soon())
    brokers.topics["u"] = Topic(T3, [N1], [100])
    brokers.hangs = _listing

    [group] = await reporter.named([G], None, soon(1.0))

    row = next(row for row in group.partitions if row.topic == "u")
    assert (row.topic_id, row.lag, row.status) == (T2, None, Status.TOPIC_MISSING)


async def test_many_groups_share_the_end_offsets(brokers: SimulatedBrokers) -> None:
    """ListOffsets grows with leaders, not with groups."""
    names = [GroupId(f"g{number}") for number in range(10)]
    for name in names:
        brokers.groups[name] = Group()
        brokers.states[name, T1, 0] = Stored(0, 3, 4)

    groups = await Reporter(brokers, AUTO).named(names, None, soon())

    assert {group.lag for group in groups} == {7}
    assert len(_list_offsets(brokers)) == 1
    assert len(brokers.sent(m.ShareGroupDescribeRequest)) == 1
    assert len(brokers.sent(m.DescribeShareGroupOffsetsRequest)) == 1


@pytest.mark.parametrize("choice", [AUTO, FROM_BATCHES])
async def test_others_have_their_turn_between_groups(
    brokers: SimulatedBrokers, choice: SourceChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at many groups does not hold the event loop: here each slice of work is used up at once."""
    monkeypatch.setattr("shareproxy.lag.report.Slices", lambda: Slices(0.0))
    names = [GroupId(f"g{number}") for number in range(100)]
    for name in names:
        brokers.groups[name] = Group()
        brokers.states[name, T1, 0] = Stored(0, 3, 4, BATCHES)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.ensure_future(count())
    groups = await Reporter(brokers, choice).named(names, None, soon())
    counting.cancel()

    assert {group.lag for group in groups} == {7}
    assert turns > 100


@pytest.mark.parametrize("choice", [SUMMARY, FROM_BATCHES])
async def test_states_of_many_groups_share_the_end_offsets(brokers: SimulatedBrokers, choice: SourceChoice) -> None:
    """Also where each group has to be asked for by itself."""
    names = [GroupId(f"g{number}") for number in range(10)]
    for name in names:
        brokers.groups[name] = Group()
        brokers.states[name, T1, 0] = Stored(0, 3, 4, BATCHES)

    groups = await Reporter(brokers, choice).named(names, None, soon())

    assert {group.lag for group in groups} == {7}
    assert len(_list_offsets(brokers)) == 1
    assert len(brokers.sent(m.DescribeConfigsRequest)) == (choice is FROM_BATCHES)


def _list_offsets(brokers: SimulatedBrokers) -> list[m.ListOffsetsRequest]:
    return cast("list[m.ListOffsetsRequest]", brokers.sent(m.ListOffsetsRequest))


def _listing(_: NodeId, message: Request[Any]) -> bool:
    """Hold back what asks the coordinator for all rows."""
    return isinstance(message, m.DescribeShareGroupOffsetsRequest) and message.groups[0].topics is None


def _never(kind: type[m.DescribeShareGroupOffsetsRequest]) -> Fault:
    """Let requests of one kind time out."""
    return lambda _, message: DeadlinePassed("too slow") if isinstance(message, kind) else None
