"""A source of records over a share consumer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shareproxy.drain.events import AssignmentChanged, ConsumerEvent, GapsAcknowledged, LockLost
from shareproxy.drain.model import Acknowledgement, AckResult, OffsetRange, TopicPartition
from shareproxy.drain.share_source import ShareSource, settled
from shareproxy.drain.sink import Outcome
from shareproxy.drain.source import NotSettled, Settled
from tests.drain.fake_consumer import FakeRecord, FakeShareConsumer

PARTITION = TopicPartition("orders", 0)


def source_over(consumer: FakeShareConsumer, told: list[ConsumerEvent] | None = None) -> ShareSource:
    """Return a source over a fake consumer."""

    def make(on_event: Any) -> FakeShareConsumer:
        consumer.on_event = on_event
        return consumer

    return ShareSource(make, on_event=([] if told is None else told).append)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome.ACCEPT, Acknowledgement.ACCEPT),
        (Outcome.RELEASE, Acknowledgement.RELEASE),
        (Outcome.REJECT, Acknowledgement.REJECT),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
async def test_each_outcome_is_told_to_the_consumer(outcome: Outcome, kind: Acknowledgement, whole: bool) -> None:
    """For a whole batch, and for some of its records."""
    consumer = FakeShareConsumer([FakeRecord(0), FakeRecord(1)])
    source = source_over(consumer)
    await source.start()
    batch = await source.get_batch(10, 1.0)

    source.settle(batch if whole else list(batch), outcome)

    assert consumer.offsets(kind) == [0, 1]


async def test_a_release_may_be_delayed() -> None:
    """The consumer keeps the lock meanwhile."""
    consumer = FakeShareConsumer([FakeRecord(0)])
    source = source_over(consumer)
    await source.start()

    source.settle(await source.get_batch(10, 1.0), Outcome.RELEASE, delay=3.0)

    assert [made.delay for made in consumer.acknowledged] == [3.0]


async def test_renewing_is_sent_at_once() -> None:
    """A put that takes long cannot wait for the next poll."""
    consumer = FakeShareConsumer([FakeRecord(0)])
    source = source_over(consumer)
    await source.start()

    await source.renew(await source.get_batch(10, 1.0))

    assert consumer.kinds(0) == [Acknowledgement.RENEW]
    assert consumer.commits == 1


async def test_it_is_not_ready_while_no_broker_is_reached() -> None:
    """The partitions stay assigned meanwhile."""
    consumer = FakeShareConsumer()
    source = source_over(consumer)
    await source.start()

    consumer.lost = "node 1: connection refused"

    assert source.why_not_ready() == (
        "no broker that has records of group 'order-workers' for this task is reached: node 1: connection refused"
    )


async def test_it_is_ready_with_an_assignment_only() -> None:
    """Without one no record can come."""
    consumer = FakeShareConsumer()
    source = source_over(consumer)
    assert source.why_not_ready() == "group 'order-workers' is not joined"
    await source.start()
    assert source.why_not_ready() is None
    assert source.partition_count == 1
    consumer.assignment = frozenset()
    assert "has assigned no partition yet" in str(source.why_not_ready())
    await source.close(1.0)
    assert source.why_not_ready() == "group 'order-workers' is not joined"


async def test_closing_a_consumer_that_hangs_is_bounded_and_twice_is_harmless() -> None:
    """The connections end with the process."""
    consumer = FakeShareConsumer()
    source = source_over(consumer)
    await source.start()
    hung = asyncio.Event()
    consumer.close = hung.wait  # type: ignore[method-assign, assignment]

    async with asyncio.timeout(5):
        await source.close(0.01)
        await source.close(0.01)


async def test_events_are_passed_on_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Gaps are nobody's concern; a lost lock is."""
    told: list[ConsumerEvent] = []
    consumer = FakeShareConsumer()
    source_over(consumer, told)
    events = [
        AssignmentChanged(frozenset({PARTITION}), frozenset({PARTITION}), frozenset()),
        GapsAcknowledged(PARTITION, [OffsetRange(1, 1)]),
        LockLost(PARTITION, [OffsetRange(3, 4)], True),
    ]

    for event in events:
        consumer.emit(event)

    assert told == events
    logged = capsys.readouterr().out
    assert "partitions assigned" in logged
    assert "[warning" in logged
    assert "3–4" in logged


def test_r12_what_counts_is_what_the_broker_confirmed() -> None:
    """Partition by partition; where only a part was refused the rest counts, and gaps are no records."""
    ranges = (
        (OffsetRange(0, 4), Acknowledgement.ACCEPT),
        (OffsetRange(5, 5), Acknowledgement.GAP),
        (OffsetRange(6, 7), Acknowledgement.RELEASE),
        (OffsetRange(8, 8), Acknowledgement.REJECT),
    )
    other, lost = TopicPartition("orders", 1), TopicPartition("orders", 2)

    found = settled(
        {
            PARTITION: AckResult(PARTITION, ranges),
            other: AckResult(
                other,
                ((OffsetRange(0, 1), Acknowledgement.ACCEPT),),
                121,
                "not the owner",
                taken=((OffsetRange(2, 9), Acknowledgement.ACCEPT),),
            ),
            lost: AckResult(lost, ((OffsetRange(0, 2), Acknowledgement.ACCEPT),), None, "no answer"),
        }
    )

    assert found == Settled(
        13, 2, 1, (NotSettled(other, 2, 121, "not the owner"), NotSettled(lost, 3, None, "no answer"))
    )
