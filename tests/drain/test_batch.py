"""Records that came and were not handed out, and batches that are acknowledged as a whole."""

from __future__ import annotations

import msgspec

from shareproxy.drain.batch import RecordBatch, RecordBuffer
from shareproxy.drain.model import Acknowledgement, OffsetRange, TimestampType
from shareproxy.drain.record import Origin
from tests.drain.scripted_session import DEADLINE, PARTITION, Desk, records

ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


def filled(desk: Desk, *sizes: int) -> RecordBuffer:
    """Return a buffer with lots of so many records each, one behind the other."""
    buffer, first = RecordBuffer(), 0
    for size in sizes:
        lot = desk.lot((first, first + size - 1))
        buffer.add(lot, records(lot, *range(first, first + size)))
        first += size
    return buffer


def offsets(batch: RecordBatch) -> list[int]:
    """Return the offsets of a batch."""
    return [record.offset for record in batch]


def test_batches_are_cut_where_wanted() -> None:
    """Across lots and within them, without losing one."""
    buffer = filled(Desk(), 3, 4, 5)

    taken = [offsets(buffer.take(most)) for most in (2, 3, 4, 100, 1)]

    assert taken == [[0, 1], [2, 3, 4], [5, 6, 7, 8], [9, 10, 11], []]
    assert buffer.count == 0


def test_a_batch_is_a_sequence() -> None:
    """Length, index, slice, iteration; `repr` tells no contents."""
    batch = filled(Desk(), 5).take(5)

    assert (len(batch), batch[1].offset, offsets(batch)) == (5, 1, [0, 1, 2, 3, 4])
    assert [record.offset for record in batch[3:]] == [3, 4]
    assert batch.partitions == {PARTITION.name}
    assert repr(batch) == "<RecordBatch of 5 records of 1 partitions>"


async def test_the_whole_batch_is_one_range_per_lot() -> None:
    """What was acknowledged by itself keeps its outcome; what is not in the batch is not touched."""
    desk = Desk()
    buffer = filled(desk, 3, 4)
    batch = buffer.take(5)
    batch[0].reject()

    batch.accept()
    desk.acks.flush()

    assert desk.session.noted == [(0, 0, Acknowledgement.REJECT), (1, 2, ACCEPT), (3, 4, ACCEPT)]


async def test_a_batch_that_is_acknowledged_twice() -> None:
    """The second time there is nothing to do, and nothing to wait for."""
    desk = Desk()
    batch = filled(desk, 3).take(3)
    batch.accept()
    desk.acks.flush()

    again = batch.release()

    assert again.done()
    assert await again == {}
    assert desk.session.noted == [(0, 2, ACCEPT)]


def test_one_by_one() -> None:
    """The clock is looked at before the first of each lot only."""
    buffer = filled(Desk(), 2, 2)

    assert buffer.take_one() is None
    assert buffer.take_first().offset == 0
    second, nothing = buffer.take_one(), buffer.take_one()

    assert second is not None
    assert (second.offset, nothing) == (1, None)
    assert buffer.take_first().offset == 2
    assert buffer.count == 1


def test_lost_records_are_dropped_before_they_are_handed_out() -> None:
    """Those that are still ours stay; what is dropped is told."""
    desk = Desk()
    buffer = filled(desk, 4, 2)
    desk.acks.lose([OffsetRange(0, 1)])

    dropped = buffer.drop_lost(0.0)

    assert dropped == [(PARTITION.name, OffsetRange(0, 1))]
    assert offsets(buffer.take(10)) == [2, 3, 4, 5]
    assert buffer.drop_lost(0.0) == []


def test_records_whose_time_is_up_are_given_back() -> None:
    """They shall not be renewed for nobody."""
    desk = Desk()
    buffer = filled(desk, 4)

    dropped = buffer.drop_lost(DEADLINE)
    desk.acks.flush()

    assert dropped == [(PARTITION.name, OffsetRange(0, 3))]
    assert desk.session.noted == [(0, 3, RELEASE)]
    assert buffer.count == 0


def test_a_record_that_was_lost_meanwhile_is_not_handed_out() -> None:
    """Neither in the middle of a lot."""
    desk = Desk()
    buffer = filled(desk, 4)
    buffer.take_first()
    desk.acks.lose([OffsetRange(1, 2)])

    assert buffer.take_one() is None
    buffer.drop_lost(0.0)

    assert buffer.take_first().offset == 3


def test_records_that_are_lost_behind_others_are_not_handed_out() -> None:
    """A batch of several lots ends before one of them that is not ours any more: a broker was lost meanwhile."""
    desk = Desk()
    buffer = filled(desk, 2, 3, 2)
    desk.acks.lots[1].lose(2, 4)

    first = buffer.take(100)
    dropped = buffer.drop_lost(DEADLINE - 1)
    second = buffer.take(100)

    assert offsets(first) == [0, 1]
    assert [tuple(each) for _, each in dropped] == [(2, 4)]
    assert offsets(second) == [5, 6]


def test_what_came_before_is_not_given_back_again() -> None:
    """Each release spends an attempt, and brokers give up what was released too often."""
    desk = Desk()
    buffer = RecordBuffer()
    lot = desk.lot((0, 3))
    again = Origin("orders", 3, TimestampType.CREATE, 2, lot)
    found = [msgspec.structs.replace(each, _origin=again) for each in records(lot, 2, 3)]
    buffer.add(lot, [*records(lot, 0, 1), *found])

    released = buffer.release_fresh()

    assert released == [(PARTITION.name, (OffsetRange(0, 1),))]
    assert buffer.count == 2
    assert offsets(buffer.take(9)) == [2, 3]
