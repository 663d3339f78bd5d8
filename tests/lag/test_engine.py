"""The engine: lag for the wire, reports, and one question for all who ask it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from shareproxy.cluster.errors import ClusterError, Unreachable
from shareproxy.cluster.metadata import ClusterMetadata
from shareproxy.lag.engine import LagEngine
from shareproxy.lag.model import AskedRow, SourceChoice
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NO_TOPIC_ID, GroupId
from tests.lag.simulated_brokers import (
    KAFKA_4_1,
    N1,
    N2,
    T1,
    Group,
    SimulatedBrokers,
    Stored,
    Topic,
    soon,
    unreachable,
)

G = GroupId("g")
AUTO, BROKER, SUMMARY, BATCHES = SourceChoice.AUTO, SourceChoice.BROKER, SourceChoice.SUMMARY, SourceChoice.BATCHES


def row(partition: int = 0, start: int = 0, lag: int = -1, epoch: int = 3, topic: str = "t") -> AskedRow:
    """Return a row as a broker answered it."""
    return AskedRow(topic, T1, partition, start, epoch, lag)


@pytest.fixture
def old() -> SimulatedBrokers:
    """Kafka 4.1 with KIP-1226's picture in t-0 and t-1."""
    brokers = SimulatedBrokers(KAFKA_4_1, nodes=2)
    brokers.topics["t"] = Topic(T1, [N1, N2], [11, 11])
    brokers.groups["g"] = Group()
    for partition in (0, 1):
        brokers.states["g", T1, partition] = Stored(0, 3, -1, [(0, 1, 2), (5, 5, 2), (6, 6, 4)])
    return brokers


@pytest.fixture
def new() -> SimulatedBrokers:
    """Kafka 4.4 with the same."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics["t"] = Topic(T1, [N1, N2], [11, 11])
    brokers.groups["g"] = Group()
    for partition in (0, 1):
        brokers.states["g", T1, partition] = Stored(0, 3, 4, [(0, 1, 2), (5, 5, 2), (6, 6, 4)])
    return brokers


class TestFill:
    """Lag for rows that a broker granted."""

    async def test_rows_without_lag_are_computed(self, old: SimulatedBrokers) -> None:
        """Over 4.1: one state request with the rows' epochs, then the end offsets; no summary, no Metadata epoch."""
        lags = await LagEngine(old).fill(G, [row(0), row(1)], deadline=soon())

        assert lags == {("t", 0): 7, ("t", 1): 7}
        assert old.epochs_sent() == [3, 3]
        assert [type(message) for _, message in old.asked] == [
            m.ReadShareGroupStateRequest,
            m.ListOffsetsRequest,
            m.ListOffsetsRequest,
        ]

    async def test_auto_leaves_alone_what_the_broker_knows(self, new: SimulatedBrokers) -> None:
        """Known lags, real negatives and rows without start offset cost nothing."""
        rows = [row(0, lag=5), row(1, start=50, lag=-39), row(2, start=-1), row(3, start=0, lag=0)]

        lags = await LagEngine(new).fill(G, rows, deadline=soon())

        assert lags == {("t", 0): 5, ("t", 1): -39, ("t", 2): -1, ("t", 3): 0}
        assert new.asked == []

    async def test_auto_computes_only_the_rows_that_need_it(self, new: SimulatedBrokers) -> None:
        """One row of many has no count."""
        new.states["g", T1, 1].count = -1

        lags = await LagEngine(new).fill(G, [row(0, lag=99), row(1)], deadline=soon())

        assert lags == {("t", 0): 99, ("t", 1): 7}

    async def test_rows_are_counted_by_the_source_that_knew_them(
        self, old: SimulatedBrokers, new: SimulatedBrokers
    ) -> None:
        """For the proxy's metrics; what stays unknown has no source."""
        before, after = LagEngine(old), LagEngine(new, source=SUMMARY)
        await before.fill(G, [row(0), row(1)], deadline=soon())
        await before.fill(G, [row(0)], deadline=soon(-1))
        await after.fill(G, [row(0, lag=99)], deadline=soon())

        assert (before.rows_filled, after.rows_filled) == ({"batches": 2}, {"summary": 1})

    async def test_broker_never_asks(self, old: SimulatedBrokers) -> None:
        """Pinned to the broker's own answer, unknown stays unknown."""
        assert await LagEngine(old, source=BROKER).fill(G, [row()], deadline=soon()) == {("t", 0): -1}
        assert old.asked == []

    @pytest.mark.parametrize("source", [SUMMARY, BATCHES])
    async def test_a_pinned_source_computes_all_rows(self, new: SimulatedBrokers, source: SourceChoice) -> None:
        """Also those whose lag the broker told."""
        lags = await LagEngine(new, source=source).fill(G, [row(0, lag=99), row(1, start=-1)], deadline=soon())

        assert lags == {("t", 0): 7, ("t", 1): 7}

    async def test_a_pinned_source_that_cannot_answer_leaves_unknown(self, old: SimulatedBrokers) -> None:
        """Not the broker's number."""
        lags = await LagEngine(old, source=SUMMARY).fill(G, [row(0, lag=99)], deadline=soon())

        assert lags == {("t", 0): -1}

    async def test_the_epoch_of_a_row_without_start_is_not_used(self, old: SimulatedBrokers) -> None:
        """It may be a filler for an error inside the broker."""
        lags = await LagEngine(old, source=BATCHES).fill(G, [row(0, start=-1, epoch=0)], deadline=soon())

        assert lags == {("t", 0): 7}
        assert old.epochs_sent() == [3]

    async def test_a_real_negative_passes(self, old: SimulatedBrokers) -> None:
        """Start 50 beyond end 11: −39 on the wire."""
        old.states["g", T1, 0] = Stored(50, 3)

        assert await LagEngine(old).fill(G, [row(0, start=50)], deadline=soon()) == {("t", 0): -39}

    @pytest.mark.parametrize("source", [AUTO, SUMMARY])
    async def test_unknown_topics_stay_unknown(self, new: SimulatedBrokers, source: SourceChoice) -> None:
        """A zero topic id is never looked up."""
        unknown = AskedRow("nosuch", NO_TOPIC_ID, 0, -1, 0, -1)

        assert await LagEngine(new, source=source).fill(G, [unknown], deadline=soon()) == {("nosuch", 0): -1}
        assert new.sent(m.ReadShareGroupStateSummaryRequest) == []

    async def test_a_slow_broker_costs_only_its_partitions(self, old: SimulatedBrokers) -> None:
        """Before the asker's deadline the rest is there."""
        old.frozen = {N2}
        deadline = soon(0.3)

        lags = await LagEngine(old).fill(G, [row(0), row(1)], deadline=deadline)

        assert lags == {("t", 0): 7, ("t", 1): -1}
        assert asyncio.get_running_loop().time() < deadline

    async def test_a_deadline_that_has_passed_leaves_all_unknown(self, old: SimulatedBrokers) -> None:
        """Nothing is raised."""
        assert await LagEngine(old).fill(G, [row(0)], deadline=soon(-1)) == {("t", 0): -1}

    async def test_no_way_to_the_cluster_leaves_all_unknown(self, old: SimulatedBrokers) -> None:
        """The client still gets its rows."""
        old.faults.append(lambda _, message: unreachable())

        assert await LagEngine(old).fill(G, [row(0)], deadline=soon(0.1)) == {("t", 0): -1}

    async def test_a_missing_right_leaves_all_unknown(self, old: SimulatedBrokers) -> None:
        """−1, never 0."""
        old.cluster_action = False

        assert await LagEngine(old).fill(G, [row(0)], deadline=soon()) == {("t", 0): -1}

    async def test_the_same_question_is_asked_once(self, old: SimulatedBrokers) -> None:
        """Many clients that describe the same group at the same time are one question to the brokers."""
        engine = LagEngine(old)
        with old.held() as gate:
            asking = [asyncio.create_task(engine.fill(G, [row(0)], deadline=soon())) for _ in range(5)]
            while not old.asked:
                await asyncio.sleep(0)
            gate.set()
            answers = await asyncio.gather(*asking)

        assert answers == [{("t", 0): 7}] * 5
        assert len(old.sent(m.ReadShareGroupStateRequest)) == 1

    async def test_a_later_question_is_asked_anew(self, old: SimulatedBrokers) -> None:
        """Nothing is remembered of an answer."""
        engine = LagEngine(old)
        await engine.fill(G, [row(0)], deadline=soon())
        old.topics["t"].ends[0] = 12

        assert await engine.fill(G, [row(0)], deadline=soon()) == {("t", 0): 8}

    async def test_an_asker_who_gives_up_does_not_take_the_answer_from_others(self, old: SimulatedBrokers) -> None:
        """The first client disconnects; the second still gets its lag."""
        engine = LagEngine(old)
        with old.held() as gate:
            first = asyncio.create_task(engine.fill(G, [row(0)], deadline=soon()))
            second = asyncio.create_task(engine.fill(G, [row(0)], deadline=soon()))
            while not old.asked:
                await asyncio.sleep(0)
            first.cancel()
            gate.set()

            assert await second == {("t", 0): 7}

    async def test_duplicate_rows_are_one_question(self, old: SimulatedBrokers) -> None:
        """A client may name a partition twice."""
        lags = await LagEngine(old).fill(G, [row(0), row(0)], deadline=soon())

        assert lags == {("t", 0): 7}
        assert old.epochs_sent() == [3]


class TestReport:
    """Reports for people and exporters."""

    async def test_named_groups_in_order_and_once(self, new: SimulatedBrokers) -> None:
        """A name given twice is one group."""
        report = await LagEngine(new).report(["nosuch", "g", "g"])

        assert [group.group for group in report.groups] == ["nosuch", "g"]
        assert (report.cluster_id, report.problems) == ("cluster-1", ())
        assert report.groups[1].lag == 14
        assert abs((datetime.now(UTC) - report.time).total_seconds()) < 60

    async def test_all_share_groups(self, new: SimulatedBrokers) -> None:
        """Groups of other types are not among them; states come with the list."""
        new.groups["c"] = Group(kind="classic")

        report = await LagEngine(new).report(None)

        assert [(group.group, group.state, group.lag) for group in report.groups] == [("g", "Empty", 14)]
        assert new.sent(m.ShareGroupDescribeRequest) == []

    async def test_all_groups_of_a_topic(self, new: SimulatedBrokers) -> None:
        """Groups without the topic are left out."""
        new.groups["other"] = Group()

        report = await LagEngine(new).report(None, topics=["t"])

        assert [group.group for group in report.groups] == ["g"]

    async def test_a_broker_that_did_not_list_its_groups_is_a_problem(self, new: SimulatedBrokers) -> None:
        """Half a list must not look like a whole one."""
        new.frozen = {N2}
        new.topics["t"].leaders[1] = N1

        report = await LagEngine(new).report(None, timeout=0.3)

        assert [(group.group, group.lag) for group in report.groups] == [("g", 14)]
        assert len(report.problems) == 1

    async def test_no_cluster_is_an_exception(self) -> None:
        """Only if nobody answers at all."""

        class Nobody(SimulatedBrokers):
            async def metadata(self, *_: object, **__: object) -> ClusterMetadata:
                raise Unreachable("nobody answers")

        with pytest.raises(ClusterError, match="nobody answers"):
            await LagEngine(Nobody()).report(["g"])

    async def test_equal_reports_at_the_same_time_are_one(self, new: SimulatedBrokers) -> None:
        """A page and an exporter that ask together cost one round."""
        engine = LagEngine(new)
        with new.held() as gate:
            asking = [asyncio.create_task(engine.report(["g"])) for _ in range(3)]
            while not new.asked:
                await asyncio.sleep(0)
            gate.set()
            reports = await asyncio.gather(*asking)

        assert reports[0] is reports[1] is reports[2]
        assert len(new.sent(m.DescribeShareGroupOffsetsRequest)) == 1

    async def test_find_groups(self, new: SimulatedBrokers) -> None:
        """Names, states and coordinators."""
        [found] = await LagEngine(new).find_groups(soon())

        assert (found.group, found.state, found.coordinator) == ("g", "Empty", N1)


async def test_explain_asks_in_the_name_of_a_group(new: SimulatedBrokers) -> None:
    """The right to DESCRIBE may be limited to some groups."""
    await LagEngine(new).explain("mine")

    [request] = new.sent(m.DescribeShareGroupOffsetsRequest)
    assert isinstance(request, m.DescribeShareGroupOffsetsRequest)
    assert request.groups[0] == m.DescribeShareGroupOffsetsRequestGroup("mine", [])
