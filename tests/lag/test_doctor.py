"""What works on a cluster, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shareproxy.cluster.coordinators import CoordinatorFailure, FailureReason
from shareproxy.lag.doctor import Explanation, explain
from shareproxy.lag.model import Source
from shareproxy.protocol.ids import GroupId
from tests.lag.simulated_brokers import (
    KAFKA_4_0,
    KAFKA_4_1,
    KAFKA_4_4,
    N1,
    N2,
    T1,
    SimulatedBrokers,
    Topic,
    soon,
    unreachable,
)


def cluster(versions: Mapping[int, tuple[int, int]] = KAFKA_4_4, nodes: int = 1) -> SimulatedBrokers:
    """Return brokers with the state topic."""
    brokers = SimulatedBrokers(versions, nodes)
    brokers.topics["__share_group_state"] = Topic(T1, [N1], [0])
    return brokers


def works(found: Explanation) -> set[Source]:
    """Return the sources that work."""
    return {check.source for check in found.sources if check.works}


def sentence(found: Explanation, source: Source) -> str:
    """Return what is said about a source."""
    return next(check.sentence for check in found.sources if check.source is source)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(KAFKA_4_0, set[Source]()), (KAFKA_4_1, {Source.BATCHES}), (KAFKA_4_4, set(Source))],
)
async def test_sources_by_version(versions: Mapping[int, tuple[int, int]], expected: set[Source]) -> None:
    """What a healthy cluster with all rights offers."""
    found = await explain(cluster(versions), deadline=soon())

    assert works(found) == expected
    assert found.works is bool(expected)
    assert [check.source for check in found.sources] == list(Source)
    assert found.notes == ()


async def test_brokers_with_their_versions() -> None:
    """Highest common version of each API that matters, `None` where there is none."""
    found = await explain(cluster(KAFKA_4_1), deadline=soon())

    [broker] = found.brokers
    assert (broker.node_id, broker.host, broker.port, broker.problem) == (N1, "host-1", 9092, None)
    assert broker.versions == {
        "DescribeShareGroupOffsets": 0,
        "ReadShareGroupStateSummary": 0,
        "ReadShareGroupState": 0,
        "ShareGroupDescribe": 1,
        "ListOffsets": 10,
    }
    assert (found.cluster_id, found.share_version, found.share_groups, found.cluster_action) == (
        "cluster-1",
        1,
        True,
        True,
    )


async def test_switched_off() -> None:
    """Error 35: which command switches share groups on."""
    brokers = cluster()
    brokers.switched_on, brokers.features = False, {}

    found = await explain(brokers, deadline=soon())

    assert (works(found), found.share_groups, found.share_version) == (set(), False, None)
    assert "kafka-features upgrade --feature share.version=1" in sentence(found, Source.BROKER)


async def test_without_cluster_action() -> None:
    """Error 31: the broker's own answer works, the state sources say what to grant."""
    brokers = cluster()
    brokers.cluster_action = False

    found = await explain(brokers, deadline=soon())

    assert (works(found), found.cluster_action) == ({Source.BROKER}, False)
    assert "kafka-acls --add" in sentence(found, Source.SUMMARY)
    assert "--operation ClusterAction" in sentence(found, Source.BATCHES)


async def test_mixed_versions() -> None:
    """It works, but not for what the old broker keeps."""
    brokers = cluster(nodes=2)
    brokers.apis[N2] = dict(KAFKA_4_1)

    found = await explain(brokers, deadline=soon())

    assert works(found) == set(Source)
    assert "works on brokers 1, but brokers 2 do not offer" in sentence(found, Source.BROKER)


async def test_a_broker_out_of_reach() -> None:
    """It is named, and the others are judged without it."""
    brokers = cluster(nodes=2)
    brokers.frozen = {N2}

    found = await explain(brokers, deadline=soon(0.3))

    assert works(found) == set(Source)
    assert [bool(broker.problem) for broker in found.brokers] == [False, True]


async def test_no_coordinator() -> None:
    """The reason is passed on."""
    brokers = cluster()
    brokers.share_coordinator = lambda _: CoordinatorFailure(FailureReason.NOT_AVAILABLE, "it has no leader", 15)

    found = await explain(brokers, deadline=soon())

    assert works(found) == {Source.BROKER}
    assert "it has no leader" in sentence(found, Source.SUMMARY)


async def test_a_fresh_cluster() -> None:
    """No state topic yet is a note, not a fault."""
    brokers = SimulatedBrokers()
    brokers.share_coordinator = lambda _: CoordinatorFailure(FailureReason.STATE_TOPIC_MISSING, "none", 3)

    found = await explain(brokers, deadline=soon())

    assert works(found) == set(Source)
    assert "does not exist yet" in found.notes[0]


async def test_hidden_group_and_state_topic() -> None:
    """Both are notes: other groups may be visible, and coordinators can be asked for."""
    brokers = cluster()
    brokers.topics["__share_group_state"].code = 29
    brokers.hidden_groups = {"mine"}

    found = await explain(brokers, deadline=soon(), group=GroupId("mine"))

    assert works(found) == set(Source)
    assert ["DESCRIBE" in note for note in found.notes] == [True, True]


async def test_questions_that_fail_leave_it_open() -> None:
    """Unknown is not "no"."""
    brokers = cluster()
    brokers.faults.append(lambda _, message: unreachable())

    found = await explain(brokers, deadline=soon())

    assert (found.share_groups, found.cluster_action) == (None, None)
