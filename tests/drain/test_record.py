"""A record of a share group: what it says, and where its acknowledgements go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shareproxy.drain.model import Acknowledgement, AckResult, TimestampType, TopicPartition
from shareproxy.drain.record import AckTicket, Origin, ShareRecord


class Notes:
    """A lot that notes what is said of its offsets."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, Acknowledgement, float]] = []

    def acknowledge(self, offset: int, kind: Acknowledgement, delay: float = 0.0) -> AckTicket:
        """Note it."""
        self.noted.append((offset, kind, delay))
        answer: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()
        answer.set_result(AckResult(TopicPartition("orders", 3), ()))
        return answer

    def lock_deadline(self, offset: int) -> float:
        """Return a moment that tells the offset."""
        return 30.0 + offset


def record(lot: Notes, value: Any = b"secret") -> ShareRecord:
    """Return a record at offset 42."""
    origin = Origin("orders", 3, TimestampType.CREATE, 1, lot)
    return ShareRecord(origin, 42, 7, b"key", value, (), b"key", b"secret")


async def test_acknowledgements_go_through_the_lot() -> None:
    """Each with its offset, and a delay where there is one; awaiting them gives the answer."""
    lot = Notes()
    one = record(lot)

    results = [await one.accept(), await one.release(2.5), await one.reject(), await one.renew()]

    assert lot.noted == [
        (42, Acknowledgement.ACCEPT, 0.0),
        (42, Acknowledgement.RELEASE, 2.5),
        (42, Acknowledgement.REJECT, 0.0),
        (42, Acknowledgement.RENEW, 0.0),
    ]
    assert all(result.confirmed for result in results)


def test_what_it_says() -> None:
    """Where it is, until when it is ours, and nothing of its contents where it may end in a log."""
    one = record(Notes())

    assert (one.topic_partition, one.lock_deadline) == (TopicPartition("orders", 3), 72.0)
    assert repr(one) == "ShareRecord(orders-3, offset 42, delivery 1)"
    assert (one.topic, one.partition, one.timestamp_type, one.delivery_count) == ("orders", 3, TimestampType.CREATE, 1)
    assert one.error is None


def test_two_are_the_same_only_if_they_are_one() -> None:
    """So that they can be in sets and dicts, whatever their values are."""
    lot = Notes()
    one, other = record(lot, {"a": []}), record(lot, {"a": []})

    assert one != other
    assert len({one, other, one}) == 2


def test_it_cannot_be_changed() -> None:
    """What was read is what everybody sees."""
    with pytest.raises(AttributeError):
        record(Notes()).offset = 1  # type: ignore[misc]
