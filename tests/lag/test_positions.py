"""Positions other than the end of a log."""

from __future__ import annotations

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.positions import EARLIEST, READ_COMMITTED, Positions
from shareproxy.lag.rounds import ask_all
from shareproxy.protocol import messages as m
from tests.lag.logs import Log, LogBrokers
from tests.lag.simulated_brokers import N1, T1, Topic, soon

ITEM = Wanted("orders", T1, 0)


def cluster() -> LogBrokers:
    """Return a log from 4 to 20 with a transaction that is open from 15 on."""
    brokers = LogBrokers()
    brokers.topics["orders"] = Topic(T1, [N1], [20])
    brokers.logs["orders", 0] = Log(4, 20, 15)
    brokers.times["orders", 0] = 12
    return brokers


async def ask(brokers: LogBrokers, question: Positions) -> int | Trouble:
    """Ask about the only partition."""
    return (await ask_all(question, [ITEM], deadline=soon()))[ITEM]


async def test_kinds_of_positions() -> None:
    """Log start, last stable offset, high watermark, and the first offset of a time."""
    brokers = cluster()

    assert await ask(brokers, Positions(brokers, EARLIEST)) == 4
    assert await ask(brokers, Positions(brokers, isolation=READ_COMMITTED)) == 15
    assert await ask(brokers, Positions(brokers)) == 20
    assert await ask(brokers, Positions(brokers, {ITEM: 1_700_000_000_000})) == 12


async def test_no_record_is_that_young() -> None:
    """-1 is no trouble: there is no such position."""
    brokers = cluster()
    brokers.times.clear()

    assert await ask(brokers, Positions(brokers, {ITEM: 1_700_000_000_000})) == -1


async def test_errors_of_rows() -> None:
    """A right that is missing is named; what a broker leaves out is a trouble."""
    brokers = cluster()
    brokers.fail_once(
        m.ListOffsetsRequest,
        m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    "orders", [m.ListOffsetsPartitionResponse(0, 29), m.ListOffsetsPartitionResponse(7)]
                )
            ]
        ),
    )

    found = await ask(brokers, Positions(brokers, EARLIEST))

    assert isinstance(found, Trouble)
    assert "DESCRIBE on the topic" in found.message
