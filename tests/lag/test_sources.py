"""The three sources: what each can do, what it asks, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shareproxy.cluster.coordinators import CoordinatorFailure, FailureReason
from shareproxy.cluster.versions import ApiVersionTable
from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import Source, Status
from shareproxy.lag.sources import (
    BrokerAnswer,
    FirstThatCan,
    LagSource,
    Reading,
    StateBatches,
    StateSummary,
    broker_reading,
)
from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import (
    KAFKA_4_0,
    KAFKA_4_1,
    KAFKA_4_4,
    N1,
    N2,
    N3,
    T1,
    T2,
    SimulatedBrokers,
    Stored,
    Topic,
    soon,
    unreachable,
)

G = GroupId("g")
P0, P1, P2 = (Wanted("t", T1, partition) for partition in range(3))
PICTURE = Stored(0, 3, 4, [(0, 1, 2), (3, 3, 0), (5, 5, 2), (6, 6, 4)])


def cluster(versions: Mapping[int, tuple[int, int]] = KAFKA_4_4, nodes: int = 1) -> SimulatedBrokers:
    """Return brokers with KIP-1226's picture in t-0."""
    brokers = SimulatedBrokers(versions, nodes)
    brokers.topics["t"] = Topic(T1, [N1, N1, N1], [11, 11, 11])
    brokers.states["g", T1, 0] = PICTURE
    return brokers


def trouble_of(reading: Reading) -> Trouble:
    """Return the trouble that must be there."""
    assert reading.trouble is not None
    return reading.trouble


def numbers(reading: Reading) -> tuple[int | None, int | None, int | None, int | None, int]:
    """Return start, end, epoch, count and lag."""
    return (
        reading.start_offset,
        reading.end_offset,
        reading.leader_epoch,
        reading.delivery_complete_count,
        reading.lag,
    )


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(KAFKA_4_0, set[Source]()), (KAFKA_4_1, {Source.BATCHES}), (KAFKA_4_4, set(Source))],
)
def test_what_each_kafka_version_supports(versions: Mapping[int, tuple[int, int]], expected: set[Source]) -> None:
    """The table of §2: 4.0 nothing, 4.1 batches, later everything."""
    brokers = SimulatedBrokers()
    sources: list[LagSource] = [BrokerAnswer(brokers), StateSummary(brokers), StateBatches(brokers)]

    assert {source.source for source in sources if source.supports(ApiVersionTable(versions))} == expected


@pytest.mark.parametrize("kind", [BrokerAnswer, StateSummary, StateBatches])
async def test_every_source_finds_seven(kind: type[LagSource]) -> None:
    """KIP-1226's picture."""
    [reading] = (await kind(cluster()).read(G, [P0], deadline=soon())).values()  # type: ignore[call-arg]

    assert (reading.lag, reading.start_offset, reading.leader_epoch, reading.trouble) == (7, 0, 3, None)


class TestBrokerRow:
    """Rows of DescribeShareGroupOffsets (the table of §4.4)."""

    @pytest.mark.parametrize(
        ("start", "epoch", "lag", "expected"),
        [
            (0, 3, 7, (0, None, 3, None, 7)),
            (50, 0, -39, (50, None, 0, None, -39)),
            (12, 0, -1, (12, None, 0, None, -1)),
            (3, 4, -1, (3, None, 4, None, -1)),
            (-1, 0, -1, (None, None, None, None, -1)),
        ],
    )
    def test_row_without_error(self, start: int, epoch: int, lag: int, expected: object) -> None:
        """A missing start offset leaves nothing; a real negative lag stays."""
        reading = broker_reading(m.DescribeShareGroupOffsetsResponsePartition(0, start, epoch, lag))

        assert (numbers(reading), reading.trouble) == (expected, None)

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            (5, Status.NO_LEADER),
            (3, Status.TOPIC_MISSING),
            (6, Status.ERROR),
            (78, Status.ERROR),
            (13, Status.TIMEOUT),
            (7, Status.TIMEOUT),
            (29, Status.NOT_AUTHORIZED),
            (-1, Status.ERROR),
        ],
    )
    def test_row_with_error(self, code: int, status: Status) -> None:
        """Start offset 0 and epoch 0 of an error row mean nothing."""
        reading = broker_reading(m.DescribeShareGroupOffsetsResponsePartition(0, 0, 0, -1, code, "text"))

        assert numbers(reading) == (None, None, None, None, -1)
        trouble = trouble_of(reading)
        assert (trouble.status, trouble.error_code) == (status, code)


class TestBrokerAnswer:
    """Named partitions."""

    async def test_partitions_that_would_stall_the_broker_are_not_sent(self) -> None:
        """An index out of range or a partition without leader is answered from Metadata (§4.3)."""
        brokers = cluster()
        brokers.topics["t"].leaders[1] = None
        too_high = Wanted("t", T1, 9)

        found = await BrokerAnswer(brokers).read(G, [P0, P1, too_high], deadline=soon())

        assert found[P0].lag == 7
        assert [trouble_of(found[item]).status for item in (P1, too_high)] == [
            Status.NO_LEADER,
            Status.PARTITION_MISSING,
        ]
        [request] = cast("list[m.DescribeShareGroupOffsetsRequest]", brokers.sent(m.DescribeShareGroupOffsetsRequest))
        assert request.groups[0].topics == [m.DescribeShareGroupOffsetsRequestTopic("t", [0])]

    async def test_a_group_error_is_every_partitions(self) -> None:
        """A group that may not be seen has no rows."""
        brokers = cluster()
        brokers.hidden_groups = {"g"}

        [reading] = (await BrokerAnswer(brokers).read(G, [P0], deadline=soon())).values()

        trouble = trouble_of(reading)
        assert (trouble.status, trouble.error_code) == (Status.NOT_AUTHORIZED, 30)

    async def test_an_error_row_is_asked_again(self) -> None:
        """A moved leader's row (6) is repeated, not reported."""
        brokers = cluster()
        row = m.DescribeShareGroupOffsetsResponsePartition(0, 0, 0, -1, 6)
        topic = m.DescribeShareGroupOffsetsResponseTopic("t", T1, [row])
        group = m.DescribeShareGroupOffsetsResponseGroup("g", [topic])
        brokers.fail_once(m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse(groups=[group]))

        assert (await BrokerAnswer(brokers).read(G, [P0], deadline=soon()))[P0].lag == 7


class TestStateSummary:
    """API 87 version 1 and ListOffsets."""

    async def test_state_is_read_before_end_offsets(self) -> None:
        """The other order could make lag too low."""
        brokers = cluster()

        found = await StateSummary(brokers).read(G, [P0], deadline=soon())

        assert numbers(found[P0]) == (0, 11, 3, 4, 7)
        assert [type(message) for _, message in brokers.asked] == [
            m.ReadShareGroupStateSummaryRequest,
            m.ListOffsetsRequest,
        ]

    async def test_no_end_offset_is_asked_without_a_start(self) -> None:
        """A partition that was never written costs no ListOffsets."""
        brokers = cluster()

        found = await StateSummary(brokers).read(G, [P1], deadline=soon())

        assert (numbers(found[P1]), found[P1].trouble) == ((None, None, 0, None, -1), None)
        assert brokers.sent(m.ListOffsetsRequest) == []

    async def test_a_count_that_is_not_set_leaves_lag_unknown(self) -> None:
        """State of a 4.1 leader, or of 4.2.0 after an alter: start and end, no lag."""
        brokers = cluster()
        brokers.states["g", T1, 0] = Stored(3, 0, -1)

        found = await StateSummary(brokers).read(G, [P0], deadline=soon())

        assert numbers(found[P0]) == (3, 11, 0, None, -1)
        assert found[P0].leaves_open

    async def test_each_coordinator_is_asked_once(self) -> None:
        """Partitions of one group spread over share coordinators; the requests run side by side."""
        brokers = cluster(nodes=3)
        brokers.share_coordinator = lambda partition: (N1, N2, N3)[partition]
        for partition in (1, 2):
            brokers.states["g", T1, partition] = PICTURE

        found = await StateSummary(brokers).read(G, [P0, P1, P2], deadline=soon())

        assert [found[item].lag for item in (P0, P1, P2)] == [7, 7, 7]
        assert len(brokers.sent(m.ReadShareGroupStateSummaryRequest)) == 3
        assert len(brokers.sent(m.ListOffsetsRequest)) == 1

    @pytest.mark.parametrize("code", [3, 7, 13, 14, 15, 16])
    async def test_a_passing_error_is_asked_again_elsewhere(self, code: int) -> None:
        """Coordinators that moved or load are looked up anew."""
        brokers = cluster()
        row = m.ReadShareGroupStateSummaryResponsePartitionResult(0, code)
        topic = m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(T1, [row])
        brokers.fail_once(m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse([topic]))

        assert (await StateSummary(brokers).read(G, [P0], deadline=soon()))[P0].lag == 7
        assert brokers.forgotten == ["share coordinators"]

    @pytest.mark.parametrize("kind", [StateSummary, StateBatches])
    async def test_without_cluster_action_the_sentence_says_what_to_grant(
        self, kind: type[StateSummary | StateBatches]
    ) -> None:
        """Error 31 is final."""
        brokers = cluster()
        brokers.cluster_action = False

        [reading] = (await kind(brokers).read(G, [P0], deadline=soon())).values()

        trouble = trouble_of(reading)
        assert (trouble.status, trouble.error_code) == (Status.NOT_AUTHORIZED, 31)
        assert "CLUSTER_ACTION" in trouble.message
        assert len(brokers.asked) == 1

    async def test_an_old_coordinator_is_not_asked(self) -> None:
        """Version 0 has no count: pinned to this source, the partition is unsupported."""
        brokers = cluster(KAFKA_4_1)

        [reading] = (await StateSummary(brokers).read(G, [P0], deadline=soon())).values()

        assert trouble_of(reading).status is Status.UNSUPPORTED
        assert brokers.asked == []

    @pytest.mark.parametrize(
        ("reason", "status"),
        [
            (FailureReason.STATE_TOPIC_MISSING, Status.NO_START_OFFSET),
            (FailureReason.NOT_AUTHORIZED, Status.NOT_AUTHORIZED),
            (FailureReason.UNSUPPORTED, Status.UNSUPPORTED),
            (FailureReason.ERROR, Status.ERROR),
        ],
    )
    async def test_no_coordinator_has_a_reason(self, reason: FailureReason, status: Status) -> None:
        """Without a state topic nothing was ever stored; other reasons are troubles."""
        brokers = cluster()
        brokers.share_coordinator = lambda _: CoordinatorFailure(reason, "why")

        [reading] = (await StateSummary(brokers).read(G, [P0], deadline=soon())).values()

        trouble = trouble_of(reading)
        assert (trouble.status, trouble.message) == (status, "why")

    async def test_one_bad_partition_does_not_spoil_the_others(self) -> None:
        """Missing topic, missing leader and a dead coordinator beside a good partition."""
        brokers = cluster(nodes=2)
        brokers.topics["t"].leaders[1] = None
        brokers.share_coordinator = lambda partition: N2 if partition == 2 else N1
        brokers.frozen = {N2}
        gone = Wanted("gone", T2, 0)

        found = await StateSummary(brokers).read(G, [P0, P1, P2, gone], deadline=soon(0.2))

        assert found[P0].lag == 7
        statuses = {item: reading.trouble.status for item, reading in found.items() if reading.trouble}
        assert statuses == {P1: Status.NO_LEADER, P2: Status.TIMEOUT, gone: Status.TOPIC_MISSING}

    async def test_a_leader_that_does_not_answer_leaves_the_start(self) -> None:
        """State is known, the end is not: unknown lag with the reason."""
        brokers = cluster()
        brokers.faults.append(lambda _, message: unreachable() if isinstance(message, m.ListOffsetsRequest) else None)

        [reading] = (await StateSummary(brokers).read(G, [P0], deadline=soon(0.1))).values()

        assert numbers(reading) == (0, None, 3, 4, -1)
        assert trouble_of(reading).status is Status.TIMEOUT


class TestStateBatches:
    """API 84 with exactly the stored leader epoch; the simulated broker fails the test on a higher one."""

    async def test_the_epoch_comes_from_the_summary(self) -> None:
        """Not from Metadata, whose epoch is 5 here and would cut off the leader."""
        brokers = cluster(KAFKA_4_1)

        found = await StateBatches(brokers).read(G, [P0], deadline=soon())

        assert numbers(found[P0]) == (0, 11, 3, 4, 7)
        assert brokers.epochs_sent() == [3]

    async def test_a_given_epoch_saves_the_summary(self) -> None:
        """A row of API 90 carries the stored epoch."""
        brokers = cluster(KAFKA_4_1)

        found = await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: 3})

        assert found[P0].lag == 7
        assert brokers.sent(m.ReadShareGroupStateSummaryRequest) == []

    async def test_an_outdated_epoch_is_read_again_once(self) -> None:
        """A new leader wrote in between: 74, the summary once more, and exactly its epoch."""
        brokers = cluster(KAFKA_4_1)

        found = await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: 2})

        assert numbers(found[P0]) == (0, 11, 3, 4, 7)
        assert brokers.epochs_sent() == [2, 3]
        assert len(brokers.sent(m.ReadShareGroupStateSummaryRequest)) == 1

    async def test_after_an_alter_there_are_no_batches(self) -> None:
        """The stored epoch is 0, the fence keeps an older one: 74 although nothing is wrong; the count is 0."""
        brokers = cluster(KAFKA_4_1)
        brokers.states["g", T1, 0] = Stored(5, 0, -1, [], fence=7)

        found = await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: 3})

        assert numbers(found[P0]) == (5, 11, 0, 0, 6)
        assert brokers.epochs_sent() == [3, 0]

    async def test_fenced_again_with_a_real_epoch_is_unknown(self) -> None:
        """Never a higher epoch than the stored one, even if the coordinator wants one."""
        brokers = cluster(KAFKA_4_1)
        brokers.states["g", T1, 0] = Stored(5, 3, -1, [], fence=7)

        found = await StateBatches(brokers).read(G, [P0], deadline=soon())

        assert brokers.epochs_sent() == [3, 3]
        assert found[P0].lag == -1
        assert trouble_of(found[P0]).error_code == 74

    async def test_never_written_is_no_start_offset(self) -> None:
        """The summary says start −1, so no batches are asked for."""
        brokers = cluster(KAFKA_4_1)

        found = await StateBatches(brokers).read(G, [P1], deadline=soon())

        assert (found[P1].start_offset, found[P1].trouble) == (None, None)
        assert brokers.epochs_sent() == []

    async def test_uninitialized_is_no_start_offset(self) -> None:
        """Error 42 for a key never seen."""
        brokers = cluster(KAFKA_4_1)

        found = await StateBatches(brokers).read(G, [P1], deadline=soon(), epochs={P1: 0})

        assert (found[P1].start_offset, found[P1].trouble) == (None, None)

    async def test_a_state_without_start_offset_has_no_lag(self) -> None:
        """Initialized but never acknowledged: batches are read, there is no start."""
        brokers = cluster(KAFKA_4_1)
        brokers.states["g", T1, 1] = Stored(-1, 0)

        found = await StateBatches(brokers).read(G, [P1], deadline=soon(), epochs={P1: 0})

        assert (found[P1].start_offset, found[P1].lag, found[P1].trouble) == (None, -1, None)

    @pytest.mark.parametrize("code", [3, 7, 13, 14, 15, 16])
    async def test_a_passing_error_is_asked_again_with_the_same_epoch(self, code: int) -> None:
        """A retry does not change the epoch."""
        brokers = cluster(KAFKA_4_1)
        row = m.ReadShareGroupStateResponsePartitionResult(0, code)
        topic = m.ReadShareGroupStateResponseReadStateResult(T1, [row])
        brokers.fail_once(m.ReadShareGroupStateRequest, m.ReadShareGroupStateResponse([topic]))

        assert (await StateBatches(brokers).read(G, [P0], deadline=soon()))[P0].lag == 7
        assert brokers.epochs_sent() == [3, 3]

    async def test_a_broker_without_the_api_is_not_asked(self) -> None:
        """Kafka 4.0."""
        brokers = cluster(KAFKA_4_0)

        [reading] = (await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: 3})).values()

        assert trouble_of(reading).status is Status.UNSUPPORTED
        assert brokers.asked == []

    async def test_a_summary_that_cannot_be_read_is_the_trouble(self) -> None:
        """After 74 the summary may fail too."""
        brokers = cluster(KAFKA_4_1)
        row = m.ReadShareGroupStateSummaryResponsePartitionResult(0, 31)
        topic = m.ReadShareGroupStateSummaryResponseReadStateSummaryResult(T1, [row])
        brokers.fail_once(m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse([topic]))

        found = await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: 2})

        assert trouble_of(found[P0]).error_code == 31


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.booleans())
async def test_no_epoch_ever_exceeds_the_stored_one(stored: int, ahead: int, behind: int, told: bool) -> None:
    """Whatever the fence and however old the row: only epochs that were read as stored are sent."""
    brokers = cluster(KAFKA_4_1)
    brokers.states["g", T1, 0] = Stored(0, stored, -1, PICTURE.batches, fence=stored + ahead)
    row_epoch = max(stored - behind, 0)

    await StateBatches(brokers).read(G, [P0], deadline=soon(), epochs={P0: row_epoch} if told else {})

    assert set(brokers.epochs_sent()) <= {stored, row_epoch}


class TestFirstThatCan:
    """The choice between summary and batches, partition by partition."""

    async def test_versions_are_negotiated_per_broker(self) -> None:
        """One share coordinator speaks version 1, another only version 0."""
        brokers = cluster(nodes=2)
        brokers.apis[N2] = dict(KAFKA_4_1)
        brokers.share_coordinator = lambda partition: N2 if partition == 1 else N1
        brokers.states["g", T1, 1] = Stored(0, 3, -1, PICTURE.batches)

        found = await FirstThatCan(brokers).read(G, [P0, P1], deadline=soon(), epochs={P0: 3, P1: 3})

        assert [(found[item].source, found[item].lag) for item in (P0, P1)] == [
            (Source.SUMMARY, 7),
            (Source.BATCHES, 7),
        ]

    async def test_a_count_that_is_not_set_is_taken_from_batches(self) -> None:
        """State from before an upgrade: the summary's own epoch goes into API 84."""
        brokers = cluster()
        brokers.states["g", T1, 0] = Stored(0, 3, -1, PICTURE.batches)

        found = await FirstThatCan(brokers).read(G, [P0], deadline=soon(), epochs={P0: 2})

        assert (found[P0].source, found[P0].lag) == (Source.BATCHES, 7)
        assert brokers.epochs_sent() == [3]

    async def test_where_batches_bring_nothing_the_summary_stands(self) -> None:
        """Start and end stay known."""
        brokers = cluster()
        brokers.states["g", T1, 0] = Stored(5, 3, -1, [], fence=7)

        found = await FirstThatCan(brokers).read(G, [P0], deadline=soon())

        assert (found[P0].source, numbers(found[P0])) == (Source.SUMMARY, (5, 11, 3, None, -1))

    async def test_a_coordinator_that_hangs_is_a_time_out(self) -> None:
        """Its version is unknown, which must not make it look too old."""
        brokers = cluster(nodes=2)
        brokers.share_coordinator = lambda _: N2
        brokers.frozen = {N2}

        found = await FirstThatCan(brokers).read(G, [P0], deadline=soon(0.1))

        assert trouble_of(found[P0]).status is Status.TIMEOUT

    async def test_kafka_4_0_is_unsupported(self) -> None:
        """Neither source can be asked."""
        brokers = cluster(KAFKA_4_0)

        found = await FirstThatCan(brokers).read(G, [P0], deadline=soon())

        assert trouble_of(found[P0]).status is Status.UNSUPPORTED
