"""Rows that the broker knows all about, and the end offsets beside them."""

from __future__ import annotations

from typing import cast

import pytest

from shareproxy.lag.broker_rows import TopicRows, has_lag, read_ends, report_rows
from shareproxy.lag.leaders import EndOffsets
from shareproxy.lag.memory import Memory
from shareproxy.lag.model import PartitionLag, Source, Status
from shareproxy.protocol import messages as m
from tests.lag.simulated_brokers import N1, N2, T1, T2, SimulatedBrokers, Topic, soon, unreachable

Row = m.DescribeShareGroupOffsetsResponsePartition


def rows(*partitions: int, key: tuple[str, bytes] = ("t", T1)) -> TopicRows:
    """Return rows of a topic with start 0 and lag 7."""
    return TopicRows(key, [Row(partition, 0, 3, 7) for partition in partitions], {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "whole"),
    [
        (Row(0, 0, 3, 7), True),
        (Row(0, 0, 3, 0), True),
        (Row(0, 0, 3, -1), False),
        (Row(0, 50, 3, -39), False),
        (Row(0, -1, 0, -1), False),
        (Row(0, 0, 0, 0, 6), False),
    ],
)
def test_only_whole_rows_go_the_short_way(row: Row, whole: bool) -> None:
    """Unknown, negative and failed ones do not."""
    assert has_lag(row) is whole


@pytest.mark.parametrize(
    ("before", "end", "expected"),
    [
        ({}, 11, (11, None)),
        ({0: 11}, 11, (11, 4)),
        ({0: 10}, 11, (11, None)),
        ({}, 7, (7, 0)),
        ({0: 6}, 6, (None, None)),
        ({0: 11}, None, (None, None)),
    ],
)
def test_end_and_count_beside_a_lag_of_7(
    before: dict[int, int], end: int | None, expected: tuple[int | None, int | None]
) -> None:
    """Only what certainly belongs to the same moment."""
    topic = TopicRows(("t", T1), [Row(0, 0, 3, 7)], before)

    [row] = report_rows(topic, {} if end is None else {0: end})

    assert (row.end_offset, row.delivery_complete_count) == expected
    assert (row.lag, row.source, row.exact, row.status) == (7, Source.BROKER, True, Status.OK)


def test_rows_come_by_partition() -> None:
    """The broker's order means nothing; an unset epoch is none."""
    topic = TopicRows(("t", T1), [Row(2, 0, -1, 7), Row(0, 0, 3, 7)], {})

    assert report_rows(topic, {}) == [
        PartitionLag("t", T1, 0, 0, None, 3, None, 7, Source.BROKER, True),
        PartitionLag("t", T1, 2, 0, None, None, None, 7, Source.BROKER, True),
    ]


async def test_groups_share_the_questions() -> None:
    """Each partition once, each leader once."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics["t"] = Topic(T1, [N1, N2, N1], [10, 11, 12])

    found = await read_ends(brokers, Memory(), EndOffsets(brokers), [rows(0, 1), rows(0, 2), rows(1)], deadline=soon())

    assert found == {("t", T1): {0: 10, 1: 11, 2: 12}}
    assert [sum(len(topic.partitions) for topic in request.topics) for request in _list_offsets(brokers)] == [2, 1]


async def test_a_moved_leader_is_asked_again() -> None:
    """What fails at the first attempt is asked for one by one."""
    brokers = SimulatedBrokers(nodes=2)
    brokers.topics["t"] = Topic(T1, [N1], [10])
    brokers.fail_once(m.ListOffsetsRequest, unreachable())

    found = await read_ends(brokers, Memory(), EndOffsets(brokers), [rows(0)], deadline=soon())

    assert found == {("t", T1): {0: 10}}
    assert len(_list_offsets(brokers)) == 2


async def test_a_topic_made_again_has_no_end_for_old_rows() -> None:
    """Its numbers belong to another log."""
    brokers = SimulatedBrokers()
    brokers.topics["t"] = Topic(T2, [N1], [10])

    found = await read_ends(brokers, Memory(), EndOffsets(brokers), [rows(0)], deadline=soon())

    assert found == {("t", T1): {}}
    assert _list_offsets(brokers) == []


async def test_no_rows_ask_nobody() -> None:
    """Not even for Metadata."""
    brokers = SimulatedBrokers()

    assert await read_ends(brokers, Memory(), EndOffsets(brokers), [], deadline=soon()) == {}
    assert (brokers.asked, brokers.metadata_ages) == ([], [])


def _list_offsets(brokers: SimulatedBrokers) -> list[m.ListOffsetsRequest]:
    return cast("list[m.ListOffsetsRequest]", brokers.sent(m.ListOffsetsRequest))
