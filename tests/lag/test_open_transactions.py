"""Who holds transactions open."""

from __future__ import annotations

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.open_transactions import OpenTransaction, open_transactions
from shareproxy.protocol import messages as m
from tests.lag.logs import LogBrokers
from tests.lag.simulated_brokers import N1, N2, T1, Topic, soon, unreachable

ITEM = Wanted("orders", T1, 0)


def cluster() -> LogBrokers:
    """Return two brokers; three producers, two of which are in a transaction."""
    brokers = LogBrokers(2)
    brokers.topics["orders"] = Topic(T1, [N1], [20])
    state = m.DescribeProducersResponseProducerState
    brokers.producers = [state(5, 0, 1, 7_000, 0, 15), state(6, 0, 1, 8_000), state(7, 0, 1, -1, 0, 12)]
    brokers.transactional_ids = {5: "billing"}
    return brokers


async def test_transactions_by_first_offset() -> None:
    """With a name where a broker tells one; producers without a transaction are left out."""
    brokers = cluster()

    found = await open_transactions(brokers, [ITEM], deadline=soon())

    assert found == {ITEM: (OpenTransaction(7, 12), OpenTransaction(5, 15, 7_000, "billing"))}
    assert [request.producer_id_filters for request in brokers.sent(m.ListTransactionsRequest)] == [[5, 7]] * 2  # type: ignore[attr-defined]


async def test_broker_that_does_not_tell_names() -> None:
    """The producer's number is enough."""
    brokers = cluster()
    brokers.faults.append(
        lambda node_id, message: unreachable() if isinstance(message, m.ListTransactionsRequest) else None
    )
    brokers.frozen.add(N2)

    found = await open_transactions(brokers, [ITEM], deadline=soon(0.3))

    assert found[ITEM] == (OpenTransaction(7, 12), OpenTransaction(5, 15, 7_000))


async def test_rights_and_errors() -> None:
    """READ is named; other errors keep their sentence."""
    brokers = cluster()
    brokers.may_read = False
    hidden = (await open_transactions(brokers, [ITEM], deadline=soon()))[ITEM]
    row = m.DescribeProducersResponsePartitionResponse(0, 42, "why")
    answer = m.DescribeProducersResponse(topics=[m.DescribeProducersResponseTopicResponse("orders", [row])])
    brokers.fail_once(m.DescribeProducersRequest, answer)
    broken = (await open_transactions(brokers, [ITEM], deadline=soon()))[ITEM]

    assert isinstance(hidden, Trouble)
    assert "grant READ on the topic" in hidden.message
    assert isinstance(broken, Trouble)
    assert broken.message == "why (error 42 INVALID_REQUEST)"


async def test_nothing_open_asks_nobody() -> None:
    """No partitions, no requests."""
    brokers = cluster()

    assert await open_transactions(brokers, [], deadline=soon()) == {}
    assert brokers.asked == []


def test_sentences() -> None:
    """The name if there is one, the age if the broker told it."""
    assert OpenTransaction(7, 12).sentence(0) == "a transaction of producer 7 is open from offset 12 on"
    assert OpenTransaction(7, 12, 9_000, "b").sentence(8_000) == (
        "a transaction of 'b' is open from offset 12 on; its last record is 0 s old"
    )
