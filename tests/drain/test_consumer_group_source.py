"""A sink task's records from a consumer group: outcomes become commits, retries in place, and stepping over."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka import errors

from shareproxy.admin.errors import AccessDenied, AdminError, CannotReach
from shareproxy.drain.consumer_group_source import ConsumerGroupSource
from shareproxy.drain.consumer_keys import ConsumeSettings, GroupProtocol
from shareproxy.drain.deserializers import as_json
from shareproxy.drain.errors import ConsumerClosed, DrainError
from shareproxy.drain.model import TimestampType, TopicPartition
from shareproxy.drain.sink import Outcome
from shareproxy.drain.source import NotSettled, RecordSource, Settled
from tests.drain.fake_group_consumer import MARKER, FakeGroupConsumer

P0, P1 = ("orders", 0), ("orders", 1)
SETTINGS = ConsumeSettings(
    protocol=GroupProtocol.CONSUMER, group="connect-orders", bootstrap_servers="127.0.0.1:9", request_timeout=5.0
)


class Started:
    """A source that has joined, and the fake consumer behind it."""

    def __init__(self, consumer: FakeGroupConsumer, **more: Any) -> None:
        self.consumer = consumer
        self.arguments: dict[str, Any] = {}
        self.source = ConsumerGroupSource(SETTINGS, ["orders"], make_consumer=self._make, check=False, **more)

    def _make(self, **arguments: Any) -> FakeGroupConsumer:
        self.arguments = arguments
        return self.consumer

    async def batch(self, max_records: int = 100) -> list[Any]:
        """Get records."""
        return list(await self.source.get_batch(max_records, 1.0))


StartSource = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[StartSource]:
    """Start sources over fake consumers, and close them at the end."""
    started: list[Started] = []

    async def make(logs: dict[tuple[str, int], list[str | None]], **more: Any) -> Started:
        found = Started(FakeGroupConsumer(logs), **more)
        started.append(found)
        await found.source.start()
        return found

    yield make
    for found in started:
        await found.source.close(5.0)


async def test_it_is_a_record_source(start: StartSource) -> None:
    """A task can use it in place of a share group's."""
    started = await start({P0: ["a"]})
    source: RecordSource = started.source
    assert (source.group, source.topics, source.share_group) == ("connect-orders", ("orders",), False)
    assert (source.lock_duration, source.can_renew, source.partition_count) == (None, True, 1)
    assert source.why_not_ready() is None
    assert started.arguments["enable_auto_commit"] is False


async def test_a_record_has_all_that_a_sink_sees(start: StartSource) -> None:
    """Key and value are what the converters made."""
    started = await start({P0: ['{"n": 1}']}, value_deserializer=as_json)
    (record,) = await started.batch()
    assert (record.topic, record.partition, record.offset, record.value) == ("orders", 0, 0, {"n": 1})
    assert (record.raw_value, record.raw_key, record.key) == (b'{"n": 1}', None, None)
    assert (record.delivery_count, record.lock_deadline, record.error) == (1, None, None)
    assert record.timestamp_type is TimestampType.CREATE
    assert repr(record) == "GroupRecord(orders-0, offset 0, delivery 1)"
    await started.source.renew([record])


async def test_r11_a_record_that_no_converter_reads_stops_no_other(start: StartSource) -> None:
    """It has the error, can be settled, and is stepped over."""
    started = await start({P0: ["{", "2"]}, value_deserializer=as_json)
    bad, good = await started.batch()
    assert (bad.value, good.value) == (None, 2)
    assert "JSON" in str(bad.error)
    started.source.settle([bad], Outcome.REJECT)
    started.source.settle([good], Outcome.ACCEPT)
    assert await started.source.commit() == Settled(accepted=1, rejected=1)
    assert started.consumer.committed == {P0: 2}


async def test_accepted_records_count_when_the_broker_confirmed(start: StartSource) -> None:
    """Those behind a record that is still worked on count later."""
    started = await start({P0: ["a", "b", "c", MARKER]})
    first, second, third = await started.batch()
    started.source.settle([first, third], Outcome.ACCEPT)
    assert await started.source.commit() == Settled(accepted=1)
    started.source.settle([second], Outcome.ACCEPT)
    assert await started.source.commit() == Settled(accepted=2)
    assert started.consumer.committed == {P0: 4}
    assert await started.source.commit() == Settled()


async def test_released_records_come_again_first_and_nothing_new_before_them(start: StartSource) -> None:
    """They keep their order within the partition, and count their hand-outs."""
    started = await start({P0: ["a", "b", "c"]})
    records = await started.batch(2)
    started.source.settle([records[1], records[0]], Outcome.RELEASE)
    assert await started.source.commit() == Settled(released=2)
    assert started.consumer.committed == {P0: 0}
    again = await started.batch(1)
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2)]
    again += await started.batch()
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2)]
    started.source.settle(again, Outcome.ACCEPT)
    assert [record.offset for record in await started.batch()] == [2]
    assert (await started.source.commit()).accepted == 2


async def test_a_released_record_waits_for_its_delay_and_the_group_hears_of_us(start: StartSource) -> None:
    """Empty batches come meanwhile, and polls for nothing keep the member in its group."""
    started = await start({P0: ["a", "b"]})
    (record,) = await started.batch(1)
    started.source.settle([record], Outcome.RELEASE, delay=60.0)
    before = started.consumer.order.count("getmany")
    assert list(await started.source.get_batch(10, 0.001)) == []
    assert started.consumer.order.count("getmany") > before
    started.source._again_at = asyncio.get_running_loop().time()
    assert [found.offset for found in await started.batch()] == [0]


async def test_released_records_go_with_their_partition(start: StartSource) -> None:
    """Whoever gets the partition gets them from the brokers."""
    started = await start({P0: ["a"], P1: ["b"]})
    started.source.settle(await started.batch(), Outcome.RELEASE, delay=60.0)
    await started.consumer.rebalance([P1])
    assert [(record.partition, record.delivery_count) for record in await started.batch()] == [(1, 1)]


async def test_what_a_rebalance_took_before_the_commit_is_told(start: StartSource) -> None:
    """Accepted records that no commit covers come again, to somebody."""
    started = await start({P0: ["a", "b"]})
    first, second = await started.batch()
    started.source.settle([second], Outcome.ACCEPT)
    await started.consumer.rebalance([])
    (failure,) = (await started.source.commit()).failures
    assert (failure.partition, failure.records, failure.error_code) == (P0, 1, None)
    assert "another member" in failure.message
    started.source.settle([first], Outcome.ACCEPT)  # too late
    (failure,) = (await started.source.commit()).failures
    assert (failure.partition, failure.records) == (P0, 1)
    await started.consumer.rebalance([P0])
    assert await started.source.commit() == Settled()  # it is told once
    await started.consumer.rebalance([])
    assert started.source.why_not_ready() is not None


async def test_f16_a_commit_that_the_broker_refused_is_told_and_comes_with_the_next(start: StartSource) -> None:
    """Its records count when they are confirmed."""
    started = await start({P0: ["a"]})
    started.source.settle(await started.batch(), Outcome.ACCEPT)
    started.consumer.failures = [errors.UnknownMemberIdError("gone")]
    settled = await started.source.commit()
    assert settled.failures == (NotSettled(TopicPartition(*P0), 1, 25, "gone (UnknownMemberIdError)"),)
    assert started.source.stats.failures == 1
    assert await started.source.commit() == Settled(accepted=1)


async def test_f17_closing_commits_what_was_settled(start: StartSource) -> None:
    """What was not settled comes again after the restart."""
    started = await start({P0: ["a", "b"]})
    first, _ = await started.batch()
    started.source.settle([first], Outcome.ACCEPT)
    await started.source.close(5.0)
    await started.source.close(5.0)
    assert started.consumer.committed == {P0: 1}
    assert "not joined" in (started.source.why_not_ready() or "")
    with pytest.raises(ConsumerClosed):
        await started.batch()


async def test_a_coordinator_that_hangs_does_not_hold_the_close_for_ever(start: StartSource) -> None:
    """Its time is over, and the rest is given up."""
    started = await start({P0: ["a"]})
    started.source.settle(await started.batch(), Outcome.ACCEPT)
    started.consumer.commit_gate.clear()
    await started.source.close(0.01)
    assert started.consumer.committed == {}


CASES: list[tuple[Exception, type[Exception], str]] = [
    (errors.TopicAuthorizationFailedError("orders"), AccessDenied, "may not read topic 'orders'; grant READ"),
    (errors.TopicAuthorizationFailedError({"b", "a"}), AccessDenied, "topic 'a', 'b'"),
    (errors.GroupAuthorizationFailedError("g"), AccessDenied, "may not use group 'connect-orders'; grant READ"),
    (errors.AuthenticationFailedError("bad password"), AccessDenied, "refused the login: bad password"),
    (errors.KafkaConnectionError("Unable to bootstrap"), CannotReach, "cannot be reached: Unable to bootstrap"),
    (errors.InconsistentGroupProtocolError("g"), DrainError, "another type, such as a share group"),
    (errors.OffsetOutOfRangeError({}), DrainError, "auto.offset.reset=none"),
    (errors.CorruptRecordException("x"), DrainError, "is damaged"),
    (errors.UnknownTopicOrPartitionError("x"), DrainError, "'orders' one does not exist"),
    (errors.UnknownError(), DrainError, "reading for group 'connect-orders' failed: UnknownError"),
]


@pytest.mark.parametrize(("raised", "kind", "words"), CASES, ids=lambda value: type(value).__name__)
async def test_what_aiokafka_raises_becomes_a_sentence(
    start: StartSource, raised: Exception, kind: type[Exception], words: str
) -> None:
    """Only this package's exceptions leave the source."""
    started = await start({P0: ["a"]})
    started.consumer.poll_failures = [raised]
    with pytest.raises((AdminError, DrainError)) as caught:
        await started.batch()
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_group_that_cannot_be_joined_leaves_nothing_behind() -> None:
    """The consumer is stopped, and the failure is a sentence."""
    started = Started(FakeGroupConsumer({P0: []}))

    async def fail() -> None:
        raise errors.InconsistentGroupProtocolError("connect-orders")

    started.consumer.start = fail  # type: ignore[method-assign]
    with pytest.raises(DrainError, match="another type"):
        await started.source.start()
    assert started.consumer.order == ["stop"]
    await started.source.close(1.0)


def test_the_protocol_of_kip_848_is_not_spoken_and_that_is_told() -> None:
    """`consumer` is KIP-1302's word for consumer groups, so it works, with the classic protocol, and says so."""
    (note,) = ConsumerGroupSource(SETTINGS, ["orders"]).notes
    assert "KIP-848" in note
    assert "classic" in note


async def test_what_a_converter_raised_keeps_nothing_alive(start: StartSource) -> None:
    """Records are not looked at by the collector, so that a traceback that leads back to them would never go."""

    class UnreadableError(Exception):
        """Can be watched."""

    def refuses(data: bytes) -> None:
        raise UnreadableError

    async def work() -> weakref.ref[Any]:
        batch = await found.batch()
        await found.source.commit()
        return weakref.ref(batch[0].error)

    found = await start({P0: ["a", "b"]}, value_deserializer=refuses)
    watched = await work()
    gc.collect()

    assert watched() is None
