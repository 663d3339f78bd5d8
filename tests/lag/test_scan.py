"""Counting what is really there between two offsets."""

from __future__ import annotations

import pytest

from shareproxy.lag.brokers import Trouble
from shareproxy.lag.deliveries import Span
from shareproxy.lag.leaders import Wanted
from shareproxy.lag.model import Status
from shareproxy.lag.scan import NOTHING_CAME, TOO_MUCH, Scan, ScanLimits, Scanned, Scanner
from shareproxy.protocol import messages as m
from tests.lag.logs import Log, LogBrokers
from tests.lag.simulated_brokers import N1, N2, N3, T1, Topic, soon, unreachable

LIMITS = ScanLimits()


def cluster(*logs: Log, nodes: int = 1) -> LogBrokers:
    """Return brokers with one topic, a partition per log; leaders take turns."""
    brokers = LogBrokers(nodes)
    leaders = [list(brokers.apis)[index % nodes] for index in range(len(logs))]
    brokers.topics["orders"] = Topic(T1, list(leaders), [log.end for log in logs])
    brokers.logs = {("orders", index): log for index, log in enumerate(logs)}
    return brokers


def item(partition: int = 0) -> Wanted:
    """Return a partition of the topic."""
    return Wanted("orders", T1, partition)


async def scan(brokers: LogBrokers, *scans: Scan, limits: ScanLimits = LIMITS, seconds: float = 5.0) -> list[Scanned]:
    """Run scans."""
    await Scanner(brokers, limits).run(scans, deadline=soon(seconds))
    return [one.result() for one in scans]


def mixed() -> Log:
    """Return 3 committed, 5 aborted and 2 committed records, each with its marker."""
    return Log().transaction(3, 7, commit=True).transaction(5, 7, commit=False).transaction(2, 8, commit=True)


@pytest.mark.parametrize(("committed", "records", "voided"), [(False, 10, 0), (True, 5, 5)])
async def test_transactions(committed: bool, records: int, voided: int) -> None:
    """Markers never count, aborted records only for who reads everything."""
    [found] = await scan(cluster(mixed()), Scan(item(), 0, 13, committed=committed))

    assert (found.records_min, found.records_max, found.voided) == (records, records, voided)
    assert (found.exact, found.unseen, found.first_timestamp) == (True, 0, 1_000)


async def test_same_producer_aborts_and_commits() -> None:
    """A producer is void from the first offset of an aborted transaction to its marker, and not beyond."""
    log = Log()
    for commit in (False, True, False, True):
        log.transaction(2, 7, commit=commit)

    [found] = await scan(cluster(log), Scan(item(), 0, 12, committed=True))

    assert (found.records_min, found.records_max) == (4, 4)


async def test_range_begins_and_ends_inside_batches() -> None:
    """Only offsets of the range count."""
    [found] = await scan(cluster(Log().add(10).add(10)), Scan(item(), 4, 17))

    assert (found.records_min, found.records_max) == (13, 13)


async def test_done_offsets_are_not_counted_and_not_fetched() -> None:
    """A fetch begins where something is open."""
    brokers = cluster(Log().add(10).add(10))

    [found] = await scan(brokers, Scan(item(), 0, 20, [Span(0, 12), Span(15, 16)]))

    assert (found.records_min, found.records_max) == (7, 7)
    [request] = brokers.fetched
    assert request.topics[0].partitions[0].fetch_offset == 12


async def test_compacted_batches() -> None:
    """Holes between batches hold nothing; inside a batch only the number of records is known."""
    log = Log()
    log.add(2, span=10)  # 0 to 9
    log.end = 30
    log.add(4)  # 30 to 33

    whole, part = await scan(cluster(log, log), Scan(item(), 0, 34), Scan(item(1), 5, 34))

    assert (whole.records_min, whole.records_max) == (6, 6)
    assert (part.records_min, part.records_max) == (4, 6)
    assert not part.exact


async def test_empty_batch_and_hole_at_the_end() -> None:
    """What compaction leaves of a batch may be its header."""
    [found] = await scan(cluster(Log().add(0, span=5).add(1)), Scan(item(), 0, 6))

    assert (found.records_min, found.records_max) == (1, 1)


async def test_log_longer_than_one_answer() -> None:
    """Fetches go on until the end; each begins where the last whole batch ended."""
    log = Log()
    for _ in range(60):
        log.add(10, body=bytes(50_000))
    brokers = cluster(log)

    [found] = await scan(brokers, Scan(item(), 0, log.end))

    assert (found.records_min, found.records_max) == (600, 600)
    assert 6 <= len(brokers.fetched) <= 7


async def test_every_partition_gets_its_turn() -> None:
    """One request for all partitions of a leader, and later ones first for those that got nothing."""
    logs = [Log().add(5, body=bytes(200_000)).add(5, body=bytes(200_000)) for _ in range(6)]
    brokers = cluster(*logs)

    found = await scan(brokers, *(Scan(item(index), 0, 10) for index in range(6)))

    assert [one.records_min for one in found] == [10] * 6
    assert len(brokers.fetched[0].topics[0].partitions) == 6
    assert len(brokers.fetched) < 12


@pytest.mark.parametrize(
    "limits",
    [ScanLimits(partition_offsets=20), ScanLimits(partition_bytes=200_000), ScanLimits(total_bytes=200_000)],
    ids=["offsets", "bytes", "total"],
)
async def test_limits(limits: ScanLimits) -> None:
    """What lies beyond is between nothing and everything, and a sentence says so."""
    log = Log()
    for _ in range(50):
        log.add(10, body=bytes(90_000))

    [found] = await scan(cluster(log), Scan(item(), 0, 500), limits=limits)

    assert 20 <= found.records_min < 100
    assert (found.records_max, found.unseen) == (500, 500 - found.records_min)
    assert found.trouble is TOO_MUCH


async def test_first_record_only() -> None:
    """It stops at the first record that counts, over markers and aborted ones."""
    log = Log().transaction(5, 7, commit=False)
    log.add(1, first_time=5_000).add(1, body=bytes(200_000))
    brokers = cluster(log)

    [found] = await scan(brokers, Scan(item(), 0, log.end, committed=True, only_first=True))

    assert (found.found, found.first_timestamp) == (True, 5_000)
    assert all(part.partition_max_bytes <= 1 << 16 for part in brokers.fetched[0].topics[0].partitions)


async def test_two_groups_read_one_partition() -> None:
    """A broker takes a partition once per request, and one isolation level."""
    brokers = cluster(mixed())

    found = await scan(brokers, Scan(item(), 0, 13), Scan(item(), 4, 13), Scan(item(), 0, 13, committed=True))

    assert [one.records_min for one in found] == [10, 7, 5]
    assert sorted(request.isolation_level for request in brokers.fetched) == [0, 0, 1]


async def test_missing_right_is_named() -> None:
    """READ on the topic."""
    brokers = cluster(mixed())
    brokers.may_read = False

    [found] = await scan(brokers, Scan(item(), 0, 13))

    assert (found.records_min, found.records_max, found.unseen) == (0, 13, 13)
    assert found.trouble is not None
    assert found.trouble.status is Status.NOT_AUTHORIZED
    assert "grant READ on the topic" in found.trouble.message


async def test_log_that_moved() -> None:
    """Retention was faster: ask again later."""
    log = mixed()
    log.start = 5

    [found] = await scan(cluster(log), Scan(item(), 0, 13))

    assert found.trouble is not None
    assert "ask again" in found.trouble.message


async def test_moved_leader_is_asked_instead() -> None:
    """What was counted before stays counted."""
    brokers = cluster(mixed(), nodes=2)
    brokers.fail_once(
        m.FetchRequest,
        m.FetchResponse(responses=[m.FetchableTopicResponse("orders", T1, [m.FetchResponsePartitionData(0, 6)])]),
    )

    [found] = await scan(brokers, Scan(item(), 0, 13))

    assert (found.records_min, found.trouble) == (10, None)
    assert brokers.metadata_ages[-1] == 0.0


async def test_damaged_records() -> None:
    """One partition's damage is its own."""
    bad = Log(end=3, batches={0: bytes(80)})
    one, other = await scan(cluster(bad, mixed()), Scan(item(), 0, 3), Scan(item(1), 0, 13))

    assert one.trouble is not None
    assert "record batch at byte 0" in one.trouble.message
    assert (other.records_min, other.trouble) == (10, None)


async def test_leader_that_has_nothing() -> None:
    """It is asked twice, not for ever."""
    brokers = cluster(Log(end=10))

    [found] = await scan(brokers, Scan(item(), 0, 10))

    assert (found.trouble, len(brokers.fetched)) == (NOTHING_CAME, 2)


async def test_frozen_broker_does_not_hide_the_others() -> None:
    """Its partitions are unseen when time is over."""
    brokers = cluster(mixed(), mixed(), mixed(), nodes=3)
    brokers.frozen.add(N2)

    found = await scan(brokers, *(Scan(item(index), 0, 13) for index in range(3)), seconds=0.3)

    assert [one.records_min for one in found] == [10, 0, 10]
    assert found[1].trouble is not None
    assert found[1].trouble.status is Status.TIMEOUT
    assert {node_id for node_id, message in brokers.asked if isinstance(message, m.FetchRequest)} == {N1, N2, N3}


async def test_broker_that_leaves_a_partition_out() -> None:
    """That is a trouble, too, and so is a failure of the whole request."""
    brokers = cluster(mixed())
    brokers.fail_once(m.FetchRequest, m.FetchResponse())
    [left_out] = await scan(brokers, Scan(item(), 0, 13))
    brokers.fail_once(m.FetchRequest, m.FetchResponse(error_code=-1))
    [failed] = await scan(brokers, Scan(item(), 0, 13))
    brokers.fail_once(m.FetchRequest, unreachable())
    [tried_again] = await scan(brokers, Scan(item(), 0, 13))

    assert isinstance(left_out.trouble, Trouble)
    assert "leaves this partition out" in left_out.trouble.message
    assert isinstance(failed.trouble, Trouble)
    assert tried_again.records_min in (0, 10)


async def test_old_versions_go_by_name() -> None:
    """Fetch has topic ids from version 13 on."""
    brokers = cluster(mixed())
    brokers.apis[N1][1] = (4, 12)

    [found] = await scan(brokers, Scan(item(), 0, 13))

    assert found.records_min == 10
    assert brokers.fetched[0].topics[0].topic == "orders"


async def test_nothing_to_scan() -> None:
    """An empty range asks nobody."""
    brokers = cluster(mixed())

    [found] = await scan(brokers, Scan(item(), 13, 13))

    assert (found.records_min, found.records_max, brokers.asked) == (0, 0, [])
